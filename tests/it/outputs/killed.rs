//! Outputs of a service whose parts are killed while they are kept, and while they are fetched: never a half that passes for
//! the whole.

use std::io::Read as _;

use rustix::process::Signal;

use crate::outputs::sandbox::{Sandbox, Start as _, eventually, signal};
use crate::outputs::{errors, numbers, output};

/// The agent is killed at different moments around the end of a run. Its successor has the whole output, or says why not.
#[test]
fn a_killed_agent_leaves_no_half() {
    let sandbox = Sandbox::serving(1, &[("long", "seq 300000; echo ended >> $PLACE/ended")]);
    let ended = || std::fs::read_to_string(sandbox.path("ended")).unwrap_or_default().lines().count();
    for attempt in 0..6_u64 {
        let before = ended();
        let id = sandbox.ok("submit long").line().to_owned();
        eventually("run.sh has printed all", || ended() > before);
        // From the last byte of the run on, the agent reports, moves, compresses and renames.
        std::thread::park_timeout(std::time::Duration::from_millis(attempt * 15));
        signal(sandbox.process("agent --name agent-1"), Signal::KILL);
        sandbox.ok(&format!("wait {id}"));
        let logs = output(&sandbox, &format!("logs {id} -f"));
        let is_whole = logs.stdout == numbers(300_000);
        let is_said = logs.status.code() == Some(1) && !errors(&logs).is_empty();
        assert!(is_whole && logs.status.success() || is_said, "{attempt}: {} bytes, {logs:?}", logs.stdout.len());
        eventually("the agent is back", || sandbox.agents().iter().any(|agent| agent["__AGENT_STATUS__"] == "FREE"));
        // What was found once stays.
        if is_whole {
            assert!(output(&sandbox, &format!("logs {id}")).stdout == numbers(300_000));
        }
    }
}

/// A reader goes on where it was, with the next life of the controller and of the agent.
#[test]
fn a_reader_survives_the_death_of_controller_and_agent() {
    let sandbox = Sandbox::serving(1, &[("long", "seq 1000000")]);
    let id = crate::outputs::finished(&sandbox, "long");
    let mut command = sandbox.command(&format!("logs {id} -f --stdout"));
    // A request that dies with the controller is repeated after this time and that of its parking: together less than the half
    // minute for which a controller may be silent.
    let mut logs = command.env("LLTS_ZMQ_RECV_TIMEOUT", "8000").start();
    let mut stdout = logs.stdout.take().unwrap();
    let mut all = vec![0; 1_000_000];
    stdout.read_exact(&mut all).unwrap();
    signal(sandbox.process(" controller"), Signal::KILL);
    let mut more = vec![0; 1_000_000];
    stdout.read_exact(&mut more).unwrap();
    all.extend(more);
    stdout.read_to_end(&mut all).unwrap();
    logs.said().ok();
    assert!(all == numbers(1_000_000), "{} bytes", all.len());
}

/// The run is lost with its agent; its output is kept for the next agent of the name, and is not taken for a whole one.
#[test]
fn the_output_of_a_lost_run_is_kept_and_called_incomplete() {
    let sandbox = Sandbox::new();
    sandbox.tool(
        "dying",
        "echo round $__ROUND__; echo noise >&2; echo report >> report.log; touch $PLACE/begun-$__ROUND__
[ $__ROUND__ = 1 ] || sleep 1000",
    );
    sandbox.ok("up 1");
    let id = sandbox.ok("submit dying").line().to_owned();
    eventually("it runs", || sandbox.path("begun-0").exists());
    let mut logs = sandbox.start(&format!("logs {id} -f --stdout"));
    let mut first = [0; 8];
    logs.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    signal(sandbox.process("agent --name agent-1"), Signal::KILL);
    sandbox.ok(&format!("wait {id}"));
    let said = logs.said();
    assert!(said.code == Some(1) && said.out == "round 1\n", "{said:?}");
    assert!(first == *b"round 0\n" && said.err.contains("its agent was killed during the run"), "{first:?} {said:?}");
    for (stream, text) in [("stdout", "round 0\n"), ("stderr", "noise\n"), ("report", "report\n")] {
        let logs = output(&sandbox, &format!("logs {id} --{stream} --round 0"));
        let err = errors(&logs);
        assert!(logs.status.code() == Some(1) && logs.stdout == text.as_bytes(), "{stream}: {logs:?}");
        let why = format!(
            "the run has no result: its agent was killed during the run, and kept {} bytes of the output",
            text.len()
        );
        assert!(err.contains(&why), "{stream}: {logs:?}");
    }
    eventually("its folder is removed", || !sandbox.path("work").join(&id).exists());
}
