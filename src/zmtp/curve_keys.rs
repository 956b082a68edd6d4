//! CURVE keys in files: one key each, as 40 characters of Z85, with or without a newline. The file of an authorised key
//! may have a second line, which lets its holder send commands.
//!
//! As in ssh, a secret key that other users can read is refused, because it is not secret. So is a key that other users
//! can replace.

mod folder;

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::libc::{O_NOCTTY, O_NONBLOCK};
use zeroize::Zeroizing;

use crate::engine::{BadKey, ClientKeys, KeyPair, PublicKey};
use base::{CurveClientFiles, CurveServerFiles, quoted_path};
use proc::files::rename::rename_new;

pub use folder::KeyFolder;
pub(crate) use folder::LOOK_INTERVAL;

/// Maximum bytes of a key file. A longer file is not a key.
const FILE_BYTES_MAX: usize = 4096;

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key file {}: {source}", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file does not exist.
    #[error("there is no key file {}; {remedy}", .path.display())]
    Missing {
        /// Expected path of the file.
        path: PathBuf,
        /// How to get the file.
        remedy: String,
    },
    /// Other users can read a secret key.
    #[error("{} holds a secret key and others can read it (mode {mode:03o}); run `chmod 600 {}`", .path.display(), quoted_path(path))]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Permissions of the file.
        mode: u32,
    },
    /// Other users can replace the key.
    #[error("others can write to {} (mode {mode:03o}) and put keys of their own there; run `chmod go-w {}`", .path.display(), quoted_path(path))]
    Writable {
        /// The file, or the folder of keys.
        path: PathBuf,
        /// Permissions of the file or folder.
        mode: u32,
    },
    /// It belongs to a user who is neither the user of this process nor root.
    #[error("{} belongs to the user {owner}, who can put other keys there; run `chown {} {}`", .path.display(), rustix::process::geteuid().as_raw(), quoted_path(path))]
    Foreign {
        /// The file, or the folder of keys.
        path: PathBuf,
        /// User id of the owner.
        owner: u32,
    },
    /// It is a pipe, a device or the like, and reading it might block forever.
    #[error("{} is not a regular file, so it cannot hold a key", .0.display())]
    NotAFile(PathBuf),
    /// The content is not a key.
    #[error("{} does not hold a CURVE key: {why}", .path.display())]
    NoKey {
        /// Path of the file.
        path: PathBuf,
        /// The error in the text.
        why: BadKey,
    },
    /// The line after an authorised key is unknown.
    #[error("{} has the line {line:?} after its key; the only line that may follow is {MAY_COMMAND:?}", .path.display())]
    NoRight {
        /// Path of the file.
        path: PathBuf,
        /// The line.
        line: String,
    },
    /// A new key cannot be written.
    #[error("cannot write the key file {}: {source}", .path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A new key would overwrite an existing file.
    #[error("{} exists already, and an overwritten key is lost; choose another name, or remove the file", .0.display())]
    Exists(PathBuf),
    /// No key is authorised.
    #[error("there is no key in {}, so no agent or client could connect; put a file with the public key of each there", .0.display())]
    Nobody(PathBuf),
}

impl KeyError {
    /// The same error, with a remedy if the file is missing.
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
/// [`KeyError`], when a file is unusable.
pub fn server(files: &CurveServerFiles) -> Result<KeyPair, KeyError> {
    let path = &files.secret_key;
    let (text, metadata) = read_secret(path)?;
    check_owner(path, &metadata)?;
    secret(path, &text, &metadata)
}

/// Reads the keys of an agent or a client.
///
/// # Errors
/// [`KeyError`], for the first unusable file.
pub fn client(files: &CurveClientFiles) -> Result<ClientKeys, KeyError> {
    let (text, metadata) = read_secret(&files.secret_key)?;
    let pair = secret(&files.secret_key, &text, &metadata)?;
    let copy = || "copy the public key of the controller there, or name another file".to_owned();
    Ok(ClientKeys { pair, server: public(&files.server_key).map_err(|error| error.with_remedy(copy))? })
}

/// Suffix of the name of a public key file, after the name of the secret key file.
const PUBLIC_SUFFIX: &str = ".pub";

/// Makes a new pair: writes the secret key to `path`, with mode 600, and the public key to a file beside it, whose path
/// is returned.
///
/// # Errors
/// When either file exists, which then stays unchanged, or cannot be written.
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
    write(path, &Zeroizing::new(pair.secret_text()), 0o600, rename_new)?;
    write_public(&public_path, pair.public())?;
    Ok(public_path)
}

/// The line that lets the holder of a key send commands.
const MAY_COMMAND: &str = "may commands";

