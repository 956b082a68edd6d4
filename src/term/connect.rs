//! The options of every command, and the controller that they name.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::exit::{Failure, about_it};
use super::output::{Colours, Format};
use base::{os_text, quoted};
use llts_client::Named;
use llts_client::named::parse;

/// The time that the controller may take to read its history. A million rounds take some tenths of a second.
pub const READING_MAX: Duration = Duration::from_secs(60);

/// The options that every command accepts.
#[derive(Args, Clone, Debug)]
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
        hide = true
    )]
    pub color: Colours,
}

impl Global {
    /// The names that the options give.
    pub fn named(&self) -> Named {
        let Self { home, config, controller, context, .. } = self.clone();
        Named { home, config, controller, context }
    }

    /// The controller that an option or the environment names, if any.
    ///
    /// # Errors
    /// When the variable is not an address of a controller.
    pub fn controller(&self) -> Result<Option<String>, Failure> {
        Ok(self.named().controller()?)
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

    /// Sets the controller, as `--controller` does.
    pub fn set_controller(&mut self, address: String) {
        self.controller = Some(address);
    }
}

/// Parses an endpoint on the command line.
pub fn argument(text: &str) -> Result<String, String> {
    parse(text).map_err(|why| about_it(text, &why))
}
