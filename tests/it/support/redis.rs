//! A real Redis on a free port of an address of this process, in a temporary folder; it ends with the test.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::{Cmd, Commands as _, Connection, FromRedisValue};
use rustix::process::Signal;

use super::folder::signal;
use super::waiting::eventually;

use super::loopback;

pub(crate) use loopback::own_ip;

/// The sets of a namespace: the states of a task.
pub(crate) const SETS: [&str; 10] =
    ["open", "running", "executed", "timeout", "timed_out", "expired", "succeeded", "failure", "failed", "archived"];

/// Everything is on the disk before it is answered.
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// A running redis-server.
pub(crate) struct Redis {
    folder: tempfile::TempDir,
    address: SocketAddr,
    options: Vec<String>,
    server: Option<Child>,
}

impl Redis {
    /// Starts one without persistence. scripts/test.sh installs it if it is missing.
    pub(crate) fn start() -> Self {
        Self::with_options(&[])
    }

    /// One that has everything on the disk before it answers.
    pub(crate) fn durable() -> Self {
        Self::with_options(&DURABLE)
    }

    /// One with options of redis-server, such as `--requirepass`. A last option that ends with `-port` gets the port.
    pub(crate) fn with_options(options: &[&str]) -> Self {
        let address = TcpListener::bind((own_ip(), 0)).and_then(|free| free.local_addr()).expect("a free port");
        let folder = tempfile::Builder::new().prefix("llts-redis-").tempdir().expect("a folder");
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let mut redis = Self { folder, address, options, server: None };
        redis.start_again();
        redis
    }

    /// Starts it at its address; after [`Self::kill`] with what is on its disk.
    pub(crate) fn start_again(&mut self) {
        let log = File::options().create(true).append(true).open(self.folder.path().join("redis.log")).expect("a log");
        let [ip, port] = [self.address.ip().to_string(), self.address.port().to_string()];
        let mut command = Command::new("redis-server");
        command.args(["--bind", &ip, "--port", &port, "--save", "", "--daemonize", "no", "--protected-mode", "no"]);
        command.args(&self.options);
        if self.options.last().is_some_and(|option| option.ends_with("-port")) {
            command.arg(&port);
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a log")).stderr(log);
        self.server = Some(command.spawn().expect("redis-server; scripts/test.sh installs it"));
        eventually("a Redis that answers", || self.answers());
    }

    /// Whether it takes connections, and does not say that it is still loading. What one for TLS makes of a PING does not matter.
    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(self.address) else { return false };
        stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        let mut answer = [0; 64];
        let asked = stream.write_all(b"PING\r\n").and_then(|()| stream.read(&mut answer));
        !asked.is_ok_and(|length| answer[..length].starts_with(b"-LOADING"))
    }

    /// Ends it at once, as `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().expect("our child");
            server.wait().expect("our child");
        }
    }

    /// Stops and continues it: SIGSTOP and SIGCONT.
    pub(crate) fn signal(&self, with: Signal) {
        let server = self.server.as_ref().expect("a running server");
        signal(i32::try_from(server.id()).expect("a pid"), with);
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A plain connection, for what an original component does.
    pub(crate) fn connect(&self) -> Connection {
        redis::Client::open(format!("redis://{}", self.address))
            .and_then(|client| client.get_connection())
            .expect("a connection")
    }

    /// One command, with its words separated by blanks.
    pub(crate) fn ask<T: FromRedisValue>(&self, words: &str) -> T {
        let mut command = Cmd::new();
        for word in words.split(' ') {
            command.arg(word);
        }
        command.query(&mut self.connect()).unwrap_or_else(|error| panic!("{words}: {error}"))
    }

    /// Writes a configuration for `[redis]`, `[tdf]` with this namespace, and what else is given.
    pub(crate) fn write_config(&self, name: &str, namespace: &str, rest: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, config(self.address, namespace, rest)).expect("a configuration");
        path
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The text of a configuration for the Redis at this address.
pub(crate) fn config(redis: SocketAddr, namespace: &str, rest: &str) -> String {
    let (ip, port) = (redis.ip(), redis.port());
    format!("[redis]\nhost={ip}\nport={port}\npassword=None\ndb=0\n\n[tdf]\nnamespace={namespace}\n\n{rest}")
}

/// The sets that a task is in.
pub(crate) fn sets_of(redis: &mut Connection, namespace: &str, id: u64) -> Vec<&'static str> {
    let is_in = |redis: &mut Connection, set: &str| {
        redis.zscore::<_, _, Option<f64>>(format!("{namespace}:{set}"), id).expect("a score").is_some()
    };
    SETS.into_iter().filter(|set| is_in(redis, set)).collect()
}
