//! The home of a service: one folder for its configuration, state, tools, work, logs, keys and socket.
//!
//! A command means the service of one home, whichever folder it is started in. The first of these is the home:
//!
//! | | |
//! |---|---|
//! | `--home DIR` | it need not exist yet |
//! | `LLTS_HOME` | the same |
//! | the current folder, if its `config.toml` is one of ours | a folder with a configuration is a home of its own |
//! | the current folder or the nearest one above it with a file `.llts-home` | such as a clone of the repository |
//! | the folder of the file that `--config` names | |
//! | `$XDG_STATE_HOME/llts`, else `/var/lib/llts` for root and `~/.local/state/llts` for others | |
//!
//! The mark `.llts-home` states the layout of the folder, so that a program never uses a home with a newer layout.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use nix::libc::{O_NOCTTY, O_NONBLOCK};
use nix::unistd::{Uid, User};

use crate::config;
use proc::files::draft;
use proc::supervised::HOME_VARIABLE;

/// The file that makes a folder a home.
const MARK: &str = ".llts-home";

/// The layout of the homes that this program makes and uses.
const VERSION: u32 = 1;

/// A longer mark is not ours.
const MARK_BYTES_MAX: u64 = 4096;

/// The permissions of a folder in which every user may make files.
const SHARED: u32 = 0o1002;

/// The text of a new mark.
const MARK_TEXT: &str = "\
# This folder is a home of llts: commands that are started in it or below it mean the service that runs here.
version 1
";

/// How a home was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// `--home`.
    Option,
    /// `LLTS_HOME`.
    Variable,
    /// The current folder or one above it is a home.
    Here,
    /// It contains the file that `--config` names.
    Config,
    /// The default, as nothing names another one.
    Default,
    /// The process belongs to a task. It has no home, because its agent passes on every value that it needs.
    Task,
}

impl FoundBy {
    /// The text for users.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Option => "named by --home",
            Self::Variable => "named by LLTS_HOME",
            Self::Here => "the nearest home upwards from the current folder",
            Self::Config => "the folder of the configuration that --config names",
            Self::Default => "the home of this user",
            Self::Task => "the folder of a task, which has no home",
        }
    }
}

/// The folder that a command uses as the home of its service. It need not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    folder: PathBuf,
    by: FoundBy,
    is_current: bool,
    is_marked: bool,
}

/// The reason why a folder cannot be a home.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// It is a file or the like.
    #[error("{} ({}) is not a folder, so it is no home; name another one with --home or LLTS_HOME", .folder.display(), .by.sentence())]
    NotAFolder {
        /// The path.
        folder: PathBuf,
        /// How it was found.
        by: FoundBy,
    },
    /// The system does not let us see it.
    #[error("cannot use the home {} ({}): {source}; name another one with --home or LLTS_HOME", .folder.display(), .by.sentence())]
    Unreachable {
        /// The folder.
        folder: PathBuf,
        /// How it was found.
        by: FoundBy,
        /// The error of the system.
        source: io::Error,
    },
    /// Another user controls its content.
    #[error("the home {} ({}) belongs to {owner}, who decides with it what runs here; name one of your own with --home or LLTS_HOME, or act as its owner: sudo -u {} llts --home {0} ...", .folder.display(), .by.sentence(), sudo_name(.owner))]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// How it was found.
        by: FoundBy,
        /// Its owner, as `user NAME`.
        owner: String,
    },
    /// A newer program has made it.
    #[error("the home {} has the layout {version} of a newer llts, and this one knows layouts up to {VERSION}; use the newer program, or name another home with --home or LLTS_HOME", .folder.display())]
    Newer {
        /// The folder.
        folder: PathBuf,
        /// Its layout.
        version: u32,
    },
    /// Its mark is damaged.
    #[error("{} does not say \"version 1\", so {} is no home of llts; remove the file, or name another home with --home or LLTS_HOME", .folder.join(MARK).display(), .folder.display())]
    BadMark {
        /// The folder.
        folder: PathBuf,
    },
    /// It cannot be made or written to.
    #[error("cannot make the home {} ({}): {source}; name another folder with --home or LLTS_HOME", .folder.display(), .by.sentence())]
    Make {
        /// The folder.
        folder: PathBuf,
        /// How it was found.
        by: FoundBy,
        /// The error of the system.
        source: io::Error,
    },
}

