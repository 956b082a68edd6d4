//! The tools folder as an agent sees it: which tools are there, looked at when something has changed.
//!
//! | the folder is looked at | why |
//! |---|---|
//! | at the start | the agent tells what it has before it asks for a task |
//! | when a name has come or gone | the kernel says so ([`super::notice`]), but at most once in [`PAUSE`] |
//! | with each heartbeat | one `stat`: a network file system, or a folder that was renamed away, gives no notice |
//! | when the controller asks | no agent has told of the tool of a task |
//! | when a run has not found a tool that the list has | the list must be wrong |

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::notice;
use crate::shell::clock;
use crate::shell::file_stamp::FileStamp;
use crate::types::{Mono, Now, ToolName, ToolSet};

/// Between two looks that notices ask for: many tools may come at once, and each look reads all names.
const PAUSE: Duration = Duration::from_millis(50);

/// Tools that are remembered as absent. An agent that lacks more than so many of those that tasks name has the wrong folder.
const ABSENT_MAX: usize = 1000;

const SUFFIX: &str = ".tar.gz";

/// A tools folder, and what was there at the last look.
pub struct ToolsFolder {
    dir: PathBuf,
    /// Bytes of the list: an agent with more has too many tools to tell, and is taken to have every one.
    list_bytes_max: usize,
    interval: Duration,
    /// With whether a later change is sure to show.
    seen: Result<(FileStamp, bool), io::ErrorKind>,
    /// Whether this process takes [`notice::SIGNAL`].
    is_noticed: bool,
    /// The folder that gives notice, as long as it is that of the path, or the nearest one above it that is there.
    watched: Option<File>,
    set: ToolSet,
    /// The tools that runs have not found, where those that are there are too many to tell.
    absent: Vec<ToolName>,
    looked: Mono,
    noticed: bool,
}

impl ToolsFolder {
    /// Looks at the folder for the first time. It need not be there. `interval` is that between the looks without a notice.
    #[must_use]
    pub fn open(dir: PathBuf, list_bytes_max: usize, interval: Duration) -> Self {
        let (seen, set, looked) = (Err(io::ErrorKind::Other), ToolSet::Only(Vec::new()), clock::now().mono);
        let (is_noticed, watched, noticed, absent) = (false, None, false, Vec::new());
        let mut folder =
            Self { dir, list_bytes_max, interval, seen, is_noticed, watched, set, absent, looked, noticed };
        folder.look(clock::now(), true);
        folder
    }

    /// Has the kernel send [`notice::SIGNAL`] with each change, which [`Self::notice`] is then to be told. The process must have
    /// a handler for it: by default, it ends the process.
    #[must_use]
    pub fn with_notices(mut self) -> Self {
        self.is_noticed = true;
        // Once more, because names may have come since the first look.
        self.look(clock::now(), true);
        self
    }

    /// What was there at the last look.
    #[must_use]
    pub const fn tools(&self) -> &ToolSet {
        &self.set
    }

    /// Something has changed, says the kernel.
    pub const fn notice(&mut self) {
        self.noticed = true;
    }

    /// A run has not found this tool. True when the list has changed.
    pub fn missed(&mut self, now: Now, tool: &ToolName) -> bool {
        let forced = self.set.has(tool);
        if let (ToolSet::AllBut(_), true) = (&self.set, self.absent.len() < ABSENT_MAX) {
            self.absent.push(tool.clone());
        }
        self.look(now, forced)
    }

    /// Looks at the folder whatever is due. The names are read even if nothing seems to have changed, because a link may lead to
    /// something by now; but, as often as somebody may ask, not more than once in [`PAUSE`].
    pub fn look_anew(&mut self, now: Now) {
        let forced = self.noticed || now.mono >= self.looked + PAUSE;
        self.look(now, forced);
    }

    /// When the next look is due, if a notice has asked for one.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        self.noticed.then(|| self.looked + PAUSE)
    }

    /// Looks at the folder if that is due. True when the list has changed.
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
        // Before the names are read, so that none can come unnoticed in between; nor can the folder itself.
        self.watch();
        if stamp.is_err() {
            stamp = self.stamp().inspect(|_| self.watch());
        }
        let read = stamp.and_then(|stamp| Ok((stamp, self.read()?)));
        let (seen, set) = match read {
            Ok((stamp, set)) => {
                if self.seen.is_err() {
                    log::info!("tools are taken from {}", self.dir.display());
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

    /// Has notice given of the names in the folder; of one that is not there, by the folder in which it, or its parent, has to come.
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
        self.watched = opened.inspect_err(|error| log::debug!("{} gives no notice: {error}", dir.display())).ok();
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

    /// Whether a run would find a tool, also where its archive is a symbolic link: as [`super::ToolCache`] opens it.
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
