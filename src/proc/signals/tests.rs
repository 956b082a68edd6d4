//! Tests of signals. Each runs in a process of its own whose other threads block everything: handlers and pending signals
//! belong to the process, and threads of other tests would take them.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::raise;

use super::*;
use crate::readable;

/// Set in the process of a test.
const ALONE: &str = "SIGNAL_TEST_ALONE";

/// Runs `test` in a copy of this program, in the only thread there that blocks nothing.
fn alone(test: impl FnOnce()) {
    alone_through("exec \"$@\"", test);
}

/// The same, started by a shell script that has the command as its arguments.
fn alone_through(script: &str, test: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        SigSet::all().thread_unblock().expect("a mask");
        return test();
    }
    // The copy inherits this mask.
    SigSet::all().thread_block().expect("a mask");
    let name = std::thread::current().name().expect("the test's name").to_owned();
    let program = std::env::current_exe().expect("this program");
    let result = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(program)
        .args(["--exact", &name])
        .env(ALONE, "1")
        .output()
        .expect("started");
    let text = [&result.stdout[..], &result.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(result.status.success() && text.contains("1 passed"), "{}: {text}", result.status);
}

fn is_readable(signals: &Signals) -> bool {
    readable::is_readable(signals.as_fd(), Some(Duration::ZERO))
}

#[test]
fn a_signal_makes_the_descriptor_readable_and_is_read_once() {
    alone(|| {
        let mut signals = Signals::install(&[Signal::SIGTERM, Signal::SIGCHLD]).expect("installed");
        assert!(!is_readable(&signals));
        assert_eq!(signals.read(), []);
        kill(Pid::this(), Signal::SIGTERM).expect("sent");
        kill(Pid::this(), Signal::SIGTERM).expect("sent");
        assert!(is_readable(&signals));
        assert_eq!(signals.read(), [Signal::SIGTERM]);
        assert!(!is_readable(&signals));
        Command::new("true").status().expect("a child ended");
        assert_eq!(signals.read(), [Signal::SIGCHLD]);
    });
}

#[test]
fn a_started_program_has_no_signal_blocked_or_handled() {
    alone(|| {
        let _signals = Signals::install(&STOP).expect("installed");
        let blocked = |command: &mut Command| {
            let status = String::from_utf8(command.output().expect("started").stdout).expect("text");
            let hex = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a mask").trim().to_owned();
            u64::from_str_radix(&hex, 16).expect("hex")
        };
        let mut show = Command::new("cat");
        show.arg("/proc/self/status").process_group(0);
        assert_ne!(blocked(&mut show), 0, "std clears the mask itself: with_clean_mask may go");
        assert_eq!(with_clean_mask(|| blocked(&mut show)), 0);
        // A program that does not handle the signal is ended by the default action.
        let mut child = with_clean_mask(|| Command::new("sh").args(["-c", "kill -TERM $$; echo still here"]).spawn());
        let status = child.as_mut().expect("started").wait().expect("ended");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::SIGTERM as i32));
    });
}

#[test]
fn a_signal_during_a_start_is_neither_fatal_nor_lost() {
    alone(|| {
        let mut signals = Signals::install(&[Signal::SIGTERM, Signal::SIGCHLD]).expect("installed");
        with_clean_mask(|| raise(Signal::SIGTERM).expect("sent"));
        assert_eq!(signals.read(), [Signal::SIGTERM]);
        with_clean_mask(|| Command::new("true").status().expect("a child ended"));
        assert_eq!(signals.read(), [Signal::SIGCHLD]);
        let panicked = std::panic::catch_unwind(|| with_clean_mask(|| panic!("a start that panics")));
        assert!(panicked.is_err());
        raise(Signal::SIGTERM).expect("sent");
        assert_eq!(signals.read(), [Signal::SIGTERM], "blocked again");
    });
}

#[test]
fn what_is_ignored_at_the_start_stays_ignored_but_not_sigterm() {
    alone_through("trap '' HUP INT TERM; exec \"$@\"", || {
        let mut signals = Signals::install(&STOP).expect("installed");
        for signal in STOP {
            kill(Pid::this(), signal).expect("sent");
        }
        assert_eq!(signals.read(), [Signal::SIGTERM]);
    });
}
