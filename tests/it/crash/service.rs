//! A service under test: a place with fixed ports, its processes by role, and an end that leaves nothing.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;

use rustix::process::{Pid, Signal};

use crate::crash::client::Client;
use crate::crash::sandbox::{Sandbox, eventually, names};

/// A service, or parts of one. Dropping it ends every process that was started in its folder.
pub(crate) struct Service {
    pub(crate) sandbox: Sandbox,
    pub(crate) endpoint: String,
}

impl Service {
    /// A place with a configuration in which a killed agent is noticed soon and no number of losses ends a task.
    pub(crate) fn new() -> Self {
        let sandbox = Sandbox::new();
        let (requests, broadcasts) = (free_port(), free_port());
        let config = format!(
            "\
CONTROLLER_REP_PORT = {requests}
CONTROLLER_PUB_PORT = {broadcasts}
AGENT_HEARTBEAT_INTERVAL = 500
AGENT_KILL_INTERVAL = 500
AGENT_STRAGGLER_GRACE = 50
AGENT_RECONNECT_INTERVAL_MAX = 200
LOG_DIR = \"log\"
[task_defaults]
MAX_LOSSES = 1000
"
        );
        fs::write(sandbox.path("config.toml"), config).expect("written");
        Self { sandbox, endpoint: format!("tcp://127.0.0.1:{requests}") }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.endpoint)
    }

    /// The process of a part of the service, by the end of its command line.
    pub(crate) fn pid(&self, end: &str) -> Option<i32> {
        let processes = self.sandbox.processes();
        processes.iter().find(|(_, line)| line.trim_end().ends_with(end)).map(|(pid, _)| *pid)
    }

    /// The processes of tools: those with the cookie of a task.
    pub(crate) fn tool_processes(&self) -> Vec<(i32, String)> {
        let mut processes = self.sandbox.processes();
        processes.retain(|(pid, _)| is_of_a_tool(*pid));
        processes
    }

    /// The processes that are neither a tool nor started by one: supervisor, controller, agents.
    pub(crate) fn own_processes(&self) -> Vec<i32> {
        let processes = self.sandbox.processes();
        processes.iter().map(|(pid, _)| *pid).filter(|pid| !is_of_a_tool(*pid)).collect()
    }

    /// Waits until no process of a tool and no folder of a task is left.
    #[track_caller]
    pub(crate) fn is_swept(&self) {
        eventually("no process of a tool is left", || self.tool_processes().is_empty());
        let is_empty = || {
            let work = names(&self.sandbox.path("work"));
            work.iter().all(|name| [".trash", ".spare", ".outputs"].contains(&name.as_str()))
                && names(&self.sandbox.path("work/.trash")).is_empty()
        };
        eventually("no folder of a task is left", is_empty);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in names(&self.sandbox.path("log")) {
                let text = fs::read_to_string(self.sandbox.path("log").join(&name)).unwrap_or_default();
                let lines: Vec<_> = text.lines().collect();
                let end = lines[lines.len().saturating_sub(40)..].join("\n");
                let _ = writeln!(std::io::stderr(), "end of {name}:\n{end}\n");
            }
            let left = [names(&self.sandbox.path("work")), names(&self.sandbox.path("state/runs"))];
            let _ = writeln!(std::io::stderr(), "work and runs: {left:?}\n{:?}", self.sandbox.processes());
        }
        // Supervisors first, so that no killed process is started again; a tool may fork meanwhile.
        self.sandbox.llts("down");
        for _ in 0..100 {
            let left = self.sandbox.processes();
            left.iter().for_each(|(pid, _)| kill(*pid));
            if left.is_empty() {
                return;
            }
        }
    }
}

fn is_of_a_tool(pid: i32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(b"__TASK_ID__="))
}

/// Kills a process that may have ended by itself.
pub(crate) fn kill(pid: i32) {
    let _ = rustix::process::kill_process(Pid::from_raw(pid).expect("a pid"), Signal::KILL);
}

/// A port below those that the kernel assigns to clients: while the controller is down, no client's connection takes it.
fn free_port() -> u16 {
    loop {
        let port = rand::random_range(20_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
