//! The keys of CURVE in files: one key each, 40 letters of Z85, with or without a newline.
//!
//! A secret key that others may read is refused, as ssh does: it is no secret. So is a key that others may replace.

mod folder;

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::libc::{O_NOCTTY, O_NONBLOCK};
use zeroize::Zeroizing;

use super::trust::quoted;
use crate::config::{CurveClientFiles, CurveServerFiles};
use crate::engine::zmtp::{BadKey, ClientKeys, KeyPair, PublicKey};

pub use folder::KeyFolder;

/// A file with more in it is no key.
const FILE_BYTES_MAX: usize = 4096;

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
    /// There is no such file.
    #[error("there is no key file {}; {remedy}", .path.display())]
    Missing {
        /// Where it should be.
        path: PathBuf,
        /// How one gets there.
        remedy: String,
    },
    /// It is readable for others than its owner.
    #[error("{} holds a secret key and others may read it (mode {mode:03o}); say `chmod 600 {}`", .path.display(), quoted(path))]
    Open {
        /// Which.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Others than its owner may put another key in its place.
    #[error("others may write {} (mode {mode:03o}) and put keys of their own there; say `chmod go-w {}`", .path.display(), quoted(path))]
    Writable {
        /// The file, or the folder of keys.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It belongs to somebody who is neither the user of this process nor root.
    #[error("{} belongs to the user {owner}, who may put keys of his own there; say `chown {} {}`", .path.display(), rustix::process::geteuid().as_raw(), quoted(path))]
    Foreign {
        /// The file, or the folder of keys.
        path: PathBuf,
        /// The number of the user.
        owner: u32,
    },
    /// A pipe, a device or the like: to read it might take for ever.
    #[error("{} is not a regular file, so it holds no key", .0.display())]
    NotAFile(PathBuf),
    /// There is something else in it.
    #[error("{} does not hold a CURVE key: {why}", .path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with the text.
        why: BadKey,
    },
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

impl KeyError {
    /// The same, and what is to be done if the file is not there.
    fn with_remedy(self, remedy: impl FnOnce() -> String) -> Self {
        match self {
            Self::Read { path, source } if source.kind() == io::ErrorKind::NotFound => {
                Self::Missing { path, remedy: remedy() }
            }
            other => other,
        }
    }
}

/// Reads the pair of a controller.
///
/// # Errors
/// [`KeyError`], when its file is not as it should be.
pub fn server(files: &CurveServerFiles) -> Result<KeyPair, KeyError> {
    let path = &files.secret_key;
    let (text, metadata) = read_secret(path)?;
    check_owner(path, &metadata)?;
    secret(path, &text, &metadata)
}

/// Reads the keys of an agent or a client.
///
/// # Errors
/// [`KeyError`], for the first file that is not as it should be.
pub fn client(files: &CurveClientFiles) -> Result<ClientKeys, KeyError> {
    let (text, metadata) = read_secret(&files.secret_key)?;
    let pair = secret(&files.secret_key, &text, &metadata)?;
    let copy = || "copy the public key of the controller there, or name another file".to_owned();
    Ok(ClientKeys { pair, server: public(&files.server_key).map_err(|error| error.with_remedy(copy))? })
}

/// What the name of a file with a secret key has behind it in that of the public one.
const PUBLIC_SUFFIX: &str = ".pub";

/// A new pair: the secret key in `path`, mode 600, and the public one in the file beside it, whose path is given back.
///
/// # Errors
/// When there is something at either path, which stays as it is; or when it cannot be written.
pub fn create(path: &Path) -> Result<(PublicKey, PathBuf), KeyError> {
    let pair = KeyPair::from_bytes(rand::random());
    Ok((pair.public(), keep(path, &pair)?))
}

/// Writes a pair as [`create`] does.
///
/// # Errors
/// As [`create`].
pub fn keep(path: &Path, pair: &KeyPair) -> Result<PathBuf, KeyError> {
    let mut public_path = path.as_os_str().to_owned();
    public_path.push(PUBLIC_SUFFIX);
    let public_path = PathBuf::from(public_path);
    if fs::symlink_metadata(&public_path).is_ok() {
        return Err(KeyError::Exists(public_path));
    }
    write(path, &Zeroizing::new(pair.secret_text()), 0o600)?;
    write_public(&public_path, pair.public())?;
    Ok(public_path)
}

/// Writes a public key to a new file.
///
/// # Errors
/// When there is something at the path, which stays as it is; or when it cannot be written.
pub fn write_public(path: &Path, key: PublicKey) -> Result<(), KeyError> {
    write(path, &key.to_string(), 0o644)
}

fn write(path: &Path, key: &str, mode: u32) -> Result<(), KeyError> {
    let opened = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let written = opened.and_then(|mut file| writeln!(file, "{key}").and_then(|()| file.sync_all()));
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => KeyError::Exists(path.to_owned()),
        _ => KeyError::Write { path: path.to_owned(), source },
    })
}

