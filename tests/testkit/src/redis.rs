//! A real Redis on a free port of an address of this process, in a temporary folder; it ends with the test.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use redis::{Cmd, Commands as _, Connection, FromRedisValue};
use rustix::process::Signal;

use crate::place::Place;
use crate::program::{Program, Start as _};
use crate::waiting::eventually;

/// The sets of a namespace: the states of a task.
pub const SETS: [&str; 10] =
    ["open", "running", "executed", "timeout", "timed_out", "expired", "succeeded", "failure", "failed", "archived"];

/// Everything is on the disk before it is answered.
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// A running redis-server.
pub struct Redis {
    place: Place,
    address: SocketAddr,
    options: Vec<String>,
    server: Option<Program>,
}

impl Redis {
    /// Starts one without persistence. scripts/test.sh installs it if it is missing.
    pub fn start() -> Self {
        Self::with_options(&[])
    }

    /// One that has everything on the disk before it answers.
    pub fn durable() -> Self {
        Self::with_options(&DURABLE)
    }

    /// One with options of redis-server, such as `--requirepass`. A last option that ends with `-port` gets the port.
    pub fn with_options(options: &[&str]) -> Self {
        let address = TcpListener::bind((own_ip(), 0)).and_then(|free| free.local_addr()).expect("a free port");
        let place = Place::new("redis-server");
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let mut redis = Self { place, address, options, server: None };
        redis.start_again();
        redis
    }

    /// Starts it at its address; after [`Self::kill`] with what is on its disk.
    pub fn start_again(&mut self) {
        let log = File::options().create(true).append(true).open(self.place.path("redis.log")).expect("a log");
        let [ip, port] = [self.address.ip().to_string(), self.address.port().to_string()];
        let words = ["--bind", &ip, "--port", &port, "--save", "", "--daemonize", "no", "--protected-mode", "no"];
        let mut command = self.place.command(&words);
        command.args(&self.options);
        if self.options.last().is_some_and(|option| option.ends_with("-port")) {
            command.arg(&port);
        }
        self.server = Some(command.stdout(log.try_clone().expect("a log")).stderr(log).start());
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
    pub fn kill(&mut self) {
        self.server.take().into_iter().for_each(|mut server| server.kill());
    }

    /// Stops and continues it: SIGSTOP and SIGCONT.
    pub fn signal(&self, with: Signal) {
        self.server.as_ref().expect("a running server").signal(with);
    }

    /// Its address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its folder, in which other programs may run.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// The path of that.
    pub fn folder(&self) -> &Path {
        self.place.root()
    }

    /// A plain connection, for what an original component does.
    pub fn connect(&self) -> Connection {
        redis::Client::open(format!("redis://{}", self.address))
            .and_then(|client| client.get_connection())
            .expect("a connection")
    }

    /// One command, with its words separated by blanks.
    pub fn ask<T: FromRedisValue>(&self, words: &str) -> T {
        let mut command = Cmd::new();
        for word in words.split(' ') {
            command.arg(word);
        }
        command.query(&mut self.connect()).unwrap_or_else(|error| panic!("{words}: {error}"))
    }

    /// Writes a configuration for `[redis]`, `[tdf]` with this namespace, and what else is given.
    pub fn write_config(&self, name: &str, namespace: &str, rest: &str) -> PathBuf {
        self.place.write(name, config(self.address, namespace, rest));
        self.place.path(name)
    }
}

/// The text of a configuration for the Redis at this address.
pub fn config(redis: SocketAddr, namespace: &str, rest: &str) -> String {
    let (ip, port) = (redis.ip(), redis.port());
    format!("[redis]\nhost={ip}\nport={port}\npassword=None\ndb=0\n\n[tdf]\nnamespace={namespace}\n\n{rest}")
}

/// The sets that a task is in.
pub fn sets_of(redis: &mut Connection, namespace: &str, id: u64) -> Vec<&'static str> {
    let is_in = |redis: &mut Connection, set: &str| {
        redis.zscore::<_, _, Option<f64>>(format!("{namespace}:{set}"), id).expect("a score").is_some()
    };
    SETS.into_iter().filter(|set| is_in(redis, set)).collect()
}

/// A loopback address of this process. A port that is released for a moment, or that must have no listener, stays free there
/// although other programs of the machine take ports.
pub fn own_ip() -> Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    // The first address of a network is none of a machine; the next process has the second one.
    let (net, low) = if low == 0 { (64, 1) } else { (32, low) };
    Ipv4Addr::new(127, net | (high & 31), middle, low)
}
