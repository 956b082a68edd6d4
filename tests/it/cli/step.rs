//! `llts step` outside of a task of a step, where it says what is missing.

use crate::cli::sandbox::{Sandbox, Start as _};

/// What `llts` says with these variables in its environment: its exit code, and its sentence.
fn said(sandbox: &Sandbox, words: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let said = sandbox.command("step").args(words).envs(variables.iter().copied()).said();
    (said.code, said.err)
}

#[test]
fn a_partition_is_announced_only_by_a_task_of_a_step() {
    let sandbox = Sandbox::new();
    let task = ("__TASK_ID__", "TASK_1480000000.120000_AZazA");
    let words = ["providing", "out", "out/x"];
    let usage = |why: &str| (Some(2), format!("llts: {why}\n"));
    let why = "__TASK_ID__ is not in the environment: only a running task announces a partition";
    assert_eq!(said(&sandbox, &words, &[]), usage(why));
    let why = "__STEP__ is not in the environment: the task is not of a step, so nothing is downstream of it";
    assert_eq!(said(&sandbox, &words, &[task]), usage(why));
    let why = "__OUT__ is not in the environment: the task has no folder for outputs";
    assert_eq!(said(&sandbox, &words, &[task, ("__STEP__", "s")]), usage(why));
}

#[test]
fn a_step_is_completed_by_its_name_within_a_graph_and_with_its_graph_elsewhere() {
    let sandbox = Sandbox::new();
    let why =
        "__GRAPH_ID__ is not in the environment: outside of a task of a step write `llts step complete GRAPH_ID scan`";
    assert_eq!(said(&sandbox, &["complete", "scan"], &[]), (Some(2), format!("llts: {why}\n")));
    sandbox.ok("up 1");
    let graph = "GRAPH_1480000000.120000_AZazA";
    let unknown =
        format!("llts: no graph \"{graph}\"; it was never submitted here, or its retention time has passed (-1004)\n");
    assert_eq!(said(&sandbox, &["complete", graph, "scan"], &[]), (Some(5), unknown.clone()));
    assert_eq!(said(&sandbox, &["complete", "scan"], &[("__GRAPH_ID__", graph)]), (Some(5), unknown));
    let (code, why) = said(&sandbox, &["complete", graph, "a.b"], &[]);
    assert!(code == Some(4) && why.starts_with("llts: __STEP__: \"a.b\" is not a name"), "{why}");
    let (code, why) = said(&sandbox, &["complete", "GRAPH_1", "scan"], &[]);
    assert!(code == Some(5) && why.starts_with("llts: no graph \"GRAPH_1\""), "{why}");
}
