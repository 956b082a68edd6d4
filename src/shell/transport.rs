//! What the loops of controller and agent need of the network, whoever provides it.
//!
//! | `TRANSPORT` | who |
//! |---|---|
//! | `zmq` | `super::zmq`: libzmq, with threads of its own; only where the cargo feature `libzmq` is on |
//! | `own` | [`super::endpoint`]: the loop itself reads and writes the sockets |
//!
//! A loop has one of these and waits in it. What is sent may be kept back until [`Ports::flush`] or the next wait, so that
//! many messages share a write. Nothing here waits for a peer.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::curve_keys::{self, KeyError, KeyFolder};
use super::endpoint::{Address, Denial, LinkSettings, OwnLink, OwnPorts, PortSettings, Requester};
use crate::config::{Config, ConfigError, Exposure, LocalSocket, NetworkSection, Sources, Transport};
use crate::engine::endpoint::ConnectionLimits;
use crate::engine::zmtp::{KeyPair, Limits, Security};
use crate::types::Mono;

/// A page of details is larger than any request.
pub(super) const ANSWER_BYTES_MAX: usize = 1 << 30;

/// How long [`Ports::close`] goes on delivering, with either transport.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// Connections that the kernel keeps for a listener of either transport while the program does something else.
pub(super) const BACKLOG: i32 = 1024;

/// Seconds of silence after which the kernel asks a peer, between two questions, and how many it asks: a machine that is
/// gone is noticed after two minutes. A client may be silent for days.
pub(super) const KEEPALIVE_IDLE_SECONDS: u32 = 60;
pub(super) const KEEPALIVE_INTERVAL_SECONDS: u32 = 20;
pub(super) const KEEPALIVE_COUNT: u32 = 3;

/// `TRANSPORT = "zmq"`, if the program was built with it.
#[cfg(feature = "libzmq")]
const LIBZMQ: Option<Library> = Some(super::zmq::LIBRARY);
#[cfg(not(feature = "libzmq"))]
const LIBZMQ: Option<Library> = None;

/// How to get libzmq into the program.
const NOT_BUILT_IN: &str =
    "this program was built without libzmq, which `cargo build --release --features libzmq` adds";

/// A transport that may be missing from the program, as functions on the endpoints for requests and for broadcasts.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Binds both; the last is the `watchable` of [`bind`].
    pub(super) bind: fn(&Config, &str, Option<&str>, String) -> Bound,
    /// Connects to both, and asks for broadcasts that begin with one of these prefixes.
    pub(super) connect: fn(&Config, &str, Option<&str>, &[String]) -> Connected,
}

type Bound = Result<Box<dyn Ports>, SocketError>;
type Connected = Result<Box<dyn Link>, SocketError>;

/// Something that the network, or the library in front of it, refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {endpoint}: {source}")]
pub struct SocketError {
    what: &'static str,
    endpoint: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl SocketError {
    /// What could not be done to which endpoint, and why.
    pub(super) fn new(
        what: &'static str,
        endpoint: &str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { what, endpoint: endpoint.to_owned(), source: source.into() }
    }
}

impl SocketError {
    /// Whether a file of keys is not as it should be.
    #[must_use]
    pub fn is_about_keys(&self) -> bool {
        self.source.is::<KeyError>()
    }

    /// Whether the place of a socket is taken by something else.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        let kind = self.source.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(kind, Some(io::ErrorKind::AddrInUse | io::ErrorKind::AlreadyExists))
    }
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsendable {
    /// There is no such peer any more.
    NoPeer,
    /// The peer does not read; its queue is full.
    Full,
}

/// The controller's two ports: requests with their answers, in any order, and broadcasts.
pub trait Ports {
    /// Where requests come in, with the port that was taken for 0.
    fn requests(&self) -> &str;

    /// Where broadcasts go out.
    fn broadcasts(&self) -> &str;

    /// Waits until a message has come, one of `fds` is readable, or the deadline has come; says of each of `fds` whether it
    /// is readable.
    fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool>;

    /// The next request, if there is one: first a frame that names the peer, then what it sent.
    fn receive(&mut self) -> Option<Vec<Vec<u8>>>;

    /// The next peer that has gone: it sends nothing more and takes no answer. Its requests have all been received. A transport
    /// that cannot tell never says so.
    fn poll_closed(&mut self) -> Option<Vec<u8>>;

    /// An agent speaks by this connection of a peer: it gives way to no newcomer, however long it is silent.
    fn keep(&mut self, peer: &[u8]);

    /// Answers: the frames of a request up to its delimiter, then the body. The answer may be held back for `delay_max`, to share
    /// a write with another message to the same peer.
    ///
    /// # Errors
    /// When the peer is gone or does not read.
    fn send(&mut self, frames: Vec<Vec<u8>>, delay_max: Duration) -> Result<(), Unsendable>;

