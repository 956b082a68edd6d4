//! A service under test: a place with fixed ports, its processes by role, and an end that leaves nothing.

use std::fs;
use std::net::TcpListener;

use testkit::Client;

use crate::crash::sandbox::{Sandbox, eventually, names};

/// The phases of a task that is not over.
pub(crate) const UNFINISHED: [&str; 5] = ["WAITING", "DISPATCHED", "PREPARING", "RUNNING", "ENDED"];

/// A service, or parts of one.
pub(crate) struct Service {
    pub(crate) sandbox: Sandbox,
    pub(crate) endpoint: String,
}

impl Service {
    /// A place with a configuration in which a killed agent is noticed soon and no number of losses ends a task.
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// The same with another line of `[task_defaults]`.
    pub(crate) fn with_defaults(line: &str) -> Self {
        let service = Self::new();
        service.sandbox.append("config.toml", line);
        service
    }

    /// The same with other lines before that configuration.
    pub(crate) fn with(lines: &str) -> Self {
        let (requests, broadcasts) = (free_port(), free_port());
        let config = format!(
            "\
{lines}
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
        Self { sandbox: Sandbox::with(&config), endpoint: format!("tcp://127.0.0.1:{requests}") }
    }

    pub(crate) fn client(&self) -> Client {
        Client::that_persists(&self.endpoint)
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

fn is_of_a_tool(pid: i32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(b"__TASK_ID__="))
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
