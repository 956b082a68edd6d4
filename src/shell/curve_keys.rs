//! The keys of CURVE in files: one key each, 40 letters of Z85, with or without a newline.
//!
//! A secret key that others may read is refused, as ssh does: it is no secret.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::config::{CurveClientFiles, CurveServerFiles};
use crate::engine::zmtp::{ClientKeys, KeyPair, PublicKey, ServerKeys};
use crate::types::Wall;

/// A file with more in it is no key.
const FILE_BYTES_MAX: u64 = 4096;

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key file {}: {source}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is readable for others than its owner.
    #[error("{} holds a secret key and others may read it (mode {mode:03o}); say chmod 600 {}", .path.display(), .path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// There is something else in it.
    #[error("{} does not hold a CURVE key, which is 40 letters of Z85", .0.display())]
    NoKey(PathBuf),
    /// A new key cannot be written.
    #[error("cannot write the key file {}: {source}", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A new key would take the place of something.
    #[error("{} exists already, and a key that is gone cannot be made again; choose another name, or remove the file", .0.display())]
    Exists(PathBuf),
    /// Nobody could connect.
    #[error("there is no key in {}, so nobody could connect; put a file with a public key there for each agent and client", .0.display())]
    Nobody(PathBuf),
}

/// The keys of a controller. Those in the folder may change while it runs: who accepts a connection looks first.
#[derive(Debug)]
pub struct KeyFolder {
    folder: PathBuf,
    keys: Arc<ServerKeys>,
    /// The folder as it was read; `None` if it must be read again, whatever it looks like.
    seen: Option<Stamp>,
}

/// When the entries of a folder have changed: seconds and nanoseconds.
type Stamp = (i64, i64);

/// A folder that has changed so shortly before may change again without another stamp, and what was just created may still be
/// written.
const SETTLED: Duration = Duration::from_secs(2);

impl KeyFolder {
    /// Reads the keys. Files whose name begins with a point are passed over.
    ///
    /// # Errors
    /// [`KeyError`], for the first file that is not as it should be.
    pub fn open(files: &CurveServerFiles) -> Result<Self, KeyError> {
        let pair = secret(&files.secret_key)?;
        let folder = files.authorised_keys.clone();
        let authorised: BTreeSet<PublicKey> =
            entries(&folder)?.iter().map(|path| public(path)).collect::<Result<_, _>>()?;
        if authorised.is_empty() {
            return Err(KeyError::Nobody(folder));
        }
        Ok(Self { folder, keys: Arc::new(ServerKeys { pair, authorised }), seen: None })
    }

    /// The keys as they were read last.
    #[must_use]
    pub fn keys(&self) -> Arc<ServerKeys> {
        Arc::clone(&self.keys)
    }

    /// Looks at the folder, and reads it if files have come or gone: `true` if [`Self::keys`] are others than before. A file that is
    /// not as it should be is passed over, and named in the log: what was taken away must not stay valid for it.
    pub fn look(&mut self, now: Wall) -> bool {
        let stamp = match fs::metadata(&self.folder) {
            Ok(metadata) => (metadata.mtime(), metadata.mtime_nsec()),
            Err(source) => {
                self.complain(&KeyError::Read { path: self.folder.clone(), source });
                return false;
            }
        };
        if self.seen == Some(stamp) {
            return false;
        }
        let paths = match entries(&self.folder) {
            Ok(paths) => paths,
            Err(error) => {
                self.complain(&error);
                return false;
            }
        };
        let keys = paths.iter().filter_map(|path| public(path).inspect_err(|error| log::warn!("{error}")).ok());
        let authorised: BTreeSet<PublicKey> = keys.collect();
        let changed = Wall::from_micros(u64::try_from(stamp.0).unwrap_or_default().saturating_mul(1_000_000));
        self.seen = (now.since(changed) > SETTLED).then_some(stamp);
        if authorised == self.keys.authorised {
            return false;
        }
        log::info!("{} keys in {} may connect from here on", authorised.len(), self.folder.display());
        self.keys = Arc::new(ServerKeys { pair: self.keys.pair.clone(), authorised });
        true
    }

    fn complain(&self, error: &KeyError) {
        log::warn!("{error}; the {} keys that were there before stay valid", self.keys.authorised.len());
    }
}

