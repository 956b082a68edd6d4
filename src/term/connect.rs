//! Chooses the controller, and checks whether it listens.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::exit::{self, Failure, about_it};
use super::output::{Colours, Format};
use api::client::transport;
use api::config::Config;
use api::service_file::{self, Service};
use api::wire::info::CONTROLLER_ADDRESS;
use base::{os_text, quoted, split_tcp, words};
use zmtp::sockets::{Address, connect_unix};

/// The time that the controller may take to read its history. A million rounds take some tenths of a second.
pub const READING_MAX: Duration = Duration::from_secs(60);

/// The variable that names a context.
const CONTEXT: &str = "LLTS_CONTEXT";

/// The options that every command accepts.
#[derive(Args, Debug)]
pub struct Global {
    /// The folder of the service: configuration, state, tools, work, logs, socket [default: the variable LLTS_HOME, else the
    /// nearest home upwards from here, else that of the user]
    #[arg(long, global = true, value_name = "DIR", hide = true)]
    pub home: Option<PathBuf>,
    /// Configuration file, read over the built-in defaults [default: config.toml of the home if there is one]
    #[arg(long, global = true, value_name = "FILE", hide = true)]
    pub config: Option<PathBuf>,
    /// The controller to talk to: tcp://IP:PORT or ipc://PATH [default: the variable CONTROLLER_ADDRESS, else the one of the
    /// configuration]
    #[arg(long, global = true, value_name = "ENDPOINT", value_parser = argument, hide = true)]
    controller: Option<String>,
    /// A controller by its name in `llts context list`, with the keys for it [default: the variable LLTS_CONTEXT]
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "controller", hide = true)]
    context: Option<String>,
    /// Tables for people, documented JSON on stdout, or the objects of the wire as JSON
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "human|json|wire",
        hide_possible_values = true,
        default_value_t = Format::Human,
        hide = true
    )]
    pub output: Format,
    /// Colours on stdout. With auto, NO_COLOR and CLICOLOR_FORCE count
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "auto|always|never",
        hide_possible_values = true,
        default_value_t = Colours::Auto,
        help_heading = "Global options"
    )]
    pub color: Colours,
}

impl Global {
    /// The controller that an option or the environment names, if any. An empty variable counts as unset.
    ///
    /// # Errors
    /// When the variable is not an address of a controller.
    pub fn controller(&self) -> Result<Option<String>, Failure> {
        if let Some(named) = &self.controller {
            return Ok(Some(named.clone()));
        }
        let Some(variable) = std::env::var_os(CONTROLLER_ADDRESS).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        // A value that is not Unicode is refused and shown instead of being ignored.
        let named = parse(&variable.to_string_lossy());
        named.map(Some).map_err(|why| Failure::usage(format!("the environment variable {CONTROLLER_ADDRESS}: {why}")))
    }

    /// Whether this process belongs to a task whose agent has named its controller. The agent's settings then apply
    /// instead of those of the machine's user, unless an option names another controller.
    pub fn is_in_task(&self) -> bool {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        self.named_elsewhere().is_none() && is_set(CONTROLLER_ADDRESS) && is_set(words::TASK_ID)
    }

    /// The option that names a controller, with its value, if there is one.
    pub fn named_elsewhere(&self) -> Option<String> {
        let controller = self.controller.as_ref().map(|address| format!("--controller {address}"));
        controller.or_else(|| self.context.as_ref().map(|name| format!("--context {name}")))
    }

    /// The options that name the home, as typed, each preceded by a blank.
    pub fn typed_home(&self) -> String {
        let paths = [("--home", &self.home), ("--config", &self.config)];
        let named = paths.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)));
        named.map(|(option, path)| format!(" {option} {}", quoted(&os_text(path.as_os_str())))).collect()
    }

    /// The effective context, if there is one. An address overrides a name, and an option overrides a variable.
    ///
    /// # Errors
    /// When the variable for the address is not an address of a controller.
    pub fn context(&self) -> Result<Option<String>, Failure> {
        if self.context.is_some() || self.controller()?.is_some() {
            return Ok(self.context.clone());
        }
        let variable = std::env::var_os(CONTEXT).filter(|value| !value.is_empty());
        Ok(variable.map(|name| name.to_string_lossy().into_owned()))
    }

    /// Sets the controller, as `--controller` does.
    pub fn set_controller(&mut self, address: String) {
        self.controller = Some(address);
    }
}

/// The controller of the configuration.
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

/// Parses an endpoint on the command line.
pub fn argument(text: &str) -> Result<String, String> {
    parse(text).map_err(|why| about_it(text, &why))
}

/// Checks an endpoint that a user has named: `tcp://IP:PORT`, `tcp://NAME:PORT` or `ipc://PATH`.
pub fn parse(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("an empty text does not name a controller; write tcp://IP:PORT, or omit it".to_owned());
    }
    match (text.strip_prefix("tcp://"), Address::parse(text)) {
        (Some(hosts), _) => hosts
            .split(',')
            .try_for_each(|host| split_tcp(&format!("tcp://{host}")).map(drop))
            .map_err(|why| format!("{text:?} {why}"))?,
        (None, Ok(_)) => {}
        (None, Err(_)) => {
            return Err(format!(
                "{text:?} is not an address of a controller; write tcp://IP:PORT, tcp://NAME:PORT or ipc://PATH with a path that a \
                 socket can have"
            ));
        }
    }
    Ok(text.to_owned())
}

