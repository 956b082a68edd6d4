//! `llts` runs small programs with low latency.
//!
//! A **tool** is a `.tar.gz` with a `run.sh`. A client sends a flat JSON object over ZeroMQ; the **controller** hands the
//! **task** to a free **agent**, which has one slot; the agent unpacks the tool, runs `run.sh`, and each change of state is
//! pushed to the address that the submitter named. A running tool may submit tasks as its children, which die with it.
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
//! An agent without a task has an APPLY parked at the controller, so that handing it a task is one message. A short task
//! costs two reports. No step on this way sleeps or polls.
//!
//! A short task of a small tool also creates and removes no file: it gets the folder of an earlier task, which was compared
//! with the tool byte by byte and restored after that run ([`shell::workspace`]). Its run record is rewritten in place.
//!
//! An agent that asks while many short tasks wait gets several at once, and starts each without waiting for an answer. Those
//! that have not started are still waiting, for the store and for clients; `engine/controller/lists.rs` says how they come back.
//!
//! # Layers
//!
//! An item imports only from layers to its left; `tests/it/architecture/mod.rs` holds the code to it.
//!
//! ```text
//! types <- { config, protocol } <- engine <- shell <- cli <- main
//! ```
//!
//! | layer | what it is |
//! |---|---|
//! | [`types`] | plain data: ids, time, the record of a task |
//! | [`config`] | `defaults.toml`, which is also the documentation of every key, and the user's file over it, to typed sections |
//! | [`protocol`] | bytes to types and back; the only place for the words of the wire |
//! | [`engine`] | pure state machines: [`engine::controller`]; [`engine::slot`], the agent; [`engine::push`], the pushes; [`engine::zmtp`], a connection; [`engine::endpoint`], the admission of connections; [`engine::master`] and [`engine::worker`], of prompts; [`engine::supervisor`]; [`engine::lists`], of task lists; [`engine::graph`], step graphs; [`engine::map`], of `llts map` |
//! | [`shell`] | all I/O: sockets, processes, archives, files, clocks; loops without decisions |
//! | [`client`] | the Rust client that the command line and the tests use |
//! | [`cli`] | arguments in; text for people or JSON out |
//!
//! `llts-bench`, in `bench`, measures all of it from outside.
//!
//! # The contract between engine and shell
//!
//! An engine is called with an event and the time. It answers by value, returns further instructions to the shell, in
//! order, from [`poll_effect`], and its next deadline from [`poll_timeout`]. Effects that can fail come back as events. Ids
//! and randomness come from a seed, so that the same seed and the same events give the same run.
//!
//! A turn of the controller is: one wait; everything that is ready through the engine; its effects. A task is handed to an
//! agent at once. Records go to the store ([`shell::store::Writer`]), which commits on a thread of its own, and combines
//! several turns while it is busy. Messages that depend on them, such as the answer to a submit or the push of FINISHED,
//! leave in the turn that learns of the commit: [`engine::controller::Claim`] says which messages these are, and
//! [`engine::controller::Sequencer`] when they leave. Pushes leave in the same loop; whatever their addresses do, a turn
//! does a bounded slice of them ([`engine::push`]).
//!
//! # Authority over a task
//!
//! Each run of a task has a round. Only reports of the agent with the present round are accepted; an agent with an older
//! one is told to drop it. A run whose agent is silent for two heartbeat intervals is void, and the next round waits, as
//! often as `__MAX_LOSSES__` allows. So a task runs on one agent at a time, as long as agents are in contact: an agent that
//! is disconnected or stopped continues beside the next round.
//!
//! An exclusive task does not: its run holds a lease ([`types::lease`]). The agent gives the run up if its controller does
//! not answer ([`engine::slot`]), and its guard or supervisor ends the run of a stopped agent. The controller waits for
//! that before it starts another round or reports that the task has finished. Any other task that ends without a report of
//! its agent is marked as unconfirmed.
//!
//! # The policy of a task
//!
//! [`types::Policy`]: when a task may start and must have ended, how long one run may take, how often it may fail, time
//! out, lose its agent or defer, which gates a start must pass and which tags an agent must have. At the end of a round,
//! one function decides whether another one follows. Tasks with equal requirements wait in one line, so that a closed gate
//! does not hold up tasks that do not name it. Within a line they wait by tool, so that no task goes to an agent that has
//! not reported its tool while another one has.
//!
//! # Commands
//!
//! A task can be a plain command instead of a tool ([`types::TaskCommand`]). Its operation is built in, and an agent reports it
//! beside its tools ([`types::ToolSet`]), so that the queue treats it as one more tool, for which no agent has to look. Its folder
//! is reused as that of a small tool is. Only the senders that `ALLOW_COMMANDS` names may submit one ([`types::AllowCommands`]);
//! the transport knows the sender.
//!
//! # Fetched programs
//!
//! A task can name the source of its program ([`types::TaskSource`]). Its operation is built in, too, so that only agents that report it
//! get such tasks. The agent fetches the program ([`shell::source`]) and packs it as a tool; from then on it has the cache and the
//! reused folders of a tool. Which sources are allowed is checked at the submit, and stays with the task, because the agent checks
//! redirects and addresses by it. The tasks that a controller claims from a namespace of TDF come in this way.
//!
//! # Tools that travel
//!
//! The controller holds archives by their SHA-256 ([`shell::archives`]): those of its own tools folder, taken when a submit names
//! them, and pushed ones. A task pins the version that its tool's name stands for when it is accepted
//! ([`engine::controller`], `catalog.rs`). An agent that fetches tools can run each tool that the controller holds
//! ([`types::ToolSet`]), so the queue treats both alike; its preparing thread fetches the version in parts, over a connection of its
//! own (`shell/agent/fetch.rs`). An archive in a tools folder of the agent's own goes first there.
//!
//! # Outputs
//!
//! The result of a run contains the end of each output. The rest stays at the agent ([`shell::outputs`]), and is read through the
//! controller in parts: an agent keeps one AGENT/SERVE parked there, whose answer is the wanted part
//! ([`engine::controller`], [`engine::slot`]). So an agent needs no port, a task costs nothing for it, and no more than one part
//! of an output is in memory for each agent. A run that writes is read from its file; inotify reports its growth, as long as a
//! reader waits.
//!
//! # Jobs and dependencies
//!
//! Tasks can share the name of a job, and wait for other tasks or jobs ([`types::Term`]). A job is counted with each change of
//! its tasks, and a term is decided by the end that it names, each in O(log n). One end may decide many terms, so its
//! consequences are a queue of work, of which each turn does a slice; so are orders about all tasks of a job.
//!
//! # Screens
//!
//! People look at rows and at one screen of the whole service, which are requests of their own ([`protocol::requests::rows`],
//! [`protocol::requests::status`]): a row says in one line what a task does and why it is as it is. Both cost what they show, not what the
//! service has. The figures behind them, such as the usual run time of a tool, are kept up to date by each change of a task
//! (`engine/controller/figures.rs`). A screen is a pure function of the answer, the time and the width; every part that comes from a task
//! is made printable in one place (`cli/style.rs`).
//!
//! # Maps
//!
//! `llts map` makes a task of each line of its input ([`engine::map`]). It submits ahead of what runs, many tasks in a frame, and
//! follows the ends of its job with one parked request, whose answer has many of them ([`protocol::requests::job::results`]). So it needs
//! no port, works over every way to a controller, and holds a bounded number of results; the others stay with the service. Submit keys made of the lines let it ask again
//! after a lost connection, and let the same map go on later.
//!
//! # Step graphs
//!
//! A graph is a document ([`protocol::graph`]) of steps with ports. [`engine::graph`] connects them and moves each step through
//! its states, by counts of the neighbours that hold it up. A run of a graph is made again from its document and from what has
//! happened to it ([`types::GraphEntry`]).
//!
//! The controller owns the runs beside the tasks. A task of a step is an ordinary task with a place in its graph
//! ([`types::StepPlace`]). The end of a task and the entry that it makes are one commit, and a task of a step is handed out after the
//! commit of its record, so that kill -9 at any instant neither loses nor repeats one. Tasks start in slices, a restart starts those
//! that are missing, and every change is pushed as its receiver has room for it.
//!
//! Its agent gets its inputs with it ([`types::StepContext`]), writes them into files, and reads what the task provides from others
//! ([`protocol::step_files`]) when the run has ended.
//! Only a run that has succeeded, or was told to finish early ([`engine::slot`]), provides anything. Its `../out` lies beside the
//! folders of the tasks and is kept with the graph, by age and total, on the machine of the agent (`shell/workspace/out_folders.rs`).
//!
//! # Restarts
//!
//! A controller that starts reads the store and continues: waiting tasks keep their order, and a run is adopted when its
//! agent reports it. Because a first dispatch does not wait for the disk, a controller can die between the two. The next
//! controller then believes the agent's report; if another agent gets the task before that report, it gets the next round,
//! which fences the first run off. A fetched program with a key, such as a run of TDF, must not begin twice: it waits until every
//! agent that is in contact has named its run. An agent keeps its reports until they are confirmed. The remains of a killed agent are
//! ended at once: by its supervisor, or, if it was started alone, by its guard ([`shell::guard`]). The guard finds them by
//! the run record and by the mark in the environment of every process of a run. If both were killed, the next agent that
//! starts does the same.
//!
//! # A home
//!
//! A service lives in one folder, its home ([`shell::home`]). Its parts have it as their current folder; a client puts relative paths
//! of the configuration behind it, and finds the controller by the unix socket there. So a command means the same service in every
//! folder. The supervisor also runs agents alone, for a controller elsewhere.
//!
//! # A new version
//!
//! A process of a service can become another version of its program by an exec ([`shell::supervisor`]): it keeps its number, its
//! children and chosen descriptors. So the supervisor keeps its agents, the controller keeps its listeners and the connections of
//! clients ([`engine::zmtp::Suspended`]), and an agent, which has nothing to keep but its run, ends when that has ended. The order is
//! that of [`engine::supervisor`].
//!
//! # Prompts
//!
//! Prompts have a door of their own, over TCP: the prompt master hands the files of a folder out to workers
//! ([`shell::prompt`]), and a worker runs any command for each ([`shell::prompt_worker`]). Only the master moves the files,
//! and a worker's report on a file counts only while the worker has it. So each prompt ends once, whichever process is
//! killed at whatever time. A command ends as a run.sh does ([`engine::run`]), and a worker has a guard as an agent has
//! one. What the processes of all kinds of workers share is in [`shell::worker`].
//!
//! What llts adds to the document is announced in JOIN and accepted in JOIN_ACK ([`protocol::prompt::Offer`],
//! [`protocol::prompt::Welcome`]), so that originals see none of it: a run goes on for the time of a lease while its worker has no
//! connection, its report is kept until it is confirmed, and its results come to the master. The output of a failed run is
//! searched for limits of the service behind it ([`engine::worker::signs`]).
//!
//! # TDF
//!
//! Tasks in Redis, for programs and machines that share nothing else ([`shell::tdf`]): what an original of TDF writes is read, and what is
//! written an original reads. [`engine::tdf`] decides by the facts of a task, a script moves it in one step behind a fence.
//! A worker ([`shell::tdf::worker`]) fetches programs from their sources ([`shell::source`]) and runs them as an agent runs a tool: with
//! a guard, and until nothing of them is left. Its result waits on the disk while Redis is away. With `[tdf] REDIS_URL`, a controller is
//! such a worker with as many tasks as it has agents ([`engine::tdf::pool`], [`shell::tdf::pool`]): behind a door
//! ([`shell::hosted`]), each claimed task becomes a task of the controller, whose agent fetches its program.
//!
//! # Task lists
//!
//! TDF2: tasks and lists are files in folders named for their states ([`shell::lists`]). [`engine::lists`] decides which tasks form a
//! list and which worker has it; a move is a rename, so a kill at any instant leaves each task in one place. A worker keeps its list
//! while the server is away; the name of the running list is the fence. With `[lists] DIR`, a controller is the server of that folder, on
//! a thread of its own behind a door, and its agents are one of the workers ([`engine::lists::agents`]): each task of a claimed list
//! becomes a task of the controller, with a key made of both names.
//!
//! # Where to begin
//!
//! | to add | touch, in this order |
//! |---|---|
//! | a request | three files of its name: in [`protocol::requests`] (its kind and how it is read, how a client makes it, its answer), in `engine/controller/requests/` (what it does), in `cli/` (its command); the `mod` line of each; its line in the list of [`protocol::requests::Request`]. For the rest the compiler asks: the arm that calls it, a variant of [`protocol::reply::Reply`] if it has an answer of its own and what that claims (`engine/controller/effect.rs`), the command in `cli/args.rs` and `cli/mod.rs`. Then its row in `docs/reference/wire.md` and its command in the page of its readers (`docs/SUMMARY.md` lists the pages) |
//! | a message of an agent | the same without `cli/`, and what the agent says (`protocol/agent.rs`, [`engine::slot`]) |
//! | a field of the policy | a member of [`types::Policy`], a row of [`types::Policy::FIELDS`], a key in `config/defaults.toml` if it has a default (a test asks for it), and the engine that obeys it: wire, command line, configuration and store follow the table. If a task can wait or end by it, `protocol/history.rs` and `protocol/task.rs` say so to people. Then the table of policies in `docs/tools.md` |
//! | a door | a folder in `shell/` with an implementation of [`shell::door::Door`], its section in `config/`, one line in [`shell::controller`], and its page in `docs/` |
//! | a key of the configuration | `config/defaults.toml` (unit, default, reason), the section that reads it, and its row in `docs/reference/configuration.md` (a test asks for it) |
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

pub use shell::tdf;
