//! `llts` runs small programs with low latency.
//!
//! A **tool** is a `.tar.gz` with a `run.sh`. A client sends a flat JSON object over ZeroMQ; the **controller** hands the
//! **task** to a free **agent**, which has one slot; the agent unpacks the tool, runs `run.sh`, and each change of state is
//! pushed to the address that the submitter named. A running tool may submit child tasks; they die with it.
//!
//! # The way of a task
//!
//! ```text
//! client            controller                          agent                      tool
//!   | TASK/SUBMIT ---> |                                  |                          |
//!   | <--- __TASK_ID__ | --- the answer to its APPLY ---> |                          |
//!   |                  |                                  | folder, files, tool      |
//!   |                  |                                  | clone, exec -----------> | run.sh
//!   | <--- push ------ | <------- REPORT: RUNNING ------- |                          |
//!   |                  |                                  | <------- SIGCHLD ------- |
//!   |                  |                                  | tails, tree, removal     |
//!   | <--- push ------ | <-- REPORT: FINISHED + APPLY --- |                          |
//! ```
//!
//! An agent without a task has an APPLY parked at the controller, so that handing it a task is one message. A short task costs
//! two reports. Nothing on this way sleeps or polls.
//!
//! Nor does a short task of a small tool make or remove a file: its folder is that of an earlier one, compared with the tool
//! byte by byte after that run, and put right ([`shell::workspace`]); its run record is rewritten in place.
//!
//! # Layers
//!
//! An item imports only from layers to its left; `tests/architecture.rs` holds the code to it.
//!
//! ```text
//! types <- { config, protocol } <- engine <- shell <- cli <- main
//! ```
//!
//! | layer | what it is |
//! |---|---|
//! | [`types`] | plain data: ids, time, the record of a task |
//! | [`config`] | `defaults.toml`, which is also the documentation of every key, and the user's file over it, to typed sections |
//! | [`protocol`] | bytes to types and back; the words of the wire stand here only |
//! | [`engine`] | pure state machines: [`engine::controller`]; [`engine::slot`], the agent; [`engine::push`], the pushes; [`engine::zmtp`], a connection; [`engine::endpoint`], who may have one; [`engine::master`] and [`engine::worker`], of prompts; [`engine::supervisor`] |
//! | [`shell`] | all that touches the world: sockets, processes, archives, files, clocks; loops without decisions |
//! | [`client`] | the Rust client that the command line and the tests use |
//! | [`cli`] | arguments in; text for people or JSON out |
//!
//! `llts-bench`, in `src/bin/llts-bench`, measures all of it from outside. It needs the cargo feature `libzmq`, which also adds
//! `TRANSPORT = "zmq"` (`shell/zmq.rs`); tests always have it, `cargo build` has it only when asked.
//!
//! # The contract between engine and shell
//!
//! An engine is called with an event and the time. It answers by value, and says by [`poll_effect`] what else the shell must
//! do, in order; by [`poll_timeout`], when it wants to be called. What can fail comes back as an event. Ids and randomness come
//! from a seed, so that the same seed and the same events are the same run.
//!
//! A turn of the controller is: one wait; everything that is ready through the engine; its effects. A task is handed to an
//! agent at once. Records go to the store ([`shell::store::Writer`]), which commits on a thread of its own, those of several
//! turns together while it is busy. What rests on them, the answer to a submit or the push of FINISHED, leaves in the turn
//! that learns of the commit: [`engine::controller::Claim`] says what that is, and
//! [`engine::controller::Sequencer`] when. Pushes leave in the same loop; whatever their addresses do, a turn does a bounded slice of
//! them ([`engine::push`]).
//!
//! # Who may say what of a task
//!
//! Each run of a task has a round. Only the agent that has the present round is heard of it; an agent that speaks of an older
//! one is told to drop it. A run whose agent is silent for two heartbeat intervals is void, and the next round waits, as often
//! as `__MAX_LOSSES__` allows. So a task runs on one agent at a time, as far as the agents can hear: an agent that is cut off or
//! stopped goes on beside the next round.
//!
//! Not so with an exclusive task: its run holds a lease ([`types::lease`]). The agent gives the run up when its controller is not
//! heard, by [`engine::slot`], and whoever guards the agent ends what a stopped one goes on with; the controller waits for that
//! before it starts another round or says that the task has finished. Any other task that ends without a word of its agent says
//! that nobody has confirmed it.
//!
//! # What a submitter demands
//!
//! [`types::Policy`]: when a task may start and must have ended, how long one run may take, how often it may fail, take too long,
//! lose its agent or defer, which gates a start must pass and which tags an agent must have. When a round is over, one function
//! decides whether another one follows. Tasks with equal needs wait in one line, so that a closed gate holds up nobody else, and
//! in it by tools, so that none goes to an agent that has not told of its tool while another one has.
//!
//! # Starting again
//!
//! A controller that starts reads the store and goes on: waiting tasks keep their order, and a run is adopted when its agent
//! speaks of it. Because a first dispatch does not wait for the disk, a controller can die between the two: then the agent is
//! taken at its word, and whoever gets the task before it speaks gets the next round, which fences that run off. An agent
//! keeps what it has reported until it is confirmed. What a killed agent leaves is ended at once: by its supervisor, or, if it
//! was started alone, by its guard ([`shell::guard`]). That one goes by the run record and by the mark in the environment of
//! every process of a run, and so does an agent that starts, should both have been killed.
//!
//! # A home
//!
//! A service lives in one folder, its home ([`shell::home`]). Its parts have it as their current folder; a client puts relative paths
//! of the configuration behind it, and finds the controller by the unix socket there. So a command means the same service in every
//! folder. The supervisor also runs agents alone, for a controller elsewhere.
//!
//! # Prompts
//!
//! A door of its own, over TCP: the prompt master hands the files of a folder out to workers ([`shell::prompt`]), a worker runs any
//! command for each ([`shell::prompt_worker`]). Nobody else moves the files, and what a worker says of one counts only while it has
//! it; so each ends once, whoever is killed when. A command ends as a run.sh does ([`engine::run`]), and a worker has a guard as an
//! agent has one.
//!
//! # Where to begin
//!
//! | to add | touch, in this order |
//! |---|---|
//! | a request | `protocol/words.rs` (its kind), `protocol/request.rs` (variant, list, parser; [`protocol::request::only_asks`] if it changes nothing), `protocol/reply.rs` if it has an answer of its own (the compiler then asks `engine/controller/effect.rs` what that claims), a file in `engine/controller/requests/`, a builder in `protocol/client/`, a method in `client/`, a file in `cli/` and its line in `cli/args.rs` |
//! | a field of the policy | a member of [`types::Policy`], a row of [`types::Policy::FIELDS`], a key in `config/defaults.toml` if it has a default, and the engine that obeys it: wire, command line, configuration and store follow the table |
//! | a door | a folder in `shell/` with an implementation of [`shell::door::Door`], its section in `config/`, and one line in [`shell::controller`] |
//! | a key of the configuration | `config/defaults.toml` (unit, default, reason), and the section that reads it |
//!
//! [`poll_effect`]: engine::controller::Controller::poll_effect
//! [`poll_timeout`]: engine::controller::Controller::poll_timeout

pub mod cli;
pub mod client;
pub mod config;
pub mod engine;
pub mod protocol;
pub mod shell;
pub mod types;
