//! The configuration: text in, typed sections out.
//!
//! `defaults.toml` is built into the program: it holds the defaults, and a key that is not in it does not exist. The user's
//! file overrides it, and the environment variables `LLTS_<KEY>` override both; `LLTS_TASK_DEFAULTS_<KEY>` is a key of the
//! table `[task_defaults]`. All checks are made once, here: a [`Config`] needs no further check.
//!
//! A unit test reads `defaults.toml` with this very module, so a program with invalid defaults does not pass its tests.

mod error;
mod graph;
mod home;
mod http;
mod ini;
mod layers;
mod lists;
mod log;
mod network;
mod prompt;
mod prompt_worker;
mod reader;
mod rules;
mod sections;
mod service;
mod source;
mod sources;
mod store;
mod syntax;
mod task_defaults;
mod tdf;
mod tdf_worker;
mod tools;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use error::{ConfigError, Origin};
pub use home::is_configured;
pub use http::{HttpOpening, HttpSection};
pub use layers::TOOL_VARIABLE_PREFIX;
pub use lists::{ListServerSection, ListsSection};
pub use network::{Exposure, LocalSocket, NetworkSection, key_variables};
pub use prompt::{PromptSection, Secret, is_secret};
pub use prompt_worker::PromptWorkerSection;
pub use sections::{
    AgentSection, ClientSection, ControllerSection, Durability, LimitsSection, PathsSection, PushSection,
};
pub use service::{IdleStop, ServiceSection};
pub use source::SourceSection;
pub use sources::{InForce, Sources};
pub use store::{StoreSection, StoreServer};
pub use task_defaults::TaskDefaults;
pub use tdf::{
    ManagerConfig, RedisSection, ServerConfig, TdfConfigError, TdfPool, TdfRules, TdfSection, TdfTaskDefaults,
    TlsSettings, WorkerConfig,
};
pub use tdf_worker::TdfWorkerSection;
pub use tools::ToolsSection;

use reader::Reader;

use crate::tools::Limits;
use base::{GraphLimits, LogSection, is_loopback, path_of_text};

/// The text of the built-in file: every key with its unit, its default and the reason for the default.
pub const DEFAULTS: &str = layers::BUILT_IN;

/// The configuration file of a home, read if it exists and no other file is named.
const USUAL_FILE: &str = "config.toml";

/// The keys that tell where to find a running service.
const PLACES: [&str; 2] = ["STATE_DIR", "CONTROLLER_IPC_FILE"];

/// A longer file is no configuration: the file name is wrong.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The controller: addresses, limits, retention.
    pub controller: ControllerSection,
    /// Settings of a client besides the controller's endpoint.
    pub client: ClientSection,
    /// The unix socket of a controller, and the security of its connections.
    pub network: NetworkSection,
    /// Limits for peers.
    pub limits: LimitsSection,
    /// Limits of step graphs.
    pub graph: GraphLimits,
    /// Pushes of states.
    pub push: PushSection,
    /// Agents, each with one slot.
    pub agent: AgentSection,
    /// Where the queue is kept.
    pub store: StoreSection,
    /// The archives of tools that the controller holds and agents fetch.
    pub tools: ToolsSection,
    /// Limits of a tool's archive.
    pub archive: Limits,
    /// The service as a whole.
    pub service: ServiceSection,
    /// Folders.
    pub paths: PathsSection,
    /// Logs.
    pub log: LogSection,
    /// Policy of a submit that does not state its own.
    pub task_defaults: TaskDefaults,
    /// The HTTP door of the controller.
    pub http: HttpSection,
    /// The prompt master.
    pub prompt: PromptSection,
    /// The prompt worker.
    pub prompt_worker: PromptWorkerSection,
    /// Task lists on disk.
    pub lists: ListsSection,
    /// TDF, whatever its own files say.
    pub tdf: TdfRules,
    /// `llts tdf worker`.
    pub tdf_worker: TdfWorkerSection,
    /// Programs that are fetched.
    pub source: SourceSection,
}

impl Config {
    /// Reads `path`, or `config.toml` of the home if it exists, over the built-in values, and the environment over both. Also
    /// returns the origin of each value. Relative paths are put behind `base`, the home, unless that is the current folder.
    ///
    /// # Errors
    /// [`ConfigError`], whose text names the place, the key and the allowed values.
    pub fn load(path: Option<&Path>, base: Option<&Path>) -> Result<(Self, Sources), ConfigError> {
        Self::of_file(path, base, Self::text(path, base)?)
    }

