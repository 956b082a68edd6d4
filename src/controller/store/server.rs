//! The store in PostgreSQL, which one of several controllers leads ([`pgstore`]).
//!
//! The file [`NOTE`] in STATE_DIR has the name of this home as an owner of the lease. Another file notes how far this home has seen
//! the queue ([`seen`]): a server that lacks commits is refused.

mod beside;
mod copied;
mod seen;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::epoch::{machine, next};
use super::place::Queue;
use super::rows::{self, Rows};
use super::{CommitError, StoreError, graphs, settings, task_of};
use crate::archives::Mirror;
use api::config::StoreServer;
use api::wire::graph::GraphRow;
use api::wire::record::{Encoder, Row};
use api::wire::requests::status::QueueView;
use api::wire::rules::Rules;
use base::{Epoch, IncidentKind, Mono, TaskRecord};
use beside::Files;
pub use beside::Keeper;
use copied::check_left;
use engine::{Record, Stored};
pub use pgstore::Leader;
use pgstore::{Batch, Claim, Seen, Session};
use proc::files::state_file;
use proc::{clock, incidents};
use seen::SeenFile;

/// Name of the file in STATE_DIR.
const NOTE: &str = "postgresql";

/// How often a home tells that it stands by.
const STAND_BY_INTERVAL: Duration = Duration::from_secs(1);

/// How often a leader looks at what the server promises.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// The note of a home for its next start.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// Its name as an owner: a copy of the folder on another machine gets another one.
    owner: u64,
    machine: String,
    /// Whether the next start takes the queue as it is.
    accepts_loss: bool,
}

/// A queue in PostgreSQL, led or watched by this home.
#[derive(Debug)]
pub struct ServerStore {
    session: Session,
    server: StoreServer,
    encoder: Encoder,
    note: Note,
    note_at: PathBuf,
    seen: SeenFile,
    /// The content of the file of `seen` at the start, or what this home has seen since.
    last_seen: Option<Seen>,
    is_noted: bool,
    /// The epoch that this controller leads.
    epoch: Option<Epoch>,
    raised: Option<String>,
    /// When this home has told that it stands by.
    stood_by: Option<Mono>,
    /// When the last commit began.
    renewed: Option<Mono>,
    /// The state of the queue at the last look, and the moment of that look.
    looked: Option<(QueueView, Mono)>,
}

impl ServerStore {
    /// Connects, without leading. Tables are made where there are none.
    ///
    /// # Errors
    /// When the server cannot be reached, or its tables cannot be used.
    pub fn open(server: &StoreServer, state_dir: &Path) -> Result<Self, StoreError> {
        let session = Session::open(server.clone())?;
        let note_at = state_dir.join(NOTE);
        let machine = machine();
        let note = state_file::read::<Note>(&note_at).ok().filter(|note| note.machine == machine);
        let is_noted = note.is_some();
        let note = note.unwrap_or_else(|| Note { owner: rand::random(), machine, accepts_loss: false });
        let (seen, last_seen) = SeenFile::of(state_dir);
        let encoder = Encoder::default();
        let server = server.clone();
        Ok(Self {
            session,
            server,
            encoder,
            note,
            note_at,
            seen,
            last_seen,
            is_noted,
            epoch: None,
            raised: None,
            stood_by: None,
            renewed: None,
            looked: None,
        })
    }

    /// The name of the server for sentences.
    #[must_use]
    pub fn place(&self) -> String {
        self.session.place()
    }

    /// Begins to lead, or tells which controller does. `random` is for the epoch of a new queue.
    ///
    /// # Errors
    /// When the server does not answer, or lacks what this home has seen.
    pub fn lead_or_follow(
        &mut self,
        address: &str,
        state_dir: &Path,
        random: u64,
    ) -> Result<Option<Leader>, StoreError> {
        check_left(state_dir, &self.place())?;
        let now = clock::now();
        let before = self.session.leader()?;
        let accepts_loss = self.note.accepts_loss;
        // Others know this home by its note as soon as it leads.
        if !self.is_noted {
            self.write_note()?;
        }
        let claim = Claim {
            owner: self.owner(state_dir),
            address: address.to_owned(),
            first: next(None, false, now.wall, random),
            seen: self.last_seen,
            accepts_loss,
        };
        match self.session.lead(&claim)? {
            Ok(epoch) => {
                self.epoch = Some(epoch);
                self.raised = accepts_loss.then(|| format!("the queue in {} is taken as it is", self.place()));
                if std::mem::take(&mut self.note.accepts_loss) {
                    self.write_note()?;
                }
                self.see(None);
                self.stand_by_no_more(state_dir);
                self.tell_of_change(state_dir, before.as_ref());
                Ok(None)
            }
            Err(leader) => {
                self.see(Some(&leader));
                self.stand_by(now.mono, state_dir)?;
                Ok(Some(leader))
            }
        }
    }

