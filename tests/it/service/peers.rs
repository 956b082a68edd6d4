//! The resources that one client may take from the others.

use serde_json::json;

use crate::service::sandbox::Sandbox;

/// The only place for a parked query is taken, until the client that has it is gone: not for as long as it wanted to wait.
#[test]
fn a_parked_query_goes_with_its_client() {
    let sandbox = Sandbox::start_with(0, &[], &[("LLTS_PARKED_MAX", "1".to_owned())]);
    let client = sandbox.client();
    let task = client.submit("never", json!({}));
    let wait = json!({ "__TASK_ID__": task, "__WAIT__": 1 });
    let long = json!({ "__TYPE__": "TASK/QUERY", "__TASK_ID__": task, "__WAIT__": 3_600_000 });
    let gone = sandbox.waiting_client(&long);
    let refused = client.ask("TASK/QUERY", wait.clone());
    assert_eq!(refused["__CODE__"], -1008, "{refused}");
    assert!(refused["__ERROR_MSG__"].as_str().unwrap().contains("PARKED_MAX"), "{refused}");
    drop(gone);
    client.until("TASK/QUERY", &wait, |reply| reply["__CODE__"] == 0);
}