/// Whether the controller is on another machine, because its address says so or because this home has joined it. A
/// command for such a machine gets nothing from this process except what the user names.
///
/// # Errors
/// As [`Global::controller`].
pub(crate) fn is_elsewhere(global: &Global, config: &Config) -> Result<bool, Failure> {
    let Some(named) = global.controller()? else { return Ok(matches!(configured(config), Configured::Elsewhere(_))) };
    let host = named.strip_prefix("tcp://").and_then(|rest| rest.rsplit_once(':')).map(|(host, _)| host);
    let is_here = |host: &str| {
        let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
    };
    Ok(host.is_some_and(|host| !is_here(host)))
}

/// The endpoint that the user names, otherwise that of the configuration.
pub fn endpoint(global: &Global, config: &Config) -> Result<String, Failure> {
    if let Some(endpoint) = global.controller()? {
        return Ok(endpoint);
    }
    match configured(config) {
        Configured::At(endpoint) | Configured::Elsewhere(endpoint) | Configured::Listening(endpoint) => Ok(endpoint),
        Configured::Nowhere => {
            let state_dir = config.paths.state_dir.display();
            let sentence = format!("no service runs in {state_dir} (STATE_DIR); start one with `llts up`");
            Err(Failure::new(exit::NO_CONTROLLER, sentence))
        }
    }
}

/// The unix socket of the home, if there is one on this machine, otherwise the endpoint of the configuration.
///
/// While a service of this home runs, only the endpoints in its service file count: the configuration may have changed
/// since its start, and its port may now belong to another home. For the same reason, the port of a home without a
/// service counts only if the configuration names a key that the controller there must prove.
pub fn configured(config: &Config) -> Configured {
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

/// The endpoint of the running service of this home. A service takes other ports than the usual ones if these are in use.
fn of_service(service: &Service, is_closed: bool) -> Option<Configured> {
    if let Some(socket) = service.socket.as_ref().filter(|_| !is_closed) {
        let listening = Address::parse(socket).is_ok_and(|address| match address {
            Address::Ipc(path) => connect_unix(&path).is_ok(),
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
    match connect_unix(path) {
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
pub fn is_refused(endpoint: &str, timeout: Duration) -> bool {
    let refused = |error: std::io::Error| is_absent(&error);
    match Address::parse(endpoint) {
        Ok(Address::Tcp(address)) => TcpStream::connect_timeout(&address, timeout).is_err_and(refused),
        Ok(Address::Ipc(path)) => connect_unix(&path).is_err_and(refused),
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
        let Configured::At(endpoint) = configured(&config) else { panic!() };
        assert_eq!(endpoint, "tcp://127.0.0.1:15555");
    }

    /// Another home on this machine may have the port.
    #[test]
    fn a_port_of_a_home_without_a_service_is_not_asked() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.paths.state_dir = folder.path().to_owned();
        assert!(matches!(configured(&config), Configured::Nowhere));
        let elsewhere = (Ipv4Addr::new(192, 0, 2, 1), 15555);
        config.controller.requests = Some(elsewhere.into());
        assert!(matches!(configured(&config), Configured::Elsewhere(endpoint) if endpoint == "tcp://192.0.2.1:15555"));
        let _listener = std::os::unix::net::UnixListener::bind(folder.path().join("controller.sock")).unwrap();
        assert!(matches!(configured(&config), Configured::Listening(_)));
    }

    /// The port of a changed configuration may be that of another home.
    #[test]
    fn while_a_service_runs_only_its_own_endpoints_count() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.paths.state_dir = folder.path().to_owned();
        let _lock = StateLock::acquire(folder.path(), "service").unwrap();
        let own = format!("ipc://{}", folder.path().join("controller.sock").display());
        let endpoint = |config: &Config| match configured(config) {
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

    /// The home of `llts join` names the controller in its configuration.
    #[test]
    fn a_machine_that_has_joined_is_elsewhere_as_with_an_option() {
        let folder = tempfile::tempdir().unwrap();
        let global = |controller: Option<&str>| Global {
            home: None,
            config: None,
            controller: controller.map(str::to_owned),
            context: None,
            output: Format::Human,
            color: Colours::Auto,
        };
        let mut config = Config::default();
        config.paths.state_dir = folder.path().to_owned();
        assert_eq!(is_elsewhere(&global(None), &config), Ok(false));
        config.controller.requests = Some((Ipv4Addr::new(192, 0, 2, 1), 15555).into());
        assert_eq!(is_elsewhere(&global(None), &config), Ok(true));
        assert_eq!(is_elsewhere(&global(Some("tcp://127.0.0.1:1")), &config), Ok(false), "the option overrides it");
        assert_eq!(is_elsewhere(&global(Some("tcp://192.0.2.1:1")), &Config::default()), Ok(true));
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
