//! `llts run --tty`, a command on a terminal of its own, shown on that of the caller; and `llts top`.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use nix::pty::{Winsize, openpty};
use proc::clock;
use rustix::termios::{LocalModes, tcsetwinsize};
use testkit::PATIENCE;

use crate::cli::sandbox::{Program, Sandbox, Start as _};

/// A terminal with a command of llts on it.
struct Console {
    outer: File,
    /// Of the terminal before the command began.
    before: LocalModes,
    child: Program,
    said: Receiver<Vec<u8>>,
    text: String,
    /// What a terminal shows of it.
    screen: vt100::Parser,
}

fn modes(terminal: impl AsFd) -> LocalModes {
    rustix::termios::tcgetattr(terminal).unwrap().local_modes
}

impl Console {
    fn new(sandbox: &Sandbox, words: &[&str]) -> Self {
        Self::of(sandbox, &[&["run", "--tty"], words].concat())
    }

    fn of(sandbox: &Sandbox, words: &[&str]) -> Self {
        let size = Winsize { ws_row: 33, ws_col: 111, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None).unwrap();
        let inner = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let mut command: Command = sandbox.program("/usr/bin/setsid");
        command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_llts")]).args(words).env("TERM", "vt100");
        command.stdin(inner(&pair.slave)).stdout(inner(&pair.slave)).stderr(inner(&pair.slave));
        let before = modes(&pair.master);
        let child = command.start();
        drop(command);
        drop(pair.slave);
        let outer = File::from(pair.master);
        let (sender, said) = channel();
        let mut reader = outer.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        let screen = vt100::Parser::new(33, 111, 0);
        Self { outer, before, child, said, text: String::new(), screen }
    }

    /// Waits until the command has printed this after the last such text.
    #[track_caller]
    fn hears(&mut self, expected: &str) {
        let until = clock::now().mono + PATIENCE;
        loop {
            if let Some(at) = self.text.find(expected) {
                self.text.drain(..at + expected.len());
                return;
            }
            let left = until.since(clock::now().mono);
            match self.said.recv_timeout(left) {
                Ok(bytes) => self.text += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("{expected:?} is missing: {:?}", self.text),
            }
        }
    }

    fn types(&mut self, text: &str) {
        self.outer.write_all(text.as_bytes()).unwrap();
    }

    fn code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

#[test]
fn ctrl_c_and_the_size_go_to_the_command_and_it_has_a_terminal() {
    let sandbox = Sandbox::up(1);
    let script = "trap 'echo interrupted' INT; trap 'echo quit' QUIT; echo to the terminal > /dev/tty; \
                  echo $TERM; stty size; while read -p 'line? ' line; do echo got $line; done; \
                  until [ \"$(stty size)\" = '44 99' ]; do sleep 0.05; done; echo resized; exit 7";
    let mut console = Console::new(&sandbox, &["--", "bash", "-c", script]);
    console.hears("to the terminal");
    console.hears("vt100");
    console.hears("33 111");
    // The shell runs a trap while it reads; between two commands, it may read first.
    console.hears("line? ");
    console.types("\u{3}");
    console.hears("interrupted");
    console.types("\u{1c}");
    console.hears("quit");
    console.types("word\n");
    console.hears("got word");
    console.types("\u{4}");
    let size = rustix::termios::Winsize { ws_row: 44, ws_col: 99, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&console.outer, size).unwrap();
    console.hears("resized");
    assert_eq!(console.code(), Some(7));
}

#[test]
fn an_interactive_shell_has_job_control_and_is_ended_from_elsewhere() {
    let sandbox = Sandbox::up(1);
    let mut console = Console::new(&sandbox, &["--env", "PS1=ready ", "--", "bash", "--norc", "-i"]);
    console.hears("ready ");
    console.types("sh -c 'echo st''arted; exec sleep 1000'\n");
    console.hears("started");
    console.types("\u{1a}");
    console.hears("Stopped");
    console.types("jobs; echo $((40 + 2))\n");
    console.hears("42");
    let running = || sandbox.ok("list --status RUNNING --output wire").json()["tasks"][0]["__TASK_ID__"].clone();
    let id = crate::cli::sandbox::found("it runs", || running().as_str().map(str::to_owned));
    sandbox.ok(&format!("kill {id}"));
    assert_eq!(console.code(), Some(137));
    sandbox.ends_clean();
}

/// The command is hung up, as when a window is closed.
#[test]
fn a_lost_client_hangs_the_command_up() {
    let sandbox = Sandbox::up(1);
    let mut console =
        Console::new(&sandbox, &["--sh", "trap 'echo hup > hung; exit 5' HUP; echo here; while :; do read x; done"]);
    console.hears("here");
    console.child.signal(rustix::process::Signal::KILL);
    crate::cli::sandbox::eventually("it is told", || sandbox.path("hung").exists());
}

#[test]
fn a_standard_input_that_is_no_terminal_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.llts("run --tty -- true").failed(2, "--tty needs a terminal");
}

