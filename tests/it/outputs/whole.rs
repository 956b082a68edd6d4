//! Every byte of every output, from `run` and from `logs`.

use crate::outputs::sandbox::{Sandbox, Start as _};
use crate::outputs::{errors, finished, numbers, output};

/// Outputs that are longer than the end that comes with the result, that are no text, and that end without a newline.
#[test]
fn every_byte_comes_through() {
    let sandbox = Sandbox::new();
    sandbox.tool("long", "seq 5000; seq 3000 >&2; seq 4000 > report.log");
    sandbox.tool("odd", "printf 'a\\377\\376b'; printf '\\360\\237\\230' >&2");
    sandbox.tool("unended", "printf 'no newline'");
    sandbox.ok("up 2");
    let run = output(&sandbox, "run long");
    assert_eq!(run.status.code(), Some(0));
    assert!(run.stdout == numbers(5000), "{} bytes", run.stdout.len());
    let report = [b"llts: report.log:\n".to_vec(), numbers(4000)].concat();
    assert_eq!(run.stderr.len(), report.len() + numbers(3000).len());
    assert!(run.stderr == [numbers(3000), report].concat(), "{}", errors(&run));
    let id = sandbox.ok("list --output wire").json()["tasks"][0]["__TASK_ID__"].as_str().unwrap().to_owned();
    let logs = output(&sandbox, &format!("logs {id}"));
    assert!((logs.status.code(), &logs.stdout, &logs.stderr) == (Some(0), &numbers(5000), &numbers(3000)));
    let report = output(&sandbox, &format!("logs {id} --report"));
    assert!((&report.stdout, &report.stderr[..]) == (&numbers(4000), b""));
    let odd = output(&sandbox, "run odd");
    assert_eq!((&odd.stdout[..], &odd.stderr[..]), (&b"a\xff\xfeb"[..], &b"\xf0\x9f\x98"[..]));
    let odd = output(&sandbox, "logs last --stderr");
    assert_eq!((&odd.stdout[..], &odd.stderr[..]), (&b"\xf0\x9f\x98"[..], &b""[..]));
    assert_eq!(output(&sandbox, "run unended").stdout, b"no newline");
}

#[test]
fn the_result_has_the_true_lengths() {
    let sandbox = Sandbox::new();
    sandbox.tool("long", "seq 5000; printf x >&2; seq 4000 > report.log");
    let task = sandbox.ok("run long --output wire").json();
    let bytes = ["__STDOUT_BYTES__", "__STDERR_BYTES__", "__REPORT_BYTES__"].map(|name| task[name].as_u64());
    assert_eq!(bytes, [Some(23_893), Some(1), Some(18_893)]);
}

#[test]
fn some_lines_of_some_tasks() {
    let sandbox = Sandbox::serving(2, &[("long", "seq $PARAM_n; printf 'end of %s' $PARAM_n")]);
    let ids = ["30000", "3"].map(|n| finished(&sandbox, &format!("long n={n}")));
    let tail = output(&sandbox, &format!("logs {} {} --tail 3", ids[0], ids[1]));
    assert_eq!(String::from_utf8(tail.stdout).unwrap(), "29999\n30000\nend of 300002\n3\nend of 3");
    let tail = output(&sandbox, &format!("logs {} --tail 20000", ids[0]));
    let [all, end] = [numbers(30_000), numbers(10_001)].map(|bytes| bytes.len());
    assert!(tail.stdout == [&numbers(30_000)[end..all], b"end of 30000"].concat(), "{}", tail.stdout.len());
    assert!(output(&sandbox, &format!("logs {} --tail 9", ids[1])).stdout == b"1\n2\n3\nend of 3");
    let tagged = output(&sandbox, &format!("logs {} --tag", ids[1]));
    let expected: String = ["1", "2", "3", "end of 3"].iter().map(|line| format!("{}\t{line}\n", ids[1])).collect();
    assert_eq!(String::from_utf8(tagged.stdout).unwrap(), expected);
}

/// The output of each round is its own. Of a round that another one follows the result keeps less, and the agent all.
#[test]
fn every_round_has_its_outputs() {
    let sandbox = Sandbox::serving(1, &[("twice", "echo round $__ROUND__; seq 1000; exit $((1 - __ROUND__))")]);
    let id = finished(&sandbox, "twice --max-fails 1 --retry-delay 0");
    let of = |round: u32| [format!("round {round}\n").into_bytes(), numbers(1000)].concat();
    for round in [0, 1] {
        let logs = output(&sandbox, &format!("logs {id} --round {round}"));
        assert!((logs.status.code(), &logs.stdout) == (Some(0), &of(round)), "{round}: {}", errors(&logs));
    }
    assert!(output(&sandbox, &format!("logs {id}")).stdout == of(1), "the newest");
    let run = output(&sandbox, "run twice --max-fails 1 --retry-delay 0");
    assert!(run.stdout == [of(0), of(1)].concat(), "{}", String::from_utf8_lossy(&run.stdout));
}

#[test]
fn bad_requests_are_answered_with_a_sentence() {
    let sandbox = Sandbox::serving(1, &[("plain", "echo x")]);
    let id = finished(&sandbox, "plain");
    for (line, code, says) in [
        ("logs TASK_1480000000.120000_AZazA".to_owned(), 5, "it was never submitted here"),
        (format!("logs {id} --round 7"), 4, "has no round 7"),
        (format!("logs {id} --stdout --stderr"), 2, "cannot be used with"),
        (format!("logs {id} --tail 0"), 2, "--tail"),
        ("logs".to_owned(), 2, "logs which tasks?"),
    ] {
        let said = sandbox.llts(&line);
        assert!(said.code == Some(code) && said.err.contains(says), "{line}: {said:?}");
    }
    let said = sandbox.llts(&format!("logs TASK_1480000000.120000_AZazA {id}"));
    assert_eq!((said.code, said.out.as_str()), (Some(5), "x\n"), "the known one is printed");
}

/// The agent and the reader are in folders of their own, and know the controller by its address only.
#[test]
fn outputs_come_from_an_agent_elsewhere_to_a_reader_elsewhere() {
    let [here, there] = [Sandbox::new(), Sandbox::new()];
    there.tool("long", "seq 5000");
    there.ok("tool pack tools/long");
    let up = here.ok("up 1 --output wire").json();
    let controller = up["controller"].as_str().unwrap().to_owned();
    here.ok("drain agent-1");
    let publisher = up["publisher"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let mut command = there.command(&format!("agent --name far --controller {controller}"));
    let agent = command.env("LLTS_CONTROLLER_PUB_PORT", publisher).start();
    crate::outputs::sandbox::eventually("the agent is here", || here.agents().len() == 2);
    assert!(output(&here, "run long").stdout == numbers(5000));
    let logs = output(&there, &format!("logs last --controller {controller}"));
    assert!(logs.status.success() && logs.stdout == numbers(5000), "{}", errors(&logs));
    agent.signal(rustix::process::Signal::TERM);
    agent.said();
}

#[test]
fn the_outputs_of_a_job_come_in_the_order_of_its_submits() {
    let sandbox = Sandbox::up(1);
    for number in 1..=3 {
        sandbox.ok(&format!("submit --job numbers -- echo {number}"));
    }
    sandbox.ok("wait --job numbers");
    assert_eq!(output(&sandbox, "logs --job numbers --keep-order").stdout, b"1\n2\n3\n");
}
