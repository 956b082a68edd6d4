//! The load of the storm: clients that submit, and remember what was accepted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::crash::sandbox::eventually;
use testkit::{Client, id_of};

/// A run tells the file outside of its folder when it starts and when it ends; a stray child outlives run.sh and ignores
/// SIGTERM. One `printf` is one write, which O_APPEND keeps whole.
pub(crate) const TOOL: &str = "\
printf 'start %s %s\\n' \"$__TASK_ID__\" \"$__ROUND__\" >> \"$PLACE/runs\"
[ -z \"$PARAM_stray\" ] || setsid sh -c 'trap \"\" TERM; sleep 1000' &
sleep \"$PARAM_seconds\"
echo \"$__ROUND__\" > report.log
printf 'end %s %s\\n' \"$__TASK_ID__\" \"$__ROUND__\" >> \"$PLACE/runs\"";

/// The same for tasks that one process has one after the other.
pub(crate) const STAYING_TOOL: &str = "\
#!/usr/bin/env python3
import json, os, signal, socket, subprocess, time

line = socket.socket(fileno=int(os.environ['LLTS_STAY_FD']))
lines = line.makefile()
runs = os.open(os.environ['PLACE'] + '/runs', os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def say(**message):
    line.sendall(json.dumps(message).encode() + b'\\n')

say(type='ready', version=1)
for message in map(json.loads, lines):
    if message['type'] == 'stop':
        break
    if message['type'] != 'task':
        continue
    task, this = message['task'], {key: message[key] for key in ('id', 'round')}
    os.write(runs, 'start {id} {round}\\n'.format(**this).encode())
    if 'stray' in task:
        subprocess.Popen(['sh', '-c', 'trap \"\" TERM; sleep 1000'], start_new_session=True)
    time.sleep(float(task['seconds']))
    os.write(runs, 'end {id} {round}\\n'.format(**this).encode())
    say(type='done', exit_code=0, report=str(this['round']) + '\\n', **this)
";

/// One task in so many leaves a child behind.
const STRAY_EVERY: usize = 7;

/// The progress of the storm. The clients keep pace with the kills, so that there is work whenever a process dies.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) kills: AtomicUsize,
    kills_max: usize,
    submits: AtomicUsize,
    submits_max: usize,
}

impl Progress {
    pub(crate) const fn new(kills_max: usize, submits_max: usize) -> Self {
        Self { kills: AtomicUsize::new(0), kills_max, submits: AtomicUsize::new(0), submits_max }
    }

    /// The number of the next task, when it is its turn; `None` after the last one.
    fn next(&self) -> Option<usize> {
        let number = self.submits.fetch_add(1, Ordering::Relaxed);
        if number >= self.submits_max {
            return None;
        }
        let is_due = || number * (self.kills_max + 1) <= self.submits_max * (self.kills.load(Ordering::Relaxed) + 1);
        eventually("the storm goes on", is_due);
        Some(number)
    }
}

/// Submits until the load has ended: the number of each accepted task, with its id. A submit without an answer is not
/// tried again: its task may exist or not, but not twice.
pub(crate) fn submit(endpoint: &str, progress: &Progress, push_to: &str, seed: u64) -> BTreeMap<usize, String> {
    let mut random = StdRng::seed_from_u64(seed);
    let client = Client::that_persists(endpoint);
    let mut accepted = BTreeMap::new();
    while let Some(number) = progress.next() {
        std::thread::park_timeout(Duration::from_millis(random.random_range(0..150)));
        let mut request = json!({
            "__OPERATION__": "append",
            "__ADDRESS__": push_to,
            "number": number,
            "seconds": format!("0.{:03}", random.random_range(1..80)),
        });
        if number % STRAY_EVERY == 0 {
            request["stray"] = "1".into();
        }
        if let Some(answer) = client.try_ask("TASK/SUBMIT", request) {
            let id = id_of(&answer).unwrap_or_else(|| panic!("nothing is full here: {answer}"));
            accepted.insert(number, id);
        }
    }
    accepted
}
