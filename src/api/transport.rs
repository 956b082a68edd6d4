//! The addresses of controllers, and their [ports](zmtp::sockets::Ports) and the [links](zmtp::sockets::Link) to them, as
//! configured.
//!
//! Sent messages may be held back until a flush or the next wait, so that many messages share a write. No call waits for a
//! peer.

use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{Config, Exposure, HttpOpening, LocalSocket};
use crate::wire::requests::report;
use base::{broadcast_socket, path_text};
use proc::supervised::is_supervised;
use zmtp::curve_keys::KeyFolder;
use zmtp::endpoint::ConnectionLimits;
use zmtp::engine::{KeyPair, Limits, LongMessages, Security};
use zmtp::port::{ANSWER_BYTES_MAX, SocketError, SuspendedPorts};
use zmtp::sockets::{Address, Link, LinkSettings, Pipe, PortSettings, Ports, Requester, SOCKET_PATH_BYTES_MAX};
use zmtp::{curve_keys, envelope};

/// Binds the controller's ports. Messages that begin with `watchable` are only worth making while [`Ports::is_watched`] is true.
/// `descriptors` is the number of descriptors that the process may have. `before` holds the ports that the previous program in
/// this process has left open.
///
/// # Errors
/// When an address is in use or does not belong to this machine.
pub fn bind(
    config: &Config,
    watchable: String,
    descriptors: u64,
    before: SuspendedPorts,
) -> Result<Ports, SocketError> {
    let (requests, broadcasts) = own_endpoints(config)?;
    let keys = server_keys(config)?;
    let settings = PortSettings {
        limits: limits(config),
        security: keys.as_ref().map_or(Security::Null, |keys| Security::CurveServer(keys.keys())),
        places: places(config, descriptors),
        local: controller_socket(config).map(Address::Ipc),
        local_may_fail: config.network.local == LocalSocket::Auto && requests.is_some(),
        subscriptions_max: config.limits.subscriptions_max,
        loopback: config.network.loopback,
    };
    // Agents and clients of a service learn its ports from the supervisor.
    let may_move = is_supervised() && config.controller.usual_ports().is_some();
    let free = config
        .controller
        .requests
        .filter(|_| may_move)
        .map(|address| format!("tcp://{}", SocketAddr::new(address.ip(), 0)));
    let mut ports = match (free, before.listeners.is_empty()) {
        (Some(free), false) => Ports::continue_with(before, Some(&free), Some(&free), watchable, &settings)?,
        (Some(free), true) => {
            let usual = Ports::open(requests.as_deref(), broadcasts.as_deref(), watchable.clone(), &settings);
            match usual {
                Err(error) if error.is_taken() => {
                    log::warn!("{error}; free ports are taken instead");
                    Ports::open(Some(&free), Some(&free), watchable, &settings)?
                }
                usual => usual?,
            }
        }
        (None, _) => Ports::continue_with(before, requests.as_deref(), broadcasts.as_deref(), watchable, &settings)?,
    };
    if let Some(keys) = keys {
        ports.watch_keys(keys);
    }
    ports.resume();
    Ok(ports)
}

/// Whether the controller opens the HTTP door.
///
/// A service opens it by default if it admits no more users than the ports do. A controller without a supervisor is a part of
/// something else, so its owner must ask for the door.
#[must_use]
pub fn opens_http(config: &Config) -> bool {
    match config.http.opening {
        HttpOpening::Always => true,
        HttpOpening::Never => false,
        HttpOpening::Auto => is_supervised() && config.exposure() == Exposure::Machine && !config.http.is_open(),
    }
}

/// The endpoints that the controller binds on this machine. Of several addresses and names, it binds the first one that belongs
/// to this machine.
fn own_endpoints(config: &Config) -> Result<(Option<String>, Option<String>), SocketError> {
    let controller = &config.controller;
    let Some(ways) = controller.first_way().and(controller.ways_of_requests()) else {
        return Ok((controller.rep_endpoint(), controller.pub_endpoint()));
    };
    let hosts = ways.trim_start_matches("tcp://").split(',');
    let found = hosts.flat_map(|host| host.to_socket_addrs().into_iter().flatten());
    let own = found.map(|address| address.ip()).find(|ip| TcpListener::bind((*ip, 0)).is_ok());
    let own = own.ok_or_else(|| SocketError::new("bind", &ways, "none of them is an address of this machine"))?;
    let at = |port: Option<SocketAddr>| port.map(|port| format!("tcp://{}", SocketAddr::new(own, port.port())));
    Ok((at(controller.requests), at(controller.broadcasts)))
}

/// Begins to connect to the controller, and subscribes to broadcasts with these prefixes.
///
/// # Errors
/// When an endpoint is malformed, or descriptors have run out.
pub fn connect(config: &Config, prefixes: &[String]) -> Result<Link, SocketError> {
    let (requests, broadcasts) = (agent_endpoint(config), broadcast_endpoint(config));
    Link::connect(&requests, broadcasts.as_deref(), prefixes, link_settings(config, &requests)?)
}

/// The endpoint to which an agent sends its requests.
#[must_use]
pub fn agent_endpoint(config: &Config) -> String {
    let socket = agent_socket(config).map(|path| Address::Ipc(path).to_string());
    socket
        .or_else(|| config.controller.ways_of_requests())
        .unwrap_or_else(|| unreachable!("a configuration without a way to its controller is refused"))
}

