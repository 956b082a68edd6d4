//! The context of a command: its options, the home, the configuration and the output.

use std::path::{Path, PathBuf};

use api::config::{Config, Sources};
use api::home::Home;
use api::reload::Reload;
use api::transport;
use llts_client::Client;
use proc::guard::GuardPlan;
use proc::own_program::OwnProgram;

use super::connect::Global;
use super::exit::Failure;
use super::output::Output;

/// The context of a command.
pub struct Session {
    /// The options that every command takes.
    pub global: Global,
    /// The settings.
    pub config: Config,
    /// The source of each setting.
    pub sources: Sources,
    /// The folder of the service.
    pub home: Home,
    /// The writer of results.
    pub out: Output,
}

impl Session {
    /// Connects to the controller that the arguments, the environment or the configuration names.
    pub fn client(&self) -> Result<Client, Failure> {
        let endpoint = self.global.named().endpoint(&self.config)?;
        Ok(Client::secured(&self.config, &endpoint)?)
    }

    /// Whether the controller is on another machine.
    pub fn is_elsewhere(&self) -> Result<bool, Failure> {
        Ok(self.global.named().is_elsewhere(&self.config)?)
    }

    /// The path of this program, for processes that run it again.
    pub fn program() -> Result<PathBuf, Failure> {
        std::env::current_exe().map_err(|error| Failure::failed(format!("cannot find this program: {error}")))
    }

    /// How to run other commands of this program with the same home and configuration.
    pub fn own_program(&self) -> Result<OwnProgram, Failure> {
        let (home, config) = (self.home.folder().to_owned(), self.config_file());
        Ok(OwnProgram { path: Self::program()?, home, config })
    }

    /// How to start a guard of this process, with the same configuration.
    pub fn guard(&self) -> Result<GuardPlan, Failure> {
        Ok(GuardPlan::new(self.own_program()?))
    }

    /// How a process of a service reads its configuration again.
    pub fn reload(&self) -> Reload {
        let (file, base) = (self.config_file(), self.home.base().map(Path::to_owned));
        Reload::new(self.sources.clone(), move || Config::load(file.as_deref(), base.as_deref()))
    }

    /// Refuses to start a service with keys that its parts would refuse.
    pub fn check_start(&self) -> Result<(), Failure> {
        transport::check_keys(&self.config).map_err(|error| Failure::usage(error.to_string()))
    }

    /// The file of `--config`, as an absolute path.
    pub fn config_file(&self) -> Option<PathBuf> {
        self.global.config.as_deref().map(|file| std::path::absolute(file).unwrap_or_else(|_| file.to_owned()))
    }
}
