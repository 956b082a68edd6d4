//! A controller and agents of the real binary in a temporary folder, and plain sockets to talk to them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::waiting;

pub(crate) use waiting::eventually;

/// Milliseconds for anything that must happen: generous, because a test machine may be busy.
const LIMIT: i32 = 30_000;

/// Ends when it is dropped, agents first.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
    context: zmq::Context,
    processes: Vec<Child>,
    rep: String,
    /// The addresses of the controller's ports for agents.
    ports: Vec<(&'static str, String)>,
}

impl Sandbox {
    /// A running service with tools as (name, run.sh).
    pub(crate) fn start(agents: usize, tools: &[(&str, &str)]) -> Self {
        Self::start_with(agents, tools, &[])
    }

    /// The same, with a configuration of the controller.
    pub(crate) fn start_with(agents: usize, tools: &[(&str, &str)], config: &[(&str, String)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, script) in tools {
            add_tool(folder.path(), name, script);
        }
        let mut sandbox =
            Self { folder, context: zmq::Context::new(), processes: Vec::new(), rep: String::new(), ports: Vec::new() };
        let ready = sandbox.spawn(&["controller"], config);
        let words: Vec<&str> = ready.split(' ').collect();
        let (rep, publisher) = (words[4].to_owned(), words[6].to_owned());
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
        let variables = [&self.ports[..], variables].concat();
        self.spawn(&["agent", "--name", name], &variables);
    }

    /// The same, in a namespace in which `folder` is a disk of so many KiB.
    pub(crate) fn agent_on_small_disk(&mut self, name: &str, disk: (&Path, u32), variables: &[(&'static str, String)]) {
        let variables = [&self.ports[..], variables].concat();
        let mut command = Command::new("unshare");
        let script = "mount -t tmpfs -o size=$1k,mode=700 none \"$2\" && shift 2 && exec \"$@\"";
        command.args(["-m", "--propagation", "private", "sh", "-c", script, "sh", &disk.1.to_string()]);
        command.arg(disk.0).arg(env!("CARGO_BIN_EXE_llts"));
        self.start_process(command, &["agent", "--name", name], &variables);
    }

    /// Sends a signal to a process; the controller is the first one, then come the agents.
    pub(crate) fn signal(&self, process: usize, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.processes[process].id()).unwrap());
        kill(pid, signal).unwrap();
    }

    pub(crate) fn kill_controller(&mut self) {
        let controller = &mut self.processes[0];
        controller.kill().unwrap();
        controller.wait().unwrap();
    }

    /// Kills the controller, unless that was done, and starts it again with the same ports.
    pub(crate) fn restart_controller(&mut self, config: &[(&'static str, String)]) {
        self.kill_controller();
        self.spawn(&["controller"], &[&self.ports[..], config].concat());
        self.processes.swap_remove(0).wait().unwrap();
    }

    /// Starts a process and returns its ready line.
    fn spawn(&mut self, arguments: &[&str], variables: &[(&str, String)]) -> String {
        self.start_process(Command::new(env!("CARGO_BIN_EXE_llts")), arguments, variables)
    }

    fn start_process(&mut self, mut command: Command, arguments: &[&str], variables: &[(&str, String)]) -> String {
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LLTS_")) {
            command.env_remove(name);
        }
        command.env("LLTS_HOME", self.folder.path());
        command.env("LLTS_CONTROLLER_REP_PORT", "0").env("LLTS_CONTROLLER_PUB_PORT", "0");
        command.env("LLTS_TOOL_SOURCES_DIR", "").env("LLTS_AGENT_KILL_INTERVAL", "10000");
        command.envs(variables.iter().map(|(name, value)| (*name, value)));
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap() as ChildStdout).read_line(&mut line).unwrap();
        self.processes.push(child);
        assert!(line.contains("ready"), "{arguments:?} says {line:?}");
        line.trim().to_owned()
    }

    /// The address of the controller's port for requests.
    pub(crate) fn endpoint(&self) -> &str {
        &self.rep
    }

    /// A plain REQ socket.
    pub(crate) fn client(&self) -> Client {
        let socket = self.context.socket(zmq::REQ).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_rcvtimeo(LIMIT).unwrap();
        socket.connect(&self.rep).unwrap();
        Client(socket)
    }

