//! The lines of the input, by their numbers.

use super::super::cannot_read;
use super::super::input::{Input, Next};
use term::output::note;

pub(super) struct Lines {
    input: Input,
    /// The number of the last line.
    number: u64,
    /// Whether the input could not be read to its end.
    is_cut: bool,
}

impl Lines {
    pub(super) const fn new(input: Input) -> Self {
        Self { input, number: 0, is_cut: false }
    }

    /// The number of the last line.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Whether the input could not be read to its end.
    pub(super) const fn are_cut(&self) -> bool {
        self.is_cut
    }

    pub(super) fn next(&mut self) -> Next {
        loop {
            match self.input.next() {
                Ok(next) => {
                    self.number += u64::from(matches!(next, Next::Line(_)));
                    return next;
                }
                // The end of the input follows.
                Err(error) => {
                    note(&cannot_read(error).sentence);
                    self.is_cut = true;
                }
            }
        }
    }
}

/// Readable when a stream has more.
impl std::os::fd::AsFd for Lines {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.input.as_fd()
    }
}
