//! How fast a large master is. It measures and decides nothing:
//!
//! ```text
//! cargo nextest run --release --run-ignored only --no-capture measure_a_thousand_workers
//! ```

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::time::Duration;

use base::Mono;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use proc::clock;

use crate::prompt::sandbox::{Master as _, Sandbox, eventually};

const WORKERS: usize = 1000;
const PROMPTS: usize = 10_000;

/// One of many workers on one thread, so that the measurement costs less than what it measures.
struct Worker {
    stream: TcpStream,
    text: Vec<u8>,
    /// When its last DONE left.
    done: Option<Mono>,
}

impl Worker {
    /// Reads what is there; true when it has taken a REQUEST.
    fn hear(&mut self) -> bool {
        let mut buffer = [0; 65536];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("the master is gone"),
                Ok(count) => self.text.extend(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        let mut requested = false;
        while let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
            let message: serde_json::Value = serde_json::from_slice(&self.text[..end]).unwrap();
            self.text.drain(..=end);
            let answer = match message["type"].as_str().unwrap() {
                "REQUEST" => {
                    requested = true;
                    "REQUEST_ACK"
                }
                "CHECK" => "CHECK_ACK",
                _ => continue,
            };
            self.say(&format!("{{\"type\":\"{answer}\",\"req_id\":{}}}\n", message["req_id"]));
        }
        requested
    }

    fn say(&mut self, line: &str) {
        self.stream.write_all(line.as_bytes()).unwrap();
    }
}

fn resident_kib(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    format!("{} {} {}", line("VmRSS"), line("VmHWM"), line("Threads"))
}

#[test]
#[ignore = "a measurement"]
fn measure_a_thousand_workers() {
    proc::limits::raise_descriptor_limit().unwrap();
    let sandbox = Sandbox::new(&[]);
    for number in 0..PROMPTS {
        sandbox.write(&format!("task_{number:05}.txt"), "Summarise this document, please.\n".repeat(60).as_bytes());
    }
    let started = clock::now().mono;
    let master = sandbox.master(&[]);
    println!("start with {PROMPTS} files: {:?}", clock::now().mono.since(started));
    let mut workers: Vec<Worker> = (0..WORKERS)
        .map(|number| {
            let mut stream = TcpStream::connect(("127.0.0.1", master.port())).unwrap();
            stream.set_nodelay(true).unwrap();
            stream
                .write_all(format!("{{\"type\":\"JOIN\",\"msg\":\"{number}\",\"splits\":true}}\n").as_bytes())
                .unwrap();
            stream.set_nonblocking(true).unwrap();
            Worker { stream, text: Vec::new(), done: None }
        })
        .collect();
    let mut busy: Vec<usize> = Vec::new();
    let mut waits: Vec<Duration> = Vec::new();
    let mut done = 0;
    while done < PROMPTS {
        let ready: Vec<bool> = {
            let mut fds: Vec<PollFd<'_>> =
                workers.iter().map(|worker| PollFd::new(worker.stream.as_fd(), PollFlags::POLLIN)).collect();
            poll(&mut fds, PollTimeout::from(10_u16)).unwrap();
            fds.iter().map(|fd| fd.any().unwrap_or_default()).collect()
        };
        let now = clock::now().mono;
        for (index, _) in ready.iter().enumerate().filter(|(_, ready)| **ready) {
            if workers[index].hear() {
                waits.extend(workers[index].done.take().map(|done| now.since(done)));
                busy.push(index);
            }
        }
        // One DONE at a time, as long as every worker is busy: what is measured is a hand-out, not a queue of them.
        let everybody = workers.iter().all(|worker| worker.done.is_none());
        let all_joined = busy.len() == WORKERS || done > 0;
        if all_joined && everybody && !busy.is_empty() {
            let index = busy.remove(0);
            workers[index].done = (PROMPTS - done > WORKERS).then_some(clock::now().mono);
            workers[index].say("{\"type\":\"DONE\",\"msg\":\"\"}\n");
            done += 1;
        }
    }
    eventually("all is done", || sandbox.names("done").len() == PROMPTS);
    waits.sort_unstable();
    let at = |part: usize| waits[(waits.len() * part / 1000).min(waits.len() - 1)];
    println!("{} hand-outs, one at a time: median {:?}, p99 {:?}, max {:?}", waits.len(), at(500), at(990), at(1000));
    println!("{PROMPTS} prompts in {:?}; master: {}", clock::now().mono.since(started), resident_kib(master.id()));
}
