//! The creator of prompts: one file in `.tasks/pending/` for each line of a target list.
//!
//! A master may be waiting for the files. So all of them are written beside its folders first, and then renamed into
//! `pending/`: a master never sees half a prompt, and a full disk leaves none. No file is ever overwritten.

mod targets;
mod template;

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::wire::Front;
use proc::files::removal;
use proc::files::rename::rename_new;
use proc::lock::{LockError, StateLock, lock_file};

use targets::Target;
use template::{BadTemplate, Template};

/// The folder of a master and its workers, below the root.
pub const TASKS: &str = ".tasks";

/// What a master locks in that folder.
pub(crate) const MASTER: &str = "master";

/// The folder of waiting prompts.
pub const PENDING: &str = "pending";

/// The four folders of the document.
pub const FOLDERS: [&str; 4] = [PENDING, "working", "done", "failed"];

/// Bytes of the text of the work and of a template: a message to a worker has at most 16 MiB, and JSON may turn one byte
/// into six.
const PROMPT_BYTES_MAX: u64 = 1 << 20;

/// Bytes of a target list: a million lines of moderate length.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// The path that stands for the standard input.
pub const STDIN: &str = "-";

/// The parameters of a creation.
#[derive(Clone, Debug)]
pub struct Creation {
    /// The file with the text of the work.
    pub prompt: PathBuf,
    /// The file with one target a line.
    pub targets: PathBuf,
    /// A file with a template; `None` for the built-in one.
    pub template: Option<PathBuf>,
    /// The folder with `.tasks/`.
    pub root: PathBuf,
    /// Empty `.tasks/` first, including finished prompts.
    pub clear: bool,
}

/// The created prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// `.tasks/pending` below the root.
    pub pending: PathBuf,
    /// The names of the files, in the order of the list.
    pub names: Vec<String>,
}

/// Why no prompts, or not all of them, were created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file is longer than any sensible one.
    #[error("{} is longer than {max} bytes", path.display())]
    TooLong {
        /// Path of the file.
        path: PathBuf,
        /// Limit in bytes.
        max: u64,
    },
    /// The text of the work, or a template, is not UTF-8.
    #[error("{} is not UTF-8: line {line} has a byte that no text has", path.display())]
    NotText {
        /// Path of the file.
        path: PathBuf,
        /// Line with the invalid byte, from 1.
        line: usize,
    },
    /// The file has no text.
    #[error("{} is empty: it must say what to do for each target", .0.display())]
    NoPrompt(PathBuf),
    /// A template that would not have the intended effect.
    #[error("the template {}: {problem}", path.display())]
    Template {
        /// Path of the template.
        path: PathBuf,
        /// The defect, with its line.
        problem: String,
    },
    /// A line of the target list that cannot be made a prompt.
    #[error("line {line} of the target list: {problem}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The defect.
        problem: String,
    },
    /// No target in the list.
    #[error("the target list has no line with a target")]
    NoTarget,
    /// The front matter of the work is one that no master accepts.
    #[error("the front matter of {}: {problem}", path.display())]
    Front {
        /// Path of the file.
        path: PathBuf,
        /// The defect.
        problem: String,
    },
    /// A running master uses the folder that would be cleared.
    #[error("a master (pid {pid}) runs in {}; stop it before --clear", tasks.display())]
    InUse {
        /// `.tasks/`.
        tasks: PathBuf,
        /// Process id of the master.
        pid: String,
    },
    /// The files cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Creates the prompts. Everything is checked before anything is cleared or written.
///
/// # Errors
/// [`CreateError`]. Some files exist already only if the system fails in the middle of the renames; the error then names
/// the line at which it stopped.
pub fn create(creation: &Creation) -> Result<Created, CreateError> {
    let template = match &creation.template {
        None => Template::built_in(),
        Some(path) => read_template(path)?,
    };
    let text = read_text(&creation.prompt)?;
    let (_, prompt) =
        Front::split(&text).map_err(|problem| CreateError::Front { path: creation.prompt.clone(), problem })?;
    // The front matter is for the master, so it comes first, whatever the template puts around the work.
    let front = text.strip_suffix(prompt).unwrap_or_default();
    let prompt = prompt.trim();
    if prompt.is_empty() {
        return Err(CreateError::NoPrompt(creation.prompt.clone()));
    }
    let targets = targets::parse(&read(&creation.targets, LIST_BYTES_MAX)?)?;
    let fill = |target: &Target| {
        let filled = template.fill(prompt, &target.text);
        filled.map_err(|problem| CreateError::Line { line: target.line, problem })
    };
    targets.iter().try_for_each(|target| fill(target).map(drop))?;
    let tasks = creation.root.join(TASKS);
    // No master is started before the new prompts are there.
    let _lock = if creation.clear { clear(&tasks)? } else { None };
    for folder in FOLDERS {
        let folder = tasks.join(folder);
        fs::create_dir_all(&folder).map_err(|error| CreateError::Write { path: folder, source: error })?;
    }
    refuse_known_names(&tasks, &targets)?;
    let drafts = Drafts::open(&tasks)?;
    for target in &targets {
        let path = drafts.0.join(&target.name);
        let content = format!("{front}{}", fill(target)?);
        fs::write(&path, content).map_err(|error| CreateError::Write { path, source: error })?;
    }
    let pending = tasks.join(PENDING);
    for target in &targets {
        publish(&drafts, &pending, target)?;
    }
    Ok(Created { pending, names: targets.into_iter().map(|target| target.name).collect() })
}

