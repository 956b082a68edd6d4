//! Tools that travel: two homes joined by TCP, of which only the one with the controller has the tool.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::process::Signal;

use crate::home::user::{Start as _, User, eventually, signal};

/// Bytes that make a fetch long enough to be interrupted.
const LARGE: usize = 12 << 20;

/// The homes `a`, with a controller and an agent that gets no tasks, and `b`, with agents alone.
pub(crate) struct Machines {
    pub(crate) user: User,
    pub(crate) controller: String,
    publisher: String,
    /// The agent of `a`.
    drained: String,
}

impl Machines {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// The controller has these lines in its configuration.
    pub(crate) fn with(config: &str) -> Self {
        let user = User::new();
        if !config.is_empty() {
            fs::create_dir_all(user.path("a")).expect("made");
            fs::write(user.path("a/config.toml"), config).expect("written");
        }
        let up = user.ok("elsewhere", &format!("--home {} up 1 --output wire", user.path("a").display())).json();
        let controller = up["controller"].as_str().expect("a text").to_owned();
        let publisher = up["publisher"].as_str().expect("a text").rsplit(':').next().expect("a port").to_owned();
        let agents = user.ok("a", "agents --output wire").json();
        let drained = agents["agents"][0]["__AGENT_ID__"].as_str().expect("a text").to_owned();
        let machines = Self { user, controller, publisher, drained };
        machines.drain();
        machines
    }

    /// The agent of `a` gets no tasks.
    pub(crate) fn drain(&self) {
        self.user.ok("a", &format!("drain {}", self.drained));
    }

    /// The agent of `a` gets tasks.
    pub(crate) fn undrain(&self) {
        self.user.ok("a", &format!("drain {} --undo", self.drained));
    }

    /// Starts the agents of `b`.
    pub(crate) fn agents(&self, count: usize) {
        self.agents_through(count, &self.controller);
    }

    /// The same, with another address of the controller.
    pub(crate) fn agents_through(&self, count: usize, controller: &str) {
        let b = self.user.path("b").display().to_string();
        let line = format!("--home {b} up --agents-only {count} --controller {controller}");
        self.user.command("elsewhere", &line).env("LLTS_CONTROLLER_PUB_PORT", &self.publisher).said().ok();
    }

    /// Makes the source of a tool that says this.
    fn source(&self, tool: &str, says: &str, bytes: usize) -> PathBuf {
        let folder = self.user.path("elsewhere").join(tool);
        fs::create_dir_all(&folder).expect("written");
        let script = folder.join("run.sh");
        fs::write(&script, format!("#!/bin/sh\necho {says}\n")).expect("written");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("written");
        let mut state = 1u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        fs::write(folder.join("data"), noise.take(bytes).collect::<Vec<u8>>()).expect("written");
        folder
    }

    fn push(&self, tool: &str, says: &str, bytes: usize) -> String {
        self.source(tool, says, bytes);
        let pushed = self.user.ok("a", &format!("tool push ../elsewhere/{tool} --output wire")).json();
        pushed["digest"].as_str().expect("a text").to_owned()
    }

    fn submit(&self, tool: &str) -> String {
        self.user.ok("a", &format!("submit {tool} --max-losses 5")).out.trim().to_owned()
    }

    /// The output of a task that succeeds.
    pub(crate) fn output(&self, task: &str) -> String {
        let said = self.user.llts("a", &format!("wait {task} --timeout 60"));
        assert_eq!(said.code, Some(0), "{said:?}\n{}", self.user.llts("a", &format!("explain {task}")).out);
        self.user.ok("a", &format!("logs {task}")).out
    }

    pub(crate) fn fetched(&self, name: &str) -> PathBuf {
        self.user.path("b/state/fetched").join(name)
    }

    pub(crate) fn process(&self, with: &str) -> Option<i32> {
        self.user.processes().into_iter().find(|(_, line)| line.contains(with)).map(|(pid, _)| pid)
    }

    /// All that the agents of `b` have written into their logs.
    pub(crate) fn agent_logs(&self) -> String {
        let logs = self.user.all_below("b").into_iter().filter(|path| path.to_string_lossy().contains("log"));
        logs.filter_map(|path| fs::read_to_string(path).ok()).collect()
    }
}

