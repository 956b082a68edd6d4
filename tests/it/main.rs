//! The tests of the whole: one program, so that the library is linked once. A module is a part of llts.

mod architecture;
mod cli;
mod crash;
mod endpoint;
mod foreign;
mod home;
mod kit;
mod lists;
mod outputs;
mod process_tree;
mod prompt;
mod prompt_worker;
mod push;
mod push_descriptors;
mod rust_client;
mod scenario;
mod service;
mod shell_lines;
mod simulation;
mod stay;
mod step_agent;
mod support;
mod tdf;
mod tool_archive;
mod workspace;
mod zmtp_fuzz;
