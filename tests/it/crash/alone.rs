//! An agent without a supervisor: what it leaves when it is killed is ended by its guard, or else by the next agent.

use std::fs;
use std::process::Command;

use proc::process::{RunRecord, RunRecords};
use rustix::process::Signal;
use serde_json::json;
use testkit::Client;

use crate::crash::sandbox::{Program, Start as _, eventually, kill, names, signal};
use crate::crash::service::Service;

/// The first run leaves a process that no group holds, that init has for a parent, and that never ends, and one that nothing of
/// its environment gives away either; the next ends well.
const STUBBORN: &str = "\
[ \"$__ROUND__\" -eq 0 ] || exit 0
trap '' TERM
(env -i PLACE=$PLACE setsid sh -c 'echo $$ >> $PLACE/cleared; exec env -i sleep 1000' &)
(setsid sh -c 'trap \"\" TERM; echo $$ >> $PLACE/escaped; while :; do sleep 0.1; done' &)
while :; do sleep 0.1; done";

/// A controller, an agent, and the stubborn tool in its first run.
struct Alone {
    _controller: Program,
    agent: Program,
    service: Service,
    client: Client,
    task: String,
    tree: Vec<i32>,
    /// The process of the tool that has cleared its environment.
    cleared: i32,
}

/// How what a dead agent has left is known.
const BY_CGROUP: &str = "AGENT_CGROUP = \"auto\"";
const BY_MARKS: &str = "AGENT_CGROUP = \"off\"";

impl Alone {
    fn with_a_run(way: &str) -> Self {
        let service = Service::with(way);
        service.sandbox.tool("stubborn", STUBBORN);
        service.sandbox.ok("tool pack tools/stubborn");
        let _controller = service.sandbox.start("controller");
        let agent = service.sandbox.start("agent --name alone");
        let client = service.client();
        let task = client.submit("stubborn", json!({}));
        let pid = |name: &str| fs::read_to_string(service.sandbox.path(name)).ok()?.strip_suffix('\n')?.parse().ok();
        eventually("the tool runs", || pid("escaped").is_some() && pid("cleared").is_some_and(sleeps));
        let cleared = pid("cleared").expect("it was waited for");
        eventually("its agent says so", || client.status(&task) == "RUNNING");
        let tree: Vec<i32> = service.tool_processes().iter().map(|(pid, _)| *pid).collect();
        assert!(tree.len() >= 2 && names(&service.sandbox.path("work")).contains(&task), "{tree:?}");
        Self { _controller, agent, service, client, task, tree, cleared }
    }

    fn kill_agent(&mut self) {
        self.agent.kill();
    }

    /// Waits until nothing of the first run is left, however it may be known.
    #[track_caller]
    fn is_swept(&self) {
        self.service.is_swept();
        eventually("what has cleared its environment is gone", || !sleeps(self.cleared));
    }

    /// The runs that agents of this host are known to have.
    fn records(&self) -> Vec<RunRecord> {
        RunRecords::open(self.service.sandbox.path("state/runs")).and_then(|records| records.list()).expect("ours")
    }

    /// Another agent of the name runs the task again, and nothing is left of the first run.
    fn runs_again(mut self, losses: Option<u64>) {
        let Self { service, client, task, tree, cleared, .. } = &mut self;
        let _next = service.sandbox.start("agent --name alone");
        eventually("the task is finished", || client.status(task) == "FINISHED");
        let left = service.tool_processes();
        assert!(tree.iter().all(|pid| left.iter().all(|(other, _)| pid != other)), "{tree:?}: {left:?}");
        let task = client.query(task);
        assert_eq!((task["__OUTCOME__"].as_str(), task["__ROUND__"].as_u64()), (Some("SUCCEEDED"), Some(1)), "{task}");
        assert_eq!(task["__LOSSES__"].as_u64(), losses, "{task}");
        assert!(!sleeps(*cleared), "{cleared} has cleared its environment, and is left");
        service.is_swept();
        eventually("no record is left", || self.records().is_empty());
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if sleeps(self.cleared) {
            kill(self.cleared);
        }
    }
}

/// Whether a process has become `sleep`, and lives.
fn sleeps(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\0"))
}

/// The guards that were started in the place of a service.
fn guards(service: &Service) -> Vec<i32> {
    let processes = service.sandbox.processes();
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
    for way in [BY_CGROUP, BY_MARKS] {
        let mut alone = Alone::with_a_run(way);
        // It runs as the same user and in the same folder, but is of no task.
        let mut bystander = Command::new("sleep").arg("600").start();
        guard(&alone.service);
        alone.kill_agent();
        alone.is_swept();
        eventually("the record is gone", || alone.records().is_empty());
        eventually("the guard has ended", || guards(&alone.service).is_empty());
        assert!(bystander.try_wait().unwrap().is_none(), "an unrelated process was ended");
        bystander.kill();
        alone.runs_again(Some(1));
    }
}

/// `kill -9` of a whole job of a shell, and an interrupt from its terminal, reach a group of processes.
#[test]
fn a_guard_is_not_of_the_group_of_its_agent() {
    let service = Service::new();
    let mut agent = service.sandbox.start("agent --name alone");
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
    agent.kill();
    eventually("the guard has ended", || guards(&service).is_empty());
}

#[test]
fn an_agent_that_is_asked_to_end_takes_its_guard_with_it() {
    let mut alone = Alone::with_a_run(BY_CGROUP);
    alone.agent.signal(Signal::TERM);
    alone.agent.wait().unwrap();
    assert_eq!(guards(&alone.service), [0; 0]);
    alone.runs_again(None);
}

/// The second one is born in the cgroup of the agent, and must not end itself before its work is done.
#[test]
fn a_guard_that_is_killed_is_replaced() {
    let mut alone = Alone::with_a_run(BY_CGROUP);
    let victim = guard(&alone.service);
    kill(victim);
    let task = alone.task.clone();
    alone.client.ask("TASK/KILL", json!({"__TASK_ID__": task}));
    eventually("it has another one", || guards(&alone.service).iter().any(|guard| *guard != victim));
    assert!(alone.agent.is_running());
    alone.is_swept();
    let successor = guard(&alone.service);
    let own = |pid: i32| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    eventually("it has left the cgroup of its agent", || !own(successor).contains("/llts-"));

    for name in ["escaped", "cleared"] {
        fs::remove_file(alone.service.sandbox.path(name)).unwrap();
    }
    let task = alone.client.submit("stubborn", json!({}));
    eventually("the tool runs again", || names(&alone.service.sandbox.path("")).contains(&"escaped".to_owned()));
    alone.kill_agent();
    alone.is_swept();
    eventually("the guard has ended", || guards(&alone.service).is_empty());
    assert!(names(&alone.service.sandbox.path("state/runs")).is_empty());
    alone.task = task;
    alone.runs_again(Some(1));
}

#[test]
fn the_next_agent_ends_the_tree_when_the_guard_was_killed_too() {
    for way in [BY_CGROUP, BY_MARKS] {
        let mut alone = Alone::with_a_run(way);
        guards(&alone.service).into_iter().for_each(kill);
        eventually("the guard is gone", || guards(&alone.service).is_empty());
        alone.kill_agent();
        assert!(sleeps(alone.cleared));
        alone.runs_again(Some(1));
    }
}
