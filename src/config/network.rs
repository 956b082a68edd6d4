//! Which transport carries the messages, and how it is secured.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::layers::PREFIX;
use super::reader::Reader;

const IPC_FILE: &str = "CONTROLLER_IPC_FILE";
const SECRET_KEY_FILE: &str = "CURVE_SECRET_KEY_FILE";
const SERVER_PUBLIC_KEY_FILE: &str = "CURVE_SERVER_PUBLIC_KEY_FILE";

/// Who reads and writes the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// libzmq, with threads of its own.
    Zmq,
    /// The loop itself.
    Own,
}

impl Transport {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "zmq" => Some(Self::Zmq),
            "own" => Some(Self::Own),
            _ => None,
        }
    }
}

/// Who may reach the TCP ports of a controller, and what they must show there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// It opens none.
    Closed,
    /// Every process of this machine, without a proof.
    Machine,
    /// Other machines too, without a proof: ALLOW_INSECURE is needed.
    Network,
    /// Whoever has one of the authorised keys.
    Keys,
}

/// Whether only this machine reaches an address; an IPv4 address may be written as an IPv6 one.
#[must_use]
pub const fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Whether requests of the controller's own machine may come by a socket in the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalSocket {
    /// No.
    None,
    /// Where it can be made, it is `controller.sock` in STATE_DIR, and a supervisor tells its agents of it.
    Auto,
    /// Yes, this one.
    At(PathBuf),
}

/// Which transport carries the messages, and how it is secured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSection {
    /// Who reads and writes the sockets.
    pub transport: Transport,
    /// Where the controller takes requests of this machine as well.
    pub local: LocalSocket,
    /// What a controller needs for CURVE: its secret key, and the keys that it lets in.
    pub curve_server: Option<CurveServerFiles>,
    /// What agents and clients need for CURVE.
    pub curve_client: Option<CurveClientFiles>,
}

/// Where a controller has its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveServerFiles {
    /// The file with its secret key.
    pub secret_key: PathBuf,
    /// The folder with a file for each public key that is let in.
    pub authorised_keys: PathBuf,
}

/// Where an agent or a client has its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveClientFiles {
    /// The file with its secret key.
    pub secret_key: PathBuf,
    /// The file with the public key of the controller.
    pub server_key: PathBuf,
}

impl CurveClientFiles {
    /// The variables that tell another process where they are, with paths that hold in every folder.
    ///
    /// # Errors
    /// When the present folder is unknown.
    pub fn variables(&self) -> std::io::Result<[(String, PathBuf); 2]> {
        let absolute = std::path::absolute::<&Path>;
        Ok([
            (format!("{PREFIX}{SECRET_KEY_FILE}"), absolute(&self.secret_key)?),
            (format!("{PREFIX}{SERVER_PUBLIC_KEY_FILE}"), absolute(&self.server_key)?),
        ])
    }
}

impl NetworkSection {
    /// The socket in the file system at which a controller with this STATE_DIR takes requests, unless it cannot be made.
    #[must_use]
    pub fn socket(&self, state_dir: &Path) -> Option<PathBuf> {
        match (&self.local, self.transport) {
            (LocalSocket::At(path), Transport::Own) => Some(path.clone()),
            (LocalSocket::Auto, Transport::Own) => Some(state_dir.join("controller.sock")),
            (LocalSocket::None, _) | (_, Transport::Zmq) => None,
        }
    }

    /// The socket for broadcasts that goes with a socket for requests.
    #[must_use]
    pub fn broadcast_socket(requests: &Path) -> PathBuf {
        let mut name = OsString::from(requests);
        name.push(".pub");
        name.into()
    }

    /// The variable that makes another process connect to this socket.
    #[must_use]
    pub fn socket_variable(path: &Path) -> (String, PathBuf) {
        (format!("{PREFIX}{IPC_FILE}"), path.to_owned())
    }

    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let transport = reader.parsed("TRANSPORT", "\"own\" or \"zmq\"", Transport::parse)?;
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
            transport,
            local,
            curve_server: server.map(|(secret_key, authorised_keys)| CurveServerFiles { secret_key, authorised_keys }),
            curve_client: client.map(|(secret_key, server_key)| CurveClientFiles { secret_key, server_key }),
        })
    }
}
