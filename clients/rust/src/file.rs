//! Files that are kept with tasks. A file gets its name when its digest is right, so that no name stands for a part of it.

use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use api::wire::requests::file;
use api::wire::requests::tool::ToolGet;
use api::wire::task_files::kept_files;
use base::{KeptFile, words};
use proc::files::draft::Draft;
use proc::files::file_copy::copy_into;
use proc::files::file_digest::digest_of;
use proc::files::privacy::umask_at_start;

use crate::client::{Client, ClientError};

/// Why a file is not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be written.
    #[error("cannot write it: {0}")]
    Write(#[from] io::Error),
    /// The controller does not give it.
    #[error(transparent)]
    Asked(#[from] ClientError),
    /// The controller has answered another question.
    #[error("an answer of the controller has another part of it")]
    OtherPart,
    /// Its bytes are not those of its digest.
    #[error("it has arrived with wrong bytes twice; try again")]
    Wrong,
}

impl Client {
    /// The files that are kept with a task (`__OUT__`), once it has finished.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn files(&self, task: &str) -> Result<Vec<KeptFile>, ClientError> {
        let task = self.query(task)?;
        Ok(task.fields().text(words::OUT_FILES).and_then(kept_files).unwrap_or_default())
    }

    /// Fetches a file. It replaces one of this path, whose folder is made if it is missing:
    /// `client.fetch(&file, &Path::new("results").join(file.name.path()))`.
    ///
    /// # Errors
    /// [`FileError`]
    pub fn fetch(&self, file: &KeptFile, path: &Path) -> Result<(), FileError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let draft = Draft::new(folder, ".llts-get")?;
        self.write(file, draft.file())?;
        open_to_its_umask(draft.file(), file.is_executable)?;
        Ok(draft.publish(path)?)
    }

    /// Writes the bytes of a file into an empty one: a copy, if the store is on this machine.
    fn write(&self, file: &KeptFile, mut new: &File) -> Result<(), FileError> {
        if let Ok(stored) = File::open(self.store().join(file.digest.to_string())) {
            let copied = copy_into(&stored, new).and_then(|()| digest_of(new));
            if copied.is_ok_and(|digest| digest == file.digest) {
                return Ok(());
            }
        }
        for is_doubted in [false, true] {
            new.set_len(0)?;
            new.rewind()?;
            let mut offset = 0;
            loop {
                let get = ToolGet { digest: file.digest, offset, is_doubted: is_doubted && offset == 0 };
                let (at, total, data) = self.ask_repeatably(&file::get(&get))?;
                if at != offset || data.is_empty() && offset < total {
                    return Err(FileError::OtherPart);
                }
                new.write_all(&data)?;
                offset += data.len() as u64;
                if offset >= total {
                    break;
                }
            }
            new.sync_all()?;
            if digest_of(new)? == file.digest {
                return Ok(());
            }
        }
        Err(FileError::Wrong)
    }
}

/// A draft is for its owner only, other than a new file of a user.
fn open_to_its_umask(draft: &File, is_executable: bool) -> io::Result<()> {
    let mode = if is_executable { 0o777 } else { 0o666 };
    draft.set_permissions(fs::Permissions::from_mode(mode & !umask_at_start()))
}
