//! SIGHUP: a process of a service reads its configuration again, applies the keys that it can, and reopens its log.
//!
//! LOG_LEVEL and the file of the log take effect. Authorised keys need no signal, because the controller always watches them. All
//! other keys need `llts restart`, and the process names those that have changed. A process with a terminal ends instead: for it,
//! the signal means that the terminal was closed.

use std::fmt;
use std::fs::File;

use crate::config::{Config, ConfigError, Sources};
use base::LogSection;
use proc::logging;
use proc::signals::Signal;

/// The keys that take effect without a restart.
const TAKEN_UP: [&str; 1] = ["LOG_LEVEL"];

/// Reads the configuration in the same way as the start of the process did.
type Load = dyn Fn() -> Result<(Config, Sources), ConfigError>;

/// See the [module](self).
pub struct Reload {
    load: Box<Load>,
    started_with: Sources,
}

impl Reload {
    /// For a process that has started with this configuration.
    pub fn new(started_with: Sources, load: impl Fn() -> Result<(Config, Sources), ConfigError> + 'static) -> Self {
        Self { load: Box::new(load), started_with }
    }

    /// The text of the file that this process has started with.
    pub fn text(&self) -> &str {
        self.started_with.text()
    }

    /// The signal, if this process has no terminal.
    #[must_use]
    pub fn signal() -> Option<Signal> {
        File::open("/dev/tty").is_err().then_some(Signal::SIGHUP)
    }

    /// Handles the signal. Returns a sentence about the result, and logs it.
    pub fn reload(&self, running: &LogSection) -> String {
        let read = (self.load)();
        let section = read.as_ref().map_or(running, |(config, _)| &config.log);
        let reopened = logging::reload(section);
        let mut sentence = match &read {
            Ok((config, sources)) => self.taken_up(config, sources),
            Err(error) => format!("the configuration cannot be read again, and everything stays as it is: {error}"),
        };
        if let Err(error) = reopened {
            sentence = format!("{sentence}; the log cannot be opened again: {error}");
        }
        log::info!("SIGHUP: {sentence}");
        sentence
    }

    fn taken_up(&self, config: &Config, sources: &Sources) -> String {
        let changed = sources.differing_from(&self.started_with);
        let (taken_up, others): (Vec<_>, Vec<_>) = changed.into_iter().partition(|key| TAKEN_UP.contains(key));
        let mut sentence = "the configuration was read again".to_owned();
        if !taken_up.is_empty() {
            sentence = format!("{sentence}; LOG_LEVEL is {}", config.log.level.as_str().to_ascii_lowercase());
        }
        if !others.is_empty() {
            sentence = format!("{sentence}; `llts restart` is needed for {}", others.join(", "));
        }
        sentence
    }
}

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reload").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn reload_of(path: PathBuf) -> Reload {
        let load = move || Config::load(Some(&path), None);
        Reload::new(load().unwrap().1, load)
    }

    #[test]
    fn it_says_what_is_taken_up_and_what_needs_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        fs::write(&path, "").unwrap();
        let reload = reload_of(path.clone());
        let running = Config::default().log;
        for (text, said) in [
            ("", "the configuration was read again"),
            ("LOG_LEVEL = \"debug\"", "the configuration was read again; LOG_LEVEL is debug"),
            (
                "LOG_LEVEL = \"warn\"\nCONTROLLER_REP_PORT = 1\n[http]\nENABLED = true",
                "the configuration was read again; LOG_LEVEL is warn; `llts restart` is needed for CONTROLLER_REP_PORT, \
                 http.ENABLED",
            ),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(reload.reload(&running), said);
        }
        fs::write(&path, "LOG_LEVEL = 5").unwrap();
        let said = reload.reload(&running);
        assert!(said.contains("everything stays as it is") && said.contains("LOG_LEVEL"), "{said}");
    }
}