/// The socket of an agent's requests, unless they are sent by TCP.
fn agent_socket(config: &Config) -> Option<PathBuf> {
    match &config.network.local {
        // Without a port, the socket is the only way.
        LocalSocket::Auto if config.controller.requests.is_some() => None,
        LocalSocket::At(_) | LocalSocket::Auto | LocalSocket::None => controller_socket(config),
    }
}

/// The socket of a controller. Where it is the only endpoint, its path is made absolute.
fn controller_socket(config: &Config) -> Option<PathBuf> {
    let path = config.network.socket(&config.paths.state_dir)?;
    if config.controller.requests.is_some() {
        return Some(path);
    }
    Some(std::path::absolute(&path).unwrap_or(path))
}

/// A warning if the socket is the only endpoint, and libraries of ZeroMQ cannot reach it.
#[must_use]
pub fn warning(config: &Config) -> Option<String> {
    let path = controller_socket(config).filter(|_| config.controller.requests.is_none())?;
    let plain = path_text(&path);
    if Path::new(&plain) == path && broadcast_socket(&path).as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return None;
    }
    Some(format!(
        "llts reaches the socket {plain}, but libraries of ZeroMQ in tools and clients do not: their paths have at most \
         {SOCKET_PATH_BYTES_MAX} bytes, of plain text; name another one with CONTROLLER_IPC_FILE for them"
    ))
}

/// The endpoint of an agent's broadcasts, by the same transport as its requests. With `None`, the answers to its heartbeats carry
/// their content.
fn broadcast_endpoint(config: &Config) -> Option<String> {
    let socket = agent_socket(config).map(|path| Address::Ipc(broadcast_socket(&path)).to_string());
    socket.or_else(|| config.controller.ways_of_broadcasts())
}

/// The endpoint at which a tool finds the controller. It does not depend on the current folder, because a tool runs in a folder
/// of its own, nor on loopback, because a tool may pass it on to other machines. `own` is the address of this machine.
///
/// # Errors
/// When the current folder is unknown.
pub fn tool_endpoint(config: &Config, own: IpAddr) -> std::io::Result<String> {
    let Some(requests) = config.controller.requests else {
        let socket = agent_socket(config).unwrap_or_default();
        return Ok(Address::Ipc(std::path::absolute(socket)?).to_string());
    };
    if let Some(first) = config.controller.first_way() {
        return Ok(first);
    }
    let ip = if requests.ip().is_unspecified() { own } else { requests.ip() };
    Ok(Address::Tcp(SocketAddr::new(ip, requests.port())).to_string())
}

/// Begins to connect a client to the controller at this address.
///
/// # Errors
/// When the keys cannot be read, or descriptors have run out.
pub fn client(config: &Config, endpoint: &str) -> Result<Requester, SocketError> {
    Requester::connect(endpoint, link_settings(config, endpoint)?)
}

/// As [`client`], for many requests in flight. It also subscribes to the broadcasts with this prefix, if their endpoint is known.
///
/// # Errors
/// As [`client`].
pub fn pipe(config: &Config, endpoint: &str, prefix: Option<&str>) -> Result<Pipe, SocketError> {
    let broadcasts = broadcasts(config, endpoint);
    let wanted = broadcasts.as_deref().zip(prefix);
    Pipe::connect(endpoint, wanted, link_settings(config, endpoint)?)
}

/// The endpoint of the broadcasts of a controller, if it is known.
#[must_use]
pub fn broadcasts(config: &Config, endpoint: &str) -> Option<String> {
    match Address::parse(endpoint) {
        Ok(address @ Address::Ipc(_)) => Some(address.of_broadcasts().to_string()),
        // The broadcast port of another service is not known.
        _ => {
            let is_configured = config.controller.ways_of_requests().as_deref() == Some(endpoint);
            config.controller.ways_of_broadcasts().filter(|_| is_configured)
        }
    }
}

fn link_settings(config: &Config, endpoint: &str) -> Result<LinkSettings, SocketError> {
    Ok(LinkSettings {
        // Pings are not needed: an agent and its controller exchange messages all the time, and a client has a time limit
        // of its own.
        limits: Limits { message_bytes_max: ANSWER_BYTES_MAX, long: None, ping_interval: None, ..limits(config) },
        security: client_security(config, endpoint)?,
        reconnect_interval_max: config.agent.reconnect_interval_max,
    })
}

/// The keys with which a controller identifies itself to receivers of pushes that require CURVE. Clients know the controller by
/// the same key. Without configured keys, the controller makes a pair for as long as it runs, which only proves that it is still
/// the same controller.
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
        // The keys of a client are not enough for a server.
        let why =
            "other machines may reach it, and CURVE_SERVER_SECRET_KEY_FILE and CURVE_AUTHORISED_KEYS_DIR are not given";
        return Err(SocketError::new("bind", endpoint, why));
    };
    let keys = KeyFolder::open(files).map_err(|source| SocketError::new("secure", endpoint, source))?;
    log::info!("{} keys may connect to {endpoint}", keys.keys().authorised.len());
    Ok(Some(keys))
}

/// Reads the configured keys, so that a bad file is found before anything is started.
///
/// # Errors
/// For the first file that cannot be used.
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

/// The limits that an endpoint of this service observes.
pub fn limits(config: &Config) -> Limits {
    let limits = &config.limits;
    Limits {
        message_bytes_max: limits.message_bytes_max,
        long: Some(LongMessages {
            submit_bytes_max: limits.submit_bytes_max,
            graph_bytes_max: config.graph.message_bytes_max(),
            report_bytes_max: report::bytes_max(limits.message_bytes_max),
            kind: envelope::long_kind,
        }),
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
    // A low system limit is divided between connections and other uses.
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
