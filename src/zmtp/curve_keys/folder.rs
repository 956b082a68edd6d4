//! The folder with the authorised keys of a controller, which may change while the controller runs.
//!
//! The kernel reports events in the folder. In addition, each file is checked every second, because a file may change
//! through a link or on another machine, and a removed folder may come back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::{AuthorisedKey, KeyError, check_owner, check_writers, server};
use crate::engine::{KeyPair, ServerKeys};
use base::{CurveServerFiles, Mono, Wall};
use proc::files::file_stamp::FileStamp;

/// How often the keys are checked without an event: changes on another machine cause no event here.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The keys of a controller. Those in the folder may change while it runs.
#[derive(Debug)]
pub struct KeyFolder {
    folder: PathBuf,
    keys: Arc<ServerKeys>,
    /// Stamps of the folder and its files when they were read; `None` if they must be read again in any case.
    seen: Option<BTreeMap<PathBuf, Option<FileStamp>>>,
    /// The current defects of the folder and its files, so that each is logged once.
    complaints: BTreeSet<String>,
    /// `None` if the kernel has no inotify instance left.
    news: Option<Inotify>,
    /// When the next look is due.
    look_at: Mono,
}

impl KeyFolder {
    /// Reads the keys. Files with a leading dot in their name are ignored.
    ///
    /// # Errors
    /// [`KeyError`], for the first unusable file.
    pub fn open(files: &CurveServerFiles) -> Result<Self, KeyError> {
        let pair = server(files)?;
        let folder = files.authorised_keys.clone();
        let news = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK);
        let news = news.inspect_err(|errno| log::info!("cannot watch {}: {errno}", folder.display())).ok();
        watch(news.as_ref(), &folder);
        let stamps = stamps(&folder)?;
        let names = stamps.keys().filter(|path| **path != folder);
        let authorised: Vec<AuthorisedKey> = names.map(|path| authorised(path)).collect::<Result<_, _>>()?;
        if authorised.is_empty() {
            return Err(KeyError::Nobody(folder));
        }
        let keys = Arc::new(server_keys(pair, &authorised));
        Ok(Self { folder, keys, seen: None, complaints: BTreeSet::new(), news, look_at: Mono::default() })
    }

    /// The keys as last read.
    #[must_use]
    pub fn keys(&self) -> Arc<ServerKeys> {
        Arc::clone(&self.keys)
    }

    /// Readable after an event in the folder, which is then noted with [`Self::note_news`]; [`Self::look`] resets it.
    #[must_use]
    pub fn news(&self) -> Option<BorrowedFd<'_>> {
        self.news.as_ref().map(Inotify::as_fd)
    }

    /// The folder has an event.
    pub(crate) fn note_news(&mut self) {
        self.look_at = Mono::default();
    }

    /// When the next look is due: at once after an event, and every second.
    pub(crate) const fn look_at(&self) -> Mono {
        self.look_at
    }

    /// Whether a look is due, which the caller then makes.
    pub(crate) fn take_due(&mut self, now: Mono) -> bool {
        let is_due = self.look_at <= now;
        if is_due {
            self.look_at = now + LOOK_INTERVAL;
        }
        is_due
    }

    /// Checks the folder and its files, and reads them if anything has changed. Returns whether [`Self::keys`] have
    /// changed. An unusable file is ignored and named in the log, so that it does not keep removed keys valid. For the
    /// same reason no key is valid while the folder cannot be read.
    pub fn look(&mut self, now: Wall) -> bool {
        while self.news.as_ref().is_some_and(|news| news.read_events().is_ok()) {}
        // The events are drained before the check, so that later ones are not missed.
        let stamps = match stamps(&self.folder) {
            Ok(stamps) if self.seen.as_ref() == Some(&stamps) => return false,
            Ok(stamps) => stamps,
            Err(error) => {
                self.complain(BTreeSet::from([format!("{error}; no key is accepted until this is repaired")]));
                // It may pass without a change of the folder.
                self.seen = None;
                return self.take(&[]);
            }
        };
        // It may be another folder of the same name.
        watch(self.news.as_ref(), &self.folder);
        let (mut keys, mut complaints, mut all_read) = (Vec::new(), BTreeSet::new(), true);
        for (path, stamp) in stamps.iter().filter(|(path, _)| **path != self.folder) {
            match authorised(path) {
                Ok(key) => keys.push(key),
                // It is about to be written, and will then be checked again.
                Err(KeyError::NoKey { .. }) if stamp.is_some_and(|it| it.size == 0 && !it.is_settled(now)) => {}
                Err(error) => {
                    all_read &= !matches!(error, KeyError::Read { .. });
                    complaints.insert(format!("{error}; it is ignored"));
                }
            }
        }
        self.complain(complaints);
        let is_settled = stamps.values().flatten().all(|stamp| stamp.is_settled(now));
        self.seen = (is_settled && all_read).then_some(stamps);
        self.take(&keys)
    }

    fn take(&mut self, authorised: &[AuthorisedKey]) -> bool {
        let keys = server_keys(self.keys.pair.clone(), authorised);
        if (&keys.authorised, &keys.commanders) == (&self.keys.authorised, &self.keys.commanders) {
            return false;
        }
        let (all, folder, commanders) = (keys.authorised.len(), self.folder.display(), keys.commanders.len());
        log::info!("{all} keys in {folder} are accepted from now on, {commanders} of them for commands");
        self.keys = Arc::new(keys);
        true
    }

    /// Logs the defects that the last check did not find.
    fn complain(&mut self, complaints: BTreeSet<String>) {
        for complaint in complaints.difference(&self.complaints) {
            log::warn!("{complaint}");
        }
        self.complaints = complaints;
    }
}

