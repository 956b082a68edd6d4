//! Puts a file into the store of a controller. A file that the store has is not sent. If the store is on this machine and belongs
//! to this user, the file is copied there, otherwise it is sent in parts. An interrupted put continues where it stopped.

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

/// How often the controller may have another number of bytes than expected: another sender of the same file may interfere.
const SETBACKS_MAX: usize = 100;

/// How often a complete file may arrive with a wrong digest: a line may flip a bit.
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

/// Sends the parts that the store lacks, and returns the number of bytes sent. `run` is the run that has made the file; an input
/// has none. `store` is the folder of the store in this home: the file is copied there if the controller uses the same folder.
/// `ask` puts one part.
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
            // If the disk is full, the controller reports that when the parts arrive.
            if place(file, &digest, store).is_ok() {
                continue;
            }
        }
        // At least one byte, because the controller refuses empty parts. An empty file is complete with the first answer.
        let bytes = answer.limit().max(1).min(total.saturating_sub(put.offset));
        put.data = vec![0; usize::try_from(bytes).unwrap_or_default()];
        file.read_exact_at(&mut put.data, put.offset).map_err(SendError::Read)?;
    }
}

/// Whether a folder has this identity and belongs to this user. The controller could not read the files of another user.
fn is_same_folder(store: &Path, identity: &str) -> bool {
    let own = fs::metadata(store).is_ok_and(|folder| folder.uid() == rustix::process::geteuid().as_raw());
    own && !identity.is_empty() && folder_identity(store).is_some_and(|found| *found == *identity)
}

/// Puts a complete copy of the file where its parts would be collected.
fn place(file: &File, digest: &ToolDigest, store: &Path) -> io::Result<()> {
    let incoming = store.join(INCOMING);
    let draft = Draft::new(&incoming, &digest.to_string())?;
    copy_into(file, draft.file())?;
    // Otherwise the sync would take place in the controller, and delay other requests.
    draft.file().sync_data()?;
    draft.publish(&incoming.join(digest.to_string()))
}
