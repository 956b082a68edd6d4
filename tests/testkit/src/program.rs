//! Processes that a test starts.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::place::{last_lines, signal};
use crate::said::Said;
use crate::waiting::PATIENCE;

/// How long the output of a process is waited for that has ended while its test fails: another process may hold the pipe.
const GRACE: Duration = Duration::from_secs(1);

/// What every command can do.
pub trait Start {
    /// Starts it.
    fn start(&mut self) -> Program;

    /// Runs it to its end.
    fn said(&mut self) -> Said;

    /// The same command, run by another program: its words come behind those.
    fn under(&self, words: &[&str]) -> Command;
}

impl Start for Command {
    #[track_caller]
    fn start(&mut self) -> Program {
        let spawned = self.spawn();
        let child =
            spawned.unwrap_or_else(|error| panic!("{self:?}: {error}; scripts/test.sh installs what is needed"));
        Program { child, line: String::new(), lines: None, out: None, err: None }
    }

    #[track_caller]
    fn said(&mut self) -> Said {
        self.stdout(Stdio::piped()).stderr(Stdio::piped()).start().said()
    }

    fn under(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(self.get_program()).args(self.get_args());
        if let Some(folder) = self.get_current_dir() {
            command.current_dir(folder);
        }
        for (name, value) in self.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// A process that runs. Dropping it ends it.
pub struct Program {
    child: Child,
    /// The line that it was ready with, once that was waited for.
    pub line: String,
    /// Where lines are read from: its stdout or, if that is no pipe, its stderr; and whether it is the latter.
    lines: Option<(BufReader<Box<dyn Read + Send>>, bool)>,
    out: Option<Heard>,
    err: Option<Heard>,
}

/// All bytes of a pipe, once they are there.
type Heard = Receiver<Vec<u8>>;

impl Program {
    /// Waits for a line with this text, on stdout or, if that is no pipe, on stderr.
    #[track_caller]
    pub fn ready(mut self, mark: &str) -> Self {
        while !self.line.contains(mark) {
            self.line = self.next_line();
            // Dropping it shows how it has ended, and what it has said.
            assert!(!self.line.is_empty(), "never: a line with {mark:?}");
        }
        self.line.truncate(self.line.trim_end().len());
        self.hear();
        self
    }

    /// The next line that it prints, on stdout or, if that is no pipe, on stderr; empty when there is none.
    #[track_caller]
    pub fn next_line(&mut self) -> String {
        let (lines, _) = self.lines.get_or_insert_with(|| match self.child.stdout.take() {
            Some(pipe) => (BufReader::new(Box::new(pipe)), false),
            None => (BufReader::new(Box::new(self.child.stderr.take().expect("a pipe"))), true),
        });
        let mut line = String::new();
        lines.read_line(&mut line).expect("text");
        line
    }

    /// A word of the ready line.
    #[track_caller]
    pub fn word(&self, number: usize) -> &str {
        self.line.split(' ').nth(number).unwrap_or_else(|| panic!("{:?}", self.line))
    }

    /// Its id, as a signed number.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Sends it a signal.
    #[track_caller]
    pub fn signal(&self, with: Signal) {
        signal(self.pid(), with);
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// As `kill -9`; returns when it is gone.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("its end");
    }

    /// Waits for its end.
    #[track_caller]
    pub fn said(mut self) -> Said {
        drop(self.child.stdin.take());
        self.hear();
        assert!(self.ends(), "never: the end of process {}", self.pid());
        let text = |heard: Option<Heard>| match heard {
            Some(heard) => heard.recv_timeout(PATIENCE).expect("the end of its output"),
            None => Vec::new(),
        };
        let (stdout, stderr) = (text(self.out.take()), text(self.err.take()));
        Output { status: self.child.wait().expect("its end"), stdout, stderr }.into()
    }

    /// Asks it to stop, and waits for its end.
    #[track_caller]
    pub fn stop(self) -> Said {
        self.signal(Signal::TERM);
        self.said()
    }

    /// Reads all of its output, so that no pipe is ever full.
    fn hear(&mut self) {
        if let Some((lines, is_err)) = self.lines.take() {
            *if is_err { &mut self.err } else { &mut self.out } = Some(hear(lines));
        }
        self.out = self.out.take().or_else(|| self.child.stdout.take().map(hear));
        self.err = self.err.take().or_else(|| self.child.stderr.take().map(hear));
    }

    /// Whether its end comes.
    fn ends(&mut self) -> bool {
        if !self.is_running() {
            return true;
        }
        // It is not reaped before, so that the id is its own.
        ends(&pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()).expect("a child"))
    }
}

/// Whether the end of a process comes, of which this is the pidfd.
pub(crate) fn ends(process: &OwnedFd) -> bool {
    let patience = PATIENCE.try_into().expect("a time");
    let mut events = [PollFd::new(process, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut events, Some(&patience))).expect("events") > 0
}

impl Deref for Program {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Program {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.is_running() {
            self.hear();
            // It ends what it has started. A test may have failed while it was stopped.
            for with in [Signal::TERM, Signal::CONT] {
                let _ = kill_process(Pid::from_child(&self.child), with);
            }
            if !self.ends() {
                let _ = self.child.kill();
            }
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            self.hear();
            let text = |heard: &Option<Heard>| {
                let heard = heard.as_ref().and_then(|heard| heard.recv_timeout(GRACE).ok());
                last_lines(&heard.unwrap_or_default())
            };
            let (line, out, err) = (&self.line, text(&self.out), text(&self.err));
            let status = self.child.try_wait();
            let _ = writeln!(std::io::stderr(), "process {}: {status:?}\n{line}\n{out}\n{err}", self.pid());
        }
    }
}

/// Reads a pipe to its end.
fn hear(mut pipe: impl Read + Send + 'static) -> Heard {
    let (sender, heard) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    heard
}
