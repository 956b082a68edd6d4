//! The controller that a program means: the one that it names, else that of the environment, else that of the home.

use std::env;
use std::net::IpAddr;
use std::path::PathBuf;

use api::config::{Config, ConfigError, Sources};
use api::contexts::{ContextError, Contexts};
use api::home::{Home, HomeError};
use api::wire::info::CONTROLLER_ADDRESS;
use base::{TaskId, split_tcp, words};
use zmtp::sockets::Address;

use crate::client::{Client, ClientError};
use crate::configured::{self, Configured};

/// The variable that names a context.
const CONTEXT: &str = "LLTS_CONTEXT";

/// The names that a program gives, as `llts` gets them by its options. Each is optional, and those that are missing are looked for as
/// the command line does: in `CONTROLLER_ADDRESS`, `LLTS_CONTEXT` and `LLTS_HOME`, in the current folder and those above it, and in
/// the home of the user.
///
/// ```no_run
/// # use llts_client::Named;
/// let farm = Named { context: Some("farm".into()), ..Named::default() }.client()?;
/// # Ok::<(), llts_client::ClientError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The folder of the service.
    pub home: Option<PathBuf>,
    /// The file of the configuration, in place of `config.toml` of the home.
    pub config: Option<PathBuf>,
    /// The address of the controller: `tcp://IP:PORT`, `tcp://NAME:PORT` or `ipc://PATH`.
    pub controller: Option<String>,
    /// A name of `llts context list`. An address goes before it.
    pub context: Option<String>,
}

/// Why no controller is found.
#[derive(Debug, thiserror::Error)]
pub enum NamedError {
    /// A name leads to a text that is not an address of a controller.
    #[error("{place}: {why}")]
    BadAddress {
        /// The variable or the context.
        place: String,
        /// A sentence about the text.
        why: String,
    },
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The context cannot be used.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The home has no service, and names no controller elsewhere.
    #[error("no service runs in {} (STATE_DIR); start one with `llts up`", .state_dir.display())]
    NoService {
        /// The folder in which its state would be.
        state_dir: PathBuf,
    },
}

impl Named {
    /// Connects to the controller, with the keys for it. Inside a task, what the client submits are children of that task.
    ///
    /// # Errors
    /// [`ClientError`], when there is none, or its name or its keys cannot be used. Whether it answers is seen by the first request.
    pub fn client(&self) -> Result<Client, ClientError> {
        let mut config = self.configuration()?;
        let endpoint = match self.use_context(&mut config)? {
            Some(address) => address,
            None => self.endpoint(&config)?,
        };
        Ok(Client::secured(&config, &endpoint)?.with_parent(self.parent()))
    }

    /// The address that is named, here or by the variable. An empty variable counts as unset.
    ///
    /// # Errors
    /// When the variable is not an address of a controller.
    pub fn controller(&self) -> Result<Option<String>, NamedError> {
        if let Some(named) = &self.controller {
            return Ok(Some(named.clone()));
        }
        let Some(variable) = env::var_os(CONTROLLER_ADDRESS).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        // A value that is not Unicode is refused and shown instead of being ignored.
        let place = format!("the environment variable {CONTROLLER_ADDRESS}");
        parse(&variable.to_string_lossy()).map(Some).map_err(|why| NamedError::BadAddress { place, why })
    }

    /// Whether this process belongs to a task whose agent has named its controller. The agent's settings then apply instead of those
    /// of the machine's user, unless another controller is named here.
    #[must_use]
    pub fn is_in_task(&self) -> bool {
        let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        self.controller.is_none() && self.context.is_none() && is_set(CONTROLLER_ADDRESS) && is_set(words::TASK_ID)
    }

    /// The task to which this process belongs.
    #[must_use]
    pub fn parent(&self) -> Option<String> {
        let id = self.is_in_task().then(|| env::var(words::TASK_ID).ok()).flatten();
        id.filter(|id| id.parse::<TaskId>().is_ok())
    }

    /// What the agent has given to a task, which has no home, unless one is named.
    ///
    /// # Errors
    /// When a variable has a value that is not allowed.
    pub fn of_task(&self) -> Result<Option<(Home, Config, Sources)>, NamedError> {
        let of_task = || Home::of_task(self.home.as_deref()).filter(|_| self.is_in_task() && self.config.is_none());
        let Some(home) = of_task() else { return Ok(None) };
        let (config, sources) = Config::of_environment()?;
        Ok(Some((home, config, sources)))
    }

