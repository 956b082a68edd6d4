//! Signals as a readable descriptor, so that the single wait of a loop handles them like any other event.
//!
//! A blocked signal stays blocked in started programs, and a tool that never sees SIGTERM cannot end cleanly. So every
//! start of a program goes through [`with_clean_mask`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::libc::{c_int, signalfd_siginfo};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, kill, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

pub use nix::sys::signal::Signal;

/// Signals that request a stop. A closed terminal (SIGHUP) is one of them, because otherwise the child processes would
/// continue without it.
pub const STOP: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// The signal that asks a process of a service to make room for another program.
pub const RETIRE: Signal = Signal::SIGUSR2;

/// [`RETIRE`] in the type that senders use.
pub const SENT_RETIRE: rustix::process::Signal = rustix::process::Signal::USR2;

/// Bytes of a signal read from a signalfd.
const SIGNAL_BYTES: usize = size_of::<signalfd_siginfo>();

/// Maximum signals per read. Signals of one kind are merged, so there are hardly ever more, and usually one read suffices.
const SIGNALS_MAX: usize = 8;

/// Signals that arrived while [`with_clean_mask`] let them through, as one bit each.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// Blocked signals and the descriptor that is readable while one is pending.
#[derive(Debug)]
pub struct Signals {
    fd: SignalFd,
    /// The signals that it has blocked.
    mask: SigSet,
}

impl Signals {
    /// Blocks `signals` in the calling thread. Call it in the main thread before any other is started: threads inherit
    /// the mask, and a signal that one thread does not block is not readable here.
    ///
    /// SIGINT and SIGHUP stay ignored if they are ignored at the start, as with `nohup` and background jobs of scripts.
    ///
    /// # Errors
    /// The error of the system.
    pub fn install(signals: &[Signal]) -> io::Result<Self> {
        let mut mask = SigSet::empty();
        for signal in signals {
            if listen(*signal)? {
                mask.add(*signal);
            }
        }
        mask.thread_block()?;
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { fd, mask })
    }

    /// Does work during which a signal ends the process, as if nothing were installed. A pending signal does so at
    /// once. Call it in the thread that installed them.
    ///
    /// # Errors
    /// The error of the system.
    pub fn let_end<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        let mut restore = RestoreActions { mask: self.mask, actions: Vec::new() };
        for signal in self.mask.iter() {
            #[expect(unsafe_code, reason = "the default action runs no code of this process")]
            let old = unsafe { sigaction(signal, &default) }?;
            restore.actions.push((signal, old));
        }
        self.mask.thread_unblock()?;
        Ok(work())
    }

    /// The signals since the last call, without waiting. Several of one kind may be merged.
    pub fn read(&mut self) -> Vec<Signal> {
        let mut signals = Vec::new();
        let mut buffer = [0; SIGNALS_MAX * SIGNAL_BYTES];
        loop {
            let length = match rustix::io::read(&self.fd, &mut buffer) {
                Ok(length) => length,
                Err(Errno::INTR) => continue,
                Err(_) => return signals,
            };
            for signal in buffer[..length].chunks_exact(SIGNAL_BYTES) {
                // The signal number comes first.
                let number = signal.first_chunk().map(|number| c_int::from_ne_bytes(*number));
                signals.extend(number.and_then(|number| Signal::try_from(number).ok()));
            }
            if length < buffer.len() {
                return signals;
            }
        }
    }

    /// Waits for a signal, for at most this long. Returns whether one has arrived.
    pub fn wait(&mut self, at_most: Timespec) -> bool {
        // An interruption counts as the end of the wait.
        let _ = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&at_most));
        !self.read().is_empty()
    }

    /// Waits until a signal has arrived or the other descriptor is readable. Returns whether a signal has arrived.
    pub fn wait_unless(&mut self, other: BorrowedFd<'_>) -> bool {
        let mut polled = [self.fd.as_fd(), other].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // After an interruption, the caller waits again.
        let _ = poll(&mut polled, None);
        !polled[0].revents().is_empty() && !self.read().is_empty()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs `start`, which starts a program, with no signal blocked in this thread, so that the program has none blocked
/// either. Signals that arrive meanwhile are sent again afterwards and reach [`Signals`].
pub fn with_clean_mask<T>(start: impl FnOnce() -> T) -> T {
    let _restore = Restore(SigSet::empty().thread_swap_mask(SigmaskHow::SIG_SETMASK).ok());
    start()
}

/// Restores the mask, even if the start panics.
struct Restore(Option<SigSet>);

impl Drop for Restore {
    fn drop(&mut self) {
        let Some(mask) = self.0 else { return };
        // This cannot fail, because the mask came from the kernel.
        let _ = mask.thread_set_mask();
        let missed = MISSED.swap(0, Ordering::SeqCst);
        for signal in Signal::iterator().filter(|signal| missed & bit(*signal as c_int) != 0) {
            let _ = kill(Pid::this(), signal);
        }
    }
}

/// Blocks the signals again and restores their actions, even if the work panics.
struct RestoreActions {
    mask: SigSet,
    actions: Vec<(Signal, SigAction)>,
}

impl Drop for RestoreActions {
    fn drop(&mut self) {
        // Neither can fail, because mask and actions came from the kernel. The mask comes first, so that no signal
        // reaches the handler, which would swallow it.
        let _ = self.mask.thread_block();
        for (signal, action) in &self.actions {
            #[expect(unsafe_code, reason = "restores what was there")]
            let _ = unsafe { sigaction(*signal, action) };
        }
    }
}

/// Replaces the default action, which would end the process while [`with_clean_mask`] lets a signal through. Returns
/// `false` if the signal must stay ignored.
fn listen(signal: Signal) -> io::Result<bool> {
    let action = SigAction::new(SigHandler::Handler(note), SaFlags::SA_RESTART, SigSet::empty());
    #[expect(unsafe_code, reason = "a handler that only sets a bit of an atomic is safe at any moment")]
    let old = unsafe { sigaction(signal, &action) }?;
    let may_be_ignored = matches!(signal, Signal::SIGINT | Signal::SIGHUP);
    if !(may_be_ignored && matches!(old.handler(), SigHandler::SigIgn)) {
        return Ok(true);
    }
    #[expect(unsafe_code, reason = "restores what was there")]
    unsafe { sigaction(signal, &old) }?;
    Ok(false)
}

extern "C" fn note(signal: c_int) {
    MISSED.fetch_or(bit(signal), Ordering::SeqCst);
}

fn bit(signal: c_int) -> u64 {
    u32::try_from(signal).ok().and_then(|signal| 1_u64.checked_shl(signal)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
