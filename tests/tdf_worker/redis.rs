//! A Redis of one test, on a port of its own, without a file of it outside of its folder.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use redis::{Client, Cmd, Connection, FromRedisValue};

use crate::place::eventually;

#[path = "../support/loopback.rs"]
mod loopback;

pub(crate) struct Redis {
    folder: tempfile::TempDir,
    address: SocketAddr,
    append_only: bool,
    server: Child,
}

impl Redis {
    pub(crate) fn start() -> Self {
        Self::launch(false)
    }

    /// One that has everything on the disk before it answers.
    pub(crate) fn durable() -> Self {
        Self::launch(true)
    }

    fn launch(append_only: bool) -> Self {
        let folder = tempfile::Builder::new().prefix("llts-redis-").tempdir().expect("a folder");
        let ip = loopback::own_ip();
        let address = TcpListener::bind((ip, 0)).and_then(|free| free.local_addr()).expect("a free port");
        let server = serve(folder.path(), address, append_only);
        let redis = Self { folder, address, append_only, server };
        redis.wait();
        redis
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connection(&self) -> Connection {
        Client::open(format!("redis://{}", self.address)).and_then(|client| client.get_connection()).expect("Redis")
    }

    /// One command, with its words separated by blanks.
    pub(crate) fn ask<T: FromRedisValue>(&self, words: &str) -> T {
        let mut command = Cmd::new();
        for word in words.split(' ') {
            command.arg(word);
        }
        command.query(&mut self.connection()).unwrap_or_else(|error| panic!("{words}: {error}"))
    }

    /// As `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.server.kill().expect("our child");
        self.server.wait().expect("our child");
    }

    pub(crate) fn start_again(&mut self) {
        self.server = serve(self.folder.path(), self.address, self.append_only);
        self.wait();
    }

    fn wait(&self) {
        let answers = || {
            let client = Client::open(format!("redis://{}", self.address)).expect("an address");
            let pong = client.get_connection().and_then(|mut redis| Cmd::new().arg("PING").query::<String>(&mut redis));
            pong.is_ok()
        };
        eventually("a Redis that answers", answers);
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn serve(folder: &Path, address: SocketAddr, append_only: bool) -> Child {
    let log = File::create(folder.join("redis.log")).expect("a log");
    let [ip, port] = [address.ip().to_string(), address.port().to_string()];
    let options = ["--bind", &ip, "--port", &port, "--save", "", "--daemonize", "no", "--protected-mode", "no"];
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut command = Command::new("redis-server");
    command.args(options).args(if append_only { &durable[..] } else { &[] });
    command.current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
    command.spawn().expect("redis-server; scripts/test.sh installs it")
}