/// The keys of a controller with this pair. A key in two files has the rights of both.
fn server_keys(pair: KeyPair, keys: &[AuthorisedKey]) -> ServerKeys {
    let commanders = keys.iter().filter(|key| key.may_command).map(|key| key.key).collect();
    ServerKeys { pair, authorised: keys.iter().map(|key| key.key).collect(), commanders }
}

fn watch(news: Option<&Inotify>, folder: &Path) {
    let what = AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MOVE
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR;
    if let Some(Err(errno)) = news.map(|news| news.add_watch(folder, what)) {
        log::debug!("cannot watch {}: {errno}", folder.display());
    }
}

/// The stamps of the folder and its files. A file that disappears meanwhile has no stamp.
fn stamps(folder: &Path) -> Result<BTreeMap<PathBuf, Option<FileStamp>>, KeyError> {
    let fail = |source| KeyError::Read { path: folder.to_owned(), source };
    let metadata = fs::metadata(folder).map_err(fail)?;
    check_owner(folder, &metadata)?;
    check_writers(folder, &metadata)?;
    let mut stamps = BTreeMap::from([(folder.to_owned(), Some(FileStamp::from(&metadata)))]);
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            let path = entry.path();
            let stamp = fs::metadata(&path).ok().as_ref().map(FileStamp::from);
            stamps.insert(path, stamp);
        }
    }
    Ok(stamps)
}