    /// A client whose request waits at the controller: what it has asked next is answered.
    pub(crate) fn waiting_client(&self, request: &Value) -> zmq::Socket {
        let socket = self.context.socket(zmq::DEALER).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_rcvtimeo(LIMIT).unwrap();
        socket.connect(&self.rep).unwrap();
        for request in [request, &json!({ "__TYPE__": "TASK/STATISTIC" })] {
            socket.send_multipart(["".as_bytes(), request.to_string().as_bytes()], 0).unwrap();
        }
        let reply = socket.recv_multipart(0).unwrap();
        let reply: Value = serde_json::from_slice(&reply[1]).unwrap();
        assert_eq!(reply["__TYPE__"], "TASK/STATISTIC", "the first one is answered: {reply}");
        socket
    }

    /// A bound DEALER, and its address.
    pub(crate) fn receiver(&self) -> (Receiver, String) {
        let socket = self.context.socket(zmq::DEALER).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_rcvtimeo(LIMIT).unwrap();
        socket.bind("tcp://127.0.0.1:*").unwrap();
        let address = socket.get_last_endpoint().unwrap().unwrap();
        (Receiver(socket), address)
    }

    /// A path in the folder of the service.
    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for mut process in self.processes.drain(..).rev() {
            let pid = Pid::from_raw(i32::try_from(process.id()).unwrap());
            let _ = kill(pid, Signal::SIGTERM);
            // A test may have failed while it was stopped.
            let _ = kill(pid, Signal::SIGCONT);
            let _ = process.wait();
        }
    }
}

fn add_tool(folder: &Path, name: &str, script: &str) {
    pack_tool(folder, &folder.join("testTools"), name, script);
}

/// Packs a tool into a tools folder.
pub(crate) fn pack_tool(folder: &Path, tools: &Path, name: &str, script: &str) {
    let source = folder.join("sources").join(name);
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(tools).unwrap();
    fs::write(source.join("run.sh"), format!("#!/bin/sh\n{script}\n")).unwrap();
    let out = tools.join(format!("{name}.tar.gz"));
    let limits = llts::shell::tools::Limits::from(&llts::config::Config::default().archive);
    llts::shell::tools::pack(&source, &out, &limits).unwrap();
}

/// A client of any language: one JSON object there, one back.
pub(crate) struct Client(zmq::Socket);

impl Client {
    /// Sends whatever bytes, and reads the answer.
    pub(crate) fn raw(&self, body: &[u8]) -> Value {
        self.0.send(body, 0).unwrap();
        let reply = self.0.recv_bytes(0).expect("the service answers");
        assert!(reply.starts_with(b"{\"__TYPE__\":"), "{}", String::from_utf8_lossy(&reply));
        serde_json::from_slice(&reply).unwrap()
    }

    pub(crate) fn ask(&self, kind: &str, mut fields: Value) -> Value {
        fields["__TYPE__"] = kind.into();
        self.raw(fields.to_string().as_bytes())
    }

    pub(crate) fn code(&self, kind: &str, fields: Value) -> i64 {
        let reply = self.ask(kind, fields);
        let code = reply["__CODE__"].as_i64().unwrap();
        assert_eq!(code != 0, reply["__ERROR_MSG__"].as_str().is_some_and(|text| !text.is_empty()), "{reply}");
        code
    }

    /// Submits a task that must be accepted, and returns its id.
    pub(crate) fn submit(&self, tool: &str, mut fields: Value) -> String {
        fields["__OPERATION__"] = tool.into();
        let reply = self.ask("TASK/SUBMIT", fields);
        assert_eq!(reply["__CODE__"], 0, "{reply}");
        reply["__TASK_ID__"].as_str().unwrap().to_owned()
    }

    /// Waits for the end of a task.
    pub(crate) fn end(&self, task: &str) -> Value {
        let reply = self.ask("TASK/QUERY", json!({ "__TASK_ID__": task, "__WAIT__": LIMIT - 5_000 }));
        assert_eq!(reply["__STATUS__"], "FINISHED", "{reply}");
        reply
    }

    /// Asks until the answer is as it should be; each question is answered at once.
    pub(crate) fn until(&self, kind: &str, fields: &Value, what: impl Fn(&Value) -> bool) -> Value {
        let mut reply = Value::Null;
        eventually(&format!("{kind} {fields} says what it should"), || {
            reply = self.ask(kind, fields.clone());
            what(&reply)
        });
        reply
    }
}

/// Where states are pushed to.
pub(crate) struct Receiver(zmq::Socket);

impl Receiver {
    pub(crate) fn next(&self) -> Value {
        let frames = self.0.recv_multipart(0).expect("a push comes");
        assert_eq!(frames.len(), 1);
        serde_json::from_slice(&frames[0]).unwrap()
    }
}
