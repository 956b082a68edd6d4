//! The Linux side of a service: process trees, files, locks, signals, logs.
//!
//! A service that runs other people's programs must end every process that they start, lose no file when it is killed,
//! and never block its one loop. Each module has one such duty. Within the workspace, the crate depends on `base` only.
//!
//! | modules | duty |
//! |---|---|
//! | [`process`] | starts a program, detects its end, finds and ends all processes that it has started |
//! | [`ladder`] | decides when a run gets SIGTERM, when SIGKILL, and when it has ended (pure) |
//! | [`guard`] | a small process that ends the remains of a killed one |
//! | [`runs`], [`worker`] | the runs of all workers of a host, in one folder; the common parts of worker processes |
//! | [`signals`], [`readable`] | signals as a descriptor; waiting for descriptors |
//! | [`background`], [`one_job`] | work on a separate thread, whose results wake the loop |
//! | [`files`] | files written as a whole, replaced atomically, watched; folders removed without entering mounts |
//! | [`lock`] | one service per folder, by a lock that dies with its holder |
//! | [`logging`], [`incidents`] | the log of a process, and what its operator must know |
//! | [`clock`] | the only place that reads the time |
//! | [`own_program`], [`takeover`], [`supervised`], [`lending`], [`idle_stop`], [`systemd`], [`first_process`] | a process and those around it: other commands of its program, its successor, its supervisor, the system |
//! | [`stdio`], [`terminal`] | the streams and the terminal of a caller, for a command in another process on the machine |
//! | [`limits`], [`sqlite`], [`temp_dir`], [`tls_roots`] | settings of the system and its libraries |
//! | [`own_addresses`], [`port_holder`], [`socket_owner`], [`visitor`] | addresses of this machine, and the processes behind TCP ports and connections |
//!
//! # States and events
//!
//! [`ladder::RunMachine`] tracks one run: its root lives, the root has ended, or the whole run has ended. Its events are
//! [`handle_end`](ladder::RunMachine::handle_end), [`handle_tree`](ladder::RunMachine::handle_tree) and
//! [`handle_timeout`](ladder::RunMachine::handle_timeout). Each returns a [`ladder::Step`], which the caller carries out.
//! [`ladder::Terms`] has the pauses between signals.
//!
//! # Callers
//!
//! The loops of agents, workers and the supervisor run processes with it. All programs take files, locks, logs and the
//! time from it.
//!
//! # The way of a run
//!
//! 1. The process starts its guard ([`guard::GuardPlan`]) and becomes a subreaper ([`process::become_subreaper`]).
//! 2. [`process::spawn()`] starts a run.sh, or [`process::spawn_command`] a command. A [`process::RunRecord`] on disk
//!    names it.
//! 3. SIGCHLD wakes the loop ([`signals::Signals`]), and [`process::RunProcesses`] reaps the root.
//! 4. [`process::any_left`] says whether a process of the tree is left. Usually none is.
//! 5. Otherwise the [`ladder::RunMachine`] requests SIGTERM, and after a pause SIGKILL, until none is left.
//! 6. If the process itself is killed, its guard or its next start finds the rest by the record and the [`process::Brand`].
//!
//! A run that ignores SIGTERM:
//!
//! ```
//! use std::time::Duration;
//!
//! use base::Now;
//! use proc::ladder::{RunMachine, Signal, Step, Terms};
//!
//! let terms = Terms::of_worker(Duration::from_secs(2), Duration::from_secs(1));
//! let mut now = Now::default();
//! let mut run = RunMachine::started();
//! assert_eq!(run.end(now, &terms), Step::Signal(Signal::Terminate));
//! assert_eq!(run.due(), Some(now.mono + Duration::from_secs(2)));
//!
//! now.mono = now.mono + Duration::from_secs(2);
//! assert_eq!(run.handle_timeout(now, &terms), Step::Signal(Signal::Kill));
//! run.handle_end("killed");
//! assert_eq!(run.handle_tree(now, false, &terms), Step::Over);
//! ```
//!
//! A file of which a reader sees the old or the new content, never a mix:
//!
//! ```
//! use std::io::{ErrorKind, Write as _};
//!
//! use proc::files::draft::{SHARED, replace};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("state");
//! replace(&path, SHARED, |file| file.write_all(b"old"))?;
//! let failed = replace(&path, SHARED, |_| Err(ErrorKind::StorageFull.into()));
//! assert!(failed.is_err());
//! assert_eq!(std::fs::read_to_string(&path)?, "old");
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod background;
pub mod clock;
pub mod first_process;
pub mod guard;
pub mod idle_stop;
pub mod incidents;
pub mod ladder;
pub mod lending;
pub mod limits;
pub mod lock;
pub mod logging;
pub mod one_job;
pub mod own_addresses;
pub mod own_program;
pub mod port_holder;
pub mod process;
pub mod readable;
pub mod runs;
pub mod signals;
pub mod socket_owner;
pub mod sqlite;
pub mod stdio;
pub mod supervised;
pub mod systemd;
pub mod takeover;
pub mod temp_dir;
pub mod terminal;
pub mod tls_roots;
pub mod visitor;
pub mod worker;

pub mod files;
