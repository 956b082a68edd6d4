//! The prompts of workers without a connection. A worker that has declared in its JOIN that it resumes keeps its run when the connection
//! breaks, or when the master is restarted. Its prompt stays in `working/` until the worker names the run in another JOIN, or until
//! the lease ends.
//!
//! A run is identified by the id of its request, which cannot be guessed. A restarted master knows the runs, and since when their
//! workers have no connection, by notes ([`Effect::NoteRun`]).

use std::collections::BTreeMap;
use std::time::Duration;

use super::files::Held;
use super::peer::{Peer, State};
use super::{Connection, Destination, Effect, FileName, Master, Timer};
use crate::wire::{FromMaster, Front, Offer, RequestId, Welcome};
use base::{Now, Wall};

/// The longest lease of a worker whose side has closed the connection, or that has not acknowledged its prompt. A living worker joins
/// again at once, a killed one never does. A connection that breaks silently has the whole lease.
pub(super) const CLOSED_GRACE: Duration = Duration::from_secs(10);

/// A file of `working/` that an earlier master has handed out to a worker that resumes.
#[derive(Clone, Debug)]
pub struct KeptRun {
    /// The name of the file.
    pub file: FileName,
    /// Front matter of the file.
    pub front: Front,
    /// The request with which the file was handed out.
    pub run: RequestId,
    /// Since when the worker had no connection under the earlier master; `None` if it had one.
    pub away: Option<Wall>,
}

/// A prompt whose worker has no connection.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) held: Held,
    /// Name of the worker, for people.
    worker: String,
}

pub(super) type Orphans = BTreeMap<RequestId, Orphan>;

impl Master {
    /// The runs that an earlier master has noted. Their workers may still have them.
    pub fn restore_runs(&mut self, now: Now, runs: Vec<KeptRun>) {
        for KeptRun { file, mut front, run, away } in runs {
            front.timeout = front.timeout.or(self.settings.timeout);
            let held =
                Held { fails: self.files.take_restored(&file), file, front, limits: 0, run: Some(run), cost: None };
            // A clock that was set back proves nothing about the worker.
            let away = away.map_or(now.wall, |away| away.min(now.wall));
            let lease = self.settings.lease.saturating_sub(now.wall.since(away));
            self.keep_since(now, held, "the worker of an earlier master", lease, away);
        }
    }

    /// The files in `working/` whose runs have ended under an earlier master, which could not move them.
    pub fn restore_ends(&mut self, ends: impl Iterator<Item = (FileName, Destination)>) {
        for (file, destination) in ends {
            let fails = self.files.take_restored(&file);
            self.release(Held { file, front: Front::default(), fails, limits: 0, run: None, cost: None }, destination);
        }
    }

    /// The lease after a connection has broken silently; `None` if the next worker gets the prompt.
    pub(super) fn lease_of(&self, connection: Connection) -> Option<Duration> {
        let resumes = self.peers.get(connection).is_some_and(Peer::resumes);
        (resumes && !self.settings.lease.is_zero()).then_some(self.settings.lease)
    }

    /// The lease after the side of the worker has closed the connection.
    pub(super) fn grace_of(&self, connection: Connection) -> Option<Duration> {
        self.lease_of(connection).map(|lease| lease.min(CLOSED_GRACE))
    }

    pub(super) fn keep_for_worker(&mut self, now: Now, held: Held, worker: &str, lease: Duration) {
        self.keep_since(now, held, worker, lease, now.wall);
    }

    /// Keeps the prompt of a worker without a connection since `away`. A restarted master counts the lease from there: otherwise a dead
    /// worker would have its prompt for as long as masters are killed within a lease.
    fn keep_since(&mut self, now: Now, held: Held, worker: &str, lease: Duration, away: Wall) {
        let Some(run) = held.run.clone() else { return self.release(held, Destination::Pending) };
        self.effects.push_back(Effect::NoteRun(held.file.clone(), run.clone(), Some(away)));
        self.journal.info(format!(
            "{} stays with {worker}, which may rejoin within {} s",
            held.file,
            lease.as_secs_f64()
        ));
        self.timers.set(Timer::Lease(run.clone()), now.mono + lease);
        self.orphans.insert(run, Orphan { held, worker: worker.to_owned() });
    }

    /// A worker has not come back in time.
    pub(super) fn end_lease(&mut self, run: &RequestId) {
        if let Some(Orphan { held, worker }) = self.orphans.remove(run) {
            self.lose(held, &format!("{worker} has not rejoined"));
        }
    }

    /// The answer to a JOIN with an offer. The worker goes on with its run, if that is still wanted.
    pub(super) fn welcome(&mut self, now: Now, connection: Connection, offer: &Offer) {
        let run = offer.run.as_ref().filter(|run| self.resume(now, connection, run));
        let welcome = Welcome {
            lease: self.settings.lease,
            run: run.cloned(),
            result_bytes_max: self.settings.result_bytes_max,
            root: self.settings.root_id.clone(),
        };
        let is_unwanted = run.is_none() && offer.run.is_some();
        self.send_paced(now, connection, FromMaster::Welcome(Box::new(welcome)));
        if let Some(file) = self.peers.get(connection).and_then(|peer| Some(peer.held()?.file.clone())) {
            self.move_tails(now, &file);
        }
        if is_unwanted {
            // The worker ends that run, and joins without one.
            self.disconnect(now, connection, "its run is not wanted any more", None);
        }
    }

    fn resume(&mut self, now: Now, connection: Connection, run: &RequestId) -> bool {
        let has_run = |peer: &Peer| peer.held().is_some_and(|held| held.run.as_ref() == Some(run));
        let former = self.peers.iter().find(|(_, peer)| has_run(peer)).map(|(former, _)| former);
        if let Some(former) = former {
            self.disconnect(now, former, "its worker has joined again", Some(self.settings.lease));
        }
        let Some(Orphan { held, .. }) = self.orphans.remove(run) else { return false };
        self.timers.clear(&Timer::Lease(run.clone()));
        self.timers.clear(&Timer::Rest(connection));
        self.journal.info(format!("{} goes on at {}", held.file, self.name_of(connection)));
        self.effects.push_back(Effect::NoteRun(held.file.clone(), run.clone(), None));
        let timeout = held.front.timeout;
        self.peers.set(connection, State::Working(Box::new(held), None), now.mono);
        self.limit_run(now, connection, timeout);
        true
    }

    /// The report of a worker has been carried out, except for effects that come first.
    pub(super) fn acknowledge_report(&mut self, connection: Connection, run: Option<RequestId>) {
        if let Some(run) = run.filter(|_| self.peers.get(connection).is_some_and(Peer::resumes)) {
            self.effects.push_back(Effect::Send(connection, FromMaster::ReportAck(run)));
        }
    }
}
