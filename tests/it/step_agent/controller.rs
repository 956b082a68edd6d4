//! A controller that hands out what a test wants, and answers an agent as the real one does.

use std::path::Path;
use std::time::Duration;

use api::config::Config;
use api::transport;
use proc::clock;
use serde_json::{Value, json};
use zmtp::envelope;
use zmtp::envelope::{Received, ReplyTo};
use zmtp::sockets::Ports;

use crate::step_agent::sandbox::{Program, Sandbox, Start as _};
use crate::support::LLTS;

pub(crate) const GRAPH: &str = "GRAPH_1480000000.120000_AZazA";
/// The folder of its outputs.
pub(crate) const GRAPH_OUT: &str = "work/.out/1480000000.120000_AZazA";

/// Longer than any condition takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Controller {
    pub(crate) sandbox: Sandbox,
    ports: Ports,
    agent: Option<Program>,
    /// The APPLY that waits for a task.
    parked: Option<ReplyTo>,
    /// The task that was handed out and not reported. An agent that asks again has not got it: on a loaded machine a connection
    /// may end while megabytes are under way.
    handed_out: Option<Value>,
    /// The task that is told to finish, in the answers to heartbeats.
    wanted: Option<String>,
    tool: String,
    /// The end of the ids of its tasks. An agent ends what its predecessor has left by task and round, on the whole machine: the
    /// same task in a test that runs beside this one would be ended, too.
    tail: String,
    /// Milliseconds that a task has for its end when it is told to finish.
    pub(crate) grace: u32,
}

impl Controller {
    /// A controller with one agent, which has this tool.
    pub(crate) fn with_tool(tool: &str, script: &str) -> Self {
        let sandbox = Sandbox::new();
        sandbox.tool(tool, script);
        sandbox.ok(&format!("tool pack tools/{tool}"));
        let file = "CONTROLLER_IP = \"127.0.0.1\"\nCONTROLLER_IPC_FILE = \"\"\nCONTROLLER_REP_PORT = 0\nCONTROLLER_PUB_PORT = 0\n";
        let config = Config::from_parts(Some((Path::new("test.toml"), file)), []).expect("valid");
        let ports = transport::bind(&config, "watch".to_owned(), 1000, zmtp::port::SuspendedPorts::default())
            .expect("free ports");
        let tail = (0..5).map(|_| char::from(rand::random_range(b'a'..=b'z'))).collect();
        let tool = tool.to_owned();
        let mut controller = Self {
            sandbox,
            ports,
            agent: None,
            parked: None,
            handed_out: None,
            wanted: None,
            tool,
            tail,
            grace: 60_000,
        };
        controller.start_agent();
        controller
    }

    /// Starts an agent, after the last one has ended.
    pub(crate) fn start_agent(&mut self) {
        self.agent.take().into_iter().for_each(|agent| drop(agent.said()));
        let port = |endpoint: &str| endpoint.rsplit_once(':').expect("a port").1.to_owned();
        let config = format!(
            "CONTROLLER_REP_PORT = {}\nCONTROLLER_PUB_PORT = {}\nCONTROLLER_IPC_FILE = \"\"\nAGENT_HEARTBEAT_INTERVAL = 200\n\
             AGENT_KILL_INTERVAL = 100\nLOG_DIR = \"log\"\nZMQ_RECV_TIMEOUT = 30000\n",
            port(self.ports.requests()),
            port(self.ports.broadcasts())
        );
        self.sandbox.write("config.toml", config);
        let mut command = self.sandbox.command("agent --name one");
        command.env("LLTS", LLTS);
        (self.parked, self.handed_out) = (None, None);
        self.agent = Some(command.start());
    }

    pub(crate) fn agent_pid(&self) -> i32 {
        self.agent.as_ref().expect("started").pid()
    }

    /// Hands out a task of a step, and returns its id.
    pub(crate) fn assign(&mut self, number: u32, round: u32, inputs: &Value) -> String {
        let step = json!({
            "__GRAPH_ID__": GRAPH, "__STEP__": "step-1", "__ROLE__": "MAIN", "__PARTITION__": 7, "__OUTPUTS__": "out,other",
            "__INPUTS__": inputs.to_string(), "__GRACE__": self.grace,
        });
        self.hand_out(number, round, step)
    }

    pub(crate) fn assign_plain(&mut self, number: u32) -> String {
        self.hand_out(number, 0, json!({}))
    }

