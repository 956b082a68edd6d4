//! The history: which finished rounds and incidents are written when, and the answers to questions about them.
//!
//! [`Keeper`] is the writer. Its events and what they cause:
//!
//! | event | enters by | what it may cause |
//! |---|---|---|
//! | a round has ended, and its end is stored | [`Keeper::handle_round`] | a row of the block of its day |
//! | something happened to the service | [`Keeper::handle_incident`] | an incident, unless there were many of its kind in this minute |
//! | a reader wants to see everything | [`Keeper::handle_flush`] | the blocks are due |
//! | a deadline | [`Keeper::handle_timeout`] | the blocks are due |
//! | a block is written, or cannot be | [`Keeper::handle_written`], [`Keeper::handle_trouble`] | the next block; an incident, and one line in the log |
//!
//! [`Keeper::poll_write`] returns the next block to write, [`Keeper::poll_timeout`] the next deadline. A day is one of UTC, which
//! has no hour twice.
//!
//! A question is answered from blocks: [`Matcher`] selects rows by the numbers of their texts, [`Top`] keeps the places of the
//! first rows in an order, and [`Summaries`] counts them by group. Each is O(1) per row, or O(log n) in what is kept.

mod incidents;
mod keeper;
mod matcher;
mod summaries;
mod top;

#[cfg(test)]
mod tests;

pub use keeper::{Day, Keeper, Write, WriteKind};
pub use matcher::Matcher;
pub use summaries::{Summaries, TooManyGroups};
pub use top::{Place, Top};