    /// The archives and files of the queue, for its leader or to read them.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn files(&self, state_dir: &Path) -> Result<Box<dyn Mirror>, StoreError> {
        Ok(Box::new(Files::open(&self.server, self.epoch, home(state_dir))?))
    }

    /// Keeps the lease while this controller loads its queue.
    ///
    /// # Errors
    /// When threads have run out.
    pub fn keep_lease(&self) -> std::io::Result<Keeper> {
        Keeper::start(self.server.clone(), self.epoch.unwrap_or_default(), self.session.lease() / 4)
    }

    /// The name of this home as an owner of the lease.
    fn owner(&self, state_dir: &Path) -> String {
        format!("{} {:016x}", home(state_dir), self.note.owner)
    }

    /// The leader at this moment, unless that is this home.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn other_leader(&mut self, state_dir: &Path) -> Result<Option<Leader>, StoreError> {
        let own = self.owner(state_dir);
        let leader = self.session.leader()?;
        if !leader.as_ref().is_some_and(Leader::is_moved) {
            check_left(state_dir, &self.place())?;
        }
        Ok(leader.filter(|leader| !leader.rest.is_zero() && leader.owner != own))
    }

    /// Tells that this home waits to lead, at most once a second.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn stand_by(&mut self, now: Mono, state_dir: &Path) -> Result<(), StoreError> {
        if self.stood_by.is_none_or(|at| now.since(at) >= STAND_BY_INTERVAL) {
            self.session.stand_by(&self.owner(state_dir))?;
            self.stood_by = Some(now);
        }
        Ok(())
    }

    /// Tells that this home does not wait any more.
    pub fn stand_by_no_more(&mut self, state_dir: &Path) {
        if self.stood_by.take().is_some() {
            // If this fails, it does no harm: a home that says nothing for some seconds is not counted either.
            let _ = self.session.stand_by_no_more(&self.owner(state_dir));
        }
    }

    /// Leaves an incident if another home has led the queue.
    fn tell_of_change(&self, state_dir: &Path, before: Option<&Leader>) {
        let Some(before) = before.filter(|leader| leader.owner != self.owner(state_dir)) else { return };
        let epoch = self.epoch.map(|epoch| epoch.number).unwrap_or_default();
        let line = format!("this home leads the queue in {} in epoch {epoch}, after {}", self.place(), before.home());
        if let Err(error) = incidents::leave(state_dir, IncidentKind::Leads, &line) {
            log::warn!("an incident cannot be left in {}: {error}", state_dir.display());
        }
    }

    /// The state of the queue, for people.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn queue(&mut self) -> Result<Queue, StoreError> {
        let leader = self.session.leader()?.filter(|leader| !leader.rest.is_zero());
        let (standbys, survives) = (self.session.standbys()?, self.session.survives()?);
        Ok(Queue { place: self.place(), leader, standbys, survives })
    }

    /// The state of the queue, if it has changed. It is looked at when the number of standbys has changed, and now and then.
    pub fn take_change(&mut self) -> Option<QueueView> {
        let now = clock::now().mono;
        let is_fresh = |(view, at): &(QueueView, Mono)| {
            now.since(*at) < LOOK_INTERVAL && view.standbys.len() == self.session.standby_count()
        };
        let is_due = self.session.is_connected() && !self.looked.as_ref().is_some_and(is_fresh);
        if self.epoch.is_none() || !is_due {
            return None;
        }
        let Queue { place, leader, standbys, survives } = self.queue().ok()?;
        let since = leader.map(|leader| leader.since).unwrap_or_default();
        let view = QueueView { place, since, standbys, survives };
        let is_same = self.looked.as_ref().is_some_and(|(before, _)| *before == view);
        self.looked = Some((view.clone(), now));
        (!is_same).then_some(view)
    }

    /// Notes how far the queue has come; a session that leads knows it by itself.
    fn see(&mut self, leader: Option<&Leader>) {
        if let Some(seen) = leader.map(Leader::seen).or(self.session.seen()) {
            self.seen.write(seen);
            self.last_seen = Some(seen);
        }
    }

    fn write_note(&mut self) -> Result<(), StoreError> {
        let written = state_file::replace(&self.note_at, &self.note);
        written.map_err(|source| StoreError::Note { path: self.note_at.clone(), source })?;
        self.is_noted = true;
        Ok(())
    }

    /// The epoch of this controller, and why it is not the one that follows the last, if so.
    pub(super) fn take_epoch(&mut self) -> (Option<Epoch>, Option<String>) {
        (self.epoch, self.raised.take())
    }

    /// Stores a turn, and renews the lease.
    ///
    /// # Errors
    /// [`CommitError`]
    pub fn commit<'a>(&mut self, records: impl IntoIterator<Item = &'a Record>) -> Result<(), CommitError> {
        let mut batch = Batch::default();
        for record in records {
            let Ok(()) = rows::write(&mut batch, &mut self.encoder, record);
        }
        let began = clock::now().mono;
        match self.session.commit(&batch) {
            Ok(()) => {
                self.renewed = Some(began);
                self.see(None);
                Ok(())
            }
            // Otherwise its agents and clients would wait here while another controller leads.
            Err(pgstore::CommitError::Unknown(why) | pgstore::CommitError::Later(why)) if self.may_be_deposed() => {
                Err(CommitError::Deposed(format!(
                    "{why}; the lease of this home has ended, and another one stands by, which may lead now"
                )))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether another home may lead, which has stood by and cannot be asked about.
    fn may_be_deposed(&self) -> bool {
        let lease = self.session.lease();
        !self.session.is_connected()
            && self.session.standby_count() > 0
            && self.renewed.is_none_or(|at| clock::now().mono.since(at) >= lease)
    }

    /// All stored data, the tasks in the order of their ids.
    ///
    /// # Errors
    /// When the server does not answer, or a row differs from what was written.
    pub fn load(&mut self, rules: &Rules) -> Result<Stored, StoreError> {
        let mut stored = Stored::default();
        let mut tasks = Vec::new();
        self.read(rules, &mut stored, |record| tasks.push(record))?;
        stored.tasks = tasks;
        Ok(stored)
    }

    /// Reads all rows.
    pub(super) fn read(
        &mut self,
        rules: &Rules,
        stored: &mut Stored,
        mut each: impl FnMut(TaskRecord),
    ) -> Result<(), StoreError> {
        let path = PathBuf::from(self.place());
        let mut bad = None;
        let rest = self.session.read(|row, checksum| match task_of(&row, checksum, &path, rules) {
            Ok(record) => {
                each(record);
                true
            }
            Err(error) => {
                bad = Some(error);
                false
            }
        })?;
        if let Some(error) = bad {
            return Err(error);
        }
        for ((kind, name, value), checksum) in rest.settings {
            let is_intact = settings::checksum(&kind, &name, &value) == checksum;
            settings::take(stored, &path, &kind, &name, is_intact.then_some(&value))?;
        }
        let mut found = graphs::Found::default();
        for (row, checksum) in rest.graphs {
            let is_intact = graphs::checksum(&row) == checksum;
            found.take(row, is_intact);
        }
        for ((graph, number, entry), checksum) in rest.entries {
            let is_intact = graphs::checksum_of_entry(graph, number, &entry) == checksum;
            found.take_entry(graph, number, is_intact.then_some(entry));
        }
        found.finish(&path, rules, stored)
    }

    /// Tells others where this controller serves.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn tell_address(&mut self, address: &str) -> Result<(), StoreError> {
        Ok(self.session.tell_address(address)?)
    }

    /// Lets the next start of this home take the queue as it is, whatever it lacks.
    ///
    /// # Errors
    /// When the note cannot be written.
    pub fn accept_loss(&mut self) -> Result<(), StoreError> {
        self.note.accepts_loss = true;
        self.write_note()
    }

    /// Reads all rows, and gives each task.
    ///
    /// # Errors
    /// When a row differs from what was written.
    pub(super) fn inspect(&mut self, each: impl FnMut(TaskRecord)) -> Result<(), StoreError> {
        self.read(&Rules::of_history(), &mut Stored::default(), each)
    }

    /// Gives the lease up.
    pub(super) fn resign(&mut self) {
        if let Err(error) = self.session.resign() {
            log::warn!("the lease of this controller cannot be given up, and lasts until its end: {error}");
        }
    }
}

/// A home and its machine, for people.
fn home(state_dir: &Path) -> String {
    let folder = std::path::absolute(state_dir).unwrap_or_else(|_| state_dir.to_owned());
    format!("{}:{}", rustix::system::uname().nodename().to_string_lossy(), folder.display())
}

impl From<pgstore::Error> for StoreError {
    fn from(error: pgstore::Error) -> Self {
        Self::Server(error.to_string())
    }
}

impl From<pgstore::CommitError> for CommitError {
    fn from(error: pgstore::CommitError) -> Self {
        match error {
            pgstore::CommitError::Later(why) => Self::Later(why),
            pgstore::CommitError::Unknown(why) => Self::Unknown(why),
            pgstore::CommitError::Deposed(why) => Self::Deposed(why),
        }
    }
}

impl Rows for Batch {
    type Error = std::convert::Infallible;

    fn put_task(&mut self, row: Row, checksum: u32) -> Result<(), Self::Error> {
        Self::put_task(self, row, checksum);
        Ok(())
    }

    fn remove_task(&mut self, micros: i64) -> Result<(), Self::Error> {
        Self::remove_task(self, micros);
        Ok(())
    }

    fn set(&mut self, kind: &'static str, name: &str, value: Option<(String, u32)>) -> Result<(), Self::Error> {
        Self::set(self, kind, name, value);
        Ok(())
    }

    fn put_graph(&mut self, row: &GraphRow, checksum: u32) -> Result<(), Self::Error> {
        Self::put_graph(self, row.clone(), checksum);
        Ok(())
    }

    fn put_entry(&mut self, graph: i64, number: i64, entry: &str, checksum: u32) -> Result<(), Self::Error> {
        Self::put_entry(self, graph, number, entry, checksum);
        Ok(())
    }

    fn remove_graph(&mut self, micros: i64) -> Result<(), Self::Error> {
        Self::remove_graph(self, micros);
        Ok(())
    }
}
