//! The controller of a configuration: where it listens, and whether it does.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use api::config::Config;
use api::service_file::{self, Service};
use api::transport;
use zmtp::sockets::{Address, probe_unix};

/// The controller of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Configured {
    /// Its endpoint, which may have no listener.
    At(String),
    /// The endpoint of a controller that does not belong to this home: it is on another machine, or known only by its key.
    Elsewhere(String),
    /// The endpoint of a unix socket that has just accepted a connection.
    Listening(String),
    /// No service of this STATE_DIR runs, and the configuration names no other machine.
    Nowhere,
}

/// The unix socket of the home, if there is one on this machine, otherwise the endpoint of the configuration.
///
/// While a service of this home runs, only the endpoints in its service file count: the configuration may have changed
/// since its start, and its port may now belong to another home. For the same reason, the port of a home without a
/// service counts only if the configuration names a key that the controller there must prove.
#[must_use]
pub fn find(config: &Config) -> Configured {
    let is_known = config.network.curve_client.is_some();
    let is_joined = is_known && config.network.curve_server.is_none();
    let state_dir = &config.paths.state_dir;
    let is_here =
        config.controller.requests.is_none_or(|requests| reachable(requests.ip()).to_canonical().is_loopback());
    let socket = config.network.socket(state_dir);
    let found = socket.as_deref().map(listening);
    if let Some(Socket::Listening(endpoint)) = found {
        return Configured::Listening(endpoint);
    }
    if is_here && !is_joined {
        if service_file::holder(state_dir).is_some() {
            let is_closed = matches!(found, Some(Socket::Unusable));
            let running = match Service::read(state_dir) {
                Some(service) => of_service(&service, is_closed),
                // A service that is starting or stopping has no file.
                None => socket.filter(|_| !is_closed).map(|path| Configured::At(Address::Ipc(path).to_string())),
            };
            if let Some(configured) = running {
                return configured;
            }
        } else if !is_known && matches!(found, Some(Socket::Silent)) {
            return Configured::Nowhere;
        }
    }
    let Some(requests) = config.controller.requests else {
        return Configured::At(transport::agent_endpoint(config));
    };
    if requests.port() == 0 {
        return Configured::Nowhere;
    }
    if let Some(endpoint) = config.controller.first_way().and(config.controller.ways_of_requests()) {
        return Configured::Elsewhere(endpoint);
    }
    let endpoint = format!("tcp://{}", SocketAddr::new(reachable(requests.ip()), requests.port()));
    if is_here && !is_joined { Configured::At(endpoint) } else { Configured::Elsewhere(endpoint) }
}

/// The process of a supervisor that was killed while its controller still listens: nothing of the service is started again.
#[must_use]
pub fn dead_supervisor(config: &Config) -> Option<u32> {
    let Service { pid, .. } = service_file::orphaned(&config.paths.state_dir)?;
    matches!(find(config), Configured::Listening(_)).then_some(pid)
}

/// The endpoint of the running service of this home. A service takes other ports than the usual ones if these are in use.
fn of_service(service: &Service, is_closed: bool) -> Option<Configured> {
    if let Some(socket) = service.socket.as_ref().filter(|_| !is_closed) {
        let listening = Address::parse(socket).is_ok_and(|address| match address {
            Address::Ipc(path) => probe_unix(&path).is_ok(),
            Address::Tcp(_) => false,
        });
        let configured = if listening { Configured::Listening } else { Configured::At };
        return Some(configured(socket.clone()));
    }
    let Some(address) = service.controller.strip_prefix("tcp://") else {
        return Some(Configured::At(service.controller.clone())).filter(|_| !is_closed);
    };
    // The address of a controller elsewhere may have a name, or several hosts.
    let address = address.parse::<SocketAddr>().ok()?;
    Some(Configured::At(format!("tcp://{}", SocketAddr::new(reachable(address.ip()), address.port()))))
}

