//! One line at the bottom of the terminal: the progress of a command, or what it waits for. Every other output makes room for it.
//!
//! It is on stderr, and only if that is a terminal.

use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::types::printable;

/// A command has one such line. Threads that print outputs clear it, too.
static LINE: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Shows a text in place of the last one. It is cut at the right edge of the terminal.
pub(super) fn show(text: &str) {
    let mut line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
    let bar = line.get_or_insert_with(|| {
        let style = ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
    });
    bar.set_message(printable(text));
}

/// Removes the line, if it is shown.
pub(super) fn clear() {
    if let Some(bar) = LINE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        bar.finish_and_clear();
    }
}