/// The name of an owner, as `user NAME`, for `sudo -u`.
fn sudo_name(owner: &str) -> String {
    let name = owner.trim_start_matches("user ");
    if name.bytes().all(|byte| byte.is_ascii_digit()) { format!("'#{name}'") } else { name.to_owned() }
}

impl Home {
    /// Finds the home of a command. `named` is the folder of `--home`, `config` the file of `--config`.
    ///
    /// # Errors
    /// [`HomeError`], when the folder that was found cannot be a home.
    pub fn find(named: Option<&Path>, config: Option<&Path>) -> Result<Self, HomeError> {
        let here = env::current_dir().ok();
        let (folder, by) = Self::place(named, config, here.as_deref());
        Self::at(folder, by, here.as_deref())
    }

    /// The folder of the home, without a check of it.
    fn place(named: Option<&Path>, config: Option<&Path>, here: Option<&Path>) -> (PathBuf, FoundBy) {
        let variable = env::var_os(HOME_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        let of_config = || Some(absolute(config?).parent()?.to_owned());
        if let Some(named) = named {
            (absolute(named), FoundBy::Option)
        } else if let Some(variable) = variable {
            (absolute(&variable), FoundBy::Variable)
        } else if let Some(found) = here.and_then(nearest) {
            (found, FoundBy::Here)
        } else if let Some(folder) = of_config() {
            (folder, FoundBy::Config)
        } else {
            // The last resort of a user without a home folder.
            (default_folder().or_else(|| here.map(Path::to_owned)).unwrap_or_else(|| "/".into()), FoundBy::Default)
        }
    }

    /// As [`Self::find`], but without checks: for a report about a folder that may be unfit as a home.
    #[must_use]
    pub fn meant(named: Option<&Path>, config: Option<&Path>) -> Self {
        let (folder, by) = Self::place(named, config, env::current_dir().ok().as_deref());
        Self { folder, by, is_current: false, is_marked: false }
    }

    /// The current folder, for a process of a task: no home is searched for. `None` if the caller or a variable names a home.
    #[must_use]
    pub fn of_task(named: Option<&Path>) -> Option<Self> {
        let is_named = named.is_some() || env::var_os(HOME_VARIABLE).is_some_and(|value| !value.is_empty());
        let folder = env::current_dir().unwrap_or_else(|_| "/".into());
        (!is_named).then_some(Self { folder, by: FoundBy::Task, is_current: true, is_marked: false })
    }

    /// The home in this folder.
    ///
    /// # Errors
    /// [`HomeError`], when it cannot be one.
    pub fn named(folder: &Path) -> Result<Self, HomeError> {
        Self::at(absolute(folder), FoundBy::Option, env::current_dir().ok().as_deref())
    }

    fn at(folder: PathBuf, by: FoundBy, here: Option<&Path>) -> Result<Self, HomeError> {
        let metadata = match fs::metadata(&folder) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { folder, by, is_current: false, is_marked: false });
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(HomeError::NotAFolder { folder, by });
            }
            Err(source) => return Err(HomeError::Unreachable { folder, by, source }),
        };
        if !metadata.is_dir() {
            return Err(HomeError::NotAFolder { folder, by });
        }
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        let real_here = here.and_then(|here| here.canonicalize().ok());
        let (us, owner) = (Uid::effective(), Uid::from_raw(metadata.uid()));
        // Root that works in a clone of another user, as in a container, has chosen this folder: see `trust`.
        let is_chosen = us.is_root() && real_here.as_ref().is_some_and(|here| here.starts_with(&real));
        if owner != us && !owner.is_root() && !is_chosen {
            return Err(HomeError::Foreign { folder, by, owner: super::trust::name_of(owner) });
        }
        let is_marked = check_mark(&folder, by)?;
        Ok(Self { folder, by, is_current: real_here == Some(real), is_marked })
    }

    /// The folder, as an absolute path.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How it was found.
    #[must_use]
    pub const fn by(&self) -> FoundBy {
        self.by
    }

    /// The folder in which relative paths of the configuration start; `None` if the current folder is the home.
    #[must_use]
    pub fn base(&self) -> Option<&Path> {
        (!self.is_current).then_some(&self.folder)
    }

    /// Makes the folder and marks it, unless it is a home already. `true` if it had no mark.
    ///
    /// # Errors
    /// [`HomeError::Make`]
    pub fn make(&self) -> Result<bool, HomeError> {
        // A file already makes this folder a home, and the folder may be read-only.
        if self.is_marked || matches!(self.by, FoundBy::Here | FoundBy::Config) { Ok(false) } else { self.mark() }
    }

    /// As [`Self::make`], but writes the mark however the home was found.
    ///
    /// # Errors
    /// [`HomeError::Make`]
    pub fn mark(&self) -> Result<bool, HomeError> {
        self.write_mark().map_err(|source| HomeError::Make { folder: self.folder.clone(), by: self.by, source })
    }

    /// Undoes [`Self::mark`] for a new folder.
    pub fn unmark(&self) {
        // The folder stays if this fails, for example because another command has put a file there. The caller has a failure of
        // its own to report.
        let _ = fs::remove_file(self.folder.join(MARK)).and_then(|()| fs::remove_dir(&self.folder));
    }

    fn write_mark(&self) -> io::Result<bool> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let is_new = !self.folder.join(MARK).exists();
        // The mark appears complete, because another command may read it, or make the same home, at the same time.
        draft::replace(&self.folder.join(MARK), draft::SHARED, |file| file.write_all(MARK_TEXT.as_bytes()))?;
        Ok(is_new)
    }

    /// Makes the home the current folder of this process. All parts of a service run in their home.
    ///
    /// # Errors
    /// When the folder may not be entered.
    pub fn enter(&mut self) -> Result<(), HomeError> {
        env::set_current_dir(&self.folder).map_err(|source| HomeError::Unreachable {
            folder: self.folder.clone(),
            by: self.by,
            source,
        })?;
        self.is_current = true;
        Ok(())
    }
}

