//! Clients that follow the output of a prompt. The worker that runs the prompt answers a request; after its end, the folders do. While
//! the prompt is on its way from one to the other, the request waits.
//!
//! A waiting client is a connection that has not joined: when its time for a JOIN has passed, it gets an empty part, and asks again. So
//! a request that was lost with a worker is repeated, and a client that has gone is noticed.
//!
//! If a run ends without a result, the part contains a note, and the client may wait for the next run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::peer::{Peer, State};
use super::{Connection, Effect, FileName, Master};
use crate::wire::{FromMaster, RequestId, TailOrder, TailPart, TailQuery};
use base::Now;

/// How long a client may take to write a part: its reader may be a pager.
const READING_MAX: Duration = Duration::from_secs(3600);

/// The clients that follow outputs, and the outputs that workers have kept for them.
#[derive(Debug, Default)]
pub(super) struct Tails {
    /// The clients that wait for a part.
    waiting: BTreeMap<Connection, TailQuery>,
    /// The clients that will ask for the next part.
    followers: BTreeSet<Connection>,
    /// The workers that have kept the output of a run without a result, by waiting prompt.
    attempts: BTreeMap<FileName, Connection>,
}

impl Tails {
    /// Whether this client will request more of an output.
    pub(super) fn is_followed_by(&self, client: Connection) -> bool {
        self.followers.contains(&client)
    }

    /// A run without a result has ended, and its worker keeps the output.
    pub(super) fn note_attempt(&mut self, file: FileName, worker: Connection) {
        self.attempts.insert(file, worker);
    }

    /// The result of a prompt is in place.
    pub(super) fn forget_attempt(&mut self, file: &FileName) {
        self.attempts.remove(file);
    }

    pub(super) fn forget(&mut self, connection: Connection) {
        self.waiting.remove(&connection);
        self.followers.remove(&connection);
        self.attempts.retain(|_, worker| *worker != connection);
    }
}

/// The place of a requested prompt.
enum Whereabouts {
    /// At a worker that can send the output of this run, or the kept output of the last one.
    Worker(Connection, Option<RequestId>),
    /// At a worker that cannot send its output.
    Original(String),
    /// At a worker without a connection.
    Away(RequestId),
    /// Being moved or handed out.
    Moving,
    /// In one of the folders, or nowhere.
    Folder,
}

impl Master {
    /// A client asks for the next part of an output.
    pub(super) fn tail(&mut self, now: Now, client: Connection, query: TailQuery) {
        let file = FileName::from(query.file.as_str());
        self.tails.followers.remove(&client);
        let part = |run: &RequestId, again, note| {
            let (run, offset) = (run.label(), query.offset);
            TailPart { run, offset, ended: again, again, note, ..TailPart::default() }
        };
        let is_other = |run: &RequestId| query.run.as_ref().is_some_and(|label| *label != run.label());
        let waits = self.files.is_known(&file);
        match self.whereabouts(&file) {
            Whereabouts::Worker(worker, Some(run)) if is_other(&run) && !query.next => {
                let note =
                    format!("that run has ended without a result; {file} runs again, at {}", self.name_of(worker));
                self.send_tail(now, client, part(&run, true, note));
            }
            // The output of the last run is not wanted.
            Whereabouts::Worker(_, None) if query.next => drop(self.tails.waiting.insert(client, query)),
            Whereabouts::Folder if query.next && waits => drop(self.tails.waiting.insert(client, query)),
            Whereabouts::Worker(worker, run) => {
                let TailQuery { file, output, offset, .. } = query.clone();
                let order = TailOrder { tail: client.0, run, file, output, offset };
                self.effects.push_back(Effect::Send(worker, FromMaster::Tail(Box::new(order))));
                self.tails.waiting.insert(client, query);
            }
            Whereabouts::Original(worker) => {
                let reason = format!(
                    "{file} runs at {worker}, which cannot be asked for its output: it is an original worker, or of a former version"
                );
                self.refuse_tail(now, client, reason);
            }
            // The next master may know it.
            Whereabouts::Away(_) | Whereabouts::Moving if self.phase.is_stopping() => {
                self.disconnect(now, client, "the master stops", None);
            }
            Whereabouts::Away(run) if query.run.is_none() => {
                let note = format!("{file} is with a worker that has no connection; waiting for it");
                self.send_tail(now, client, part(&run, false, note));
            }
            Whereabouts::Away(_) | Whereabouts::Moving => drop(self.tails.waiting.insert(client, query)),
            Whereabouts::Folder => {
                self.effects.push_back(Effect::ReadTail(client, Box::new(query.clone())));
                self.tails.waiting.insert(client, query);
            }
        }
    }

