//! A real Redis on a free port, without persistence, in a temporary folder; it ends with the test.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::{Commands as _, Connection};

/// A Redis answers within far less.
const ATTEMPTS: u32 = 2_000;

/// A running redis-server.
pub(crate) struct Redis {
    folder: tempfile::TempDir,
    port: u16,
    options: Vec<String>,
    child: Option<Child>,
}

impl Redis {
    /// Starts one. Install it with scripts/test.sh if it is missing.
    pub(crate) fn start() -> Self {
        Self::with_options(&[])
    }

    /// The same with options of redis-server, such as `--requirepass`.
    pub(crate) fn with_options(options: &[&str]) -> Self {
        // Another program can take the port in between; then this one is taken again.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let mut redis = Self { folder: tempfile::tempdir().unwrap(), port, options, child: None };
        redis.restart();
        redis
    }

    /// Starts it on its port, after [`Self::kill`] without what it held.
    pub(crate) fn restart(&mut self) {
        let port = self.port.to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(&self.options);
        // An option that ends with the name of another port has this one as its value.
        if self.options.last().is_some_and(|option| option.ends_with("-port")) {
            command.arg(&port);
        }
        command.current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("redis-server; scripts/test.sh installs it"));
        let answers = (0..ATTEMPTS).any(|_| {
            std::thread::park_timeout(Duration::from_millis(5));
            std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        assert!(answers, "redis-server does not listen on port {port}");
    }

    /// Ends it at once; what it held is gone.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A plain connection, for what an original component does.
    pub(crate) fn connect(&self) -> Connection {
        redis::Client::open(("127.0.0.1", self.port)).unwrap().get_connection().unwrap()
    }

    /// Writes a configuration for `[redis]`, `[tdf]` with this namespace, and what else is given.
    pub(crate) fn write_config(&self, name: &str, namespace: &str, rest: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let text = format!(
            "[redis]\nhost=127.0.0.1\nport={}\npassword=None\ndb=0\n\n[tdf]\nnamespace={namespace}\n\n{rest}",
            self.port
        );
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The sets that a task is in, by the names of their keys.
pub(crate) fn sets_of(redis: &mut Connection, namespace: &str, id: u64) -> Vec<&'static str> {
    let names = [
        "open",
        "running",
        "executed",
        "timeout",
        "timed_out",
        "expired",
        "succeeded",
        "failure",
        "failed",
        "archived",
    ];
    names
        .into_iter()
        .filter(|name| redis.zscore::<_, _, Option<f64>>(format!("{namespace}:{name}"), id).unwrap().is_some())
        .collect()
}
