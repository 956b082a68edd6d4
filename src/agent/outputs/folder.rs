//! The folder of the kept outputs of an agent, and its names.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, flock, openat, renameat, unlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::Lifetime;
use crate::workspace::make_folder;
use base::{AgentId, OutputId, Stream, TaskId};
use proc::files::removal;

/// The folder of all agents, in AGENT_WORK_DIR.
const OUTPUTS: &str = ".outputs";

const RAW: &str = "raw";
const DRAFT: &str = "part";
const WHOLE: &str = "zst";
const CUT: &str = "cut.zst";
const RAW_OF_KILLED: &str = "killed";
const OF_KILLED: &str = "killed.zst";

const OF_FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How an output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Uncompressed.
    Raw,
    /// Compressed, all of it.
    Whole,
    /// Compressed, the first part of it.
    Cut,
    /// As a run has left it whose agent was killed.
    RawOfKilled,
    /// The same, compressed.
    OfKilled,
}

impl Form {
    const COMPRESSED: [Self; 3] = [Self::Whole, Self::Cut, Self::OfKilled];

    /// The ending of the name.
    const fn end(self) -> &'static str {
        match self {
            Self::Raw => RAW,
            Self::Whole => WHOLE,
            Self::Cut => CUT,
            Self::RawOfKilled => RAW_OF_KILLED,
            Self::OfKilled => OF_KILLED,
        }
    }
}

/// The folder of one agent. It is made when the first output is kept.
#[derive(Debug)]
pub(super) struct Folder {
    work: PathBuf,
    agent: AgentId,
    lifetime: Lifetime,
    open: OnceLock<OwnedFd>,
}

/// The folder of an agent that does not run. Nothing removes it meanwhile.
#[derive(Debug)]
pub(super) struct OfKilled {
    folder: OwnedFd,
    /// Locked.
    _all: OwnedFd,
}

impl AsFd for OfKilled {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

/// A kept file: when it was last written, in nanoseconds since 1970, its name, and its bytes.
pub(super) type Entry = (i128, String, u64);

impl Folder {
    /// The folder below a work folder. One that an earlier agent of the name has left is opened.
    pub(super) fn of(work: &Path, agent: &AgentId, lifetime: Lifetime) -> Self {
        let folder = Self { work: work.to_owned(), agent: agent.clone(), lifetime, open: OnceLock::new() };
        if work.join(OUTPUTS).join(agent.as_str()).is_dir()
            && let Err(error) = folder.make()
        {
            log::error!("cannot use the outputs of earlier runs in {}: {error}", work.join(OUTPUTS).display());
        }
        folder
    }

    /// The folder of an agent that does not run, for outputs that it has left elsewhere.
    pub(super) fn of_killed(work: BorrowedFd<'_>, agent: &str) -> io::Result<OfKilled> {
        make_folder(work, OUTPUTS)?;
        let all = locked(openat(work, OUTPUTS, OF_FOLDER, Mode::empty())?)?;
        make_folder(all.as_fd(), agent)?;
        let folder = openat(&all, agent, OF_FOLDER, Mode::empty())?;
        Ok(OfKilled { folder, _all: all })
    }

    /// The folder, which is made if it does not exist.
    pub(super) fn make(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(folder) = self.open.get() {
            return Ok(folder.as_fd());
        }
        let all = locked(self.all(true)?)?;
        make_folder(all.as_fd(), self.agent.as_str())?;
        let own = openat(&all, self.agent.as_str(), OF_FOLDER, Mode::empty())?;
        // The lock shows other agents that this folder is in use.
        flock(&own, FlockOperation::NonBlockingLockExclusive)?;
        Ok(self.open.get_or_init(|| own).as_fd())
    }

    fn all(&self, make: bool) -> io::Result<OwnedFd> {
        let work = openat(rustix::fs::CWD, &self.work, OF_FOLDER, Mode::empty())?;
        if make {
            make_folder(work.as_fd(), OUTPUTS)?;
        }
        Ok(openat(&work, OUTPUTS, OF_FOLDER, Mode::empty())?)
    }

    /// The folder, if there is one.
    pub(super) fn get(&self) -> Option<BorrowedFd<'_>> {
        self.open.get().map(AsFd::as_fd)
    }