    fn whereabouts(&self, file: &FileName) -> Whereabouts {
        let holder = self.peers.iter().find_map(|(connection, peer)| {
            let held = peer.held().filter(|held| held.file == *file)?;
            Some((connection, peer, held.run.clone()))
        });
        let is_claimed = self.dispatch.claim().is_some_and(|claim| claim.file == *file);
        match holder {
            Some((_, peer, _)) if !peer.tails() => Whereabouts::Original(peer.name()),
            Some((worker, Peer { state: State::Working(..), .. }, run)) => Whereabouts::Worker(worker, run),
            Some(_) => Whereabouts::Moving,
            None if is_claimed || self.files.is_leaving(file) => Whereabouts::Moving,
            None => {
                let away = self.orphans.iter().find(|(_, orphan)| orphan.held.file == *file);
                let kept = self.tails.attempts.get(file).filter(|_| self.files.is_known(file)).copied();
                let kept = kept.filter(|worker| self.peers.get(*worker).is_some_and(Peer::is_worker));
                match (away, kept) {
                    (Some((run, _)), _) => Whereabouts::Away(run.clone()),
                    (None, Some(worker)) => Whereabouts::Worker(worker, None),
                    (None, None) => Whereabouts::Folder,
                }
            }
        }
    }

    /// The worker of a prompt has sent a part.
    pub(super) fn tail_part(&mut self, now: Now, worker: Connection, mut part: TailPart) {
        let client = Connection(std::mem::take(&mut part.tail));
        let is_wanted = self.tails.waiting.get(&client).is_some_and(|query| query.offset == part.offset);
        let Some(peer) = self.peers.get(worker).filter(|peer| is_wanted && peer.tails()) else {
            return self.ignored += 1;
        };
        let is_of_query = |file: &FileName| self.tails.waiting.get(&client).map(|query| &*query.file) == file.as_text();
        let run = peer.held().filter(|held| is_of_query(&held.file)).and_then(|held| held.run.as_ref());
        // Otherwise it is the kept output of the last run.
        (part.again, part.run) = (part.ended && run.is_none(), run.map(RequestId::label).unwrap_or_default());
        self.send_tail(now, client, part);
    }

    /// The result of an [`Effect::ReadTail`]: a part, or one sentence.
    pub fn handle_tail_read(&mut self, now: Now, client: Connection, part: Result<TailPart, String>) {
        match part {
            Ok(part) => self.send_tail(now, client, part),
            Err(reason) => self.refuse_tail(now, client, reason),
        }
    }

    fn send_tail(&mut self, now: Now, client: Connection, part: TailPart) {
        self.tails.waiting.remove(&client);
        if self.peers.get(client).is_some_and(|peer| peer.state == State::Stranger) {
            let patience = if part.ended { self.settings.join_timeout } else { READING_MAX };
            self.timers.set(super::Timer::Join(client), now.mono + patience);
            if !part.ended {
                self.tails.followers.insert(client);
            }
            self.effects.push_back(Effect::Send(client, FromMaster::TailPart(Box::new(part))));
        }
    }

    fn refuse_tail(&mut self, now: Now, client: Connection, reason: String) {
        self.tails.waiting.remove(&client);
        if self.peers.get(client).is_some_and(|peer| peer.state == State::Stranger) {
            self.effects.push_back(Effect::Send(client, FromMaster::Refused(reason)));
            self.disconnect(now, client, "it has its answer", None);
        }
    }

    /// A client has waited for a while, and gets an empty part. False if the connection is not a waiting client.
    pub(super) fn renew_tail(&mut self, now: Now, client: Connection) -> bool {
        let Some(query) = self.tails.waiting.get(&client) else { return false };
        let (run, offset) = (query.run.clone().unwrap_or_default(), query.offset);
        self.send_tail(now, client, TailPart { run, offset, ..TailPart::default() });
        true
    }

    /// A prompt has another place: the requests for its output are tried again.
    pub(super) fn move_tails(&mut self, now: Now, file: &FileName) {
        let of_file = self.tails.waiting.iter().filter(|(_, query)| file.as_text() == Some(&query.file));
        let of_file: Vec<(Connection, TailQuery)> = of_file.map(|(client, query)| (*client, query.clone())).collect();
        for (client, query) in of_file {
            self.tail(now, client, query);
        }
    }
}
