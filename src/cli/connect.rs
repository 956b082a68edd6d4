//! Which controller is meant, and whether anybody listens there.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::args::Global;
use super::exit::{self, Failure};
use crate::config::Config;
use crate::shell::endpoint::Address;
use crate::shell::supervisor::{self, Service};
use crate::shell::transport;
use crate::types::split_tcp;

/// What the configuration says of a controller.
pub(super) enum Configured {
    /// It is, or would be, here.
    At(String),
    /// Its port is free to choose, and no service of this STATE_DIR has chosen one.
    Nowhere,
}

/// Checks an endpoint that a user has named: `tcp://IP:PORT`, `tcp://NAME:PORT` or `ipc://PATH`.
pub(super) fn parse(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("an empty text names no controller; write tcp://IP:PORT, or leave it out".to_owned());
    }
    match (text.starts_with("tcp://"), Address::parse(text)) {
        (true, _) => split_tcp(text).map(drop).map_err(|why| format!("{text:?} {why}"))?,
        (false, Ok(_)) => {}
        (false, Err(_)) => {
            return Err(format!(
                "{text:?} is no address of a controller; write tcp://IP:PORT, tcp://NAME:PORT or ipc://PATH with a path that a \
                 socket can have"
            ));
        }
    }
    Ok(text.to_owned())
}

/// The endpoint that was named, else that of the configuration.
pub(super) fn endpoint(global: &Global, config: &Config) -> Result<String, Failure> {
    if let Some(endpoint) = global.controller()? {
        return Ok(endpoint);
    }
    match configured(config) {
        Configured::At(endpoint) => Ok(endpoint),
        Configured::Nowhere => {
            let state_dir = config.paths.state_dir.display();
            let sentence = format!("no service runs in {state_dir} (STATE_DIR); start one with `llts up`");
            Err(Failure::new(exit::NO_CONTROLLER, sentence))
        }
    }
}

/// The unix socket of the home, if a controller listens there, else the endpoint of the configuration. A port that is chosen at the
/// start stands in the service file.
pub(super) fn configured(config: &Config) -> Configured {
    if let Some(path) = config.network.socket(&config.paths.state_dir)
        && let Some(endpoint) = listening(&path)
    {
        return Configured::At(endpoint);
    }
    let Some(requests) = config.controller.requests else {
        return Configured::At(transport::agent_endpoint(config));
    };
    if requests.port() != 0 {
        return Configured::At(format!("tcp://{}", SocketAddr::new(reachable(requests.ip()), requests.port())));
    }
    let state_dir = &config.paths.state_dir;
    let service = supervisor::holder(state_dir).and_then(|_| Service::read(state_dir));
    let address = service.and_then(|service| service.controller.strip_prefix("tcp://")?.parse::<SocketAddr>().ok());
    match address {
        Some(address) => Configured::At(format!("tcp://{}", SocketAddr::new(reachable(address.ip()), address.port()))),
        None => Configured::Nowhere,
    }
}

/// The address of a socket at which somebody listens who lets this user in.
fn listening(path: &Path) -> Option<String> {
    UnixStream::connect(path).ok()?;
    let endpoint = Address::Ipc(path.to_owned()).to_string();
    // A longer path can be connected to as it stands here, but not as it is written.
    Address::parse(&endpoint).is_ok().then_some(endpoint)
}

/// A controller that is bound to all addresses is reached at the loopback one.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// Whether a connection to this endpoint is refused at once: nobody listens there.
pub(super) fn is_refused(endpoint: &str, timeout: Duration) -> bool {
    let refused = |error: std::io::Error| matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound);
    match Address::parse(endpoint) {
        Ok(Address::Tcp(address)) => TcpStream::connect_timeout(&address, timeout).is_err_and(refused),
        Ok(Address::Ipc(path)) => UnixStream::connect(path).is_err_and(refused),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TIME: Duration = Duration::from_secs(5);

    #[test]
    fn who_listens_does_not_refuse() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
        assert!(!is_refused(&endpoint, NO_TIME));
        drop(listener);
        assert!(is_refused(&endpoint, NO_TIME));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let endpoint = format!("ipc://{}", path.display());
        assert!(is_refused(&endpoint, NO_TIME));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(!is_refused(&endpoint, NO_TIME));
        drop(listener);
        assert!(is_refused(&endpoint, NO_TIME), "what a killed controller has left");
        assert!(!is_refused("tcp://localhost:1", NO_TIME), "a name is looked up by others");
    }

    #[test]
    fn a_controller_on_all_addresses_is_reached_on_loopback() {
        let mut config = Config::default();
        config.controller.requests = Some((Ipv4Addr::UNSPECIFIED, 15555).into());
        let Configured::At(endpoint) = configured(&config) else { panic!() };
        assert_eq!(endpoint, "tcp://127.0.0.1:15555");
    }

    #[test]
    fn a_port_that_nobody_chose_is_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.controller.requests = Some((Ipv4Addr::LOCALHOST, 0).into());
        config.paths.state_dir = folder.path().to_owned();
        assert!(matches!(configured(&config), Configured::Nowhere));
    }
}
