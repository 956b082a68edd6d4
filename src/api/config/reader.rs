//! Takes settings out of [`Settings`] one by one, and checks type and range.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::error::{ConfigError, Origin, shown};
use super::layers::{Setting, Settings, Value};
use base::{Host, Label, Labels, Policy, SECONDS_MAX, path_of_text};

/// An hour and a day in milliseconds: upper bounds for times that block something, and for times that block nothing.
pub(super) const HOUR: u64 = 3_600_000;
pub(super) const DAY: u64 = 24 * HOUR;

pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;
/// More bytes than any machine has. The bound keeps sums within 64 bits.
pub(super) const PIB: u64 = 1 << 50;

/// Settings that have not been read yet.
pub(super) struct Reader(Settings);

impl Reader {
    pub(super) fn new(settings: Settings) -> Self {
        Self(settings)
    }

    /// Refuses a built-in file with a key that no section has read: such a line has no effect.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        self.0.into_keys().next().map_or(Ok(()), |key| Err(ConfigError::UnreadDefault(key)))
    }

    /// Whether an unread key has been set, even if to its default.
    pub(super) fn is_set(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|setting| !matches!(setting.origin, Origin::BuiltIn))
    }

    pub(super) fn take(&mut self, key: &str) -> Result<Setting, ConfigError> {
        self.0.remove(key).ok_or_else(|| ConfigError::NoDefault(key.to_owned()))
    }

    /// A whole number within `range`; `unit` is for the message.
    pub(super) fn number(&mut self, key: &str, range: RangeInclusive<u64>, unit: &str) -> Result<u64, ConfigError> {
        let setting = self.take(key)?;
        let number = match setting.value {
            Value::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        };
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            let allowed = format!("a whole number from {} to {} ({unit})", range.start(), range.end());
            bad(key, &setting, allowed)
        })
    }

    /// A number of items or bytes that are held in memory.
    pub(super) fn size(&mut self, key: &str, range: RangeInclusive<u64>, unit: &str) -> Result<usize, ConfigError> {
        // A 32-bit machine cannot address more than this, so saturating keeps the meaning.
        Ok(usize::try_from(self.number(key, range, unit)?).unwrap_or(usize::MAX))
    }

    /// A text that may hold a password, which a refusal does not show.
    pub(super) fn secret<T>(
        &mut self,
        key: &str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let mut setting = self.take(key)?;
        if let Value::Text(text) = &setting.value {
            if let Some(value) = parse(text) {
                return Ok(value);
            }
            let shown = text.rsplit_once('@').map(|(_, rest)| format!("…@{rest}"));
            setting.value = Value::Text(shown.unwrap_or_else(|| text.clone()));
        }
        Err(bad(key, &setting, allowed))
    }

    /// A time in milliseconds.
    pub(super) fn millis(&mut self, key: &str, range: RangeInclusive<u64>) -> Result<Duration, ConfigError> {
        self.number(key, range, "milliseconds").map(Duration::from_millis)
    }

    /// A duration in milliseconds, or `None` for "forever".
    pub(super) fn millis_or_forever(
        &mut self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<Duration>, ConfigError> {
        let setting = self.take(key)?;
        let time = match &setting.value {
            Value::Integer(number) => u64::try_from(*number).ok().filter(|number| range.contains(number)).map(Some),
            Value::Text(text) if text == "forever" => Some(None),
            Value::Text(text) => text.parse().ok().filter(|number| range.contains(number)).map(Some),
            _ => None,
        };
        let millis = time.ok_or_else(|| {
            let allowed =
                format!("a whole number from {} to {} (milliseconds), or \"forever\"", range.start(), range.end());
            bad(key, &setting, allowed)
        })?;
        Ok(millis.map(Duration::from_millis))
    }

    /// A duration in seconds with decimals, as in the fields of a submit.
    pub(super) fn seconds(&mut self, key: &str) -> Result<Duration, ConfigError> {
        let setting = self.take(key)?;
        let seconds = match &setting.value {
            Value::Integer(number) => i32::try_from(*number).ok().map(f64::from),
            Value::Decimal(number) => Some(*number),
            _ => None,
        };
        let seconds = seconds.filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
        let time = seconds.map(Duration::from_secs_f64);
        time.ok_or_else(|| bad(key, &setting, format!("seconds from 0 to {SECONDS_MAX}, decimals allowed")))
    }

    /// A number of repetitions.
    pub(super) fn count(&mut self, key: &str) -> Result<u32, ConfigError> {
        let count = self.number(key, 0..=Policy::COUNT_MAX.into(), "times")?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// The priority of a task.
    pub(super) fn priority(&mut self, key: &str) -> Result<i8, ConfigError> {
        let setting = self.take(key)?;
        let number = match setting.value {
            Value::Integer(number) => i8::try_from(number).ok().filter(|number| Policy::PRIORITIES.contains(number)),
            _ => None,
        };
        number.ok_or_else(|| bad(key, &setting, "a whole number from -100 to 100"))
    }

    /// Names of tags.
    pub(super) fn labels(&mut self, key: &str) -> Result<Labels, ConfigError> {
        let setting = self.take(key)?;
        let labels = match &setting.value {
            Value::Texts(texts) => texts.iter().map(|text| Label::new(text)).collect::<Result<_, _>>(),
            _ => return Err(bad(key, &setting, "a list of names such as [\"gpu\", \"linux\"]")),
        };
        labels.and_then(Labels::new).map_err(|error| bad(key, &setting, format!("a list of names: {error}")))
    }

    /// A TCP port; 0 takes a free one.
    pub(super) fn port(&mut self, key: &str) -> Result<u16, ConfigError> {
        let port = self.number(key, 0..=u64::from(u16::MAX), "TCP port")?;
        Ok(u16::try_from(port).unwrap_or(u16::MAX))
    }

    /// A TCP port, or `None` for a port that is not opened.
    pub(super) fn port_or_off(&mut self, key: &str) -> Result<Option<u16>, ConfigError> {
        let setting = self.take(key)?;
        let port = match &setting.value {
            Value::Integer(number) => u16::try_from(*number).ok().map(Some),
            Value::Text(text) => (text == "off").then_some(None),
            _ => None,
        };
        port.ok_or_else(|| bad(key, &setting, "a whole number from 0 to 65535 (TCP port), or \"off\""))
    }

    pub(super) fn boolean(&mut self, key: &str) -> Result<bool, ConfigError> {
        let setting = self.take(key)?;
        match setting.value {
            Value::Bool(value) => Ok(value),
            _ => Err(bad(key, &setting, "true or false")),
        }
    }

    /// A text that `parse` accepts; `allowed` describes such texts.
    pub(super) fn parsed<T>(
        &mut self,
        key: &str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let setting = self.take(key)?;
        let value = match &setting.value {
            Value::Text(text) => parse(text),
            _ => None,
        };
        value.ok_or_else(|| bad(key, &setting, allowed))
    }

    pub(super) fn address(&mut self, key: &str) -> Result<IpAddr, ConfigError> {
        self.parsed(key, "an IPv4 or IPv6 address", |text| text.parse().ok())
    }

    /// Addresses and names of hosts, as parts of endpoints: a list, a text with commas, or the empty text for none.
    pub(super) fn hosts(&mut self, key: &str) -> Result<Vec<String>, ConfigError> {
        let setting = self.take(key)?;
        let texts = match &setting.value {
            Value::Text(text) if text.is_empty() => Some(Vec::new()),
            Value::Text(text) => Some(text.split(',').map(|part| part.trim().to_owned()).collect()),
            Value::Texts(texts) if !texts.is_empty() => Some(texts.clone()),
            _ => None,
        };
        let host = |text: &String| match text.parse::<IpAddr>() {
            Ok(ip) => Some(Host::Ip(ip).in_endpoint()),
            Err(_) => Host::parse(text).map(|host| host.in_endpoint()),
        };
        let hosts = texts.and_then(|texts| texts.iter().map(host).collect::<Option<Vec<_>>>());
        hosts.ok_or_else(|| bad(key, &setting, "IPv4 or IPv6 addresses and names of hosts, or \"\""))
    }

    /// A path; `None` for the empty text.
    pub(super) fn path_or_none(&mut self, key: &str) -> Result<Option<PathBuf>, ConfigError> {
        self.parsed(key, "\"\" or a path without control characters", |text| {
            is_plain(text).then(|| (!text.is_empty()).then(|| path_of_text(text)))
        })
    }

    pub(super) fn path(&mut self, key: &str) -> Result<PathBuf, ConfigError> {
        self.parsed(key, "a path, not empty and without control characters", |text| {
            (!text.is_empty() && is_plain(text)).then(|| path_of_text(text))
        })
    }

    /// A list of texts that `parse` accepts; `allowed` describes such lists.
    pub(super) fn each<T>(
        &mut self,
        key: &str,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, ConfigError> {
        let setting = self.take(key)?;
        let values = match &setting.value {
            Value::Texts(texts) => texts.iter().map(|text| parse(text)).collect(),
            _ => None,
        };
        values.ok_or_else(|| bad(key, &setting, allowed))
    }

    /// Networks such as 10.0.0.0/8.
    pub(super) fn networks(&mut self, key: &str) -> Result<Vec<String>, ConfigError> {
        self.each(key, "a list of networks such as [\"10.0.0.0/8\", \"fd00::/8\"]", |text| {
            is_network(text).then(|| text.to_owned())
        })
    }
}

/// Refuses the value of a key; `allowed` describes the allowed values.
pub(super) fn bad(key: &str, setting: &Setting, allowed: impl Into<String>) -> ConfigError {
    let (value, origin) = (setting.value.to_string(), setting.origin.clone());
    ConfigError::BadValue { origin, key: key.to_owned(), value, allowed: allowed.into() }
}

/// Whether a path has no control characters. Paths appear in logs and in line-based files beside a task, where a newline
/// would forge a line. U+FFFD stands for bytes of the environment that are not UTF-8.
fn is_plain(path: &str) -> bool {
    !path.contains(|letter: char| letter.is_control() || letter == char::REPLACEMENT_CHARACTER)
}

fn is_network(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(address) = IpAddr::from_str(address) else { return false };
    let bits = if address.is_ipv4() { 32 } else { 128 };
    // `parse` alone would accept "+8".
    length.bytes().all(|byte| byte.is_ascii_digit()) && length.parse::<u8>().is_ok_and(|length| length <= bits)
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Decimal(number) => write!(f, "{number}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Text(text) => write!(f, "\"{}\"", shown(text)),
            Self::Texts(texts) => write!(f, "[{}]", shown(&texts.join(", "))),
            Self::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_an_address_and_a_length_that_fits_it() {
        for good in ["0.0.0.0/0", "::/0", "10.0.0.0/8", "10.1.2.3/32", "fd00::/8", "::1/128"] {
            assert!(is_network(good), "{good}");
        }
        for bad in ["", "/", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0/8", "host/8", "10.0.0.0/+8"] {
            assert!(!is_network(bad), "{bad}");
        }
    }
}
