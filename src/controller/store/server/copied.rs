//! A queue in a server as the source of a copy, or as its target.

use std::path::{Path, PathBuf};

use super::ServerStore;
use crate::archives;
use crate::store::epoch::next;
use crate::store::transfer::{AllRows, moved};
use crate::store::{FILE, StoreError};
use api::archives_dir::dir_in;
use base::Epoch;
use pgstore::{Batch, Claim};
use proc::clock;

/// Maximum number of tasks in one commit of a copy.
const COPIED_AT_ONCE: usize = 2_000;

impl ServerStore {
    /// All rows, of a queue that this home leads for the moment.
    ///
    /// # Errors
    /// When a controller leads it, or a row differs from what was written.
    pub(in crate::store) fn rows(&mut self, state_dir: &Path) -> Result<AllRows, StoreError> {
        self.lead_for_copy(state_dir, None)?;
        self.rows_beside_leader()
    }

    /// Ends this queue: from now on, its copy counts.
    ///
    /// # Errors
    /// When another controller has led the queue since it was copied, or the server does not answer.
    pub(in crate::store) fn move_to(&mut self, place: &str) -> Result<(), StoreError> {
        if self.session.move_to(place)? {
            return Ok(());
        }
        Err(StoreError::Server(format!(
            "another controller has led the queue in {} while it was copied, so the copy in {place} is not whole: remove the copy, end \
             all controllers and standbys of the queue, and copy it again",
            self.place()
        )))
    }

    /// Fetches the archives and files that a folder lacks.
    ///
    /// # Errors
    /// When one differs from what was written.
    pub(in crate::store) fn fetch_files(&self, state_dir: &Path, to: &Path) -> Result<(), StoreError> {
        archives::fetch_all(self.files(state_dir)?, to).map_err(|error| self.no_files(&error))
    }

    fn no_files(&self, error: &std::io::Error) -> StoreError {
        StoreError::Server(format!("the files of the queue in {} cannot be copied: {error}", self.place()))
    }

    /// All rows at one moment.
    ///
    /// # Errors
    /// When a row differs from what was written.
    pub(in crate::store) fn rows_beside_leader(&mut self) -> Result<AllRows, StoreError> {
        self.inspect(|_| {})?;
        let path = PathBuf::from(self.place());
        let mut all = AllRows { epoch: self.session.leader()?.map(|leader| leader.epoch), ..AllRows::default() };
        let rest = self.session.read(|row, _| {
            all.tasks.push(row);
            true
        })?;
        for ((kind, name, value), _) in rest.settings {
            all.take_setting(&path, &kind, name, Some(value))?;
        }
        all.graphs = rest.graphs.into_iter().map(|(row, _)| row).collect();
        all.entries = rest.entries.into_iter().map(|(entry, _)| entry).collect();
        Ok(all)
    }

    /// Puts rows into an empty queue.
    ///
    /// # Errors
    /// When it has rows, a controller leads it, or the server does not answer.
    pub(in crate::store) fn take_rows(&mut self, rows: &AllRows, state_dir: &Path) -> Result<(), StoreError> {
        if !self.session.is_empty()? {
            return Err(StoreError::Occupied { place: self.place(), remedy: "name an empty schema with STORE_SCHEMA" });
        }
        self.lead_for_copy(state_dir, rows.epoch)?;
        archives::send_all(self.files(state_dir)?, &dir_in(state_dir)).map_err(|error| self.no_files(&error))?;
        for tasks in rows.tasks.chunks(COPIED_AT_ONCE) {
            let mut batch = Batch::default();
            let Ok(()) = AllRows::put_tasks(&mut batch, tasks);
            self.commit_copy(&batch)?;
        }
        let mut batch = Batch::default();
        let Ok(()) = rows.put_rest(&mut batch);
        self.commit_copy(&batch)?;
        self.resign();
        Ok(())
    }

    fn commit_copy(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.session.commit(batch).map_err(|error| {
            let place = self.place();
            StoreError::Server(format!("{place}: the copy is not whole: {error}; remove its tables, and copy again"))
        })
    }

    /// Leads while rows are copied. A new queue continues the epochs of the queue that it copies.
    fn lead_for_copy(&mut self, state_dir: &Path, before: Option<Epoch>) -> Result<(), StoreError> {
        let first = before.map(|Epoch { service, number }| Epoch { service, number: number + 1 });
        let owner = self.owner(state_dir);
        let first = first.unwrap_or_else(|| next(None, false, clock::now().wall, rand::random()));
        let claim = Claim { owner, address: "a copy".to_owned(), first, seen: None, accepts_loss: false };
        match self.session.lead(&claim)? {
            Ok(epoch) => {
                self.epoch = Some(epoch);
                Ok(())
            }
            Err(leader) => Err(StoreError::Server(format!("{}; stop it first", self.leads(&leader)))),
        }
    }
}

/// Refuses a server for a home whose own file has a queue that was not copied, such as a restored one: that queue would be
/// forgotten.
pub(super) fn check_left(state_dir: &Path, place: &str) -> Result<(), StoreError> {
    let path = state_dir.join(FILE);
    if path.exists() && !moved(&path).exists() {
        return Err(StoreError::LeftHere { path, place: place.to_owned() });
    }
    Ok(())
}
