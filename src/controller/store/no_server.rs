//! For a program that is built without PostgreSQL: the same names, for values that cannot exist.

#![expect(missing_docs, clippy::missing_errors_doc, reason = "nothing here can be called")]

use std::path::Path;

use super::place::Queue;
use super::transfer::AllRows;
use super::{CommitError, StoreError};
use crate::archives::Mirror;
use api::config::StoreServer;
use api::wire::requests::status::QueueView;
use api::wire::rules::Rules;
use base::{Epoch, Mono, TaskRecord, Wall};
use engine::{Record, Stored};

/// There is none.
#[derive(Debug)]
pub enum ServerStore {}

/// There is none.
#[derive(Debug)]
pub enum Keeper {}

impl Keeper {
    /// It cannot be called.
    pub fn end(self) {
        match self {}
    }
}

/// There is none.
#[derive(Clone, Debug)]
pub struct Leader {
    /// Its epoch.
    pub epoch: Epoch,
    /// Its home and machine.
    pub owner: String,
    /// Where it serves.
    pub address: String,
    /// When it began to lead.
    pub since: Wall,
    /// The rest of its lease.
    pub rest: std::time::Duration,
    /// The number of commits.
    pub commits: i64,
    never: Never,
}

#[derive(Clone, Debug)]
enum Never {}

impl Leader {
    pub fn is_moved(&self) -> bool {
        match self.never {}
    }

    pub fn home(&self) -> &str {
        match self.never {}
    }
}

impl ServerStore {
    /// Says how to build a program that has one.
    pub fn open(_: &StoreServer, _: &Path) -> Result<Self, StoreError> {
        Err(StoreError::WithoutServers)
    }

    pub fn place(&self) -> String {
        match *self {}
    }

    pub fn lead_or_follow(&mut self, _: &str, _: &Path, _: u64) -> Result<Option<Leader>, StoreError> {
        match *self {}
    }

    pub(super) fn take_epoch(&mut self) -> (Option<Epoch>, Option<String>) {
        match *self {}
    }

    pub fn commit<'a>(&mut self, _: impl IntoIterator<Item = &'a Record>) -> Result<(), CommitError> {
        match *self {}
    }

    pub fn load(&mut self, _: &Rules) -> Result<Stored, StoreError> {
        match *self {}
    }

    pub fn other_leader(&mut self, _: &Path) -> Result<Option<Leader>, StoreError> {
        match *self {}
    }

    pub fn accept_loss(&mut self) -> Result<(), StoreError> {
        match *self {}
    }

    pub fn take_change(&mut self) -> Option<QueueView> {
        match *self {}
    }

    pub fn files(&self, _: &Path) -> Result<Box<dyn Mirror>, StoreError> {
        match *self {}
    }

    pub fn keep_lease(&self) -> std::io::Result<Keeper> {
        match *self {}
    }

    pub fn tell_address(&mut self, _: &str) -> Result<(), StoreError> {
        match *self {}
    }

    pub fn stand_by(&mut self, _: Mono, _: &Path) -> Result<(), StoreError> {
        match *self {}
    }

    pub fn stand_by_no_more(&mut self, _: &Path) {
        match *self {}
    }

    pub fn queue(&mut self) -> Result<Queue, StoreError> {
        match *self {}
    }

    pub(super) fn rows(&mut self, _: &Path) -> Result<AllRows, StoreError> {
        match *self {}
    }

    pub(super) fn move_to(&mut self, _: &str) -> Result<(), StoreError> {
        match *self {}
    }

    pub(super) fn rows_beside_leader(&mut self) -> Result<AllRows, StoreError> {
        match *self {}
    }

    pub(super) fn fetch_files(&self, _: &Path, _: &Path) -> Result<(), StoreError> {
        match *self {}
    }

    pub(super) fn take_rows(&mut self, _: &AllRows, _: &Path) -> Result<(), StoreError> {
        match *self {}
    }

    pub(super) fn inspect(&mut self, _: impl FnMut(TaskRecord)) -> Result<(), StoreError> {
        match *self {}
    }

    pub(super) fn resign(&mut self) {
        match *self {}
    }
}
