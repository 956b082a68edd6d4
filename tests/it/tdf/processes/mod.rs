//! `llts tdf worker`: the real binary against a real Redis, with a test as manager and server.

mod arrows;
mod ends;
mod examples;
mod hazards;
pub(crate) mod place;
mod sources;
