//! Named controllers of other machines: `contexts.toml` in the folder of the user's configuration.
//!
//! ```toml
//! [contexts.farm]
//! address = "tcp://10.77.0.1:15555"
//! server_key_file = "/home/ada/keys/farm.pub"
//! secret_key_file = "/home/ada/keys/ada.key"
//! ```

use std::collections::BTreeMap;
use std::env;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use base::{CurveClientFiles, nearest_hint};

use proc::files::draft::{PRIVATE, replace};

/// Bytes of the name of a context.
const NAME_BYTES_MAX: usize = 64;

/// A longer file is not ours.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The address of a controller, and the keys for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// `tcp://IP:PORT`, `tcp://NAME:PORT` or `ipc://PATH`.
    pub address: String,
    /// The file with the public key of the controller; given with the next one, or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_key_file: Option<PathBuf>,
    /// The file with the secret key of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_file: Option<PathBuf>,
}

impl Context {
    /// The files of CURVE, if it has any.
    #[must_use]
    pub fn keys(&self) -> Option<CurveClientFiles> {
        let (server_key, secret_key) = (self.server_key_file.clone()?, self.secret_key_file.clone()?);
        Some(CurveClientFiles { secret_key, server_key })
    }
}

/// Checks the name of a new context.
///
/// # Errors
/// A sentence about the name that lists the allowed characters.
pub fn check_name(name: &str) -> Result<String, String> {
    let is_allowed = |letter: u8| letter.is_ascii_alphanumeric() || b"._-".contains(&letter);
    let is_name = name.len() <= NAME_BYTES_MAX
        && name.bytes().all(is_allowed)
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    let allowed = format!("1 to {NAME_BYTES_MAX} characters of A-Z a-z 0-9 . _ -, and a letter or a digit first");
    if is_name { Ok(name.to_owned()) } else { Err(format!("it is not the name of a context: use {allowed}")) }
}

/// An error of the contexts.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// No folder for the file is known.
    #[error("there is no folder for contexts: neither HOME nor XDG_CONFIG_HOME is an absolute path")]
    Homeless,
    /// The file cannot be read or written.
    #[error("cannot {what} the contexts in {}: {source}", .path.display())]
    Io {
        /// The operation, `read` or `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not a list of contexts.
    #[error("{} is no list of contexts: {why}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The error, as a sentence.
        why: String,
    },
    /// No context has this name.
    #[error("there is no context {name:?}{hint}; `llts context list` shows them, `llts context add` makes one")]
    Unknown {
        /// The name.
        name: String,
        /// A hint at the nearest name, or an empty text.
        hint: String,
    },
}

/// The contexts of a user.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    contexts: BTreeMap<String, Context>,
}

/// The contexts of this user, and the file they are in.
#[derive(Debug)]
pub struct Contexts {
    path: PathBuf,
    text: Text,
}

impl Contexts {
    /// Reads them. Without a file there are none.
    ///
    /// # Errors
    /// [`ContextError`], when the file cannot be read or is invalid.
    pub fn read() -> Result<Self, ContextError> {
        Self::read_from(file()?)
    }

    fn read_from(path: PathBuf) -> Result<Self, ContextError> {
        let mut text = String::new();
        let read = File::open(&path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(ContextError::Io { what: "read", path, source }),
            Ok(_) => {}
        }
        let malformed = |why: String| ContextError::Malformed { path: path.clone(), why };
        let text: Text = toml::from_str(&text).map_err(|error| malformed(error.message().to_owned()))?;
        for (name, context) in &text.contexts {
            if context.server_key_file.is_some() != context.secret_key_file.is_some() {
                return Err(malformed(format!(
                    "{name} has one of server_key_file and secret_key_file; it needs both, or neither"
                )));
            }
        }
        Ok(Self { path, text })
    }

    /// All of them, by name.
    #[must_use]
    pub const fn all(&self) -> &BTreeMap<String, Context> {
        &self.text.contexts
    }

    /// One of them.
    ///
    /// # Errors
    /// When no context has this name.
    pub fn get(&self, name: &str) -> Result<&Context, ContextError> {
        self.text.contexts.get(name).ok_or_else(|| self.unknown(name))
    }

    /// Adds one, or replaces the one of that name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, name: &str, context: Context) -> Result<(), ContextError> {
        self.text.contexts.insert(name.to_owned(), context);
        self.write()
    }

    /// Removes one.
    ///
    /// # Errors
    /// When no context has this name, or the rest cannot be written.
    pub fn remove(&mut self, name: &str) -> Result<(), ContextError> {
        match self.text.contexts.remove(name) {
            Some(_) => self.write(),
            None => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> ContextError {
        let hint = nearest_hint(name, self.text.contexts.keys().map(String::as_str));
        ContextError::Unknown { name: name.to_owned(), hint }
    }

    /// Replaces the file as a whole.
    fn write(&self) -> Result<(), ContextError> {
        let failed = |source| ContextError::Io { what: "write", path: self.path.clone(), source };
        let text = toml::to_string(&self.text).map_err(|error| failed(io::Error::other(error)))?;
        let write = || {
            let folder = self.path.parent().unwrap_or(Path::new("/"));
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            replace(&self.path, PRIVATE, |file| file.write_all(text.as_bytes()))
        };
        write().map_err(failed)
    }
}

fn file() -> Result<PathBuf, ContextError> {
    let path = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = path("XDG_CONFIG_HOME").or_else(|| Some(path("HOME")?.join(".config")));
    Ok(folder.ok_or(ContextError::Homeless)?.join("llts/contexts.toml"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn context(address: &str) -> Context {
        Context { address: address.into(), server_key_file: None, secret_key_file: None }
    }

    #[test]
    fn what_is_added_is_read_until_it_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/contexts.toml");
        let read = || Contexts::read_from(path.clone()).unwrap();
        assert!(read().all().is_empty());
        let keys = Context {
            server_key_file: Some("/s".into()),
            secret_key_file: Some("/c".into()),
            ..context("tcp://10.0.0.1:15555")
        };
        read().add("farm", keys.clone()).unwrap();
        read().add("lab", context("tcp://lab:1")).unwrap();
        assert_eq!(read().get("farm").unwrap(), &keys);
        let unknown = read().get("fram").unwrap_err().to_string();
        assert!(unknown.contains("no context \"fram\"; the nearest is farm"), "{unknown}");
        read().remove("farm").unwrap();
        assert_eq!(read().all().keys().collect::<Vec<_>>(), ["lab"]);
    }

    #[test]
    fn a_name_is_short_and_can_be_typed() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in ["", "a/b", "a b", "x\u{1}y", "-x", "..", "é", long.as_str()] {
            let refused = check_name(name).unwrap_err();
            assert!(refused.contains("use 1 to 64 characters"), "{name:?}: {refused}");
        }
        for name in ["farm", "7", "lab-2.example_org"] {
            assert_eq!(check_name(name).as_deref(), Ok(name));
        }
    }

    #[test]
    fn what_is_malformed_is_named() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("contexts.toml");
        for (text, why) in [
            ("[contexts.a]\n", "address"),
            ("[contexts.a]\naddress = \"tcp://a:1\"\ncolour = 1\n", "colour"),
            ("[contexts.a]\naddress = \"tcp://a:1\"\nserver_key_file = \"k\"\n", "needs both"),
            ("x", ""),
        ] {
            fs::write(&path, text).unwrap();
            let error = Contexts::read_from(path.clone()).unwrap_err().to_string();
            assert!(error.contains("is no list of contexts") && error.contains(why), "{text:?}: {error}");
        }
    }
}