    /// Opens a kept output.
    pub(super) fn find(&self, output: OutputId) -> Option<(File, Form)> {
        let folder = self.get()?;
        let open = |form: Form| {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            openat(folder, named(output, form.end()), flags, Mode::empty()).ok().map(|file| (File::from(file), form))
        };
        // The raw file disappears when the compressed one is complete, so the compressed one is tried once more.
        let raw = [Form::Raw, Form::RawOfKilled];
        Form::COMPRESSED.into_iter().chain(raw).chain(Form::COMPRESSED).find_map(open)
    }

    /// A new file for the compressed form of an output.
    pub(super) fn draft(&self, output: OutputId) -> io::Result<File> {
        let folder = self.make()?;
        let name = named(output, DRAFT);
        self.remove(&name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Puts the complete draft, which has this form, in place of the raw file.
    pub(super) fn complete(&self, output: OutputId, form: Form) -> io::Result<()> {
        let folder = self.make()?;
        renameat(folder, named(output, DRAFT), folder, named(output, form.end()))?;
        self.remove_raw(output)
    }

    /// Removes the raw file of an output that is there in its compressed form.
    pub(super) fn remove_raw(&self, output: OutputId) -> io::Result<()> {
        self.remove(&raw(output)).and_then(|()| self.remove(&raw_of_killed(output)))
    }

    /// Removes a raw file and its draft, which could not be completed.
    pub(super) fn abandon(&self, output: OutputId) {
        for name in [named(output, DRAFT), raw(output), raw_of_killed(output)] {
            if let Err(error) = self.remove(&name) {
                log::error!("cannot remove {name}: {error}");
            }
        }
    }

    /// Removes a file, if it exists.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        let Some(folder) = self.get() else { return Ok(()) };
        match unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The compressed file of an output.
    pub(super) fn entry(&self, output: OutputId) -> Option<Entry> {
        let folder = self.get()?;
        Form::COMPRESSED.into_iter().find_map(|form| entry(folder, named(output, form.end())))
    }

    /// The compressed files. An output counts from its compression on. Each compressed form has the ending of a whole one.
    pub(super) fn compressed(&self) -> Vec<Entry> {
        let is_compressed = |entry: &Entry| entry.1.rsplit_once('.').is_some_and(|(_, end)| end == WHOLE);
        self.entries().into_iter().filter(is_compressed).collect()
    }

    /// All kept files.
    fn entries(&self) -> Vec<Entry> {
        self.get().map(|folder| entries(folder).unwrap_or_default()).unwrap_or_default()
    }

    /// The outputs that an earlier agent of the name has moved here and not compressed. Its drafts are removed.
    pub(super) fn unfinished(&self) -> Vec<OutputId> {
        let mut unfinished = Vec::new();
        for (_, name, _) in self.entries() {
            match name.rsplit_once('.') {
                Some((output, RAW | RAW_OF_KILLED)) => unfinished.extend(parsed(output)),
                Some((_, DRAFT)) => drop(self.remove(&name)),
                _ => {}
            }
        }
        unfinished
    }

    /// Removes files older than `before` in the folders of agents that do not run, and the folders of agents whose names do
    /// not come again.
    pub(super) fn tidy_others(&self, before: i128) {
        let Ok(all) = self.all(false).and_then(locked) else { return };
        for name in names(all.as_fd()).unwrap_or_default() {
            if name == self.agent.as_str() {
                continue;
            }
            let Ok(other) = openat(&all, name.as_str(), OF_FOLDER, Mode::empty()) else { continue };
            if flock(&other, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let is_of_one_life = is_of_one_life(&name);
            for (written, file, _) in entries(other.as_fd()).unwrap_or_default() {
                if is_of_one_life || written < before {
                    let _ = unlinkat(&other, file, AtFlags::empty());
                }
            }
            // A folder that is not empty stays.
            let _ = unlinkat(&all, name, AtFlags::REMOVEDIR);
        }
    }

    /// The agent ends.
    pub(super) fn leave(&self) {
        let (Lifetime::OneLife, Some(_)) = (self.lifetime, self.get()) else { return };
        let Ok(all) = self.all(false) else { return };
        let Ok(name) = CString::new(self.agent.as_str()) else { return };
        let progress = removal::remove_tree(all.as_fd(), &name, &mut removal::Budget::of(u32::MAX));
        if !progress.is_gone() {
            log::warn!("not all outputs of {} could be removed", self.agent);
        }
    }
}

/// Whether an agent has chosen this name itself: it is the id of a task with another beginning.
fn is_of_one_life(agent: &str) -> bool {
    agent.strip_prefix("AGENT_").is_some_and(|rest| format!("TASK_{rest}").parse::<TaskId>().is_ok())
}

/// Waits for the lock of the folder of all agents, which lasts until the descriptor is closed. Under it a folder of one agent is made and locked, or
/// found without a lock and removed: otherwise one agent could remove the folder that another one has just made.
fn locked(all: OwnedFd) -> io::Result<OwnedFd> {
    retry_on_intr(|| flock(&all, FlockOperation::LockExclusive))?;
    Ok(all)
}

fn names(folder: BorrowedFd<'_>) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().to_str()
            && ![".", ".."].contains(&name)
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn entries(folder: BorrowedFd<'_>) -> io::Result<Vec<Entry>> {
    Ok(names(folder)?.into_iter().filter_map(|name| entry(folder, name)).collect())
}

fn entry(folder: BorrowedFd<'_>, name: String) -> Option<Entry> {
    let stat = rustix::fs::statat(folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let written = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
    Some((written, name, u64::try_from(stat.st_size).unwrap_or_default()))
}

/// The name of an output as the run has left it.
pub(super) fn raw(output: OutputId) -> String {
    named(output, RAW)
}

/// The name of an output as a run has left it whose agent was killed.
pub(super) fn raw_of_killed(output: OutputId) -> String {
    named(output, RAW_OF_KILLED)
}

fn named(OutputId { task, round, stream }: OutputId, end: &str) -> String {
    format!("{task}.{round}.{}.{end}", stream.word())
}

/// The output of a name without its end. The id of a task contains a point.
fn parsed(name: &str) -> Option<OutputId> {
    let (rest, stream) = name.rsplit_once('.')?;
    let (task, round) = rest.rsplit_once('.')?;
    let stream = Stream::ALL.into_iter().find(|candidate| candidate.word() == stream)?;
    Some(OutputId { task: task.parse().ok()?, round: base::Round(round.parse().ok()?), stream })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Round;

    #[test]
    fn an_agent_keeps_its_folder_while_others_remove_those_of_dead_agents() {
        let work = tempfile::tempdir().unwrap();
        let folder = |name: &str| Folder::of(work.path(), &AgentId::new(name).unwrap(), Lifetime::Lasting);
        folder("first").make().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for life in 0..200 {
                        let own = folder(&format!("agent-{thread}-{life}"));
                        let kept = own.make().unwrap();
                        folder("tidy").tidy_others(i128::MAX);
                        openat(kept, "kept", OFlags::WRONLY | OFlags::CREATE, Mode::RUSR).unwrap();
                    }
                });
            }
        });
    }

    #[test]
    fn the_outputs_of_an_agent_whose_name_was_given_wait_for_the_next_one() {
        let work = tempfile::tempdir().unwrap();
        let own = Folder::of(work.path(), &AgentId::new("own").unwrap(), Lifetime::Lasting);
        own.make().unwrap();
        for (name, stays) in [("AGENT_7", true), ("AGENT_1480000000.120000_AZazA", false)] {
            let kept = work.path().join(OUTPUTS).join(name).join("kept");
            std::fs::create_dir(kept.parent().unwrap()).unwrap();
            std::fs::write(&kept, "").unwrap();
            own.tidy_others(0);
            assert_eq!(kept.exists(), stays, "{name}");
        }
    }

    #[test]
    fn a_name_says_which_output_it_is() {
        let task = "TASK_1480000000.120000_AZazA".parse().unwrap();
        for stream in Stream::ALL {
            let output = OutputId { task, round: Round(12), stream };
            assert_eq!(parsed(raw(output).strip_suffix(".raw").unwrap()), Some(output));
        }
        for bad in ["", "x", "TASK_1480000000.120000_AZazA.1", "TASK_1480000000.120000_AZazA.1.other", "T.1.stdout"] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }
}
