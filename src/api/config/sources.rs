//! The values in force and their origins, for people: see `llts config`.

use std::path::{Path, PathBuf};

use super::error::{ConfigError, Origin};
use super::layers::{self, Setting, Settings};
use super::{DEFAULTS, reader};

/// The last part of each key whose value is not shown: a secret of its own, or a text with a password in it.
const SECRET: [&str; 2] = ["SECRET", "REDIS_URL"];

/// Text shown in place of a secret value.
const HIDDEN: &str = "…";

/// All keys of a configuration with their values in force.
#[derive(Clone, Debug)]
pub struct Sources {
    file: Option<PathBuf>,
    /// The text of that file.
    text: Option<String>,
    settings: Settings,
    warnings: Vec<String>,
}

/// A key with its value in force.
#[derive(Clone, Debug, PartialEq)]
pub struct InForce<'a> {
    /// The key; a key of a table as `table.KEY`.
    pub key: &'a str,
    /// The value in force; a secret is hidden.
    pub value: toml::Value,
    /// The built-in default.
    pub default: toml::Value,
    /// The place where the value was set; `None` for a default.
    pub origin: Option<&'a Origin>,
}

impl Sources {
    pub(super) fn new(file: Option<&Path>, settings: Settings, warnings: Vec<String>) -> Self {
        Self { file: file.map(Path::to_owned), text: None, settings, warnings }
    }

    pub(super) fn with_text(self, text: Option<String>) -> Self {
        Self { text, ..self }
    }

    /// The text of the file that was read over the defaults; empty if there was none.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// The ignored variables, each as a sentence.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The file that was read over the defaults.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Whether a file or a variable sets the value of `key`.
    #[must_use]
    pub(super) fn is_set(&self, key: &str) -> bool {
        self.settings.get(key).is_some_and(|setting| setting.origin != Origin::BuiltIn)
    }

    /// Refuses the value of `key`, which another build of this program would accept; `allowed` describes the allowed
    /// values.
    #[must_use]
    pub fn refusal(&self, key: &'static str, allowed: impl Into<String>) -> ConfigError {
        self.settings
            .get(key)
            .map_or(ConfigError::NoDefault(key.to_owned()), |setting| reader::bad(key, setting, allowed))
    }

    /// The keys whose values in force are not the same as in another configuration.
    #[must_use]
    pub fn differing_from(&self, other: &Self) -> Vec<&str> {
        let value = |settings: &Settings, key: &str| settings.get(key).map(|setting| setting.value.clone());
        let differs = |key: &&String| value(&self.settings, key) != value(&other.settings, key);
        self.settings.keys().filter(differs).map(String::as_str).collect()
    }

    /// Every key, in the order of the built-in file.
    #[must_use]
    pub fn in_force(&self) -> Vec<InForce<'_>> {
        keys().into_iter().filter_map(|(key, _)| self.key(&key)).collect()
    }

    /// The built-in file with the values in force in place of the defaults, each with a comment on its origin. The text is
    /// itself a valid configuration, except for hidden values.
    #[must_use]
    pub fn annotated(&self) -> String {
        let mut lines: Vec<String> = DEFAULTS.lines().map(str::to_owned).collect();
        for (key, line) in keys() {
            let Some(InForce { value, default, origin: Some(origin), .. }) = self.key(&key) else { continue };
            let name = last_part(&key);
            if let Some(text) = line.checked_sub(1).and_then(|index| lines.get_mut(index)) {
                *text = format!("{name} = {value}  # {origin}; the default is {default}");
            }
        }
        lines.push(String::new());
        lines.join("\n")
    }

    fn key(&self, key: &str) -> Option<InForce<'_>> {
        let (key, Setting { value, origin, default }) = self.settings.get_key_value(key)?;
        let is_hidden = SECRET.contains(&last_part(key)) && value != default;
        let value = if is_hidden { toml::Value::String(HIDDEN.to_owned()) } else { value.to_toml() };
        let origin = (*origin != Origin::BuiltIn).then_some(origin);
        Some(InForce { key, value, default: default.to_toml(), origin })
    }
}

/// A key without its table.
fn last_part(key: &str) -> &str {
    key.rsplit_once('.').map_or(key, |(_, name)| name)
}

/// The keys of the built-in file, in its order, with their lines.
fn keys() -> Vec<(String, usize)> {
    let entries = layers::entries(DEFAULTS, None).unwrap_or_default();
    entries.into_iter().map(|(key, _, at)| (key, layers::line_at(DEFAULTS, at))).collect()
}