    /// The text of the file that [`Self::load`] reads; `None` if there is none.
    ///
    /// # Errors
    /// [`ConfigError::Read`]
    pub fn text(path: Option<&Path>, base: Option<&Path>) -> Result<Option<String>, ConfigError> {
        let file = file_of(path, base);
        match read_bounded(&file) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_none() => Ok(None),
            Err(source) => Err(ConfigError::Read { path: file, source }),
        }
    }

    /// The same as [`Self::load`], but with the text in `kept`, a copy of that file as it once was. Messages name the file itself.
    ///
    /// # Errors
    /// [`ConfigError`]
    pub fn load_kept(path: Option<&Path>, base: Option<&Path>, kept: &Path) -> Result<(Self, Sources), ConfigError> {
        let text = read_bounded(kept).map_err(|source| ConfigError::Read { path: kept.to_owned(), source })?;
        Self::of_file(path, base, Some(text))
    }

    fn of_file(path: Option<&Path>, base: Option<&Path>, text: Option<String>) -> Result<(Self, Sources), ConfigError> {
        let file = file_of(path, base);
        let (config, sources) = Self::of(text.as_deref().map(|text| (file.as_path(), text)), variables(), base)?;
        Ok((config, sources.with_text(text)))
    }

    /// Reads as much as possible of a configuration that [`Self::load`] refuses. Invalid values become defaults.
    ///
    /// # Errors
    /// [`ConfigError`], when not even the places of the home can be read.
    pub fn load_what_is_sound(path: Option<&Path>, base: Option<&Path>) -> Result<(Self, Sources), ConfigError> {
        let path = file_of(path, base);
        let bytes = read_bytes(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let mut without = BTreeSet::new();
        loop {
            let found = layers::overlay_what_is_sound(DEFAULTS, Some((&path, &text)), variables(), &without).and_then(
                |found| {
                    Self::of_settings(
                        Sources::new(path.exists().then_some(&path), found.settings.clone(), Vec::new()),
                        found.settings,
                        base,
                    )
                },
            );
            match found {
                Err(ConfigError::BadValue { key, .. }) if without.insert(key.clone()) => {}
                // Some values contradict each other. The keys that name places do not, so only these are read.
                Err(ConfigError::Contradiction(_)) if !without.contains("") => {
                    without = Self::built_in()?.1.in_force().iter().map(|key| key.key.to_owned()).collect();
                    without.retain(|key| !PLACES.contains(&key.as_str()));
                    without.insert(String::new());
                }
                found => return found,
            }
        }
    }

    /// The environment over the built-in values, without a file: the configuration that an agent gives to a task.
    ///
    /// # Errors
    /// [`ConfigError`], whose text names the variable and the allowed values.
    pub fn of_environment() -> Result<(Self, Sources), ConfigError> {
        Self::of(None, variables(), None)
    }

    /// The built-in values, without a file or the environment.
    ///
    /// # Errors
    /// None in a program that has passed its tests: they read the same values.
    pub fn built_in() -> Result<(Self, Sources), ConfigError> {
        Self::of(None, [], None)
    }

    fn of(
        file: Option<(&Path, &str)>,
        env: impl IntoIterator<Item = (String, String)>,
        base: Option<&Path>,
    ) -> Result<(Self, Sources), ConfigError> {
        let layers::Overlaid { settings, warnings } = layers::overlay(DEFAULTS, file, env)?;
        Self::of_settings(Sources::new(file.map(|(path, _)| path), settings.clone(), warnings), settings, base)
    }

    fn of_settings(
        sources: Sources,
        settings: layers::Settings,
        base: Option<&Path>,
    ) -> Result<(Self, Sources), ConfigError> {
        let mut config = Self::read(settings)?;
        if let Some(base) = base {
            home::put_behind(&mut config, base, &sources);
        }
        rules::check(&config)?;
        Ok((config, sources))
    }

    /// Lays `file` (its name is used in messages only) and the variables of `env` with the prefix `LLTS_` over the built-in
    /// values.
    ///
    /// # Errors
    /// [`ConfigError`], whose text names the place, the key and the allowed values.
    pub fn from_parts(
        file: Option<(&Path, &str)>,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        Self::of(file, env, None).map(|(config, _)| config)
    }

    /// Reads each section by itself.
    fn read(settings: layers::Settings) -> Result<Self, ConfigError> {
        let mut reader = Reader::new(settings);
        let config = Self {
            controller: ControllerSection::read(&mut reader)?,
            client: ClientSection::read(&mut reader)?,
            network: NetworkSection::read(&mut reader)?,
            limits: LimitsSection::read(&mut reader)?,
            graph: graph::read(&mut reader)?,
            push: PushSection::read(&mut reader)?,
            agent: AgentSection::read(&mut reader)?,
            store: StoreSection::read(&mut reader)?,
            tools: ToolsSection::read(&mut reader)?,
            archive: sections::archive(&mut reader)?,
            service: ServiceSection::read(&mut reader)?,
            paths: PathsSection::read(&mut reader)?,
            log: log::read(&mut reader)?,
            task_defaults: TaskDefaults::read(&mut reader)?,
            http: HttpSection::read(&mut reader)?,
            prompt: PromptSection::read(&mut reader)?,
            prompt_worker: PromptWorkerSection::read(&mut reader)?,
            lists: ListsSection::read(&mut reader)?,
            tdf: TdfRules::read(&mut reader)?,
            tdf_worker: TdfWorkerSection::read(&mut reader)?,
            source: SourceSection::read(&mut reader)?,
        };
        reader.finish()?;
        Ok(config)
    }

    /// The peers that can reach the TCP ports of a controller with this configuration.
    #[must_use]
    pub fn exposure(&self) -> Exposure {
        let addresses = [self.controller.requests, self.controller.broadcasts];
        match addresses.into_iter().flatten().next() {
            None => Exposure::Closed,
            Some(_) if self.network.curve_server.is_some() => Exposure::Keys,
            // Both ports have the same IP address.
            Some(address) if is_loopback(address.ip()) => Exposure::Machine,
            Some(_) => Exposure::Network,
        }
    }

    /// The same configuration for an agent of another controller: `tcp://IP:PORT`, or `ipc://PATH` on its machine.
    /// Broadcasts come from the same address, at CONTROLLER_PUB_PORT.
    ///
    /// # Errors
    /// When `endpoint` has another form, or contradicts the rest of the configuration.
    pub fn at_controller(mut self, endpoint: &str) -> Result<Self, ConfigError> {
        let tcp = endpoint.strip_prefix("tcp://").and_then(|hosts| Some((hosts.to_owned(), port_of(hosts)?)));
        let path = endpoint.strip_prefix("ipc://").filter(|path| !path.is_empty());
        match (tcp, path) {
            (Some((hosts, port)), _) => {
                let bad = || ConfigError::BadEndpoint(endpoint.to_owned());
                let publisher = self.controller.broadcasts.map(|publisher| publisher.port());
                self.controller.find_at(&hosts, (port, publisher)).ok_or_else(bad)?;
                self.network.local = LocalSocket::None;
            }
            (None, Some(path)) => {
                (self.controller.requests, self.controller.broadcasts) = (None, None);
                self.network.local = LocalSocket::At(path_of_text(path));
            }
            (None, None) => return Err(ConfigError::BadEndpoint(endpoint.to_owned())),
        }
        rules::check(&self)?;
        Ok(self)
    }

    /// The endpoint of the controller that this home has joined. A joined home has the key of that controller, but no keys for a
    /// controller of its own.
    #[must_use]
    pub fn joined_controller(&self) -> Option<String> {
        let is_joined = self.network.curve_client.is_some() && self.network.curve_server.is_none();
        self.controller.requests.filter(|requests| is_joined && requests.port() != 0)?;
        self.controller.ways_of_requests()
    }
}

