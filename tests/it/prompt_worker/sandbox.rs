//! A root folder, and workers in it.

use std::io::Write as _;
use std::net::SocketAddr;
use std::ops::Deref;
use std::process::Command;

use testkit::Place;

use crate::support::LLTS;

pub(crate) use testkit::{PATIENCE, Program, Said, Start, eventually, found, names, signal};

/// The fields with which every worker introduces itself to its master.
pub(crate) const SECRET: &str = "open sesame";

pub(crate) struct Sandbox(Place);

impl Deref for Sandbox {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

impl Sandbox {
    /// A root on a short ladder.
    pub(crate) fn new() -> Self {
        let mut place = Place::new(LLTS);
        for (key, value) in [
            ("WORKER_KILL_INTERVAL", "300"),
            ("WORKER_STRAGGLER_GRACE", "100"),
            ("WORKER_JOIN_TIMEOUT", "60000"),
            ("SECRET", SECRET),
        ] {
            place.set(format!("LLTS_PROMPT_{key}"), value);
        }
        Self(place)
    }

    /// `llts prompt` with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.0.command(&[&["prompt"], arguments].concat())
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Program {
        self.command(arguments).start()
    }

    /// The same, with variables in its environment.
    pub(crate) fn start_with(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Program {
        self.command(arguments).envs(environment.iter().copied()).start()
    }

    /// `llts prompt` with a master's address behind the verb.
    pub(crate) fn start_at(&self, verb: &str, address: SocketAddr, arguments: &[&str]) -> Program {
        let [host, port] = [address.ip().to_string(), address.port().to_string()];
        self.start(&[&[verb, &host, &port], arguments].concat())
    }

    /// A worker that another program starts, and that ends with the connection.
    pub(crate) fn worker_in(&self, wrapper: &[&str], address: SocketAddr, script: &str) -> Program {
        let [host, port] = [address.ip().to_string(), address.port().to_string()];
        self.command(&["worker", &host, &port, "--patience", "0", "--", "sh", "-c", script]).under(wrapper).start()
    }

    /// A worker of the master at `address`, which runs `script`.
    pub(crate) fn worker(&self, address: SocketAddr, options: &[&str], script: &str) -> Program {
        self.start_at("worker", address, &[options, &["--", "sh", "-c", script]].concat())
    }

    /// Whether neither a process nor a file of a run is left.
    #[track_caller]
    pub(crate) fn is_clean(&self) {
        assert_eq!(self.commands(), []);
        let hosts = names(&self.path(".tasks/.runs"));
        let left: Vec<_> = hosts.iter().map(|host| names(&self.path(".tasks/.runs").join(host))).collect();
        assert!(left.iter().all(Vec::is_empty), "{left:?}");
    }
}

/// The options of unshare(1) with which a worker may have such a namespace here; `None`, with a line on stderr, where that is not permitted.
pub(crate) fn namespace(option: &str) -> Option<Vec<&str>> {
    let ways = [vec!["unshare", option], vec!["unshare", "-Ur", option]];
    let works = |way: &Vec<&str>| {
        let tried = Command::new(way[0]).args(&way[1..]).args(["-f", "true"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    let found = ways.into_iter().find(works);
    if found.is_none() {
        let _ = writeln!(std::io::stderr(), "skipped: no namespace for {option} may be made here");
    }
    found
}
