//! The service of a home as a whole.

use std::time::Duration;

use super::error::ConfigError;
use super::layers::Value;
use super::reader::{Reader, bad};

/// How long a service without tasks keeps running if a command has started it for its own task.
const AUTO: Duration = Duration::from_secs(600);

/// The shortest such time, in milliseconds. A smaller number is most likely meant as seconds or minutes.
const MILLIS_MIN: u64 = 1_000;

/// The longest such time, in milliseconds.
const MILLIS_MAX: u64 = 30 * 24 * 3_600_000;

/// When a service without tasks ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleStop {
    /// After ten minutes, if a command has started it for its own task.
    Auto,
    /// Not by itself.
    Never,
    /// After this time, even if `llts up` has started it.
    After(Duration),
}

/// Settings of the service as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSection {
    /// When it ends by itself: `IDLE_STOP`.
    pub idle_stop: IdleStop,
}

impl ServiceSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self { idle_stop: IdleStop::read(reader)? })
    }
}

impl IdleStop {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let key = "IDLE_STOP";
        let setting = reader.take(key)?;
        let millis = match &setting.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Text(text) if text == "auto" => return Ok(Self::Auto),
            Value::Text(text) if text == "off" => return Ok(Self::Never),
            // Variables of the environment are always texts.
            Value::Text(text) => text.parse().ok(),
            _ => None,
        };
        match millis.filter(|millis| *millis == 0 || (MILLIS_MIN..=MILLIS_MAX).contains(millis)) {
            Some(0) => Ok(Self::Never),
            Some(millis) => Ok(Self::After(Duration::from_millis(millis))),
            None => {
                let allowed =
                    format!("a whole number from {MILLIS_MIN} to {MILLIS_MAX} (milliseconds), 0, \"auto\" or \"off\"");
                Err(bad(key, &setting, allowed))
            }
        }
    }

    /// The idle time after which a service ends; `None` if it does not end by itself. `is_lasting` is true if `llts up` has
    /// started or kept it.
    #[must_use]
    pub fn limit(self, is_lasting: bool) -> Option<Duration> {
        match self {
            Self::Auto => (!is_lasting).then_some(AUTO),
            Self::Never => None,
            Self::After(limit) => Some(limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_service_ends_as_its_start_and_the_configuration_say() {
        let read = |value: &str| {
            let variable = ("LLTS_IDLE_STOP".to_owned(), value.to_owned());
            Config::from_parts(None, [variable])
                .map(|config| config.service.idle_stop)
                .map_err(|error| error.to_string())
        };
        assert_eq!(Config::default().service.idle_stop, IdleStop::Auto);
        for (value, of_a_command, of_up) in [
            ("auto", Some(AUTO), None),
            ("off", None, None),
            ("0", None, None),
            ("1500", Some(Duration::from_millis(1500)), Some(Duration::from_millis(1500))),
        ] {
            let idle_stop = read(value).unwrap();
            assert_eq!((idle_stop.limit(false), idle_stop.limit(true)), (of_a_command, of_up), "{value}");
        }
        for value in ["-1", "never", "", "1.5", "3", "999", "2592000001"] {
            let refused = read(value).unwrap_err();
            assert!(refused.contains("IDLE_STOP is") && refused.contains("\"auto\" or \"off\""), "{refused}");
        }
    }
}
