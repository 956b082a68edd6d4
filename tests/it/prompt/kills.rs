//! kill -9 of the master at any moment: each prompt is in exactly one folder, always.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::prompt::peer::Peer;
use crate::prompt::sandbox::{Master as _, Said, Sandbox, eventually};

const PROMPTS: usize = 400;
const WORKERS: usize = 8;
const KILLS: usize = 25;

/// The workers' knowledge of the master.
#[derive(Default)]
struct Shared {
    port: AtomicU16,
    reports: AtomicUsize,
    over: AtomicBool,
}

/// Works for whatever master is there, until all prompts are done. Every fifth prompt fails; now and then the worker ends
/// silently.
fn work(shared: &Shared, seed: u64) {
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
    while !shared.over.load(Ordering::Relaxed) {
        let Ok(mut peer) = Peer::try_connect(shared.port.load(Ordering::Relaxed)) else {
            std::thread::yield_now();
            continue;
        };
        let say = |peer: &mut Peer, message: Value| peer.try_raw(format!("{message}\n").as_bytes()).is_ok();
        let mut open = say(&mut peer, json!({ "type": "JOIN", "msg": seed.to_string(), "splits": true }));
        while open {
            let Some(message) = peer.next() else { break };
            open = match message["type"].as_str().unwrap() {
                "CHECK" => say(&mut peer, json!({ "type": "CHECK_ACK", "req_id": message["req_id"] })),
                "REQUEST" => {
                    let text = message["msg"].as_str().unwrap();
                    let kind = if text.ends_with('0') || text.ends_with('5') { "FAILED" } else { "DONE" };
                    let stays = !dice.random_bool(0.02);
                    stays
                        && say(&mut peer, json!({ "type": "REQUEST_ACK", "req_id": message["req_id"] }))
                        && !dice.random_bool(0.02)
                        && say(&mut peer, json!({ "type": kind, "msg": "" }))
                        && shared.reports.fetch_add(1, Ordering::Relaxed) < usize::MAX
                }
                _ => true,
            };
        }
    }
}

#[test]
fn no_kill_loses_a_prompt_or_leaves_it_in_two_folders() {
    let names: Vec<String> = (0..PROMPTS).map(|number| format!("task_{number:03}.txt")).collect();
    let prompts: Vec<&str> = names.iter().map(String::as_str).collect();
    let sandbox = Sandbox::new(&[]);
    for name in &prompts {
        sandbox.write(name, name.trim_end_matches(".txt").as_bytes());
    }
    let shared = Arc::new(Shared::default());
    let seed = rand::random();
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut workers = Vec::new();
    let mut reports = 0;
    for round in 0..=KILLS {
        let last = round == KILLS;
        let keys: &[(&str, &str)] = if last { &[("KEEP_ALIVE", "false"), ("TIMER_INTERVAL", "100")] } else { &[] };
        let mut master = sandbox.master(keys);
        shared.port.store(master.port(), Ordering::Relaxed);
        if workers.is_empty() {
            workers = (0..WORKERS)
                .map(|number| {
                    let shared = Arc::clone(&shared);
                    std::thread::spawn(move || work(&shared, seed ^ number as u64))
                })
                .collect();
        }
        if last {
            let Said { code, out: text, .. } = master.said();
            // Whichever of the masters it was that saw them fail.
            assert_eq!(code, Some(1), "{text}");
        } else {
            let left = PROMPTS - sandbox.counts()[2..].iter().sum::<usize>();
            let until = reports + dice.random_range(0..=(left / 4).min(30));
            eventually("reports", || shared.reports.load(Ordering::Relaxed) >= until);
            master.kill();
            reports = shared.reports.load(Ordering::Relaxed);
        }
        let found = sandbox.whereabouts();
        assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), prompts, "seed {seed} round {round}");
        let twice: Vec<_> = found.iter().filter(|(_, folders)| folders.len() != 1).collect();
        assert!(twice.is_empty(), "seed {seed} round {round}: {twice:?}");
    }
    shared.over.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(sandbox.counts(), [0, 0, PROMPTS * 4 / 5, PROMPTS / 5], "seed {seed}");
}