    fn hand_out(&mut self, number: u32, round: u32, mut job: Value) -> String {
        let task = format!("TASK_1480000000.{number:06}_{}", self.tail);
        self.until("an APPLY is parked", |_, parked| parked.then_some(()));
        job["__CODE__"] = json!(0);
        job["__OPERATION__"] = json!(self.tool);
        job["__TASK_ID__"] = json!(task);
        job["__ROUND__"] = json!(round);
        let to = self.parked.take().expect("it is parked");
        self.handed_out = Some(job.clone());
        self.answer(to, "TASK/INTERNAL/APPLY", job);
        task
    }

    /// Tells a task to finish.
    pub(crate) fn finish(&mut self, task: &str, is_published: bool) {
        if is_published {
            let frame = format!("{{\"__TYPE__\":\"TASK/FINISH\",\"__TASK_ID__\":\"{task}\",\"__ROUND__\":0}}");
            self.ports.publish(frame.as_bytes());
        } else {
            self.wanted = Some(task.to_owned());
        }
    }

    /// The last report of a task.
    pub(crate) fn finished(&mut self, task: &str) -> Value {
        loop {
            let report = self.message("TASK/INTERNAL/REPORT");
            if report["__TASK_ID__"] == task && report["__STATUS__"] == "FINISHED" {
                return report;
            }
        }
    }

    /// The next message of this kind.
    pub(crate) fn message(&mut self, kind: &str) -> Value {
        let end = clock::now().mono + PATIENCE;
        loop {
            if let Some(message) = self.receive().filter(|message| message["__TYPE__"] == kind) {
                return message;
            }
            assert!(clock::now().mono < end, "no {kind}");
        }
    }

    /// Answers messages until this holds; it is told whether an APPLY is parked.
    pub(crate) fn until<T>(&mut self, what: &str, mut holds: impl FnMut(&Sandbox, bool) -> Option<T>) -> T {
        let end = clock::now().mono + PATIENCE;
        loop {
            if let Some(found) = holds(&self.sandbox, self.parked.is_some()) {
                return found;
            }
            assert!(clock::now().mono < end, "{what}: never");
            self.receive();
        }
    }

    /// Answers a message, if one comes soon.
    fn receive(&mut self) -> Option<Value> {
        let Some(frames) = self.ports.receive() else {
            let now = clock::now().mono;
            self.ports.wait(now, Some(now + Duration::from_millis(20)), &[]);
            return None;
        };
        let Received::Request(to, body) = envelope::open(frames) else { panic!("no request") };
        let message: Value = serde_json::from_slice(&body).expect("JSON");
        let kind = message["__TYPE__"].as_str().expect("a type").to_owned();
        match kind.as_str() {
            "AGENT/HEARTBEAT" => {
                let mut answer = json!({"__CODE__": 0, "__CONTROLLER_ID__": 1, "__BEAT__": message["__BEAT__"]});
                let is_asking = self.parked.is_some() || self.handed_out.is_some();
                answer["__PARKED__"] = json!(is_asking || message["__AGENT_STATUS__"] == 1);
                answer["__TOOLS_GENERATION__"] = message["__TOOLS_GENERATION__"].clone();
                if let Some(task) = self.wanted.as_ref().filter(|task| message["__TASK_ID__"] == ***task) {
                    (answer["__TASK_ID__"], answer["__ROUND__"]) = (json!(task), json!(0));
                    answer["__WANTED__"] = json!("FINISH");
                }
                self.answer(to, &kind, answer);
            }
            "TASK/INTERNAL/APPLY" => match self.handed_out.clone() {
                Some(job) => self.answer(to, &kind, job),
                None => self.parked = Some(to),
            },
            "TASK/INTERNAL/REPORT" => {
                self.handed_out = None;
                if message.get("__WAIT__").is_some() {
                    self.parked = Some(to.clone());
                }
                let answer = json!({"__CODE__": 0, "__TASK_ID__": message["__TASK_ID__"],
                    "__ROUND__": message["__ROUND__"], "__STATUS__": message["__STATUS__"]});
                self.answer(to, &kind, answer);
            }
            "AGENT/SERVE" => {}
            _ => self.answer(to, &kind, json!({"__CODE__": 0})),
        }
        Some(message)
    }

    fn answer(&mut self, to: ReplyTo, kind: &str, mut answer: Value) {
        answer["__TYPE__"] = json!(kind);
        self.ports.send(&to.frames(answer.to_string().into_bytes()), Duration::ZERO).expect("the peer is there");
        self.ports.flush();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            agent.kill();
        }
    }
}