/// Each task runs the version that was there when it was accepted, also on a machine that has none of them.
#[test]
fn a_tool_of_the_controllers_folder_runs_on_the_other_machine() {
    let machines = Machines::new();
    let source = machines.source("greet", "first", 10);
    let pack = |source: &PathBuf| machines.user.ok("a", &format!("tool pack {}", source.display()));
    pack(&source);
    let first = machines.submit("greet");
    pack(&machines.source("greet", "second", 10));
    let second = machines.submit("greet");
    fs::remove_file(machines.user.path("a/testTools/greet.tar.gz")).unwrap();
    machines.agents(1);
    assert_eq!([machines.output(&first), machines.output(&second)], ["first\n", "second\n"]);
    // An archive of the machine's own goes first.
    pack(&machines.source("greet", "third", 10));
    let own = machines.user.path("b/testTools");
    fs::create_dir_all(&own).unwrap();
    machines.user.ok("b", &format!("tool pack {}", machines.source("greet", "own", 10).display()));
    let task = machines.submit("greet");
    assert_eq!(machines.output(&task), "own\n");
    let says = "goes before version";
    eventually("its agent has told it", || machines.user.ok("a", &format!("explain {task}")).out.contains(says));
    let told = ["which goes before the version of the controller", " has greet "];
    eventually("the agents tell it", || {
        let agents = machines.user.ok("a", "agents").out;
        told.iter().all(|part| agents.contains(part))
    });
    eventually("its log tells it", || machines.agent_logs().contains("which goes before version"));
}

#[test]
fn a_pushed_tool_is_listed_shown_and_removed() {
    let machines = Machines::new();
    machines.source("greet", "hi", 10);
    let manifest = "description = \"Greets\"\n[parameters.name]\nrequired = true\n";
    fs::write(machines.user.path("elsewhere/greet/tool.toml"), manifest).unwrap();
    let user = &machines.user;
    assert!(user.ok("a", "tool push ../elsewhere/greet").out.starts_with("greet "));
    assert!(user.ok("a", "tool push ../elsewhere/greet").out.contains("the controller had it already"));
    let list = user.ok("a", "tool list --output wire").json();
    assert_eq!(
        (list["total"].as_u64(), list["tools"][0]["__OPERATION__"].as_str()),
        (Some(2), Some("greet")),
        "beside the sample in the folder: {list}"
    );
    let shown = user.ok("a", "tool show greet").out;
    assert!(["Greets", "name  text, required", "run.sh"].iter().all(|part| shown.contains(part)), "{shown}");
    let help = user.ok("a", "run greet --help").out;
    assert!(help.contains("Tool greet: Greets") && help.contains("name  text, required"), "{help}");
    let said = user.llts("a", "submit greet");
    assert!(said.code == Some(3) || said.err.contains("needs the parameter name"), "{said:?}");
    let said = user.llts("a", "submit greet nam=x");
    assert!(said.err.contains("the nearest is name"), "{said:?}");
    user.ok("a", "tool rm greet");
    let said = user.llts("a", "tool show greet");
    assert!(said.code != Some(0) && said.err.contains("holds no tool greet"), "{said:?}");
    let log = user.ok("a", "tool log greet").out;
    assert!(log.lines().count() == 3 && log.contains("removed"), "{log}");
}

/// The log has each change of what the name stands for once, whether a push or the folder made it, and whether the controller ran.
#[test]
fn the_log_of_a_tool_has_the_versions_of_the_folder_too() {
    let machines = Machines::new();
    let user = &machines.user;
    let pack = |says| {
        user.ok("a", &format!("tool pack {}", machines.source("greet", says, 10).display()));
        user.ok("a", "tool show greet --output wire").json()["__TOOL_DIGEST__"].as_str().unwrap().to_owned()
    };
    let log = || -> Vec<(String, bool)> {
        let log = user.ok("a", "tool log greet --output wire").json();
        let text = |row: &serde_json::Value, key| row[key].as_str().unwrap_or("removed").to_owned();
        let rows = log["changes"].as_array().unwrap().iter();
        rows.map(|row| (text(row, "__TOOL_DIGEST__"), text(row, "__BY__") == "AGENT_TOOLS_DIR")).collect()
    };
    let first = machines.push("greet", "first", 10);
    let second = machines.push("greet", "second", 10);
    let third = pack("third");
    machines.submit("greet");
    let mut expected = vec![(first, false), (second.clone(), false), (third, true)];
    assert_eq!(log(), expected);
    // A start, a submit and a list are no changes.
    user.ok("a", "down --now");
    user.ok("a", "up 1");
    machines.submit("greet");
    user.ok("a", "tool list");
    assert_eq!(log(), expected);
    // No other command has named the tool since.
    let archive = user.path("a/testTools/greet.tar.gz");
    fs::remove_file(&archive).unwrap();
    expected.push(("removed".to_owned(), true));
    assert_eq!(log(), expected);
    let fourth = pack("fourth");
    user.ok("a", "down --now");
    fs::remove_file(&archive).unwrap();
    user.ok("a", "up 1");
    expected.extend([(fourth, true), ("removed".to_owned(), true)]);
    assert_eq!(log(), expected);
    let list = user.ok("a", "tool show greet --output wire").json();
    assert_eq!(list["__TOOL_DIGEST__"], second, "the last push");
}

