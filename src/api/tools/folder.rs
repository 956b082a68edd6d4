//! The tools folder as an agent sees it: the list of its tools, read again when something has changed.
//!
//! | the folder is read | reason |
//! |---|---|
//! | at the start | the agent reports its tools before it asks for a task |
//! | when a name was added or removed | the kernel sends a signal ([`super::notice`]); at most one read per [`PAUSE`] |
//! | with each heartbeat | one `stat`: a network file system, or a folder that was renamed, sends no notice |
//! | when a run did not find a tool of the list | the list must be wrong |

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::notice;
use base::{Mono, Now, ToolName, ToolSet};
use proc::clock;
use proc::files::file_stamp::FileStamp;

/// The minimum time between two reads after notices: many tools may be added at once, and each read lists all names.
const PAUSE: Duration = Duration::from_millis(50);

/// The maximum number of tools remembered as absent. An agent that lacks more tools than that has the wrong folder.
const ABSENT_MAX: usize = 1000;

const SUFFIX: &str = ".tar.gz";

/// A tools folder, and its list at the last read.
pub struct ToolsFolder {
    dir: PathBuf,
    /// The maximum size of the list in bytes. An agent with a longer list does not report it, and counts as having every tool.
    list_bytes_max: usize,
    interval: Duration,
    /// The state at the last read. The flag is true if a later change is certain to alter the stamp.
    seen: Result<(FileStamp, bool), io::ErrorKind>,
    /// Whether this process handles [`notice::SIGNAL`].
    is_noticed: bool,
    /// The folder that sends notices, while it is the folder of the path, or the nearest existing one above it.
    watched: Option<File>,
    set: ToolSet,
    /// The tools that runs did not find, if there are too many tools to report the list.
    absent: Vec<ToolName>,
    looked: Mono,
    noticed: bool,
}

impl ToolsFolder {
    /// Reads the folder for the first time. It may be missing. `interval` is the time between reads without a notice.
    #[must_use]
    pub fn open(dir: PathBuf, list_bytes_max: usize, interval: Duration) -> Self {
        let (seen, set, looked) = (Err(io::ErrorKind::Other), ToolSet::Only(Vec::new()), clock::now().mono);
        let (is_noticed, watched, noticed, absent) = (false, None, false, Vec::new());
        let mut folder =
            Self { dir, list_bytes_max, interval, seen, is_noticed, watched, set, absent, looked, noticed };
        folder.look(clock::now(), true);
        folder
    }

    /// Makes the kernel send [`notice::SIGNAL`] at each change. The caller must then call [`Self::notice`]. The process must
    /// handle the signal, which otherwise ends it.
    #[must_use]
    pub fn with_notices(mut self) -> Self {
        self.is_noticed = true;
        // The folder is read again, because names may have been added since the first read.
        self.look(clock::now(), true);
        self
    }

    /// The list at the last read.
    #[must_use]
    pub const fn tools(&self) -> &ToolSet {
        &self.set
    }

    /// Records that the kernel has reported a change.
    pub const fn notice(&mut self) {
        self.noticed = true;
    }

    /// Records that a run did not find this tool. True when the list has changed.
    pub fn missed(&mut self, now: Now, tool: &ToolName) -> bool {
        let forced = self.set.has(tool);
        if let (ToolSet::AllBut(_), true) = (&self.set, self.absent.len() < ABSENT_MAX) {
            self.absent.push(tool.clone());
        }
        self.look(now, forced)
    }

