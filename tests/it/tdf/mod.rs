//! TDF against a real Redis: every arrow of docs/sources/tdf.md, the hazards of the original, and originals beside us.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use testkit as ground;

mod away;
mod cli;
mod crash;
mod leases;
mod manager;
mod mending;
mod mixture;
mod original;
mod pool;
mod processes;
mod proxy;
mod server;
mod worker;

use std::path::PathBuf;

use api::config::{ServerConfig, TdfSection};
use base::tdf::{Fence, WorkerName};
use ground::Redis;
use original::Original;
use proc::clock;
use redis::Commands as _;
use tdf::engine::worker::Assignment;
use tdf::shell::server::Server;
use tdf::shell::{Claim, Ending, Namespace, Report, Reported};

const NAMESPACE: &str = "MyProgram";

/// A Redis, an original's connection to it, and one of ours.
pub(crate) struct Place {
    pub(crate) redis: Redis,
    pub(crate) original: Original,
    pub(crate) ours: Namespace,
    tokens: u32,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::on(Redis::start())
    }

    pub(crate) fn on(redis: Redis) -> Self {
        let path = redis.write_config("any.cfg", NAMESPACE, "");
        let section = TdfSection::load(&path).unwrap();
        let ours = Namespace::connect(&section.redis, NAMESPACE).unwrap();
        let original = Original { redis: redis.connect(), namespace: NAMESPACE.to_owned() };
        Self { redis, original, ours, tokens: 0 }
    }

    /// A Redis with these options, which the test itself does not talk to.
    pub(crate) fn on_options(options: &[&str]) -> OnlyRedis {
        OnlyRedis { redis: Redis::with_options(options) }
    }

    pub(crate) fn section(&self) -> TdfSection {
        TdfSection::load(&self.redis.write_config("any.cfg", NAMESPACE, "")).unwrap()
    }

    pub(crate) fn server_config(&self) -> PathBuf {
        self.redis.write_config("server.cfg", NAMESPACE, "[server]\nround_duration=0.02\n")
    }

    /// Lets a server of ours have some rounds, the first of which mends.
    pub(crate) fn rounds(&self, rounds: u64) {
        let config = ServerConfig::load(&self.server_config()).unwrap();
        Server::start(&config, "server", 3, rand::random()).unwrap().run(None, Some(rounds));
    }

    pub(crate) fn claim(&mut self, worker: &str, count: u32) -> Vec<Assignment> {
        self.tokens += 1;
        let token = format!("t{}", self.tokens);
        self.ours.claim(&Claim { worker: &name(worker), token: &token, count }).unwrap()
    }

    pub(crate) fn claim_one(&mut self, worker: &str) -> Fence {
        self.claim(worker, 1).pop().expect("an open task").fence
    }

    pub(crate) fn execute(&mut self, fence: &Fence, output: &str, error: &str) -> Reported {
        let ending = Ending::Executed { output: output.as_bytes(), error: error.as_bytes() };
        self.ours.report(&Report { fence, ending, log: &[] }).unwrap()
    }

    /// Puts the hash of a task under another id, and that into this set, in front of all others.
    pub(crate) fn copy(&mut self, id: u64, to: &str, set: &str) {
        let fields: Vec<(String, Vec<u8>)> = self.original.redis.hgetall(format!("{NAMESPACE}:task:{id}")).unwrap();
        let () = self.original.redis.hset_multiple(format!("{NAMESPACE}:task:{to}"), &fields).unwrap();
        let () = self.original.redis.zadd(format!("{NAMESPACE}:{set}"), to, -1).unwrap();
    }

    /// The sets that a task is in.
    pub(crate) fn sets(&mut self, id: u64) -> Vec<&'static str> {
        ground::sets_of(&mut self.original.redis, NAMESPACE, id)
    }

    pub(crate) fn get(&mut self, id: u64, field: &str) -> Option<String> {
        self.original.get(id, field)
    }

    /// The lines of the log, without their moments.
    pub(crate) fn log(&mut self, id: u64) -> Vec<String> {
        let log = self.get(id, "log").unwrap();
        log.lines()
            .map(|line| {
                let (moment, message) = line.split_once(" - ").unwrap();
                assert!(moment.starts_with("20") && moment.len() == 19, "{line}");
                message.to_owned()
            })
            .collect()
    }
}

/// A Redis that only the commands of a test talk to.
pub(crate) struct OnlyRedis {
    pub(crate) redis: Redis,
}

impl OnlyRedis {
    fn run(&self, arguments: &[&str]) -> testkit::Said {
        testkit::Start::said(&mut cli::command(&self.redis, arguments))
    }
}

pub(crate) fn name(text: &str) -> WorkerName {
    WorkerName::new(text).unwrap()
}