fn secret(path: &Path, text: &str, metadata: &fs::Metadata) -> Result<KeyPair, KeyError> {
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Open { path: path.to_owned(), mode });
    }
    KeyPair::parse(text.trim_end()).map_err(|why| KeyError::NoKey { path: path.to_owned(), why })
}

/// Reads a public key.
///
/// # Errors
/// [`KeyError`], when the file is not as it should be.
pub fn public(path: &Path) -> Result<PublicKey, KeyError> {
    let (text, metadata) = read(path)?;
    check_writers(path, &metadata)?;
    PublicKey::parse(text.trim_end()).map_err(|why| KeyError::NoKey { path: path.to_owned(), why })
}

fn read_secret(path: &Path) -> Result<(Zeroizing<String>, fs::Metadata), KeyError> {
    let make = || format!("make a pair with `llts keys new {}`, or name another file", quoted(path));
    read(path).map_err(|error| error.with_remedy(make))
}

/// The text of a key file, which does not stay in memory.
fn read(path: &Path) -> Result<(Zeroizing<String>, fs::Metadata), KeyError> {
    let fail = |source| KeyError::Read { path: path.to_owned(), source };
    // A pipe without a writer must not hold up the loop; what it is shows when it is open.
    let opened = fs::OpenOptions::new().read(true).custom_flags(O_NONBLOCK | O_NOCTTY).open(path);
    let file = opened.map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(KeyError::NotAFile(path.to_owned()));
    }
    // With all its room from the start, so that it leaves no copies behind as it grows.
    let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES_MAX));
    match file.take(FILE_BYTES_MAX as u64).read_to_string(&mut text) {
        Ok(_) => Ok((text, metadata)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(KeyError::NoKey { path: path.to_owned(), why: BadKey::NotZ85 })
        }
        Err(error) => Err(fail(error)),
    }
}

/// Whether nobody but the owner may change what it holds. A group that has the number of our user is that user's own.
fn check_writers(path: &Path, metadata: &fs::Metadata) -> Result<(), KeyError> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let is_own_group = metadata.gid() == group && group == user;
    let others = if is_own_group { 0o002 } else { 0o022 };
    let mode = metadata.mode() & 0o777;
    if mode & others == 0 { Ok(()) } else { Err(KeyError::Writable { path: path.to_owned(), mode }) }
}

/// Whether it is ours, or root's.
fn check_owner(path: &Path, metadata: &fs::Metadata) -> Result<(), KeyError> {
    let owner = metadata.uid();
    let is_ours = owner == 0 || owner == rustix::process::geteuid().as_raw();
    if is_ours { Ok(()) } else { Err(KeyError::Foreign { path: path.to_owned(), owner }) }
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

        assert!(
            says().starts_with("there is no key file") && says().contains("secret; make a pair with `llts keys new /"),
            "{}",
            says()
        );
        put(&secret_key, &ours.secret_text(), 0o640);
        assert!(says().contains("mode 640") && says().contains("chmod 600"), "{}", says());
        put(&secret_key, "not a key", 0o600);
        assert!(says().ends_with("does not hold a CURVE key: a CURVE key is 40 letters of Z85"), "{}", says());
        put(&secret_key, &format!("{}\n", ours.secret_text()), 0o600);
        assert!(says().contains("authorised"), "{}", says());
        fs::create_dir(&authorised_keys).unwrap();
        assert!(says().starts_with("there is no key in"), "{}", says());
        put(&authorised_keys.join(".hidden"), "x", 0o644);
        put(&authorised_keys.join("agent-1"), &format!("{}\n", theirs.public()), 0o644);
        let keys = KeyFolder::open(&files).unwrap().keys();
        assert_eq!((keys.pair.public(), &keys.authorised), (ours.public(), &[theirs.public()].into_iter().collect()));
        let bad = authorised_keys.join("bad");
        put(&bad, "", 0o644);
        assert!(says().contains("bad does not hold"), "{}", says());
        put(&bad, &theirs.public().to_string(), 0o646);
        assert!(says().contains("mode 646") && says().contains("chmod go-w"), "{}", says());
        put(&bad, &"0".repeat(40), 0o644);
        assert!(says().contains("bad does not hold") && says().contains("anybody"), "{}", says());
        fs::remove_file(&bad).unwrap();
        // To open it would wait for a writer.
        nix::unistd::mkfifo(&bad, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(says().contains("bad is not a regular file"), "{}", says());
        fs::remove_file(&bad).unwrap();
        fs::set_permissions(&authorised_keys, fs::Permissions::from_mode(0o757)).unwrap();
        assert!(says().contains("authorised (mode 757)"), "{}", says());

        let server_key = folder.path().join("server");
        put(&server_key, &ours.public().to_string(), 0o644);
        let keys = client(&CurveClientFiles { secret_key, server_key }).unwrap();
        assert_eq!((keys.pair.public(), keys.server), (ours.public(), ours.public()));
    }
}
