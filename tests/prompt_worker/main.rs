//! `llts prompt worker` and `llts prompt create`: the real binary against a master that a test plays.

mod after;
mod create;
mod ends;
mod keys;
mod master;
mod overnight;
mod results;
mod runs;
mod sandbox;
mod status;
mod trouble;
