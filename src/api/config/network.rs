//! The unix socket of a controller, and the security of its connections.

use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::layers::PREFIX;
use super::reader::Reader;
use base::{CurveClientFiles, CurveServerFiles, Loopback, path_text};

const IPC_FILE: &str = "CONTROLLER_IPC_FILE";
const SECRET_KEY_FILE: &str = "CURVE_SECRET_KEY_FILE";
const SERVER_PUBLIC_KEY_FILE: &str = "CURVE_SERVER_PUBLIC_KEY_FILE";

/// The peers that can reach the TCP ports of a controller, and how they must authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// No port is open.
    Closed,
    /// Every process of this machine, without authentication.
    Machine,
    /// Other machines too, without authentication: ALLOW_INSECURE is needed.
    Network,
    /// Holders of an authorised key.
    Keys,
}

/// Whether the controller has a unix socket for requests from its own machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalSocket {
    /// No socket.
    None,
    /// `controller.sock` in STATE_DIR, if it can be made. A supervisor passes it to its agents.
    Auto,
    /// A socket at this path.
    At(PathBuf),
}

/// The unix socket of a controller, and the security of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSection {
    /// The unix socket of the controller.
    pub local: LocalSocket,
    /// The users of this machine that are served by TCP and HTTP without a key, secret or token.
    pub loopback: Loopback,
    /// The controller's files for CURVE: its secret key, and the authorised keys.
    pub curve_server: Option<CurveServerFiles>,
    /// The files of agents and clients for CURVE.
    pub curve_client: Option<CurveClientFiles>,
}

/// The variables that pass the keys of a client to another process, as absolute paths.
///
/// # Errors
/// When the current folder is unknown.
pub fn key_variables(files: &CurveClientFiles) -> std::io::Result<[(String, String); 2]> {
    let absolute = |path: &Path| std::path::absolute(path).map(|path| path_text(&path));
    Ok([
        (format!("{PREFIX}{SECRET_KEY_FILE}"), absolute(&files.secret_key)?),
        (format!("{PREFIX}{SERVER_PUBLIC_KEY_FILE}"), absolute(&files.server_key)?),
    ])
}

impl NetworkSection {
    /// The unix socket on which a controller with this STATE_DIR takes requests, if it can be made.
    #[must_use]
    pub fn socket(&self, state_dir: &Path) -> Option<PathBuf> {
        match &self.local {
            LocalSocket::At(path) => Some(path.clone()),
            LocalSocket::Auto => Some(state_dir.join("controller.sock")),
            LocalSocket::None => None,
        }
    }

    /// The files and folders of keys that the configuration names.
    pub fn key_paths(&self) -> impl Iterator<Item = &Path> {
        let server = self.curve_server.iter().flat_map(|files| [&files.secret_key, &files.authorised_keys]);
        let client = self.curve_client.iter().flat_map(|files| [&files.secret_key, &files.server_key]);
        server.chain(client).map(PathBuf::as_path)
    }

    /// The variable that makes another process connect to this socket.
    #[must_use]
    pub fn socket_variable(path: &Path) -> (String, String) {
        (format!("{PREFIX}{IPC_FILE}"), path_text(path))
    }

    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let local = match reader.path_or_none(IPC_FILE)? {
            None => LocalSocket::None,
            Some(path) if path.as_os_str() == "auto" => LocalSocket::Auto,
            Some(path) => LocalSocket::At(path),
        };
        let mut pair = |keys: [&'static str; 2]| {
            let [first, second] = keys.map(|key| reader.path_or_none(key));
            match (first?, second?) {
                (Some(first), Some(second)) => Ok(Some((first, second))),
                (None, None) => Ok(None),
                (first, _) => {
                    let (given, missing) = if first.is_some() { (keys[0], keys[1]) } else { (keys[1], keys[0]) };
                    let sentence = format!("{given} is given and {missing} is not; CURVE needs both, or neither");
                    Err(ConfigError::Contradiction(sentence))
                }
            }
        };
        let server = pair(["CURVE_SERVER_SECRET_KEY_FILE", "CURVE_AUTHORISED_KEYS_DIR"])?;
        let client = pair([SECRET_KEY_FILE, SERVER_PUBLIC_KEY_FILE])?;
        Ok(Self {
            local,
            loopback: reader.parsed("LOOPBACK", "\"same-user\" or \"open\"", Loopback::parse)?,
            curve_server: server.map(|(secret_key, authorised_keys)| CurveServerFiles { secret_key, authorised_keys }),
            curve_client: client.map(|(secret_key, server_key)| CurveClientFiles { secret_key, server_key }),
        })
    }
}
