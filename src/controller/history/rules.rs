//! The history: which finished rounds and incidents are written when, and the answers to questions about them.
//!
//! [`Keeper`] is the writer. Its events and what they cause:
//!
//! | event | enters by | what it may cause |
//! |---|---|---|
//! | a round has ended, and its end is stored | [`Keeper::handle_round`] | a row of the batch of its day |
//! | something happened to the service | [`Keeper::handle_incident`] | an incident, unless there were many of its kind in this minute |
//! | a reader wants to see everything | [`Keeper::handle_flush`] | the batches are due |
//! | a deadline | [`Keeper::handle_timeout`] | the number of the incidents that were left out |
//! | a batch is written, or cannot be | [`Keeper::handle_written`], [`Keeper::handle_trouble`] | the next batch; an incident, and one line in the log |
//!
//! [`Keeper::poll_write`] returns the next batch to write, [`Keeper::poll_timeout`] the next deadline. Days are those of UTC, where
//! no hour comes twice.
//!
//! Questions are SQL, which the shell has. Only the groups of a summary are counted here ([`Summaries`]): a `GROUP BY` sorts all
//! rows, which takes three times as long, and has no percentiles.

mod incidents;
mod keeper;
mod summaries;

#[cfg(test)]
mod tests;

pub use keeper::{Batch, Day, Keeper};
pub use summaries::{Summaries, TooManyGroups};