/// Reads the pair of a controller.
///
/// # Errors
/// [`KeyError`], when its file is not as it should be.
pub fn server(files: &CurveServerFiles) -> Result<KeyPair, KeyError> {
    secret(&files.secret_key)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, KeyError> {
    let fail = |source| KeyError::Read { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

/// Reads the keys of an agent or a client.
///
/// # Errors
/// [`KeyError`], for the first file that is not as it should be.
pub fn client(files: &CurveClientFiles) -> Result<ClientKeys, KeyError> {
    Ok(ClientKeys { pair: secret(&files.secret_key)?, server: public(&files.server_key)? })
}

/// What the name of a file with a secret key has behind it in that of the public one.
const PUBLIC_SUFFIX: &str = ".pub";

/// A new pair: the secret key in `path`, mode 600, and the public one in the file beside it, whose path is given back.
///
/// # Errors
/// When there is something at either path, which stays as it is; or when it cannot be written.
pub fn create(path: &Path) -> Result<(PublicKey, PathBuf), KeyError> {
    let mut public_path = path.as_os_str().to_owned();
    public_path.push(PUBLIC_SUFFIX);
    let public_path = PathBuf::from(public_path);
    if fs::symlink_metadata(&public_path).is_ok() {
        return Err(KeyError::Exists(public_path));
    }
    let pair = KeyPair::from_bytes(rand::random());
    write(path, &pair.secret_text(), 0o600)?;
    write(&public_path, &pair.public().to_string(), 0o644)?;
    Ok((pair.public(), public_path))
}

fn write(path: &Path, key: &str, mode: u32) -> Result<(), KeyError> {
    let opened = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let written = opened.and_then(|mut file| writeln!(file, "{key}").and_then(|()| file.sync_all()));
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => KeyError::Exists(path.to_owned()),
        _ => KeyError::Write { path: path.to_owned(), source },
    })
}

fn secret(path: &Path) -> Result<KeyPair, KeyError> {
    let (text, mode) = read(path)?;
    if mode & 0o077 != 0 {
        return Err(KeyError::Open { path: path.to_owned(), mode });
    }
    KeyPair::parse(text.trim_end()).map_err(|_| KeyError::NoKey(path.to_owned()))
}

/// Reads a public key.
///
/// # Errors
/// [`KeyError`], when the file is not as it should be.
pub fn public(path: &Path) -> Result<PublicKey, KeyError> {
    let (text, _) = read(path)?;
    PublicKey::parse(text.trim_end()).map_err(|_| KeyError::NoKey(path.to_owned()))
}

fn read(path: &Path) -> Result<(String, u32), KeyError> {
    let fail = |source| KeyError::Read { path: path.to_owned(), source };
    let file = fs::File::open(path).map_err(fail)?;
    let mode = file.metadata().map_err(fail)?.mode() & 0o777;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(fail)?;
    String::from_utf8(bytes).map(|text| (text, mode)).map_err(|_| KeyError::NoKey(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn put(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn keys_are_read_and_everything_else_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (secret_key, authorised_keys) = (folder.path().join("secret"), folder.path().join("authorised"));
        let (ours, theirs) = (KeyPair::from_bytes([1; 32]), KeyPair::from_bytes([2; 32]));
        let files = CurveServerFiles { secret_key: secret_key.clone(), authorised_keys: authorised_keys.clone() };
        let says = || KeyFolder::open(&files).map(|_| String::new()).unwrap_or_else(|error| error.to_string());

        assert!(says().starts_with("cannot read the key file") && says().contains("secret"), "{}", says());
        put(&secret_key, &ours.secret_text(), 0o640);
        assert!(says().contains("mode 640") && says().contains("chmod 600"), "{}", says());
        put(&secret_key, "not a key", 0o600);
        assert!(says().ends_with("does not hold a CURVE key, which is 40 letters of Z85"), "{}", says());
        put(&secret_key, &format!("{}\n", ours.secret_text()), 0o600);
        assert!(says().contains("authorised"), "{}", says());
        fs::create_dir(&authorised_keys).unwrap();
        assert!(says().starts_with("there is no key in"), "{}", says());
        put(&authorised_keys.join(".hidden"), "x", 0o644);
        put(&authorised_keys.join("agent-1"), &format!("{}\n", theirs.public()), 0o644);
        let keys = KeyFolder::open(&files).unwrap().keys();
        assert_eq!((keys.pair.public(), &keys.authorised), (ours.public(), &[theirs.public()].into_iter().collect()));
        put(&authorised_keys.join("bad"), "", 0o644);
        assert!(says().contains("bad does not hold"), "{}", says());

        let server_key = folder.path().join("server");
        put(&server_key, &ours.public().to_string(), 0o644);
        let keys = client(&CurveClientFiles { secret_key, server_key }).unwrap();
        assert_eq!((keys.pair.public(), keys.server), (ours.public(), ours.public()));
    }

    /// Times are given, so that a change a moment after another one is part of it.
    #[test]
    fn the_folder_is_read_again_when_files_come_or_go() {
        let place = tempfile::tempdir().unwrap();
        let (secret_key, authorised_keys) = (place.path().join("secret"), place.path().join("authorised"));
        put(&secret_key, &KeyPair::from_bytes([1; 32]).secret_text(), 0o600);
        fs::create_dir(&authorised_keys).unwrap();
        let key = |seed| KeyPair::from_bytes([seed; 32]).public();
        let add = |name: &str, seed| put(&authorised_keys.join(name), &key(seed).to_string(), 0o644);
        add("one", 2);
        let files = CurveServerFiles { secret_key, authorised_keys: authorised_keys.clone() };
        let mut folder = KeyFolder::open(&files).unwrap();
        let now = crate::shell::clock::now().wall;
        let later = Wall::from_micros(now.micros() + 10_000_000);
        assert!(!folder.look(now));
        add("two", 3);
        assert!(folder.look(now) && !folder.look(now));
        assert_eq!(folder.keys().authorised, [key(2), key(3)].into_iter().collect());
        // So young a change is looked at again, also without another stamp: the file is written behind its creation.
        put(&authorised_keys.join("two"), "", 0o644);
        assert!(folder.look(later), "a file that is not a key is passed over");
        assert_eq!(folder.keys().authorised, [key(2)].into_iter().collect());
        // And an old one is not.
        put(&authorised_keys.join("one"), "", 0o644);
        assert!(!folder.look(later));
        fs::remove_file(authorised_keys.join("one")).unwrap();
        assert!(folder.look(later) && folder.keys().authorised.is_empty());
        add("one", 2);
        assert!(folder.look(later));
        fs::remove_dir_all(&authorised_keys).unwrap();
        assert!(
            !folder.look(later) && folder.keys().authorised.len() == 1,
            "nothing is known of a folder that is gone"
        );
    }
}