fn absolute(path: &Path) -> PathBuf {
    // Only an empty path, or a relative one in a deleted folder, has no absolute form. The system reports that when the path is
    // used.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if !path.components().any(|part| part == Component::ParentDir) {
        return path;
    }
    // Resolves `..`, because users see this path, and the path of a socket must be short. The last part may not exist yet.
    let of_parent = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(of_parent).unwrap_or(path)
}

fn nearest(here: &Path) -> Option<PathBuf> {
    let is_marked = |folder: &Path| folder.join(MARK).symlink_metadata().is_ok();
    // In a shared folder such as /tmp, any user could put a mark above the folders of this user.
    let is_shared = |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.mode() & SHARED == SHARED);
    let is_home = |folder: &&Path| {
        let is_named = is_marked(folder) || (*folder == here && config::is_configured(folder));
        is_named && !is_shared(folder)
    };
    here.ancestors().find(is_home).map(Path::to_owned)
}

fn default_folder() -> Option<PathBuf> {
    let path = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(state) = path("XDG_STATE_HOME") {
        return Some(state.join("llts"));
    }
    if Uid::effective().is_root() {
        return Some("/var/lib/llts".into());
    }
    let of_the_user = || Some(User::from_uid(Uid::effective()).ok()??.dir).filter(|path| path.is_absolute());
    Some(path("HOME").or_else(of_the_user)?.join(".local/state/llts"))
}