fn read(path: &Path, max: u64) -> Result<Vec<u8>, CreateError> {
    let mut bytes = Vec::new();
    let read = if path == Path::new(STDIN) {
        io::stdin().lock().take(max + 1).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(max + 1).read_to_end(&mut bytes))
    };
    match read {
        Err(error) => Err(CreateError::Read { path: path.to_owned(), source: error }),
        Ok(_) if bytes.len() as u64 > max => Err(CreateError::TooLong { path: path.to_owned(), max }),
        Ok(_) => Ok(bytes),
    }
}

fn read_text(path: &Path) -> Result<String, CreateError> {
    String::from_utf8(read(path, PROMPT_BYTES_MAX)?).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = good.iter().filter(|&&byte| byte == b'\n').count() + 1;
        CreateError::NotText { path: path.to_owned(), line }
    })
}

fn read_template(path: &Path) -> Result<Template, CreateError> {
    let failed = |error: BadTemplate| CreateError::Template { path: path.to_owned(), problem: error.to_string() };
    Template::parse(&read_text(path)?).map_err(failed)
}

/// Removes everything except the hidden folders, which belong to workers that may be running, and the lock of a master, which is
/// returned. A master on another lock file of this name would run beside the one on this.
fn clear(tasks: &Path) -> Result<Option<StateLock>, CreateError> {
    let failed = |path: &Path, error| CreateError::Write { path: path.to_owned(), source: error };
    let entries = match fs::read_dir(tasks) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(|error| failed(tasks, error))?,
    };
    let lock = StateLock::acquire(tasks, MASTER).map_err(|error| match error {
        LockError::Held { pid, .. } => {
            let pid = pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
            CreateError::InUse { tasks: tasks.to_owned(), pid }
        }
        LockError::Io { path, source } => failed(&path, source),
    })?;
    for entry in entries {
        let entry = entry.map_err(|error| failed(tasks, error))?;
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") || path == lock_file(tasks, MASTER) {
            continue;
        }
        removal::remove(&path).map_err(|error| failed(&path, io::Error::other(error)))?;
    }
    Ok(Some(lock))
}

/// Refuses names for which a prompt or its result already exists in any folder.
fn refuse_known_names(tasks: &Path, targets: &[Target]) -> Result<(), CreateError> {
    for target in targets {
        let known = FOLDERS.map(|folder| tasks.join(folder).join(&target.name));
        if let Some(path) = known.iter().find(|path| path.symlink_metadata().is_ok()) {
            let problem = format!("{} is there already; move it away, or start over with --clear", path.display());
            return Err(CreateError::Line { line: target.line, problem });
        }
    }
    Ok(())
}

fn publish(drafts: &Drafts, pending: &Path, target: &Target) -> Result<(), CreateError> {
    let (from, to) = (drafts.0.join(&target.name), pending.join(&target.name));
    rename_new(&from, &to).map_err(|error| CreateError::Line {
        line: target.line,
        problem: format!("cannot put {} in place: {error}", to.display()),
    })
}

/// The folder of files that are not in place yet, which is removed with its remaining contents.
struct Drafts(PathBuf);

impl Drafts {
    fn open(tasks: &Path) -> Result<Self, CreateError> {
        let path = tasks.join(format!(".drafts-{}-{:08x}", std::process::id(), rand::random::<u32>()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(Self(path)),
            Err(error) => Err(CreateError::Write { path, source: error }),
        }
    }
}

impl Drop for Drafts {
    fn drop(&mut self) {
        let _ = removal::remove(&self.0);
    }
}

#[cfg(test)]
mod tests;
