//! Screens that are drawn again each second until their reader has seen enough.

use std::io;

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use proc::signals::Signals;
use proc::terminal::Keys;
use term::exit::Failure;
use term::session::Session;
use term::style::Screen;

/// The time between two drawings.
const PAUSE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Draws a screen each second. q and Ctrl-C leave.
pub(super) fn redraw(
    session: &mut Session,
    mut draw: impl FnMut(&Session) -> Result<Screen, Failure>,
) -> Result<u8, Failure> {
    let cannot = |error: io::Error| Failure::failed(format!("cannot watch: {error}"));
    let mut signals = Signals::install(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGWINCH]).map_err(cannot)?;
    // Without a terminal on stdin, only signals end it.
    let keys = Keys::read();
    loop {
        session.out.measure();
        let screen = draw(session)?;
        session.out.redraw_screen(&screen);
        if session.out.is_broken() {
            return Ok(0);
        }
        let stdin = io::stdin();
        let mut polled = vec![PollFd::new(&signals, PollFlags::IN)];
        polled.extend(keys.is_some().then(|| PollFd::new(&stdin, PollFlags::IN)));
        match poll(&mut polled, Some(&PAUSE)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(cannot(error.into())),
        }
        if signals.read().into_iter().any(|signal| signal != Signal::SIGWINCH) {
            return Ok(0);
        }
        if keys.as_ref().is_some_and(Keys::wants_to_leave) {
            return Ok(0);
        }
    }
}