/// A unix socket, as this user finds it.
enum Socket {
    /// It has a listener.
    Listening(String),
    /// It has no listener, or does not exist.
    Silent,
    /// This user may not connect to it.
    Unusable,
}

fn listening(path: &Path) -> Socket {
    let endpoint = Address::Ipc(path.to_owned()).to_string();
    match probe_unix(path) {
        Ok(_) => Socket::Listening(endpoint),
        Err(error) if is_absent(&error) => Socket::Silent,
        Err(_) => Socket::Unusable,
    }
}

/// The address at which to reach a listener. One that is bound to all addresses is reached at loopback.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound)
}

/// Whether a connection to this endpoint is refused at once, because it has no listener.
#[must_use]
pub fn is_refused(endpoint: &str, timeout: Duration) -> bool {
    let refused = |error: std::io::Error| is_absent(&error);
    match Address::parse(endpoint) {
        Ok(Address::Tcp(address)) => TcpStream::connect_timeout(&address, timeout).is_err_and(refused),
        Ok(Address::Ipc(path)) => probe_unix(&path).is_err_and(refused),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::config::LocalSocket;
    use proc::lock::StateLock;

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
        config.network.local = LocalSocket::None;
        config.controller.requests = Some((Ipv4Addr::UNSPECIFIED, 15555).into());
        let Configured::At(endpoint) = find(&config) else { panic!() };
        assert_eq!(endpoint, "tcp://127.0.0.1:15555");
    }

    /// Another home on this machine may have the port.
    #[test]
    fn a_port_of_a_home_without_a_service_is_not_asked() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.paths.state_dir = folder.path().to_owned();
        assert!(matches!(find(&config), Configured::Nowhere));
        let elsewhere = (Ipv4Addr::new(192, 0, 2, 1), 15555);
        config.controller.requests = Some(elsewhere.into());
        assert!(matches!(find(&config), Configured::Elsewhere(endpoint) if endpoint == "tcp://192.0.2.1:15555"));
        let _listener = std::os::unix::net::UnixListener::bind(folder.path().join("controller.sock")).unwrap();
        assert!(matches!(find(&config), Configured::Listening(_)));
    }

    /// The port of a changed configuration may be that of another home.
    #[test]
    fn while_a_service_runs_only_its_own_endpoints_count() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.paths.state_dir = folder.path().to_owned();
        let _lock = StateLock::acquire(folder.path(), "service").unwrap();
        let own = format!("ipc://{}", folder.path().join("controller.sock").display());
        let endpoint = |config: &Config| match find(config) {
            Configured::At(endpoint) | Configured::Listening(endpoint) => endpoint,
            Configured::Elsewhere(_) | Configured::Nowhere => panic!("it is here"),
        };
        assert_eq!(endpoint(&config), own, "one that starts");
        let write = |controller: &str, socket: Option<&str>| {
            let service = serde_json::json!({
                "pid": 7, "started": 0.0, "controller": controller, "publisher": "", "agents": 1, "socket": socket,
            });
            std::fs::write(folder.path().join("service.json"), service.to_string()).unwrap();
        };
        write(&own, Some(&own));
        assert_eq!(endpoint(&config), own, "the controller does not listen");
        config.network.local = LocalSocket::None;
        assert_eq!(endpoint(&config), own, "whatever the file says");
        write("tcp://127.0.0.1:7", None);
        assert_eq!(endpoint(&config), "tcp://127.0.0.1:7");
        config.controller.requests = Some((Ipv4Addr::LOCALHOST, 8).into());
        assert_eq!(endpoint(&config), "tcp://127.0.0.1:7", "a port that was chosen, too");
    }

    #[test]
    fn a_home_without_a_service_and_a_fixed_port_is_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.controller.requests = Some((Ipv4Addr::LOCALHOST, 0).into());
        config.paths.state_dir = folder.path().to_owned();
        assert!(matches!(find(&config), Configured::Nowhere));
    }
}