    /// Inside a task that has a home, the address is that of the task, and so are the keys for it.
    ///
    /// # Errors
    /// As [`Self::of_task`].
    pub fn use_keys_of_task(&self, config: &mut Config) -> Result<(), NamedError> {
        if self.is_in_task() {
            config.network.curve_client = Config::of_environment()?.0.network.curve_client;
        }
        Ok(())
    }

    fn configuration(&self) -> Result<Config, NamedError> {
        if let Some((_, config, _)) = self.of_task()? {
            return Ok(config);
        }
        let home = Home::find(self.home.as_deref(), self.config.as_deref())?;
        let (mut config, _) = Config::load(self.config.as_deref(), home.base())?;
        self.use_keys_of_task(&mut config)?;
        Ok(config)
    }

    /// The address of the context, if one is in effect, whose keys replace those of the configuration. An address goes before a
    /// context, and what is named here before a variable.
    ///
    /// # Errors
    /// When the context is unknown, or has no address of a controller.
    pub fn use_context(&self, config: &mut Config) -> Result<Option<String>, NamedError> {
        let variable = || env::var_os(CONTEXT).filter(|value| !value.is_empty());
        let name = match &self.context {
            Some(name) => name.clone(),
            None if self.controller()?.is_some() => return Ok(None),
            None => match variable() {
                Some(name) => name.to_string_lossy().into_owned(),
                None => return Ok(None),
            },
        };
        let contexts = Contexts::read()?;
        let context = contexts.get(&name)?;
        config.network.curve_client = context.keys();
        let place = format!("the context {name}");
        parse(&context.address).map(Some).map_err(|why| NamedError::BadAddress { place, why })
    }

    /// The address that is named, otherwise that of the configuration.
    ///
    /// # Errors
    /// When there is neither.
    pub fn endpoint(&self, config: &Config) -> Result<String, NamedError> {
        if let Some(endpoint) = self.controller()? {
            return Ok(endpoint);
        }
        match configured::find(config) {
            Configured::At(endpoint) | Configured::Elsewhere(endpoint) | Configured::Listening(endpoint) => {
                Ok(endpoint)
            }
            Configured::Nowhere => Err(NamedError::NoService { state_dir: config.paths.state_dir.clone() }),
        }
    }

    /// Whether the controller is on another machine, because its address says so or because this home has joined it. A
    /// command for such a machine gets nothing from this process except what the user names.
    ///
    /// # Errors
    /// As [`Self::controller`].
    pub fn is_elsewhere(&self, config: &Config) -> Result<bool, NamedError> {
        let Some(named) = self.controller()? else {
            return Ok(matches!(configured::find(config), Configured::Elsewhere(_)));
        };
        let host = named.strip_prefix("tcp://").and_then(|rest| rest.rsplit_once(':')).map(|(host, _)| host);
        let is_here = |host: &str| {
            let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
            host == "localhost" || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
        };
        Ok(host.is_some_and(|host| !is_here(host)))
    }
}

/// Checks an endpoint that a user has named: `tcp://IP:PORT`, `tcp://NAME:PORT` or `ipc://PATH`.
///
/// # Errors
/// A sentence about the text.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// The home of `llts join` names the controller in its configuration.
    #[test]
    fn a_machine_that_has_joined_is_elsewhere_as_with_an_address() {
        let folder = tempfile::tempdir().unwrap();
        let is_elsewhere = |controller: Option<&str>, config: &Config| {
            Named { controller: controller.map(str::to_owned), ..Named::default() }.is_elsewhere(config).unwrap()
        };
        let mut config = Config::default();
        config.paths.state_dir = folder.path().to_owned();
        assert!(!is_elsewhere(None, &config));
        config.controller.requests = Some((Ipv4Addr::new(192, 0, 2, 1), 15555).into());
        assert!(is_elsewhere(None, &config));
        assert!(!is_elsewhere(Some("tcp://127.0.0.1:1"), &config), "the address overrides it");
        assert!(is_elsewhere(Some("tcp://192.0.2.1:1"), &Config::default()));
    }
}