    /// Sends to whoever asks for it and reads; it may be lost.
    fn publish(&mut self, frame: Vec<u8>);

    /// Whether anybody asks for the messages that are made on demand.
    fn is_watched(&self) -> bool;

    /// Open connections, as far as the transport knows.
    fn connections(&self) -> usize;

    /// Hands over to the kernel what was sent.
    fn flush(&mut self);

    /// Delivers what was sent, for a second at the most.
    fn close(self: Box<Self>);
}

/// An agent's connection to its controller.
pub trait Link {
    /// As [`Ports::wait`].
    fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool>;

    /// Whether there is a connection for requests. A transport that cannot tell says that there is one.
    fn is_connected(&self) -> bool;

    /// Whether a connection for requests was made since the last call. A transport that cannot tell never says so: what was lost
    /// with the one before is said again with the next heartbeats.
    fn take_connected(&mut self) -> bool;

    /// Sends one request in the envelope that a REQ socket would make. What is lost is said again by the engine.
    fn send(&mut self, body: Vec<u8>);

    /// The body of the next answer, if there is one.
    fn receive_answer(&mut self) -> Option<Vec<u8>>;

    /// The next broadcast, if there is one.
    fn receive_broadcast(&mut self) -> Option<Vec<u8>>;

    /// Why the controller has turned us away, once for each attempt to connect.
    fn take_denial(&mut self) -> Option<Denial>;

