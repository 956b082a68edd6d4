//! How long an output stays, and what is said when it is gone.

use std::fs;

use rustix::process::Signal;

use crate::outputs::sandbox::{Sandbox, eventually, names, signal};
use crate::outputs::{configured, errors, finished, numbers, output};

/// The kept files of all agents.
fn kept(sandbox: &Sandbox) -> Vec<String> {
    let all = sandbox.path("work/.outputs");
    names(&all).iter().flat_map(|agent| names(&all.join(agent))).collect()
}

fn are_compressed(sandbox: &Sandbox) -> bool {
    !kept(sandbox).is_empty() && kept(sandbox).iter().all(|name| name.ends_with(".zst"))
}

#[test]
fn a_short_output_takes_no_room_at_the_agent() {
    let sandbox = Sandbox::serving(1, &[("plain", "seq 1000; echo x >&2; echo y > report.log")]);
    assert!(sandbox.ok("run plain").out.len() == numbers(1000).len());
    assert!(!sandbox.path("work/.outputs").exists());
}

#[test]
fn outputs_outlive_their_service() {
    let sandbox = Sandbox::serving(2, &[("long", "seq 20000")]);
    let id = finished(&sandbox, "long");
    sandbox.ok("down");
    sandbox.llts(&format!("logs {id}")).ended(3);
    sandbox.ok("up 2");
    let logs = output(&sandbox, &format!("logs {id}"));
    assert!(logs.status.success() && logs.stdout == numbers(20_000), "{}", errors(&logs));
    eventually("they are compressed", || are_compressed(&sandbox));
}

/// A spare folder is reused by the next task; the outputs of the last one are not in it any more.
#[test]
fn a_reused_folder_loses_no_output() {
    let sandbox = Sandbox::serving(1, &[("long", "seq $PARAM_n; seq $PARAM_n > report.log")]);
    let tasks: Vec<_> = (0..5).map(|n| (20_000 + n, finished(&sandbox, &format!("long n={}", 20_000 + n)))).collect();
    for (n, id) in tasks {
        for which in ["--stdout", "--report"] {
            let logs = output(&sandbox, &format!("logs {id} {which}"));
            assert!(logs.stdout == numbers(n), "{n} {which}: {}", errors(&logs));
        }
    }
}

#[test]
fn beyond_the_budget_the_oldest_are_gone() {
    let sandbox = configured("OUTPUT_BUDGET_BYTES = 150000");
    // Bytes that cannot be compressed.
    sandbox.tool("noise", "head -c 60000 /dev/urandom | tee $PLACE/noise-$PARAM_n");
    sandbox.ok("up 1");
    let tasks: Vec<_> = (0..4).map(|n| finished(&sandbox, &format!("noise n={n}"))).collect();
    eventually("two are left", || are_compressed(&sandbox) && kept(&sandbox).len() == 2);
    for (n, id) in tasks.iter().enumerate() {
        let logs = output(&sandbox, &format!("logs {id} --stdout"));
        if n < 2 {
            assert_eq!(logs.status.code(), Some(1), "{n}");
            assert!(errors(&logs).contains("OUTPUT_BUDGET_BYTES"), "{}", errors(&logs));
        } else {
            assert!(logs.status.success(), "{n}: {}", errors(&logs));
            assert!(logs.stdout == fs::read(sandbox.path(&format!("noise-{n}"))).unwrap(), "{n}");
        }
    }
}

#[test]
fn a_long_output_is_cut_in_the_middle_and_that_is_said() {
    let sandbox = configured("OUTPUT_KEEP_BYTES = 20000");
    sandbox.tool("long", "seq $PARAM_n");
    sandbox.ok("up 1");
    // The beginning and the end overlap.
    assert!(output(&sandbox, "run long n=5000").stdout == numbers(5000));
    let id = finished(&sandbox, "long n=10000");
    eventually("it is cut", || kept(&sandbox).iter().any(|name| name.ends_with(".cut.zst")));
    let (all, logs) = (numbers(10_000), output(&sandbox, &format!("logs {id}")));
    assert_eq!(logs.status.code(), Some(1));
    assert!(logs.stdout == [&all[..20_000], &all[all.len() - 10_000..]].concat(), "{} bytes", logs.stdout.len());
    let says = "18894 bytes from byte 20000 on are missing: the agent keeps only the first 20000 bytes of an output";
    assert!(errors(&logs).contains(says), "{}", errors(&logs));
}

#[test]
fn an_agent_that_keeps_nothing_says_so() {
    let sandbox = configured("OUTPUT_KEEP_BYTES = 0");
    sandbox.tool("long", "seq 5000");
    sandbox.ok("up 1");
    // A run that takes a moment is followed, and then nothing of it need be kept.
    let run = output(&sandbox, "run long");
    assert_eq!(run.status.code(), Some(0), "the exit code is that of the task");
    let id = finished(&sandbox, "long");
    let logs = output(&sandbox, &format!("logs {id}"));
    assert_eq!(logs.status.code(), Some(1), "bytes are missing");
    assert!(numbers(5000).ends_with(&logs.stdout) && logs.stdout.len() == 10_000);
    assert!(errors(&logs).contains("OUTPUT_KEEP_BYTES is 0"), "{}", errors(&logs));
}

#[test]
fn of_an_agent_that_is_gone_the_end_is_left() {
    let sandbox = Sandbox::serving(1, &[("long", "seq 5000")]);
    let id = finished(&sandbox, "long");
    for part in ["--agents 1", "agent --name agent-1"] {
        signal(sandbox.process(part), Signal::KILL);
    }
    eventually("the agent is gone", || {
        let logs = output(&sandbox, &format!("logs {id}"));
        logs.status.code() == Some(1)
            && numbers(5000).ends_with(&logs.stdout)
            && logs.stdout.len() == 10_000
            && errors(&logs).contains("agent agent-1")
    });
}

/// An agent that was started by hand without a name never comes again.
#[test]
fn outputs_of_a_nameless_agent_go_with_it() {
    let sandbox = Sandbox::serving(1, &[("long", "seq 5000")]);
    let agent = sandbox.start("agent --controller ipc://state/controller.sock");
    eventually("it is there", || sandbox.agents().len() == 2);
    sandbox.ok("drain agent-1");
    assert!(output(&sandbox, "run long").stdout == numbers(5000));
    eventually("they are kept", || names(&sandbox.path("work/.outputs")).len() == 1);
    agent.signal(Signal::TERM);
    assert_eq!(agent.said().code, Some(0));
    assert_eq!(names(&sandbox.path("work/.outputs")), [""; 0]);
}
