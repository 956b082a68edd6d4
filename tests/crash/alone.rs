//! An agent without a supervisor: what it leaves when it is killed is ended by its guard, or else by the next agent.

use std::fs;
use std::process::{Child, Command};

use llts::shell::process::{RunRecord, RunRecords};
use rustix::process::Signal;

use crate::client::Client;
use crate::place::{eventually, names, signal};
use crate::service::{Service, kill};

/// The first run leaves a process that no group holds, that init has for a parent, and that never ends; the next ends well.
const STUBBORN: &str = "\
[ \"$__ROUND__\" -eq 0 ] || exit 0
trap '' TERM
(setsid sh -c 'trap \"\" TERM; echo $$ >> $PLACE/escaped; while :; do sleep 0.1; done' &)
while :; do sleep 0.1; done";

/// A controller, an agent, and the stubborn tool in its first run.
struct Alone {
    service: Service,
    controller: Child,
    agent: Child,
    client: Client,
    task: String,
    tree: Vec<i32>,
}

impl Alone {
    fn with_a_run() -> Self {
        let service = Service::new();
        service.place.tool("stubborn", STUBBORN);
        service.place.ok("tool pack tools/stubborn");
        let controller = service.place.start("controller");
        let agent = service.place.start("agent --name alone");
        let mut client = service.client();
        let task = client.submit("stubborn");
        let escaped = service.place.path("escaped");
        eventually("the tool runs", || fs::read_to_string(&escaped).is_ok_and(|text| text.ends_with('\n')));
        eventually("its agent says so", || client.status(&task) == "RUNNING");
        let tree: Vec<i32> = service.tool_processes().iter().map(|(pid, _)| *pid).collect();
        assert!(tree.len() >= 2 && names(&service.place.path("work")).contains(&task), "{tree:?}");
        Self { service, controller, agent, client, task, tree }
    }

    fn kill_agent(&mut self) {
        self.agent.kill().expect("it is ours");
        self.agent.wait().expect("it was killed");
    }

    /// The runs that agents of this host are known to have.
    fn records(&self) -> Vec<RunRecord> {
        RunRecords::open(self.service.place.path("state/runs")).and_then(|records| records.list()).expect("ours")
    }

    /// Another agent of the name runs the task again, and nothing is left of the first run.
    fn runs_again(mut self, losses: Option<u64>) {
        let Self { service, client, task, tree, .. } = &mut self;
        let mut next = service.place.start("agent --name alone");
        eventually("the task is finished", || client.status(task) == "FINISHED");
        let left = service.tool_processes();
        assert!(tree.iter().all(|pid| left.iter().all(|(other, _)| pid != other)), "{tree:?}: {left:?}");
        let task = client.query(task);
        assert_eq!((task["__OUTCOME__"].as_str(), task["__ROUND__"].as_u64()), (Some("SUCCEEDED"), Some(1)), "{task}");
        assert_eq!(task["__LOSSES__"].as_u64(), losses, "{task}");
        service.is_swept();
        assert_eq!(self.records(), []);
        for child in [&mut next, &mut self.controller] {
            kill(child.id().cast_signed());
            child.wait().expect("it was killed");
        }
    }
}

/// The guards that were started in the place of a service.
fn guards(service: &Service) -> Vec<i32> {
    let processes = service.place.processes();
    processes.iter().filter(|(_, line)| line.contains(" guard --pid ")).map(|(pid, _)| *pid).collect()
}

/// The one guard that is there, once it has detached: it leads a group and a session of its own.
fn guard(service: &Service) -> i32 {
    let mut found = None;
    eventually("there is one guard", || {
        found = guards(service).pop().filter(|guard| {
            let stat = fs::read_to_string(format!("/proc/{guard}/stat")).unwrap_or_default();
            let fields: Vec<&str> =
                stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
            fields.get(2..4).is_some_and(|led| led.iter().all(|number| *number == guard.to_string()))
        });
        found.is_some() && guards(service).len() == 1
    });
    found.expect("it was waited for")
}

#[test]
fn the_guard_of_a_killed_agent_ends_its_tree() {
    let mut alone = Alone::with_a_run();
    // It runs as the same user and in the same folder, but is of no task.
    let mut bystander = Command::new("sleep").arg("600").spawn().unwrap();
    guard(&alone.service);
    alone.kill_agent();
    alone.service.is_swept();
    eventually("the record is gone", || alone.records().is_empty());
    eventually("the guard has ended", || guards(&alone.service).is_empty());
    assert!(bystander.try_wait().unwrap().is_none(), "somebody else's process was ended");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    alone.runs_again(Some(1));
}

/// `kill -9` of a whole job of a shell, and an interrupt from its terminal, reach a group of processes.
#[test]
fn a_guard_is_not_of_the_group_of_its_agent() {
    let service = Service::new();
    let mut agent = service.place.start("agent --name alone");
    let guard = guard(&service);
    for polite in [Signal::TERM, Signal::INT, Signal::HUP] {
        signal(guard, polite);
    }
    let inherited = ["stdin", "stdout", "stderr"].len();
    eventually("it watches", || {
        names(format!("/proc/{guard}/fd").as_ref()).len() == inherited + ["signals", "agent"].len()
    });
    let children = format!("/proc/{0}/task/{0}/children", agent.id());
    eventually("the agent has no child", || fs::read_to_string(&children).is_ok_and(|list| list.is_empty()));
    agent.kill().unwrap();
    agent.wait().unwrap();
    eventually("the guard has ended", || guards(&service).is_empty());
}

#[test]
fn an_agent_that_is_asked_to_end_takes_its_guard_with_it() {
    let mut alone = Alone::with_a_run();
    signal(alone.agent.id().cast_signed(), Signal::TERM);
    alone.agent.wait().unwrap();
    assert_eq!(guards(&alone.service), [0; 0]);
    alone.runs_again(None);
}

#[test]
fn a_guard_that_is_killed_is_replaced() {
    let service = Service::new();
    let mut agent = service.place.start("agent --name alone");
    let victim = guard(&service);
    kill(victim);
    eventually("it has another one", || guards(&service).iter().any(|guard| *guard != victim));
    assert!(agent.try_wait().unwrap().is_none());
    signal(agent.id().cast_signed(), Signal::TERM);
    agent.wait().unwrap();
    assert_eq!(guards(&service), [0; 0]);
}

#[test]
fn the_next_agent_ends_the_tree_when_the_guard_was_killed_too() {
    let mut alone = Alone::with_a_run();
    guards(&alone.service).into_iter().for_each(kill);
    eventually("the guard is gone", || guards(&alone.service).is_empty());
    alone.kill_agent();
    alone.runs_again(Some(1));
}