    /// Connects anew: the old connection has been silent for too long.
    ///
    /// # Errors
    /// When descriptors have run out; the old connection stays then.
    fn reconnect(&mut self) -> Result<(), SocketError>;
}

/// Binds the controller's ports. Messages that begin with `watchable` are worth making only while [`Ports::is_watched`] says so;
/// the process may have so many descriptors.
///
/// # Errors
/// When an address is in use or is not ours.
pub fn bind(config: &Config, watchable: String, descriptors: u64) -> Bound {
    let (requests, broadcasts) = (config.controller.rep_endpoint(), config.controller.pub_endpoint());
    Ok(match config.network.transport {
        Transport::Zmq => {
            let requests = requests.unwrap_or_else(|| agent_endpoint(config));
            (libzmq()?.bind)(config, &requests, broadcasts.as_deref(), watchable)?
        }
        Transport::Own => {
            let keys = server_keys(config)?;
            let security = keys.as_ref().map_or(Security::Null, |keys| Security::CurveServer(keys.keys()));
            let settings = PortSettings {
                limits: limits(config),
                security,
                places: places(config, descriptors),
                local: controller_socket(config).map(Address::Ipc),
                local_may_fail: config.network.local == LocalSocket::Auto && requests.is_some(),
                subscriptions_max: config.limits.subscriptions_max,
            };
            let mut ports = OwnPorts::open(requests.as_deref(), broadcasts.as_deref(), watchable, &settings)?;
            if let Some(keys) = keys {
                ports.watch_keys(keys);
            }
            Box::new(ports)
        }
    })
}

/// Begins to connect to the controller, and asks for broadcasts that begin like this.
///
/// # Errors
/// When an endpoint is malformed, or descriptors have run out.
pub fn connect(config: &Config, prefixes: &[String]) -> Connected {
    let (requests, broadcasts) = (agent_endpoint(config), broadcast_endpoint(config));
    let broadcasts = broadcasts.as_deref();
    Ok(match config.network.transport {
        Transport::Zmq => (libzmq()?.connect)(config, &requests, broadcasts, prefixes)?,
        Transport::Own => Box::new(OwnLink::dial(&requests, broadcasts, prefixes, link_settings(config, &requests)?)?),
    })
}

fn libzmq() -> Result<Library, SocketError> {
    LIBZMQ.ok_or_else(|| SocketError::new("use", "TRANSPORT = \"zmq\"", NOT_BUILT_IN))
}

/// Refuses a TRANSPORT that the program was built without, before anything is started that needs it.
///
/// # Errors
/// With the place where it was configured, and how to build with it.
pub fn check_built_in(config: &Config, sources: &Sources) -> Result<(), ConfigError> {
    check_built_in_with(LIBZMQ.is_some(), config.network.transport, sources)
}

fn check_built_in_with(has_libzmq: bool, transport: Transport, sources: &Sources) -> Result<(), ConfigError> {
    match transport {
        Transport::Zmq if !has_libzmq => Err(sources.refusal("TRANSPORT", format!("\"own\": {NOT_BUILT_IN}"))),
        Transport::Zmq | Transport::Own => Ok(()),
    }
}

/// Where an agent sends its requests.
#[must_use]
pub fn agent_endpoint(config: &Config) -> String {
    agent_socket(config).map(Address::Ipc).or_else(|| config.controller.requests.map(Address::Tcp)).map_or_else(
        || unreachable!("a configuration without a way to its controller is refused"),
        |address| address.to_string(),
    )
}

/// The socket of an agent's requests, unless they go by TCP.
fn agent_socket(config: &Config) -> Option<PathBuf> {
    match &config.network.local {
        // Without a port, there is no other way.
        LocalSocket::Auto if config.controller.requests.is_some() => None,
        LocalSocket::At(_) | LocalSocket::Auto | LocalSocket::None => controller_socket(config),
    }
}

/// The socket of a controller. Where it is the only way in, its path holds in every folder, if that is not too long for a socket.
fn controller_socket(config: &Config) -> Option<PathBuf> {
    let path = config.network.socket(&config.paths.state_dir)?;
    if config.controller.requests.is_some() {
        return Some(path);
    }
    let everywhere = std::path::absolute(&path).ok();
    let fits = |path: &PathBuf| Address::parse(&Address::Ipc(path.clone()).of_broadcasts().to_string()).is_ok();
    Some(everywhere.filter(fits).unwrap_or(path))
}

/// What an operator should know of a socket that is the only way in, and whose path holds in this folder alone.
#[must_use]
pub fn warning(config: &Config) -> Option<String> {
    let path = controller_socket(config).filter(|path| config.controller.requests.is_none() && path.is_relative())?;
    let everywhere = std::path::absolute(path).ok()?;
    Some(format!(
        "the path of the socket {} is too long for programs in other folders, tools among them; name a shorter one with \
         CONTROLLER_IPC_FILE",
        everywhere.display()
    ))
}

/// Where an agent hears broadcasts: on the way that its requests take. `None`: what they say also comes with the answers to its
/// heartbeats.
fn broadcast_endpoint(config: &Config) -> Option<String> {
    let socket = agent_socket(config).map(|path| Address::Ipc(NetworkSection::broadcast_socket(&path)).to_string());
    socket.or_else(|| config.controller.pub_endpoint())
}

/// Where a tool finds the controller, which it does from a folder of its own, and may tell others who are elsewhere: `own` is the
/// address of this machine.
///
/// # Errors
/// When the present folder is unknown.
pub fn tool_endpoint(config: &Config, own: IpAddr) -> std::io::Result<String> {
    let Some(requests) = config.controller.requests else {
        let socket = agent_socket(config).unwrap_or_default();
        return Ok(Address::Ipc(std::path::absolute(socket)?).to_string());
    };
    let ip = if requests.ip().is_unspecified() { own } else { requests.ip() };
    Ok(Address::Tcp(SocketAddr::new(ip, requests.port())).to_string())
}

/// Begins to connect a client to the controller there.
///
/// # Errors
/// When the keys cannot be read, or descriptors have run out.
pub fn client(config: &Config, address: &Address) -> Result<Requester, SocketError> {
    let endpoint = &address.to_string();
    Requester::connect(endpoint, link_settings(config, endpoint)?)
}

fn link_settings(config: &Config, endpoint: &str) -> Result<LinkSettings, SocketError> {
    Ok(LinkSettings {
        // An agent and its controller speak all the time, and a client knows how long it waits: nobody has to be asked.
        limits: Limits { message_bytes_max: ANSWER_BYTES_MAX, ping_interval: None, ..limits(config) },
        security: client_security(config, endpoint)?,
        reconnect_interval_max: config.agent.reconnect_interval_max,
    })
}

/// What a controller proves to receivers of pushes that want CURVE: that it is the one whom its clients know by this key. Without
/// keys of its own it has a pair for as long as it runs, which says no more than that it is the same one.
///
/// # Errors
/// When its key cannot be read.
pub fn push_keys(config: &Config) -> Result<KeyPair, SocketError> {
    let Some(files) = &config.network.curve_server else { return Ok(KeyPair::from_bytes(rand::random())) };
    curve_keys::server(files).map_err(|source| SocketError::new("push from", &agent_endpoint(config), source))
}

/// `None` for a controller that needs no keys.
fn server_keys(config: &Config) -> Result<Option<KeyFolder>, SocketError> {
    let endpoint = &agent_endpoint(config);
    let Some(files) = &config.network.curve_server else {
        if config.exposure() != Exposure::Network || config.controller.allow_insecure {
            return Ok(None);
        }
        // The keys of a client do not make a server.
        let why =
            "other machines may reach it, and CURVE_SERVER_SECRET_KEY_FILE and CURVE_AUTHORISED_KEYS_DIR are not given";
        return Err(SocketError::new("bind", endpoint, why));
    };
    let keys = KeyFolder::open(files).map_err(|source| SocketError::new("secure", endpoint, source))?;
    log::info!("{} keys may connect to {endpoint}", keys.keys().authorised.len());
    Ok(Some(keys))
}

/// Reads the keys that the configuration names, before anything is started that needs them.
///
/// # Errors
/// For the first file that is not as it should be.
pub fn check_keys(config: &Config) -> Result<(), SocketError> {
    let endpoint = agent_endpoint(config);
    if let Some(files) = &config.network.curve_server {
        KeyFolder::open(files).map_err(|source| SocketError::new("secure", &endpoint, source))?;
    }
    client_security(config, &endpoint).map(drop)
}

fn client_security(config: &Config, endpoint: &str) -> Result<Security, SocketError> {
    let Some(files) = &config.network.curve_client else { return Ok(Security::Null) };
    let keys = curve_keys::client(files).map_err(|source| SocketError::new("connect to", endpoint, source))?;
    Ok(Security::CurveClient(Arc::new(keys)))
}

pub(super) fn limits(config: &Config) -> Limits {
    let limits = &config.limits;
    Limits {
        message_bytes_max: limits.message_bytes_max,
        parts_max: limits.frames_max,
        queue_messages_max: limits.send_queue_max,
        queue_bytes_max: limits.send_queue_bytes_max,
        handshake_timeout: limits.handshake_timeout,
        stall_timeout: limits.send_timeout,
        ping_interval: limits.ping_interval,
    }
}

fn places(config: &Config, descriptors: u64) -> ConnectionLimits {
    let limits = &config.limits;
    let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
    // A system that allows very few of them shares them out.
    let free = descriptors.saturating_sub(limits.descriptors_reserved).max(descriptors / 2);
    if free < limits.connections_max {
        log::warn!("the system allows {descriptors} open files: {free} connections instead of CONNECTIONS_MAX");
    }
    ConnectionLimits {
        connections_max: free.min(limits.connections_max),
        per_address_max: limits.connections_per_address_max,
        held_bytes_max: limits.held_bytes_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::path::Path;

    fn configured(file: &str) -> Config {
        Config::from_parts(Some((Path::new("my.toml"), file)), []).unwrap()
    }

    #[test]
    fn a_tool_is_told_an_address_that_others_reach() {
        let own = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 5));
        for (file, endpoint) in [
            ("", "tcp://127.0.0.1:15555"),
            ("CONTROLLER_IP = \"0.0.0.0\"\nALLOW_INSECURE = true", "tcp://10.0.0.5:15555"),
            ("CONTROLLER_IP = \"::\"\nALLOW_INSECURE = true", "tcp://10.0.0.5:15555"),
            ("CONTROLLER_IP = \"192.0.2.7\"\nALLOW_INSECURE = true", "tcp://192.0.2.7:15555"),
            ("CONTROLLER_IP = \"\"\nSTATE_DIR = \"/var/lib/llts\"", "ipc:///var/lib/llts/controller.sock"),
        ] {
            assert_eq!(tool_endpoint(&configured(file), own).unwrap(), endpoint, "{file}");
        }
    }

