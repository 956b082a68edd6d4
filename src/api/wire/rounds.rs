//! The rows of the history, made from the record of a task ([`of_record`]).

pub mod of_record;
