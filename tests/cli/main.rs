//! The command line and the supervisor, with the real binary, on ports and in folders of their own.

mod bench;
mod commands;
mod config;
mod deaths;
mod first_process;
mod foreign;
mod graph;
mod graph_runs;
mod history;
mod jobs;
mod keys;
mod lists;
mod map;
mod mounts;
mod plain;
mod poison;
mod policies;
mod private;
mod readme;
mod restart;
mod sandbox;
mod service;
mod steering;
mod step;
mod store;
mod terminal;