/// Waits until the screen of `llts top` shows this.
#[track_caller]
#[test]
fn all_failed_tasks_are_changed_after_a_question_or_by_a_script() {
    let sandbox = Sandbox::new();
    sandbox.ok("up 1");
    for _ in 0..2 {
        sandbox.llts("run -- false");
    }
    for (verb, question) in
        [("retry", "Really run all 2 failed tasks again?"), ("forget", "Really forget all 2 failed tasks?")]
    {
        let mut console = Console::of(&sandbox, &[verb, "--failed"]);
        console.hears(question);
        console.outer.write_all(b"n\r").unwrap();
        console.hears("nothing was done");
    }
    assert_eq!(sandbox.ok("forget --failed").line(), "forgot 2 tasks");
}

#[test]
fn a_list_is_watched_until_ctrl_c() {
    let sandbox = Sandbox::new();
    sandbox.ok("up 1");
    let mut console = Console::of(&sandbox, &["list", "--watch"]);
    shows(&mut console, "no task matches");
    sandbox.ok("run -- true");
    shows(&mut console, "1 task: 1 ok");
    assert!(!console.screen.screen().contents().contains("no task matches"), "it is drawn over");
    console.types("\u{3}");
    assert_eq!(console.code(), Some(0));
    sandbox.llts("list --watch").failed(2, "`llts events`");
}

fn shows(console: &mut Console, expected: &str) {
    let until = clock::now().mono + PATIENCE;
    while !console.screen.screen().contents().contains(expected) {
        match console.said.recv_timeout(until.since(clock::now().mono)) {
            Ok(bytes) => console.screen.process(&bytes),
            Err(_) => panic!("{expected:?} is missing:\n{}", console.screen.screen().contents()),
        }
    }
}

/// Waits until the program has left the alternate screen.
#[track_caller]
fn leaves(console: &mut Console) {
    let until = clock::now().mono + PATIENCE;
    while console.screen.screen().alternate_screen() {
        let bytes =
            console.said.recv_timeout(until.since(clock::now().mono)).expect("it leaves the terminal as it was");
        console.screen.process(&bytes);
    }
    assert!(!console.screen.screen().hide_cursor(), "the cursor is back");
}

#[test]
fn a_failure_is_found_on_the_screen_and_retried() {
    let sandbox = Sandbox::up(1);
    let script = "test -e there || { echo no such film >&2; exit 3; }";
    sandbox
        .llts(&["run", "--cwd", sandbox.root().to_str().unwrap(), "--", "sh", "-c", script])
        .failed(3, "no such film");
    let mut console = Console::of(&sandbox, &["top"]);
    shows(&mut console, "no such film");
    sandbox.write("there", "");
    console.types("2/state=failed\r");
    shows(&mut console, "1 task by submitted");
    console.types("r");
    shows(&mut console, "retry task");
    console.types("y");
    shows(&mut console, "nothing matches the filter");
    console.types("\u{1b}");
    shows(&mut console, "  ok  ");
    console.types("q");
    leaves(&mut console);
    assert_eq!(console.code(), Some(0));
}

#[test]
fn the_screen_outlives_a_controller_and_leaves_the_terminal_as_it_was() {
    let sandbox = Sandbox::up(1);
    sandbox.ok("submit -- sleep 1000");
    let mut console = Console::of(&sandbox, &["top"]);
    shows(&mut console, "sleep 1000");
    assert!(!modes(&console.outer).contains(console.before), "keys come one by one");
    crate::cli::sandbox::kill(sandbox.process("controller"));
    // An incident of the next controller, which finds the task with its agent.
    shows(&mut console, "the one before was not stopped");
    shows(&mut console, "sleep 1000");
    let process = sandbox.process("top");
    crate::cli::sandbox::signal(process, rustix::process::Signal::TERM);
    leaves(&mut console);
    // The modes come after the last bytes.
    assert_eq!(console.child.wait().unwrap().code(), Some(0));
    assert_eq!(modes(&console.outer), console.before);
}