/// Nothing was submitted: the folder itself is looked at. A version that is damaged in the store is named.
#[test]
fn tools_of_the_folder_are_listed_at_once_and_damaged_ones_are_named() {
    let machines = Machines::new();
    let user = &machines.user;
    user.ok("a", &format!("tool pack {}", machines.source("greet", "hi", 10).display()));
    let digest = machines.push("large", "large", 1000);
    let list = user.ok("a", "tool list").out;
    assert!(list.contains("greet") && list.contains("AGENT_TOOLS_DIR") && !list.contains("damaged"), "{list}");
    assert!(user.ok("a", "tool show greet").out.contains("run.sh"));
    fs::remove_file(user.path("a/testTools/greet.tar.gz")).unwrap();
    let held = user.path(&format!("a/state/archives/{digest}"));
    let mut bytes = fs::read(&held).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&held, bytes).unwrap();
    let list = user.ok("a", "tool list").out;
    assert!(!list.contains("greet"), "its archive is gone: {list}");
    let row = list.lines().find(|line| line.contains("large")).unwrap();
    assert!(row.contains("damaged in the store"), "{list}");
    machines.push("large", "large", 1000);
    let list = user.ok("a", "tool list").out;
    assert!(list.contains("large") && !list.contains("damaged"), "{list}");
}

/// However often one of the two dies meanwhile, the tool arrives whole, and the task runs.
#[test]
fn a_fetch_survives_the_death_of_agent_and_controller() {
    let machines = Machines::new();
    machines.agents(1);
    let digest = machines.push("large", "large", LARGE);
    let task = machines.submit("large");
    let part = machines.fetched(&format!("{digest}.part"));
    let bytes = || fs::metadata(&part).map(|part| part.len()).unwrap_or_default();
    // A busy machine may show the file only when it is whole.
    eventually("the fetch begins", || bytes() > 0 || machines.fetched(&digest).exists());
    signal(machines.process("-agent-1").expect("the agent"), Signal::KILL);
    let before = bytes();
    eventually("the next agent continues", || bytes() > before || !part.exists());
    if part.exists() {
        signal(machines.process(" controller").expect("the controller"), Signal::KILL);
    }
    assert_eq!(machines.output(&task), "large\n");
    assert!(machines.fetched(&digest).exists() && !part.exists());
}

#[test]
fn wrong_and_missing_bytes_are_fetched_again() {
    let machines = Machines::new();
    let digest = machines.push("large", "large", 1 << 20);
    fs::create_dir_all(machines.fetched("")).unwrap();
    // A beginning with another byte, and later a version with another byte.
    let held = machines.user.path("a/state/archives").join(&digest);
    let mut start = fs::read(&held).unwrap()[..300_000].to_vec();
    start[1000] ^= 1;
    fs::write(machines.fetched(&format!("{digest}.part")), &start).unwrap();
    machines.agents(1);
    assert_eq!(machines.output(&machines.submit("large")), "large\n");
    assert!(machines.agent_logs().contains("has arrived with wrong bytes"), "{}", machines.agent_logs());
    assert_eq!(fs::read(machines.fetched(&digest)).unwrap(), fs::read(&held).unwrap());
}

/// A version that was damaged on the disk of the controller is never served.
#[test]
fn a_damaged_version_is_refused_with_a_sentence() {
    let machines = Machines::new();
    let digest = machines.push("greet", "hi", 1000);
    let held = machines.user.path("a/state/archives").join(&digest);
    let mut bytes = fs::read(&held).unwrap();
    bytes[500] ^= 1;
    fs::write(&held, &bytes).unwrap();
    let task = machines.submit("greet");
    machines.agents(1);
    let said = machines.user.llts("a", &format!("wait {task} --timeout 60"));
    assert_ne!(said.code, Some(0), "{said:?}");
    let why = machines.user.ok("a", &format!("explain {task}")).out;
    assert!(why.contains(&digest) && why.contains("missing in the store of the controller, or damaged"), "{why}");
    assert!(!machines.fetched(&digest).exists());
    // A name that is right is no reason to name another one.
    machines.push("greet", "hi", 1000);
    fs::write(&held, &bytes).unwrap();
    let said = machines.user.llts("a", "run greet");
    assert!(said.err.contains("cannot be fetched") && !said.err.contains("nearest"), "{said:?}");
    // The same archive can be pushed again.
    machines.push("greet", "hi", 1000);
    assert_eq!(machines.output(&machines.submit("greet")), "hi\n");
}

#[test]
fn all_agents_of_a_machine_fetch_a_tool_once() {
    let machines = Machines::new();
    machines.agents(20);
    machines.push("large", "large", 1 << 20);
    let tasks: Vec<String> = (0..20).map(|_| machines.submit("large")).collect();
    for task in tasks {
        assert_eq!(machines.output(&task), "large\n");
    }
    let log = machines.agent_logs();
    assert_eq!(log.matches("fetched version").count(), 1, "{log}");
}
