//! A Redis of the measurement, with a namespace in it and the components that work for it, each a process.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::service::llts_program;
use super::{Bench, BenchError};
use api::config::{ManagerConfig, TdfTaskDefaults};
use base::tdf::TaskId;
use proc::clock;
use proc::signals::with_clean_mask;
use tdf::shell::{Namespace, Order};

/// The name of the namespace.
pub(crate) const NAMESPACE: &str = "bench";

/// The program of its tasks, which does nothing.
pub(crate) const PROGRAM: &str = "nothing";

/// A redis-server answers within far less.
const START_MAX: Duration = Duration::from_secs(10);

/// Between two looks at what is counted; it costs Redis little.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Redis and the components. Dropping it ends all of them.
#[derive(Debug)]
pub(crate) struct Ground {
    folder: PathBuf,
    port: u16,
    redis: Child,
    parts: Vec<Child>,
    defaults: TdfTaskDefaults,
}

impl Ground {
    /// Starts an empty Redis without persistence, whose cost is that of a disk.
    pub(crate) fn start(bench: &mut Bench<'_>) -> Result<Self, BenchError> {
        let folder = bench.place.folder().join(format!("tdf-{:016x}", rand::random::<u64>()));
        let (program, run) = (folder.join(PROGRAM), folder.join(PROGRAM).join("run.sh"));
        fs::create_dir_all(&program).map_err(BenchError::io("make a folder"))?;
        fs::copy(bench.place.tool(super::place::NOTHING)?.join("run.sh"), run)
            .map_err(BenchError::io("copy run.sh"))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(BenchError::io("find a free port"))?;
        let port = listener.local_addr().map_err(BenchError::io("find a free port"))?.port();
        drop(listener);
        let head = format!("[redis]\nhost=127.0.0.1\nport={port}\n[tdf]\nnamespace={NAMESPACE}\n");
        let worker = "[worker]\ntask_output_filename=$worker.out\ntask_error_filename=$worker.err\n\
            sleep_after_success=0\nsleep_after_failure=0\nsleep_after_no_process_claimed=2.0\n";
        for (name, rest) in [
            ("worker.cfg", worker),
            ("server.cfg", "[server]\nround_duration=1.0\n"),
            ("busy.cfg", "[server]\nround_duration=0\n"),
            ("manager.cfg", "[manager]\nround_duration=1.0\n[task_defaults]\n"),
        ] {
            fs::write(folder.join(name), format!("{head}{rest}")).map_err(BenchError::io("write a configuration"))?;
        }
        let defaults = ManagerConfig::load(&folder.join("manager.cfg"))?.task_defaults;
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let redis = with_clean_mask(|| command.spawn()).map_err(BenchError::io("start redis-server"))?;
        let ground = Self { folder, port, redis, parts: Vec::new(), defaults };
        let until = clock::now().mono + START_MAX;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if until.since(clock::now().mono).is_zero() {
                return Err(BenchError::Unexpected("redis-server does not answer".to_owned()));
            }
            bench.pause(LOOK_INTERVAL)?;
        }
        Ok(ground)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A plain connection.
    pub(crate) fn connect(&self) -> Result<redis::Connection, BenchError> {
        Ok(redis::Client::open((Ipv4Addr::LOCALHOST.to_string(), self.port))?.get_connection()?)
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// A connection of ours.
    pub(crate) fn namespace(&self) -> Result<Namespace, BenchError> {
        let config = ManagerConfig::load(&self.folder.join("manager.cfg"))?;
        Ok(Namespace::connect(&config.tdf.redis, NAMESPACE)?)
    }

    /// Starts `llts tdf` with these arguments. Its pid.
    pub(crate) fn component(&mut self, arguments: &[&str]) -> Result<u32, BenchError> {
        let mut command = Command::new(llts_program()?);
        command.arg("tdf").args(arguments).current_dir(&self.folder).env("LLTS_HOME", &self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = with_clean_mask(|| command.spawn()).map_err(BenchError::io("start llts tdf"))?;
        let pid = child.id();
        self.parts.push(child);
        Ok(pid)
    }

    /// Starts so many workers, and a server.
    pub(crate) fn staff(&mut self, workers: usize) -> Result<(), BenchError> {
        for number in 1..=workers {
            self.component(&["worker", &format!("w{number}"), "worker.cfg"])?;
        }
        self.component(&["server", "s", "server.cfg"]).map(drop)
    }

    /// Opens so many tasks of the program that does nothing.
    pub(crate) fn open(&self, namespace: &mut Namespace, count: usize) -> Result<Vec<TaskId>, BenchError> {
        let script = self.folder.join(PROGRAM).join("run.sh");
        let script = script.canonicalize().map_err(BenchError::io("find run.sh"))?;
        let source = format!("rsync:{}", script.display());
        let orders = vec![Order::new(PROGRAM, &source, "1"); count];
        Ok(namespace.open(&orders, &self.defaults, rand::random(), rand::random)?)
    }

    /// Waits until a set has so many tasks.
    pub(crate) fn until(
        &self,
        redis: &mut redis::Connection,
        set: &str,
        count: usize,
        bench: &mut Bench<'_>,
    ) -> Result<(), BenchError> {
        while self.count(redis, set)? < count {
            bench.pause(LOOK_INTERVAL)?;
        }
        Ok(())
    }

    pub(crate) fn count(&self, redis: &mut redis::Connection, set: &str) -> Result<usize, BenchError> {
        Ok(redis::cmd("ZCARD").arg(format!("{NAMESPACE}:{set}")).query(redis)?)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for part in &self.parts {
            // A worker ends what it has started.
            let _ = kill_process(Pid::from_child(part), Signal::TERM);
        }
        for part in &mut self.parts {
            let _ = part.wait();
        }
        let _ = self.redis.kill();
        let _ = self.redis.wait();
    }
}
