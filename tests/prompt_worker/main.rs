//! `llts prompt worker` and `llts prompt create`: the real binary against a master that a test plays.

mod create;
mod ends;
mod master;
mod sandbox;
mod results;
mod runs;
mod status;
