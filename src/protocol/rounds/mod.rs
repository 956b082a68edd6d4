//! The rows of the history: made from the record of a task ([`of_record`]), and as bytes ([`block`]).

pub mod block;
mod numbers;
pub mod of_record;
