//! Events in random order, with late results of moves: a file is never in two places, and never lost.
#![cfg(test)]

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use super::*;

const FILES: usize = 12;

/// A world whose effects on files are carried out some time later, in order.
struct Chaos {
    world: World,
    dice: Xoshiro256PlusPlus,
    /// File effects that are under way.
    waiting: VecDeque<Effect>,
    open: Vec<Connection>,
    vanished: usize,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let few = Settings {
            lease: Duration::from_secs(15),
            sending_bytes_max: 20,
            connections_max: 5,
            secret: Some("open".into()),
            ..settings()
        };
        let mut world = World::with(few, &[]);
        for number in 0..FILES {
            let front = Front {
                priority: dice.random_range(-1..=1),
                timeout: dice.random_bool(0.3).then(|| Duration::from_secs(dice.random_range(1..20))),
                max_fails: dice.random_range(0..3),
                gates: if dice.random_bool(0.3) { vec!["g".into()] } else { Vec::new() },
            };
            let content = match dice.random_range(0..10) {
                0 => Content::Unfit,
                1 => Content::Unmovable,
                _ => Content::Prompt(front, "prompt".into()),
            };
            world.folders.pending.insert(format!("f{number}").as_str().into(), content);
        }
        Self { world, dice, waiting: VecDeque::new(), open: Vec::new(), vanished: 0 }
    }

    fn step(&mut self) {
        let World { master, now, folders, connections, .. } = &mut self.world;
        let connection = (!self.open.is_empty()).then(|| self.open[self.dice.random_range(0..self.open.len())]);
        match (self.dice.random_range(0..100), connection) {
            (0..10, _) if self.open.len() < 6 => {
                *connections += 1;
                let connection = Connection(*connections);
                self.open.push(connection);
                let origin = Origin::new(([192, 0, 2, self.dice.random_range(0..3)], 1).into());
                master.handle_connected(*now, connection, origin);
                if self.dice.random_bool(0.8) {
                    let splits = self.dice.random_bool(0.5);
                    let secret = Some(if self.dice.random_bool(0.8) { "open" } else { "guess" }.to_owned());
                    let held = master.peers.iter().filter_map(|(_, peer)| peer.held()?.run.clone());
                    let runs: Vec<_> = held.chain(master.orphans.keys().cloned()).chain(["x".into()]).collect();
                    let run = runs[self.dice.random_range(0..runs.len())].clone();
                    let run = self.dice.random_bool(0.5).then_some(run);
                    let (resumes, gate) = (self.dice.random_bool(0.6), self.dice.random_bool(0.3).then(|| "g".into()));
                    let offer = Offer { resumes, run, gate, tails: resumes };
                    let join = FromWorker::Join { worker: "w".into(), secret, splits, offer };
                    master.handle_message(*now, connection, join);
                }
            }
            (10..15, Some(connection)) => {
                self.open.retain(|open| *open != connection);
                master.handle_closed(*now, connection);
            }
            (15..55, Some(connection)) => {
                let message = self.message(connection);
                self.world.master.handle_message(self.world.now, connection, message);
            }
            (55..57, Some(connection)) => {
                master.handle_bad_message(*now, connection, &MessageError::Malformed("x".into()));
            }
            (57..65, _) => {
                let passed = Duration::from_millis(self.dice.random_range(0..4000));
                now.mono = now.mono + passed;
                master.handle_timeout(*now);
            }
            (65, _) => {
                let file: FileName = format!("f{}", self.dice.random_range(0..FILES)).as_str().into();
                if let Some(Content::Prompt(front, _)) = folders.pending.get(&file) {
                    master.handle_found(*now, file, front);
                }
            }
            (66, _) if self.dice.random_bool(0.3) => {
                self.world.answers.is_full = !self.world.answers.is_full;
            }
            (67..69, _) => self.world.folders.stuck = self.dice.random_bool(0.3),
            (69, _) if self.dice.random_bool(0.2) => self.vanish(),
            _ => self.file_effect(),
        }
        self.drain();
    }

    fn message(&mut self, connection: Connection) -> FromWorker {
        let outstanding = self.world.master.peers.get(connection).and_then(|peer| peer.outstanding().first_key_value());
        let id = outstanding.map_or_else(|| "x".into(), |(id, _)| id.clone());
        match self.dice.random_range(0..14) {
            0..5 => FromWorker::RequestAck(id),
            5..7 => FromWorker::CheckAck(id),
            7 | 8 => FromWorker::Done { text: String::new() },
            9 => FromWorker::Failed { reason: String::new(), is_loss: self.dice.random_bool(0.3) },
            10 => {
                let retry_after = self.dice.random_bool(0.7).then(|| Duration::from_secs(5));
                let is_local = self.dice.random_bool(0.3);
                FromWorker::UsageLimited { retry_after, is_local, reason: String::new() }
            }
            12 => {
                let order = if self.dice.random_bool(0.3) { Order::Pause } else { Order::Resume };
                FromWorker::Order { order, secret: Some("open".into()) }
            }
            11 => FromWorker::Status { secret: Some(if self.dice.random_bool(0.8) { "open" } else { "guess" }.into()) },
            _ => FromWorker::Leave,
        }
    }

    /// Another process deletes a file of `working/`.
    fn vanish(&mut self) {
        if self.world.folders.working.pop_first().is_some() {
            self.vanished += 1;
        }
    }

    fn file_effect(&mut self) {
        if let Some(effect) = self.waiting.pop_front() {
            self.world.apply(effect);
        }
    }

    fn drain(&mut self) {
        self.world.master.sanity_check();
        while let Some(effect) = self.world.master.poll_effect() {
            match effect {
                Effect::Claim(_) | Effect::Move(..) | Effect::Scan | Effect::StoreAnswer(..) => {
                    self.waiting.push_back(effect);
                }
                Effect::Close(connection) | Effect::Abort(connection) => {
                    if matches!(effect, Effect::Close(_)) && self.dice.random_bool(0.5) {
                        self.world.master.handle_closed(self.world.now, connection);
                    }
                    self.open.retain(|open| *open != connection);
                }
                Effect::Send(..)
                | Effect::NoteFails(..)
                | Effect::NoteRun(..)
                | Effect::NoteLosses(..)
                | Effect::NoteGate(..)
                | Effect::NotePause(_)
                | Effect::NoteCost(..)
                | Effect::NoteCostMax(_)
                | Effect::ReadTail(..)
                | Effect::StorePart(_)
                | Effect::Exit => self.world.apply(effect),
            }
        }
        self.world.master.sanity_check();
        let [pending, working, done, failed] = self.world.counts();
        assert_eq!(pending + working + done + failed + self.vanished, FILES);
        self.world.inboxes.clear();
    }

    /// A well-behaved worker comes and processes everything.
    fn finish(&mut self) {
        self.world.folders.stuck = false;
        self.world.answers.is_full = false;
        for connection in std::mem::take(&mut self.open) {
            self.world.master.handle_closed(self.world.now, connection);
        }
        while !self.waiting.is_empty() {
            self.file_effect();
            self.drain();
        }
        let worker = self.world.join();
        self.world.orders(worker, Order::Resume);
        for _ in 0..2000 {
            for message in self.world.heard(worker) {
                if let FromMaster::Request(request) = message {
                    self.world.says(worker, FromWorker::RequestAck(request.id));
                    self.world.done(worker);
                }
            }
            self.world.wait(1.0);
        }
        let [pending, working, ..] = self.world.counts();
        let left = self.world.folders.pending.values().filter(|content| !matches!(content, Content::Unmovable)).count();
        assert_eq!((left, working), (0, 0), "{pending} files wait forever: {:?}", self.world.folders.pending);
        let totals = self.world.master.totals(self.world.now);
        assert_eq!(totals.all as usize, FILES - self.vanished);
        assert_eq!(totals.succeeded as usize, self.world.folders.done.len());
        assert_eq!(totals.failed as usize, self.world.folders.failed.len());
    }
}

#[test]
fn no_order_of_events_loses_or_doubles_a_file() {
    for seed in 0..300 {
        let run = std::panic::catch_unwind(|| {
            let mut chaos = Chaos::new(seed);
            for _ in 0..400 {
                chaos.step();
            }
            chaos.finish();
        });
        assert!(run.is_ok(), "seed {seed} fails");
    }
}
