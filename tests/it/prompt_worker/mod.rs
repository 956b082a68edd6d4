//! `llts prompt worker` and `llts prompt create`: the real binary against a master that a test plays.

mod after;
mod cost;
mod create;
mod ends;
mod keys;
mod master;
mod overnight;
mod quoting;
mod results;
mod runs;
mod sandbox;
mod status;
mod tail;
mod trouble;
mod workdir;
mod workdir_kept;