/// Reads the key in a file of the folder.
fn authorised(path: &Path) -> Result<AuthorisedKey, KeyError> {
    let metadata = fs::metadata(path).map_err(|source| KeyError::Read { path: path.to_owned(), source })?;
    check_owner(path, &metadata)?;
    AuthorisedKey::read(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::engine::PublicKey;

    /// A folder with the key of seed 2, long after its files were written: a young change is checked again anyway.
    struct Place {
        place: tempfile::TempDir,
        folder: KeyFolder,
        later: Wall,
    }

    fn key(seed: u8) -> PublicKey {
        KeyPair::from_bytes([seed; 32]).public()
    }

    impl Place {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let (secret_key, authorised_keys) = (place.path().join("secret"), place.path().join("authorised"));
            fs::write(&secret_key, KeyPair::from_bytes([1; 32]).secret_text()).unwrap();
            fs::set_permissions(&secret_key, fs::Permissions::from_mode(0o600)).unwrap();
            fs::create_dir(&authorised_keys).unwrap();
            fs::set_permissions(&authorised_keys, fs::Permissions::from_mode(0o700)).unwrap();
            add(&authorised_keys, "one", &key(2).to_string());
            let mut folder = KeyFolder::open(&CurveServerFiles { secret_key, authorised_keys }).unwrap();
            let later = Wall::from_micros(proc::clock::now().wall.micros() + 3_600_000_000);
            assert!(!folder.look(later) && folder.seen.is_some());
            Self { place, folder, later }
        }

        fn keys(&self) -> PathBuf {
            self.place.path().join("authorised")
        }

        /// Checks the folder. Returns whether anything has changed, and the accepted keys.
        fn look(&mut self) -> (bool, Vec<PublicKey>) {
            let changed = self.folder.look(self.later);
            (changed, self.folder.keys().authorised.iter().copied().collect())
        }
    }

    fn add(folder: &Path, name: &str, text: &str) {
        fs::write(folder.join(name), text).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o644)).unwrap();
    }

    #[test]
    fn files_that_come_and_go_are_noticed() {
        let mut place = Place::new();
        add(&place.keys(), "two", &key(3).to_string());
        let mut both = vec![key(2), key(3)];
        both.sort();
        assert_eq!(place.look(), (true, both));
        assert!(!place.look().0);
        fs::remove_file(place.keys().join("one")).unwrap();
        assert_eq!(place.look(), (true, vec![key(3)]));
    }

    #[test]
    fn a_line_behind_a_key_lets_its_holder_send_commands() {
        let mut place = Place::new();
        let commanders = |place: &Place| place.folder.keys().commanders.iter().copied().collect::<Vec<_>>();
        assert_eq!(commanders(&place), []);
        add(&place.keys(), "one", &format!("{}\nmay commands\n", key(2)));
        assert_eq!((place.look(), commanders(&place)), ((true, vec![key(2)]), vec![key(2)]));
        AuthorisedKey { key: key(2), may_command: false }.rewrite(&place.keys().join("one")).unwrap();
        assert_eq!((place.look(), commanders(&place)), ((true, vec![key(2)]), vec![]));
        add(&place.keys(), "one", &format!("{}\nmay everything\n", key(2)));
        assert_eq!(place.look(), (true, vec![]), "its key is not accepted with less than it says");
        assert!(
            place.folder.complaints.iter().any(|it| it.contains("may everything")),
            "{:?}",
            place.folder.complaints
        );
    }

    /// The folder and the length of the file stay the same, and the modification time is set back.
    #[test]
    fn a_file_that_is_overwritten_is_noticed() {
        let mut place = Place::new();
        let path = place.keys().join("one");
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::io::Write::write_all(&mut file, key(3).to_string().as_bytes()).unwrap();
        file.set_modified(before).unwrap();
        drop(file);
        assert_eq!(place.look(), (true, vec![key(3)]));
    }

    /// A file that was just read may be written a moment later without another stamp.
    #[test]
    fn a_young_file_is_read_again() {
        let mut place = Place::new();
        add(&place.keys(), "one", &key(3).to_string());
        let now = proc::clock::now().wall;
        assert!(place.folder.look(now) && place.folder.seen.is_none());
        assert!(!place.folder.look(place.later) && place.folder.seen.is_some());
    }

    #[test]
    fn no_key_is_valid_without_its_folder() {
        let mut place = Place::new();
        let away = place.place.path().join("away");
        fs::rename(place.keys(), &away).unwrap();
        assert_eq!(place.look(), (true, vec![]));
        assert!(
            place.folder.complaints.iter().any(|it| it.contains("authorised") && it.contains("no key is accepted"))
        );
        fs::rename(&away, place.keys()).unwrap();
        assert_eq!(place.look(), (true, vec![key(2)]));
        assert!(place.folder.complaints.is_empty());
        fs::set_permissions(place.keys(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(place.look(), (true, vec![]), "any user may put keys there");
    }

    /// A link in its path leads elsewhere for a while: neither the folder nor a file changes.
    #[test]
    fn keys_are_valid_again_when_an_unchanged_folder_is_back() {
        let mut place = Place::new();
        let link = place.place.path().join("link");
        let lead_to = |to: &Path| {
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(to, &link).unwrap();
        };
        lead_to(place.place.path());
        place.folder.folder = link.join("authorised");
        assert_eq!(place.look(), (false, vec![key(2)]));
        assert!(place.folder.seen.is_some());
        lead_to(Path::new("/nowhere"));
        assert_eq!(place.look(), (true, vec![]));
        lead_to(place.place.path());
        assert_eq!(place.look(), (true, vec![key(2)]));
    }

    #[test]
    fn what_is_no_key_is_passed_over_and_named() {
        let mut place = Place::new();
        nix::unistd::mkfifo(&place.keys().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        add(&place.keys(), "broken", "no key");
        add(&place.keys(), ".hidden", "no key");
        assert_eq!(place.look(), (false, vec![key(2)]));
        let complaints: Vec<_> = place.folder.complaints.iter().cloned().collect();
        assert!(complaints.len() == 2 && complaints[0].contains("broken does not hold"), "{complaints:?}");
        assert!(complaints[1].contains("pipe is not a regular file"), "{complaints:?}");
        add(&place.keys(), "one", "");
        assert_eq!(place.look(), (true, vec![]), "its key has been taken away");
    }
}