    /// The time of the next read, if a notice has requested one.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        self.noticed.then(|| self.looked + PAUSE)
    }

    /// Reads the folder if a read is due. True when the list has changed.
    pub fn check_if_due(&mut self, now: Now) -> bool {
        let noticed = self.deadline().is_some_and(|at| at <= now.mono);
        (noticed || now.mono >= self.looked + self.interval) && self.look(now, noticed)
    }

    fn look(&mut self, now: Now, forced: bool) -> bool {
        (self.noticed, self.looked) = (false, now.mono);
        let mut stamp = self.stamp();
        let is_known = matches!((&stamp, &self.seen), (Ok(now), Ok((seen, true))) if now == seen);
        if is_known && !forced {
            return false;
        }
        // Notices start before the names are read, so that no change in between is missed, not even a replacement of the folder
        // itself.
        self.watch();
        if stamp.is_err() {
            stamp = self.stamp().inspect(|_| self.watch());
        }
        let read = stamp.and_then(|stamp| Ok((stamp, self.read()?)));
        let (seen, set) = match read {
            Ok((stamp, set)) => {
                if self.seen.is_err() {
                    log::info!("tools are read from {}", self.dir.display());
                }
                self.absent.retain(|tool| !set.has(tool) && matches!(set, ToolSet::AllBut(_)));
                (Ok((stamp, stamp.is_settled(now.wall))), set)
            }
            Err(error) => {
                if self.seen.as_ref().err() != Some(&error.kind()) {
                    log::warn!(
                        "the tools folder {} cannot be read ({error}): without tools this agent gets no tasks; make the \
                         folder, or name another one in AGENT_TOOLS_DIR",
                        self.dir.display()
                    );
                }
                (Err(error.kind()), ToolSet::Only(Vec::new()))
            }
        };
        self.seen = seen;
        std::mem::replace(&mut self.set, set) != self.set
    }

    fn stamp(&self) -> io::Result<FileStamp> {
        fs::metadata(&self.dir).map(|metadata| FileStamp::from(&metadata))
    }

    /// Requests notices for the names in the folder. If the folder is missing, watches the nearest existing folder above it,
    /// where it or a parent of it will appear.
    fn watch(&mut self) {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let dir =
            self.dir.ancestors().find_map(|dir| Some((dir, fs::metadata(dir).ok().filter(fs::Metadata::is_dir)?)));
        let Some((dir, metadata)) = dir.filter(|_| self.is_noticed) else { return };
        let wanted = identity(metadata);
        let same = |file: &File| file.metadata().is_ok_and(|metadata| identity(metadata) == wanted);
        if self.watched.as_ref().is_some_and(same) {
            return;
        }
        let open = || {
            let flags = (OFlags::DIRECTORY | OFlags::CLOEXEC).bits();
            let folder = fs::OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(dir)?;
            notice::request(folder.as_fd())?;
            Ok::<_, io::Error>(folder)
        };
        let opened = open();
        self.watched = opened.inspect_err(|error| log::debug!("{} sends no notices: {error}", dir.display())).ok();
    }

    fn read(&self) -> io::Result<ToolSet> {
        let (mut names, mut bytes) = (Vec::new(), 0);
        for item in fs::read_dir(&self.dir)? {
            let item = item?;
            let name = item.file_name();
            let Some(name) = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)) else { continue };
            let Ok(tool) = ToolName::new(name) else { continue };
            let kind = item.file_type()?;
            if !(kind.is_file() || kind.is_symlink() && self.is_there(&tool)) {
                continue;
            }
            bytes += name.len() + 1;
            if bytes > self.list_bytes_max {
                let absent = self.absent.iter().filter(|tool| !self.is_there(tool));
                return Ok(absent.fold(ToolSet::every(), |set, tool| set.changed(tool, false)));
            }
            names.push(tool);
        }
        Ok(ToolSet::only(names))
    }

    /// Whether a run would find a tool. Symbolic links are followed as [`super::ToolCache`] does.
    fn is_there(&self, tool: &ToolName) -> bool {
        let open = || {
            let folder = File::open(&self.dir)?;
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            Ok::<_, io::Error>(File::from(openat2(&folder, tool.archive_name(), flags, Mode::empty(), beneath)?))
        };
        open().and_then(|file| file.metadata()).is_ok_and(|metadata| metadata.is_file())
    }
}

#[cfg(test)]
mod tests;
