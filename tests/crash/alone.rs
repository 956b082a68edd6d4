//! An agent without a supervisor: what it leaves when it is killed is ended by the next one of its name.

use std::fs;

use llts::shell::process::RunRecords;

use crate::place::{eventually, names};
use crate::service::{Service, kill};

/// The first run leaves a process that no group holds and never ends; the next one ends well.
const STUBBORN: &str = "\
[ \"$__ROUND__\" -eq 0 ] || exit 0
trap '' TERM
setsid sh -c 'trap \"\" TERM; echo $$ >> $PLACE/escaped; while :; do sleep 0.1; done' &
while :; do sleep 0.1; done";

#[test]
fn the_next_agent_of_the_name_ends_the_tree_and_runs_the_task_again() {
    let service = Service::new();
    service.place.tool("stubborn", STUBBORN);
    service.place.ok("tool pack tools/stubborn");
    let mut controller = service.place.start("controller");
    let mut agent = service.place.start("agent --name alone");
    let mut client = service.client();
    let id = client.submit("stubborn");
    let escaped = service.place.path("escaped");
    eventually("the tool runs", || fs::read_to_string(&escaped).is_ok_and(|text| text.ends_with('\n')));
    eventually("its agent says so", || client.status(&id) == "RUNNING");
    let tree: Vec<i32> = service.tool_processes().iter().map(|(pid, _)| *pid).collect();
    assert!(tree.len() >= 2 && names(&service.place.path("work")).contains(&id), "{tree:?}");

    agent.kill().unwrap();
    agent.wait().unwrap();
    let mut next = service.place.start("agent --name alone");
    eventually("the task is finished", || client.status(&id) == "FINISHED");
    let left = service.tool_processes();
    assert!(tree.iter().all(|pid| left.iter().all(|(other, _)| pid != other)), "{tree:?}: {left:?}");
    let task = client.query(&id);
    assert_eq!((task["__OUTCOME__"].as_str(), task["__ROUND__"].as_u64()), (Some("SUCCEEDED"), Some(1)), "{task}");
    assert_eq!(task["__LOSSES__"].as_u64(), Some(1), "{task}");
    service.is_swept();
    let records = RunRecords::open(service.place.path("state/runs")).unwrap();
    assert_eq!(records.list().unwrap(), []);
    assert_eq!(names(&service.place.path("state/runs")).len(), 1, "the record of the living agent");

    for child in [&mut next, &mut controller] {
        kill(child.id().cast_signed());
        child.wait().unwrap();
    }
}
