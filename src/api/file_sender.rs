//! Puts a file into the store of a controller: not at all if the store has it, as a copy if the store is on this machine and belongs to
//! this user, otherwise in parts. A put that was interrupted goes on where it ended.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use crate::archives_dir::{INCOMING, folder_identity};
use crate::wire::requests::file::{FilePut, Maker};
use crate::wire::requests::tool::PutAnswer;
use base::ToolDigest;
use proc::files::draft::Draft;
use proc::files::file_copy::copy_into;

/// How often the controller may answer that it has fewer bytes than before: another sender of the same file may interfere.
const SETBACKS_MAX: usize = 100;

/// How often all parts are sent whose bytes are wrong in the end: a line may flip one.
const WRONG_MAX: usize = 3;

/// Why a file is not in the store.
#[derive(Debug, thiserror::Error)]
pub enum SendError<E> {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    /// The controller does not take it.
    #[error("{0}")]
    Asked(E),
    /// Its bytes are not those of its digest.
    #[error("its bytes have arrived wrong {WRONG_MAX} times; if it is being written, wait until it is complete")]
    Wrong,
    /// The controller forgets its parts.
    #[error("the controller does not keep its parts; try again")]
    Forgotten,
}

/// Sends the parts that the store lacks; returns their bytes. `run` has made the file, unless it is an input; `store` is the folder that is the store if the controller is that of
/// this home, and `ask` puts one part.
///
/// # Errors
/// See [`SendError`].
pub fn send<E>(
    file: &File,
    (digest, total): (ToolDigest, u64),
    run: Option<Maker>,
    store: &Path,
    mut ask: impl FnMut(&FilePut) -> Result<PutAnswer, E>,
) -> Result<u64, SendError<E>> {
    let mut put = FilePut { run, ..FilePut::begin(digest, total) };
    let (mut sent, mut setbacks, mut wrong, mut is_placed) = (0, 0, 0, false);
    loop {
        let answer = ask(&put).map_err(SendError::Asked)?;
        let part = put.data.len() as u64;
        if answer.is_complete() {
            return Ok(sent + part);
        }
        if answer.end() == put.offset + part {
            sent += part;
        } else {
            setbacks += 1;
        }
        if answer.end() == 0 && total > 0 && put.offset + part == total {
            wrong += 1;
        }
        if wrong == WRONG_MAX {
            return Err(SendError::Wrong);
        }
        if setbacks > SETBACKS_MAX {
            return Err(SendError::Forgotten);
        }
        put.data.clear();
        put.offset = answer.end();
        if !is_placed && answer.end() == 0 && is_same_folder(store, answer.store()) {
            is_placed = true;
            // Without room there, the controller says so when the parts arrive.
            if place(file, &digest, store).is_ok() {
                continue;
            }
        }
        // The controller takes no part of no bytes; an empty file is complete with the first answer.
        let bytes = answer.limit().max(1).min(total.saturating_sub(put.offset));
        put.data = vec![0; usize::try_from(bytes).unwrap_or_default()];
        file.read_exact_at(&mut put.data, put.offset).map_err(SendError::Read)?;
    }
}

/// Whether a folder is the one with this identity, and belongs to this user: the controller could not read the files of another.
fn is_same_folder(store: &Path, identity: &str) -> bool {
    let own = fs::metadata(store).is_ok_and(|folder| folder.uid() == rustix::process::geteuid().as_raw());
    own && !identity.is_empty() && folder_identity(store).is_some_and(|found| *found == *identity)
}

/// Puts a complete copy where the parts of the file would be.
fn place(file: &File, digest: &ToolDigest, store: &Path) -> io::Result<()> {
    let incoming = store.join(INCOMING);
    let draft = Draft::new(&incoming, &digest.to_string())?;
    copy_into(file, draft.file())?;
    // Otherwise the controller, which syncs it at the end, would have others wait for that.
    draft.file().sync_data()?;
    draft.publish(&incoming.join(digest.to_string()))
}
