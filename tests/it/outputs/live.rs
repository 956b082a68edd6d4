//! Outputs while they are written.

use std::fs;
use std::io::{BufRead, BufReader, Read as _};

use crate::outputs::sandbox::{Program, Sandbox, eventually};
use crate::outputs::{numbers, output};

/// Prints a line, and the next one when it is told to.
const STEPS: &str = "\
echo begun
echo warned >&2
touch $PLACE/begun
while [ ! -e $PLACE/go ]; do sleep 0.02; done
printf ended";

fn lines(child: &mut Program) -> (impl BufRead + use<>, impl BufRead + use<>) {
    (
        BufReader::new(child.stdout.take().expect("it is piped")),
        BufReader::new(child.stderr.take().expect("it is piped")),
    )
}

fn line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).expect("text");
    line
}

#[test]
fn run_shows_what_a_task_prints_while_it_runs() {
    let sandbox = Sandbox::serving(1, &[("steps", STEPS)]);
    let mut run = sandbox.start("run steps");
    let (mut out, mut err) = lines(&mut run);
    assert_eq!(line(&mut out), "begun\n");
    assert_eq!(line(&mut err), "warned\n");
    fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(line(&mut out), "ended");
    assert_eq!(run.wait().unwrap().code(), Some(0));
}

#[test]
fn logs_follow_a_task_from_before_its_start_to_its_end() {
    let sandbox =
        Sandbox::serving(1, &[("steps", STEPS), ("sleeper", "while [ ! -e $PLACE/free ]; do sleep 0.02; done")]);
    sandbox.ok("submit sleeper");
    let id = sandbox.ok("submit steps").line().to_owned();
    let mut logs = sandbox.start(&format!("logs {id} -f"));
    let (mut out, mut err) = lines(&mut logs);
    // A task that waits has no output, and a reader that does not follow is told so at once.
    assert!(output(&sandbox, &format!("logs {id}")).stdout.is_empty());
    fs::write(sandbox.path("free"), "").unwrap();
    assert_eq!((line(&mut out), line(&mut err)), ("begun\n".to_owned(), "warned\n".to_owned()));
    assert_eq!(output(&sandbox, &format!("logs {id}")).stdout, b"begun\n", "as far as it has written");
    fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(line(&mut out), "ended");
    assert_eq!(logs.wait().unwrap().code(), Some(0));
}

/// A report.log appears only when the tool writes it.
#[test]
fn a_report_is_followed_too() {
    let sandbox = Sandbox::new();
    sandbox.tool(
        "reporter",
        "touch $PLACE/begun; while [ ! -e $PLACE/go ]; do sleep 0.02; done; echo one > report.log
while [ ! -e $PLACE/on ]; do sleep 0.02; done; echo two >> report.log",
    );
    sandbox.ok("up 1");
    let id = sandbox.ok("submit reporter").line().to_owned();
    eventually("it runs", || sandbox.path("begun").exists());
    let mut logs = sandbox.start(&format!("logs {id} --report -f"));
    let (mut out, _) = lines(&mut logs);
    fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(line(&mut out), "one\n");
    fs::write(sandbox.path("on"), "").unwrap();
    assert_eq!(line(&mut out), "two\n");
    assert_eq!(logs.wait().unwrap().code(), Some(0));
}

/// Neither the task, nor another client, nor the memory of anything waits for a reader that does not read.
#[test]
fn a_slow_reader_slows_nobody() {
    let sandbox = Sandbox::serving(2, &[("long", "seq 2000000; touch $PLACE/written"), ("plain", "echo x")]);
    let id = sandbox.ok("submit long").line().to_owned();
    let mut logs = sandbox.start(&format!("logs {id} -f --stdout"));
    eventually("the task has written all", || sandbox.path("written").exists());
    assert_eq!(sandbox.ok("run plain").out, "x\n");
    sandbox.ok(&format!("wait {id}"));
    for part in [" controller", "agent --name agent-1", "agent --name agent-2"] {
        let status = fs::read_to_string(format!("/proc/{}/status", sandbox.process(part))).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kib < 60_000, "{part}: {kib} KiB for an output of 15 MB");
    }
    let mut all = Vec::new();
    logs.stdout.take().unwrap().read_to_end(&mut all).unwrap();
    assert!(all == numbers(2_000_000), "{} bytes", all.len());
    assert_eq!(logs.wait().unwrap().code(), Some(0));
}

/// The reader of a reader closes its end: that is no failure.
#[test]
fn a_closed_pipe_ends_a_reader() {
    let sandbox = Sandbox::serving(1, &[("endless", "yes")]);
    let id = sandbox.ok("submit endless").line().to_owned();
    let mut logs = sandbox.start(&format!("logs {id} -f --stdout"));
    let (mut out, _) = lines(&mut logs);
    assert_eq!(line(&mut out), "y\n");
    drop(out);
    assert_eq!(logs.wait().unwrap().code(), Some(0));
    sandbox.ok(&format!("kill {id}"));
}

/// No time is involved: the request is parked for an hour, and only the write ends it.
#[test]
fn a_write_wakes_a_parked_reader() {
    use std::time::Duration;

    use api::wire::client::Selector;
    use api::wire::requests::logs::output as part;
    use base::Stream;
    use llts_client::Client;

    const HOUR: Duration = Duration::from_secs(3600);

    let sandbox = Sandbox::new();
    sandbox.tool("steps", STEPS);
    let up = sandbox.ok("up 1 --output wire").json();
    let id = sandbox.ok("submit steps").line().to_owned();
    let client = Client::connect(up["controller"].as_str().unwrap(), Duration::from_secs(60)).unwrap();
    let ask = |offset| {
        let ask = part(&Selector::task(&id), Stream::Stdout, offset, Some(HOUR));
        client.ask_patiently(&ask, HOUR).unwrap()
    };
    assert_eq!(ask(0).data(), b"begun\n");
    let go = sandbox.path("go");
    let writer = std::thread::spawn(move || {
        // The reader is parked by then, or will find the bytes: it gets them either way.
        std::thread::park_timeout(Duration::from_millis(300));
        fs::write(go, "").unwrap();
    });
    let woken = ask(6);
    assert_eq!((&woken.data()[..], woken.offset()), (&b"ended"[..], 6));
    writer.join().unwrap();
}
