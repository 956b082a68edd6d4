//! A home to run `llts` in: a configuration with free ports, and tools.

use std::fs;
use std::ops::Deref;

use testkit::Place;

use crate::support::LLTS;

pub(crate) use testkit::{Program, Said, Start, eventually, found, kill, kill_all, names, signal};

/// A client, a run or an agent may be delayed for seconds on a busy machine. A run that only SIGKILL ends takes a second more.
const CONFIG: &str = "\
CONTROLLER_REP_PORT = 0
CONTROLLER_PUB_PORT = 0
ZMQ_RECV_TIMEOUT = 15000
AGENT_HEARTBEAT_INTERVAL = 2000
AGENT_KILL_INTERVAL = 1000
LOG_DIR = \"log\"
";

/// The home. Dropping it stops the service in it.
pub(crate) struct Sandbox(Place);

impl Deref for Sandbox {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self::with(CONFIG)
    }

    /// One whose service has so many agents.
    pub(crate) fn up(agents: u32) -> Self {
        Self::serving(agents, &[])
    }

    /// The same, with tools as (name, run.sh).
    pub(crate) fn serving(agents: u32, tools: &[(&str, &str)]) -> Self {
        let sandbox = Self::new();
        tools.iter().for_each(|(name, script)| sandbox.tool(name, script));
        sandbox.ok(&format!("up {agents}"));
        sandbox
    }

    /// One with another configuration.
    pub(crate) fn with(config: &str) -> Self {
        let mut place = Place::home(LLTS, config);
        let tmp = place.path("tmp");
        fs::create_dir(&tmp).expect("a folder");
        place.set("TMPDIR", tmp);
        Self(place)
    }

    /// Writes the configuration with these further lines.
    pub(crate) fn configure(&self, lines: &str) {
        self.write("config.toml", format!("{CONFIG}{lines}"));
    }

    /// Makes the source of a tool.
    pub(crate) fn tool(&self, name: &str, script: &str) {
        self.script(&format!("tools/{name}/run.sh"), script);
    }

    /// The agents of the service, as JSON.
    pub(crate) fn agents(&self) -> Vec<serde_json::Value> {
        self.llts("agents --output wire").json()["agents"].as_array().cloned().unwrap_or_default()
    }

    /// Stops the service, of which nothing is left.
    #[track_caller]
    pub(crate) fn ends_clean(&self) {
        self.ok("down");
        self.is_clean();
    }

    /// Whether nothing that was started here is left: neither a process nor a folder.
    #[track_caller]
    pub(crate) fn is_clean(&self) {
        // It waits for the end of the supervisor, and ends after it.
        let is_standby = |(_, line): &(i32, String)| line.contains(" --standby ");
        eventually("the standby of a restart ends", || !self.processes().iter().any(is_standby));
        assert_eq!(self.processes(), []);
        assert_eq!(names(&self.path("tmp")), [""; 0]);
        let work = names(&self.path("work"));
        assert!(work.iter().all(|name| [".trash", ".spare", ".outputs", ".out"].contains(&name.as_str())), "{work:?}");
        assert_eq!(names(&self.path("work/.trash")), [""; 0]);
        // An agent that ends in peace takes its own along; one that was killed leaves it to the next one.
        for of_an_agent in names(&self.path("work/.spare")) {
            assert_eq!(names(&self.path("work/.spare").join(of_an_agent)), [""; 0]);
        }
    }
}