/// The port of `HOST:PORT,HOST:PORT`. All hosts must have the same one.
fn port_of(hosts: &str) -> Option<u16> {
    let mut ports = hosts.split(',').map(|host| host.rsplit(':').next()?.parse::<u16>().ok().filter(|port| *port != 0));
    let first = ports.next()??;
    ports.all(|port| port == Some(first)).then_some(first)
}

impl Default for Config {
    /// The built-in values, without the environment.
    fn default() -> Self {
        match Self::from_parts(None, []) {
            Ok(config) => config,
            Err(error) => unreachable!("the build has read the same file: {error}"),
        }
    }
}

/// The file to read: the named one, otherwise the file of the home.
fn file_of(path: Option<&Path>, base: Option<&Path>) -> PathBuf {
    path.map_or_else(|| base.map_or_else(|| USUAL_FILE.into(), |base| base.join(USUAL_FILE)), Path::to_owned)
}

/// The environment. A variable that is not UTF-8 is neither a key nor a valid value, so its replacement text is refused.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
}

fn read_bounded(path: &Path) -> io::Result<String> {
    String::from_utf8(read_bytes(path)?).map_err(|error| {
        let why = syntax::not_text(error.as_bytes()).unwrap_or_else(|| error.to_string());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let message = format!("it is longer than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
