//! Reads a token from its file, or creates it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::session::{Token, hex};

/// Accessible to its user only.
const PRIVATE_MODE: u32 = 0o600;

/// Bytes of randomness in a generated token.
const TOKEN_BYTES: usize = 32;

/// A longer file is not a token.
const FILE_BYTES_MAX: u64 = 1024;

/// A shorter token can be guessed.
const LENGTH_MIN: usize = 16;

/// An unusable token file.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP token in {}: {why}", .path.display())]
pub struct TokenError {
    path: PathBuf,
    why: String,
}

/// Reads the token of a file; if `may_make`, a missing file is created.
pub(crate) fn read(path: &Path, may_make: bool) -> Result<Token, TokenError> {
    text(path, may_make).map(Token::new)
}

fn text(path: &Path, may_make: bool) -> Result<String, TokenError> {
    let failed = |why: String| TokenError { path: path.to_owned(), why };
    // A configured file may be a link, as mounted secrets are. Our own file must not be one, or another user could make
    // us read another file.
    let no_link = if may_make { libc::O_NOFOLLOW } else { 0 };
    let opened = OpenOptions::new().read(true).custom_flags(no_link | libc::O_NONBLOCK).open(path);
    match opened {
        Ok(file) => of_file(&file).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::NotFound && may_make => {
            make(path).map_err(|error| failed(format!("it cannot be made: {error}")))
        }
        Err(error) => Err(failed(format!("it cannot be read: {error}"))),
    }
}

fn of_file(file: &File) -> Result<String, String> {
    let about = file.metadata().map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let us = rustix::process::geteuid().as_raw();
    if about.uid() != us {
        return Err(format!("it belongs to user {}, who can change it; it must belong to user {us}", about.uid()));
    }
    if about.mode() & 0o077 != 0 {
        return Err(format!("it has mode {:o}, so others can read it; run `chmod 600`", about.mode() & 0o777));
    }
    if about.len() > FILE_BYTES_MAX {
        return Err(format!("it has {} bytes; a token has at most {FILE_BYTES_MAX}", about.len()));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    let token = text.trim();
    let is_printable = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.len() < LENGTH_MIN || !is_printable {
        return Err(format!("it must hold at least {LENGTH_MIN} printable ASCII characters without spaces"));
    }
    Ok(token.to_owned())
}

fn make(path: &Path) -> io::Result<String> {
    let bytes: [u8; TOKEN_BYTES] = rand::random();
    let token = hex(&bytes);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_MODE).open(path)?;
    writeln!(file, "{token}")?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("http.token");
        assert!(text(&path, false).unwrap_err().to_string().contains("cannot be read"));
        let token = text(&path, true).unwrap();
        assert_eq!(token.len(), 2 * TOKEN_BYTES);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, PRIVATE_MODE);
        assert_eq!(text(&path, true).unwrap(), token);
    }

    #[test]
    fn a_file_that_others_read_or_that_can_be_guessed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let put = |token: &str, mode| {
            fs::write(&path, token).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            text(&path, true)
        };
        assert_eq!(put("0123456789abcdef\n", 0o600).unwrap(), "0123456789abcdef");
        for (token, mode) in [("0123456789abcdef", 0o644), ("short", 0o600), ("", 0o600), ("0123456789 abcdef", 0o600)]
        {
            assert!(put(token, mode).is_err(), "{token:?} {mode:o}");
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(text(&path, true).is_err(), "another file");
    }
}