/// Whether the folder has a mark.
///
/// # Errors
/// When the mark has a newer layout, or is damaged.
fn check_mark(folder: &Path, by: FoundBy) -> Result<bool, HomeError> {
    let text = match read_mark(&folder.join(MARK)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(HomeError::Unreachable { folder: folder.to_owned(), by, source }),
    };
    let version = text.lines().find_map(|line| line.strip_prefix("version ")?.trim().parse::<u32>().ok());
    match version {
        Some(VERSION) => Ok(true),
        Some(version) if version > VERSION => Err(HomeError::Newer { folder: folder.to_owned(), version }),
        _ => Err(HomeError::BadMark { folder: folder.to_owned() }),
    }
}

fn read_mark(path: &Path) -> io::Result<String> {
    // Opening a pipe would wait for its writer.
    let file = File::options().read(true).custom_flags(O_NONBLOCK | O_NOCTTY).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(format!("{MARK} is not a regular file")));
    }
    let mut bytes = Vec::new();
    file.take(MARK_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn home(folder: &Path, by: FoundBy) -> Home {
        Home::at(folder.to_owned(), by, None).unwrap()
    }

    #[test]
    fn a_home_is_made_once_and_found_from_below() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/b");
        assert_eq!(nearest(&folder), None);
        assert!(home(&folder, FoundBy::Default).make().unwrap());
        assert!(!home(&folder, FoundBy::Default).make().unwrap(), "it is not new");
        let below = folder.join("c/d");
        fs::create_dir_all(&below).unwrap();
        assert_eq!(nearest(&below), Some(folder.clone()));
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&folder, Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(nearest(&below), None, "anybody may have put the mark there");
    }

    #[test]
    fn a_path_is_as_short_as_it_can_be() {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().canonicalize().unwrap();
        fs::create_dir(real.join("a")).unwrap();
        assert_eq!(absolute(&real.join("a/..")), real);
        assert_eq!(absolute(&real.join("a/../new")), real.join("new"));
    }

    #[test]
    fn the_current_folder_is_a_home_by_a_configuration_of_ours_only() {
        let place = tempfile::tempdir().unwrap();
        for (text, is_ours) in [
            ("LOG_LEVEL = \"info\"\n", true),
            ("", true),
            ("[task_defaults]\nTIMEOUT = 1\n", true),
            ("LOG_LEVLE = 1\n", true),
            ("broken = = \n", true),
            ("title = \"a site\"\n[params]\nX = 1\n", false),
        ] {
            fs::write(place.path().join("config.toml"), text).unwrap();
            assert_eq!(nearest(place.path()).is_some(), is_ours, "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_a_home_is_named() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let says = |folder: &Path| Home::at(folder.to_owned(), FoundBy::Option, None).unwrap_err().to_string();
        for path in [file.clone(), file.join("below")] {
            assert!(says(&path).contains("is not a folder"), "{}", says(&path));
        }
        for (mark, why) in [
            ("version 2\n", "the layout 2 of a newer llts"),
            ("version 0\n", "does not say \"version 1\""),
            ("", "does not say \"version 1\""),
            ("version 99999999999999999999", "does not say \"version 1\""),
        ] {
            fs::write(place.path().join(MARK), mark).unwrap();
            assert!(says(place.path()).contains(why), "{mark:?}: {}", says(place.path()));
        }
        fs::remove_file(place.path().join(MARK)).unwrap();
        nix::unistd::mkfifo(&place.path().join(MARK), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(says(place.path()).contains("is not a regular file"), "{}", says(place.path()));
    }

    #[test]
    fn the_mark_of_the_repository_is_that_of_a_new_home() {
        assert_eq!(include_str!("../../.llts-home"), MARK_TEXT);
    }
}