/// A public key that is authorised, with the rights of its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthorisedKey {
    /// The key.
    pub key: PublicKey,
    /// Whether its holder may send commands, and change tools.
    pub may_command: bool,
}

impl AuthorisedKey {
    /// Reads the file of an authorised key.
    ///
    /// # Errors
    /// [`KeyError`], when the file is unusable.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let (text, metadata) = read(path)?;
        check_writers(path, &metadata)?;
        let (key, rights) = text.trim_end().split_once('\n').unwrap_or((text.trim_end(), ""));
        let key = PublicKey::parse(key.trim_end()).map_err(|why| KeyError::NoKey { path: path.to_owned(), why })?;
        let mut may_command = false;
        for line in rights.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if line != MAY_COMMAND {
                return Err(KeyError::NoRight { path: path.to_owned(), line: line.chars().take(80).collect() });
            }
            may_command = true;
        }
        Ok(Self { key, may_command })
    }

    /// Writes a new file.
    ///
    /// # Errors
    /// As [`write_public`].
    pub fn write(self, path: &Path) -> Result<(), KeyError> {
        write(path, &self.text(), 0o644, rename_new)
    }

    /// Overwrites the file of a key.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn rewrite(self, path: &Path) -> Result<(), KeyError> {
        write(path, &self.text(), 0o644, |from, to| fs::rename(from, to))
    }

    fn text(self) -> String {
        if self.may_command { format!("{}\n{MAY_COMMAND}", self.key) } else { self.key.to_string() }
    }
}

/// Writes a public key to a new file.
///
/// # Errors
/// When something exists at the path, which then stays unchanged, or the file cannot be written.
pub fn write_public(path: &Path, key: PublicKey) -> Result<(), KeyError> {
    write(path, &key.to_string(), 0o644, rename_new)
}

/// Writes a file under a draft name, from which `place` moves it to its own.
fn write(
    path: &Path,
    key: &str,
    mode: u32,
    place: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> Result<(), KeyError> {
    // A reader of the folder finds the whole key or no file. It ignores the draft, whose name begins with a dot.
    let draft = path.with_file_name(format!(".draft-{:016x}", rand::random::<u64>()));
    let opened = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft);
    let written = opened.and_then(|mut file| {
        let placed = writeln!(file, "{key}").and_then(|()| file.sync_all()).and_then(|()| place(&draft, path));
        // The draft is ours.
        placed.inspect_err(|_| drop(fs::remove_file(&draft)))
    });
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
/// [`KeyError`], when the file is unusable.
pub fn public(path: &Path) -> Result<PublicKey, KeyError> {
    let (text, metadata) = read(path)?;
    check_writers(path, &metadata)?;
    PublicKey::parse(text.trim_end()).map_err(|why| KeyError::NoKey { path: path.to_owned(), why })
}

fn read_secret(path: &Path) -> Result<(Zeroizing<String>, fs::Metadata), KeyError> {
    let make = || format!("make a pair with `llts keys new {}`, or name another file", quoted_path(path));
    read(path).map_err(|error| error.with_remedy(make))
}

/// Reads the text of a key file. The text is erased from memory after use.
fn read(path: &Path) -> Result<(Zeroizing<String>, fs::Metadata), KeyError> {
    let fail = |source| KeyError::Read { path: path.to_owned(), source };
    // A pipe without a writer must not block the loop. The type of the file is checked after opening.
    let opened = fs::OpenOptions::new().read(true).custom_flags(O_NONBLOCK | O_NOCTTY).open(path);
    let file = opened.map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(KeyError::NotAFile(path.to_owned()));
    }
    // With full capacity from the start, so that growing leaves no copies behind.
    let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES_MAX));
    match file.take(FILE_BYTES_MAX as u64).read_to_string(&mut text) {
        Ok(_) => Ok((text, metadata)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(KeyError::NoKey { path: path.to_owned(), why: BadKey::NotZ85 })
        }
        Err(error) => Err(fail(error)),
    }
}

/// Checks that only the owner can change the file or folder. A group with the same number as our user is that user's own.
fn check_writers(path: &Path, metadata: &fs::Metadata) -> Result<(), KeyError> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let is_own_group = metadata.gid() == group && group == user;
    let others = if is_own_group { 0o002 } else { 0o022 };
    let mode = metadata.mode() & 0o777;
    if mode & others == 0 { Ok(()) } else { Err(KeyError::Writable { path: path.to_owned(), mode }) }
}

/// Checks that the file or folder belongs to our user or to root.
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
        assert!(says().ends_with("does not hold a CURVE key: a CURVE key is 40 characters of Z85"), "{}", says());
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
        assert!(says().contains("bad does not hold") && says().contains("publicly known"), "{}", says());
        fs::remove_file(&bad).unwrap();
        // Opening the pipe would otherwise wait for a writer.
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
