//! One INI file of TDF, read section after section.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::error::shown;
use super::super::ini::{Ini, Section, Value};
use super::super::prompt::Secret;
use super::{RedisSection, TdfConfigError, TdfSection, TlsSettings};
use base::nearest_hint;
use base::tdf::number;

/// The default port of Redis.
const REDIS_PORT: u16 = 6379;

/// A day. A longer time between rounds is most likely a mistake.
const SECONDS_MAX: f64 = 86_400.0;

/// A file that is being read, section after section.
pub(super) struct File<'a> {
    path: &'a Path,
    ini: Ini,
    name: &'static str,
    section: Section,
    pub(super) warnings: Vec<String>,
    known: Vec<&'static str>,
}

impl<'a> File<'a> {
    pub(super) fn open(path: &'a Path) -> Result<Self, TdfConfigError> {
        let text = super::super::read_bounded(path)
            .map_err(|source| TdfConfigError::Read { path: path.to_owned(), source })?;
        let ini = Ini::parse(&text).map_err(|bad| TdfConfigError::Syntax {
            path: path.to_owned(),
            line: bad.line,
            message: bad.message,
        })?;
        let warnings =
            ini.warnings.iter().map(|(line, message)| format!("{}:{line}: {message}", path.display())).collect();
        Ok(Self { path, ini, name: "", section: Section::new(), warnings, known: Vec::new() })
    }

    /// Continues with another section.
    pub(super) fn enter(&mut self, name: &'static str) -> Result<(), TdfConfigError> {
        self.leave();
        let section = self.ini.sections.remove(name);
        self.section =
            section.ok_or_else(|| TdfConfigError::NoSection { path: self.path.to_owned(), section: name })?;
        self.name = name;
        Ok(())
    }

    /// Warns about the keys of the section that nothing has read: otherwise a misspelt key would silently have its default.
    fn leave(&mut self) {
        let known = std::mem::take(&mut self.known);
        for (key, value) in std::mem::take(&mut self.section) {
            let (path, section, line) = (self.path.display(), self.name, value.line);
            let hint = nearest_hint(&key, known.iter().copied());
            self.warnings.push(format!("{path}:{line}: [{section}] {} is no key that is read{hint}", shown(&key)));
        }
    }

    pub(super) fn finish(mut self, mut tdf: TdfSection) -> TdfSection {
        self.leave();
        tdf.warnings = self.warnings;
        tdf
    }

    pub(super) fn tdf(&mut self) -> Result<TdfSection, TdfConfigError> {
        self.enter("redis")?;
        let redis = self.redis()?;
        self.enter("tdf")?;
        let namespace = self.parsed("namespace", None, "a text that is not empty", |text| {
            (!text.is_empty() && !text.contains('\n')).then(|| text.to_owned())
        })?;
        Ok(TdfSection { redis, namespace, warnings: Vec::new() })
    }

    fn redis(&mut self) -> Result<RedisSection, TdfConfigError> {
        let (address, is_encrypted) = self.parsed("host", None, "a host name or an IP address", |text| {
            let encrypted = text.strip_prefix("rediss://");
            let host = encrypted.or_else(|| text.strip_prefix("redis://")).unwrap_or(text);
            let plain = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/');
            plain.then(|| (host.to_owned(), encrypted.is_some()))
        })?;
        let port = self.parsed("port", Some(REDIS_PORT), "a TCP port from 1 to 65535", |text| {
            text.parse().ok().filter(|port| *port != 0)
        })?;
        let username = self.parsed("username", Some(None), "a name", |text| Some(none_or(text)))?;
        let password = self.parsed("password", Some(None), "a text, or None", |text| Some(none_or(text)))?;
        let db = self.parsed("db", Some(0), "the number of a database, from 0", |text| text.parse().ok())?;
        let tls = self.boolean("tls", false)? || is_encrypted;
        let ca_file =
            self.parsed("tls_ca", Some(None), "the path of a PEM file", |text| Some(none_or(text).map(PathBuf::from)))?;
        let tls = tls.then_some(TlsSettings { ca_file });
        Ok(RedisSection { host: address, port, username, password: password.map(Secret::new), db, tls })
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.section.remove(key)
    }

    /// A value that `parse` accepts. `default` is used for a missing key.
    fn parsed<T>(
        &mut self,
        key: &'static str,
        default: Option<T>,
        allowed: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, TdfConfigError> {
        let (path, section) = (self.path.to_owned(), self.name);
        let Some(value) = self.take(key) else {
            return default.ok_or(TdfConfigError::NoKey { path, section, key, allowed });
        };
        // No password is ever refused, so no message shows one.
        parse(&value.text).ok_or_else(|| TdfConfigError::BadValue {
            path,
            line: value.line,
            section,
            key,
            value: shown(&value.text),
            allowed,
        })
    }

    pub(super) fn text(
        &mut self,
        key: &'static str,
        default: Option<&str>,
        allowed: &'static str,
    ) -> Result<String, TdfConfigError> {
        self.parsed(key, default.map(str::to_owned), allowed, |text| {
            (!text.is_empty() && !text.contains(char::is_control)).then(|| text.to_owned())
        })
    }

    pub(super) fn number(
        &mut self,
        key: &'static str,
        default: &str,
        allowed: &'static str,
        is_allowed: impl FnOnce(&str) -> bool,
    ) -> Result<String, TdfConfigError> {
        self.parsed(key, Some(default.to_owned()), allowed, |text| is_allowed(text).then(|| text.to_owned()))
    }

    pub(super) fn seconds(&mut self, key: &'static str, default: Option<f64>) -> Result<Duration, TdfConfigError> {
        let default = default.map(Duration::from_secs_f64);
        self.parsed(key, default, "seconds from 0 to 86400, such as 1.3", |text| {
            let seconds = number::float(text);
            seconds.filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds)).map(Duration::from_secs_f64)
        })
    }

    pub(super) fn boolean(&mut self, key: &'static str, default: bool) -> Result<bool, TdfConfigError> {
        self.parsed(key, Some(default), "True or False", |text| match text.to_lowercase().as_str() {
            "1" | "yes" | "true" | "on" => Some(true),
            "0" | "no" | "false" | "off" => Some(false),
            _ => None,
        })
    }
}

/// The word `None` means none, as in the files of the original.
fn none_or(text: &str) -> Option<String> {
    (!text.is_empty() && text != "None").then(|| text.to_owned())
}
