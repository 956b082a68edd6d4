//! A controller and agents of the real binary in a temporary folder, and plain sockets to talk to them.

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Place, connected};

use crate::support::LLTS;

pub(crate) use testkit::{Client, Program, Receiver, Start, eventually};

/// Ends when it is dropped, agents first.
pub(crate) struct Sandbox {
    place: Place,
    /// The controller, then the agents.
    processes: Vec<Program>,
    rep: String,
    /// The addresses of the controller's ports for agents.
    ports: Vec<(&'static str, String)>,
}

impl Deref for Sandbox {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Sandbox {
    /// A running service with tools as (name, run.sh).
    pub(crate) fn start(agents: usize, tools: &[(&str, &str)]) -> Self {
        Self::start_with(agents, tools, &[])
    }

    /// The same, with a configuration of the controller.
    pub(crate) fn start_with(agents: usize, tools: &[(&str, &str)], config: &[(&str, String)]) -> Self {
        let mut place = Place::new(LLTS);
        let home = place.root().to_owned();
        place.set("LLTS_HOME", home);
        for (key, value) in [
            ("CONTROLLER_REP_PORT", "0"),
            ("CONTROLLER_PUB_PORT", "0"),
            ("TOOL_SOURCES_DIR", ""),
            ("AGENT_KILL_INTERVAL", "10000"),
        ] {
            place.set(format!("LLTS_{key}"), value);
        }
        for (name, script) in tools {
            pack_tool(place.root(), &place.path("testTools"), name, script);
        }
        let mut sandbox = Self { place, processes: Vec::new(), rep: String::new(), ports: Vec::new() };
        sandbox.run(sandbox.command("controller"), config);
        let [rep, publisher] = [4, 6].map(|number| sandbox.processes[0].word(number).to_owned());
        let port = |endpoint: &str| endpoint.rsplit(':').next().unwrap().to_owned();
        sandbox.ports = vec![("LLTS_CONTROLLER_REP_PORT", port(&rep)), ("LLTS_CONTROLLER_PUB_PORT", port(&publisher))];
        sandbox.rep = rep;
        for number in 1..=agents {
            sandbox.agent(&format!("agent-{number}"), &[]);
        }
        sandbox
    }

    /// One more agent, with what its configuration differs in.
    pub(crate) fn agent(&mut self, name: &str, variables: &[(&'static str, String)]) {
        self.run(self.command(&["agent", "--name", name]), &[&self.ports[..], variables].concat());
    }

    /// The same, in a namespace in which `folder` is a disk of so many KiB.
    pub(crate) fn agent_on_small_disk(&mut self, name: &str, disk: (&Path, u32), variables: &[(&'static str, String)]) {
        let script = "mount -t tmpfs -o size=$1k,mode=700 none \"$2\" && shift 2 && exec \"$@\"";
        let [size, folder] = [disk.1.to_string(), disk.0.display().to_string()];
        let wrapper = ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", &size, &folder];
        let command = self.command(&["agent", "--name", name]).under(&wrapper);
        self.run(command, &[&self.ports[..], variables].concat());
    }

    /// Sends a signal to a process; the controller is the first one, then come the agents.
    pub(crate) fn signal(&self, process: usize, signal: Signal) {
        self.processes[process].signal(signal);
    }

    pub(crate) fn kill_controller(&mut self) {
        self.processes[0].kill();
    }

    /// Kills the controller, unless that was done, and starts it again with the same ports.
    pub(crate) fn restart_controller(&mut self, config: &[(&'static str, String)]) {
        self.kill_controller();
        self.run(self.command("controller"), &[&self.ports[..], config].concat());
        self.processes.swap_remove(0);
    }

    /// Starts a process, which says that it is ready.
    fn run(&mut self, mut command: Command, variables: &[(&str, String)]) {
        let variables = variables.iter().map(|(name, value)| (*name, value));
        self.processes.push(command.envs(variables).start().ready("ready"));
    }

    /// The address of the controller's port for requests.
    pub(crate) fn endpoint(&self) -> &str {
        &self.rep
    }

    /// A plain REQ socket.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.rep)
    }

    /// A client whose request waits at the controller: what it has asked next is answered.
    pub(crate) fn waiting_client(&self, request: &Value) -> zmq::Socket {
        let socket = connected(zmq::DEALER, &self.rep);
        for request in [request, &json!({ "__TYPE__": "TASK/STATISTIC" })] {
            socket.send_multipart(["".as_bytes(), request.to_string().as_bytes()], 0).unwrap();
        }
        let reply = socket.recv_multipart(0).unwrap();
        let reply: Value = serde_json::from_slice(&reply[1]).unwrap();
        assert_eq!(reply["__TYPE__"], "TASK/STATISTIC", "the first one is answered: {reply}");
        socket
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        while self.processes.pop().is_some() {}
    }
}

/// Packs a tool into a tools folder.
pub(crate) fn pack_tool(folder: &Path, tools: &Path, name: &str, script: &str) {
    let source = folder.join("sources").join(name);
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(tools).unwrap();
    fs::write(source.join("run.sh"), format!("#!/bin/sh\n{script}\n")).unwrap();
    let out = tools.join(format!("{name}.tar.gz"));
    let limits = api::config::Config::default().archive;
    api::tools::pack(&source, &out, &limits).unwrap();
}
