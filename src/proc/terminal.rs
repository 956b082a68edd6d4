//! A separate terminal for the command of `llts run --tty`, relayed to the caller's terminal.
//!
//! The command gets the inner end of a pseudo terminal, as with `ssh -t`: its own session and controlling terminal.
//! From the moment when its agent takes that end, the caller's terminal is raw, so that Ctrl-C, Ctrl-\ and Ctrl-Z are
//! characters which the inner end turns into signals. If this process ends, the inner end is hung up.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use nix::fcntl::{OFlag, open};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr, tcsetwinsize};

use super::background::Bell;
use super::signals::Signals;
use super::stdio::{self, Offer};

/// How long to wait for output that a command has written before its end.
const LAST: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Bytes of output read at a time.
const BYTES_MAX: usize = 16 << 10;

/// The character that Ctrl-C types.
const INTERRUPT: u8 = 3;

/// A terminal for a command, and the thread that relays it.
#[derive(Debug)]
pub struct Terminal {
    offer: Offer,
    end: Arc<Bell>,
    relay: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Makes a terminal like the one on standard input and offers it to these users. Call it before starting any thread
    /// that does not block SIGWINCH.
    ///
    /// # Errors
    /// When standard input is no terminal, or the system has no more of them.
    pub fn open(users: Vec<u32>) -> io::Result<Self> {
        let settings = tcgetattr(io::stdin())?;
        let outer = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        grantpt(&outer)?;
        unlockpt(&outer)?;
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let inner = open(ptsname_r(&outer)?.as_str(), flags, Mode::empty())?;
        tcsetattr(&inner, OptionalActions::Now, &settings)?;
        let outer = OwnedFd::from(outer);
        resize(&outer);
        let (taken, end) = (Arc::new(Bell::new()?), Arc::new(Bell::new()?));
        let resized = Signals::install(&[Signal::SIGWINCH])?;
        let streams = [inner.try_clone()?, inner.try_clone()?, inner];
        let ring = Arc::clone(&taken);
        let offer = stdio::offer(streams.into(), users, move || ring.ring())?;
        let mut relay = Relay { outer, settings, resized, end: Arc::clone(&end), is_ending: false, typed: Vec::new() };
        let run = move || {
            if wait_for(&[&taken, &relay.end]) == Some(0) {
                relay.run();
            }
        };
        let relay = std::thread::Builder::new().name("terminal".to_owned()).spawn(run)?;
        Ok(Self { offer, end, relay: Some(relay) })
    }

    /// The name under which it is offered.
    #[must_use]
    pub fn name(&self) -> &str {
        self.offer.name()
    }
}

impl Drop for Terminal {
    /// Relays the remaining output of the command and restores the caller's terminal.
    fn drop(&mut self) {
        // This closes our last copy of the inner end, so the relay can read to the end.
        self.offer.withdraw();
        self.end.ring();
        if let Some(relay) = self.relay.take() {
            // A panic of the thread was already printed.
            let _ = relay.join();
        }
    }
}

/// The index of the first bell that rings; `None` if waiting fails.
fn wait_for(bells: &[&Bell]) -> Option<usize> {
    loop {
        let mut polled: Vec<PollFd<'_>> = bells.iter().map(|bell| PollFd::new(*bell, PollFlags::IN)).collect();
        match poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            Err(_) => return None,
            Ok(_) => return polled.iter().position(|polled| !polled.revents().is_empty()),
        }
    }
}

/// Gives a pseudo terminal the size of the caller's terminal.
fn resize(outer: &OwnedFd) {
    // If the caller's terminal has no size, the other one gets none either.
    if let Ok(size) = tcgetwinsize(io::stdin()) {
        let _ = tcsetwinsize(outer, size);
    }
}

/// Keeps the caller's terminal raw as long as this value lives.
struct Raw<'a>(&'a Termios);

impl<'a> Raw<'a> {
    fn new(settings: &'a Termios) -> Self {
        let mut raw = settings.clone();
        raw.make_raw();
        set(&raw);
        Self(settings)
    }
}

impl Drop for Raw<'_> {
    fn drop(&mut self) {
        set(self.0);
    }
}

fn set(settings: &Termios) {
    if let Err(error) = tcsetattr(io::stdin(), OptionalActions::Drain, settings) {
        log::debug!("the terminal keeps its settings: {error}");
    }
}

struct Relay {
    outer: OwnedFd,
    /// The settings of the caller's terminal.
    settings: Termios,
    resized: Signals,
    end: Arc<Bell>,
    is_ending: bool,
    /// Input for the command that its terminal has no room for yet.
    typed: Vec<u8>,
}

impl Relay {
    /// Copies both ways until the command has ended and all of its output is copied.
    fn run(&mut self) {
        let settings = self.settings.clone();
        let _raw = Raw::new(&settings);
        resize(&self.outer);
        let stdin = io::stdin();
        let mut is_typing = true;
        loop {
            let write = if self.typed.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            let is_listening = is_typing && self.typed.is_empty() && !self.is_ending;
            let mut polled = vec![
                PollFd::new(&self.outer, PollFlags::IN | write),
                PollFd::new(&self.resized, PollFlags::IN),
                PollFd::new(&*self.end, PollFlags::IN),
            ];
            polled.extend(is_listening.then(|| PollFd::new(&stdin, PollFlags::IN)));
            let ready = match poll(&mut polled, self.is_ending.then_some(&LAST)) {
                Err(Errno::INTR) => continue,
                Err(_) | Ok(0) => return,
                Ok(_) => polled.iter().map(|polled| !polled.revents().is_empty()).collect::<Vec<_>>(),
            };
            if ready.get(1) == Some(&true) {
                self.resized.read();
                resize(&self.outer);
            }
            if ready.get(2) == Some(&true) {
                self.is_ending |= self.end.take();
            }
            if ready.get(3) == Some(&true) {
                is_typing = self.listen();
            }
            self.type_on();
            if ready.first() == Some(&true) && !self.print() {
                return;
            }
        }
    }

    /// Reads what the caller has typed. Returns `false` at the end of the input.
    fn listen(&mut self) -> bool {
        let mut bytes = [0; 1024];
        let length = match rustix::io::read(io::stdin(), &mut bytes) {
            Ok(0) => return false,
            Ok(length) => length,
            Err(Errno::INTR | Errno::AGAIN) => return true,
            Err(_) => return false,
        };
        let typed = bytes.get(..length).unwrap_or_default();
        // Between two rounds of a task, the inner end has no process to signal.
        if typed.contains(&INTERRUPT) && tcgetpgrp(&self.outer).is_err() {
            let _ = kill(Pid::this(), Signal::SIGINT);
        }
        self.typed.extend_from_slice(typed);
        true
    }

    fn type_on(&mut self) {
        match rustix::io::write(&self.outer, &self.typed) {
            Ok(length) => drop(self.typed.drain(..length)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.typed.clear(),
        }
    }

    /// Prints what the command has written. Returns `false` at the end, when no inner end is left.
    fn print(&self) -> bool {
        let mut bytes = [0; BYTES_MAX];
        let length = match rustix::io::read(&self.outer, &mut bytes) {
            Ok(0) => return false,
            Ok(length) => length,
            Err(Errno::INTR | Errno::AGAIN) => return true,
            Err(_) => return false,
        };
        let mut rest = bytes.get(..length).unwrap_or_default();
        while !rest.is_empty() {
            match rustix::io::write(io::stdout(), rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let _ = poll(&mut [PollFd::new(&io::stdout(), PollFlags::OUT)], None);
                }
                Err(_) => return false,
            }
        }
        true
    }
}