    #[test]
    fn a_transport_that_is_not_built_in_is_refused_with_how_to_build_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("my.toml");
        std::fs::write(&file, "\n\nTRANSPORT = \"zmq\"\n").unwrap();
        let (config, sources) = Config::load(Some(&file), None).unwrap();
        assert!(check_built_in(&config, &sources).is_ok(), "the tests are built with libzmq");
        let refused = check_built_in_with(false, config.network.transport, &sources).unwrap_err().to_string();
        let sentence = "TRANSPORT is \"zmq\"; allowed is \"own\": this program was built without libzmq, which \
                        `cargo build --release --features libzmq` adds";
        assert_eq!(refused, format!("{}:3: {sentence}", file.display()));
        assert!(check_built_in_with(false, Transport::Own, &sources).is_ok());
    }

    #[test]
    fn broadcasts_come_by_the_way_that_requests_take() {
        let ways = |file: &str| (agent_endpoint(&configured(file)), broadcast_endpoint(&configured(file)));
        let tcp = "tcp://127.0.0.1:15555".to_owned();
        assert_eq!(ways(""), (tcp.clone(), Some("tcp://127.0.0.1:15556".to_owned())));
        assert_eq!(ways("CONTROLLER_PUB_PORT = \"off\""), (tcp, None));
        let socket = |path: &str| (format!("ipc://{path}"), Some(format!("ipc://{path}.pub")));
        assert_eq!(ways("CONTROLLER_IPC_FILE = \"/run/llts\""), socket("/run/llts"));
        assert_eq!(ways("CONTROLLER_IP = \"\"\nSTATE_DIR = \"/s\""), socket("/s/controller.sock"));
    }
}
