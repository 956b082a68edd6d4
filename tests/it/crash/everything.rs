//! All of a service killed at once: the supervisor, the controller and the agents.

use serde_json::{Value, json};

use crate::crash::runs::Runs;
use crate::crash::sandbox::{eventually, kill};
use crate::crash::service::{Service, UNFINISHED};

const TOOL: &str = "\
printf 'start %s %s\\n' \"$__TASK_ID__\" \"$__ROUND__\" >> \"$PLACE/runs\"
setsid sleep 1000 &
sleep 0.1
[ -z \"$PARAM_held\" ] || until [ -e \"$PLACE/go\" ]; do sleep 0.05; done
printf 'end %s %s\\n' \"$__TASK_ID__\" \"$__ROUND__\" >> \"$PLACE/runs\"";

#[test]
fn a_service_that_was_killed_as_a_whole_finishes_what_it_had_accepted() {
    let service = Service::new();
    service.sandbox.tool("append", TOOL);
    service.sandbox.ok("up 4");
    let client = service.client();
    // The last ones do not end before the kill, however late that is.
    let fields = |number| if number < 32 { json!({}) } else { json!({ "held": "1" }) };
    let accepted: Vec<String> = (0..40).map(|number| client.submit("append", fields(number))).collect();
    eventually("some tasks are over, and some are not", || client.count(&["FINISHED"]) >= 4);
    // An agent that is just starting run.sh shows twice, until its child has become run.sh.
    eventually("supervisor, controller and agents", || service.own_processes().len() == 6);
    let own = service.own_processes();
    own.iter().for_each(|pid| kill(*pid));
    eventually("all of them are gone", || service.own_processes().is_empty());

    service.sandbox.ok("up 4");
    service.sandbox.write("go", "");
    eventually("every task is finished", || client.count(&UNFINISHED) == 0);
    let tasks: Vec<Value> = accepted.iter().map(|id| client.query(id)).collect();
    service.is_swept();
    service.sandbox.ends_clean();
    let runs = Runs::read(&service.sandbox.path("runs"));
    for task in tasks {
        let round = task["__ROUND__"].as_u64().unwrap();
        assert_eq!(task["__OUTCOME__"], "SUCCEEDED", "{task}");
        assert!(runs.ended[task["__TASK_ID__"].as_str().unwrap()].contains(&round), "{task}");
    }
}
