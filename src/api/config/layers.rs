//! The layers of values with their places: the built-in file, over it the user's file, over both the environment.
//!
//! The built-in file, `defaults.toml`, is the list of known keys. [`super::reader`] checks the values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Origin, shown};
use super::syntax;
use base::nearest;

/// The built-in configuration.
pub(super) const BUILT_IN: &str = include_str!("defaults.toml");

/// Variables with this prefix are keys, with `.` written as `_`.
pub(super) const PREFIX: &str = "LLTS_";

/// The exception: variables that tell a running tool about its task. A client that the tool starts must not read them as
/// keys.
pub const TOOL_VARIABLE_PREFIX: &str = "LLTS_RUN_";

/// Further exceptions: variables that name the place of the configuration, and the file in which a task tells its progress.
const NO_KEYS: [&str; 3] = ["LLTS_HOME", "LLTS_CONTEXT", "LLTS_PROGRESS_FILE"];

/// A value that has not been interpreted yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Integer(i64),
    Decimal(f64),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    /// A value of a type that no key accepts (a table, a date, …), as text for the message.
    Other(String),
}

impl Value {
    /// The value as TOML.
    pub(super) fn to_toml(&self) -> toml::Value {
        match self {
            Self::Integer(number) => toml::Value::Integer(*number),
            Self::Decimal(number) => toml::Value::Float(*number),
            Self::Bool(value) => toml::Value::Boolean(*value),
            Self::Text(text) | Self::Other(text) => toml::Value::String(text.clone()),
            Self::Texts(texts) => toml::Value::Array(texts.iter().cloned().map(toml::Value::String).collect()),
        }
    }
}

/// A value and the place where it was set.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) value: Value,
    pub(super) origin: Origin,
    /// The value in the built-in file.
    pub(super) default: Value,
}

/// All known keys, each with the value in force. A key in a table is written `table.KEY`.
pub(super) type Settings = BTreeMap<String, Setting>;

/// The result of laying all layers over each other.
#[derive(Debug)]
pub(super) struct Overlaid {
    pub(super) settings: Settings,
    /// A sentence for each variable that looks like a key but is not one.
    pub(super) warnings: Vec<String>,
}

/// Lays the user's file and then the environment over the built-in values.
///
/// A variable that is not a key may belong to a program around this one, so it is a warning; an unknown key in a file is an
/// error.
pub(super) fn overlay(
    built_in: &str,
    file: Option<(&Path, &str)>,
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<Overlaid, ConfigError> {
    let mut settings = known(built_in)?;
    if let Some((path, text)) = file {
        for (key, value, at) in entries(text, Some(path))? {
            let origin = Origin::File { path: path.to_owned(), line: line_at(text, at) };
            lay(&mut settings, &key, value, origin)?;
        }
    }
    let mut warnings = Vec::new();
    for (name, text) in env {
        match of_variable(&settings, &name, text) {
            Some((Some(key), value)) => set(&mut settings, &key, value, Origin::Environment(name))?,
            Some((None, _)) => warnings.push(unknown_variable(&settings, &name)),
            None => {}
        }
    }
    Ok(Overlaid { settings, warnings })
}

/// As [`overlay`], but skips everything that is wrong in the file or the environment, and the values of some keys: for a command
/// that must find a running service although its configuration is damaged.
pub(super) fn overlay_what_is_sound(
    built_in: &str,
    file: Option<(&Path, &str)>,
    env: impl IntoIterator<Item = (String, String)>,
    without: &BTreeSet<String>,
) -> Result<Overlaid, ConfigError> {
    let mut settings = known(built_in)?;
    if let Some((path, text)) = file {
        let (document, _) = DeTable::parse_recoverable(text);
        for (key, value, at) in entries_of(document.get_ref()) {
            let origin = Origin::File { path: path.to_owned(), line: line_at(text, at) };
            if !without.contains(&key) {
                let _ = lay(&mut settings, &key, value, origin);
            }
        }
    }
    for (name, text) in env {
        if let Some((Some(key), value)) = of_variable(&settings, &name, text)
            && !without.contains(&key)
        {
            let _ = set(&mut settings, &key, value, Origin::Environment(name));
        }
    }
    Ok(Overlaid { settings, warnings: Vec::new() })
}

/// The settings of the built-in file.
fn known(built_in: &str) -> Result<Settings, ConfigError> {
    let setting = |(key, value, _): (String, Value, usize)| {
        (key, Setting { default: value.clone(), value, origin: Origin::BuiltIn })
    };
    Ok(entries(built_in, None)?.into_iter().map(setting).collect())
}

/// Sets the value of an entry of a file. A known table may be empty.
fn lay(settings: &mut Settings, key: &str, value: Value, origin: Origin) -> Result<(), ConfigError> {
    let table = format!("{key}.");
    if value == empty_table() && settings.keys().any(|known| known.starts_with(&table)) {
        return Ok(());
    }
    set(settings, key, value, origin)
}

/// The key of a variable that looks like one, if it is known, with its value.
fn of_variable(settings: &Settings, name: &str, text: String) -> Option<(Option<String>, Value)> {
    if !name.starts_with(PREFIX) || name.starts_with(TOOL_VARIABLE_PREFIX) || NO_KEYS.contains(&name) {
        return None;
    }
    let known = settings.iter().find(|(key, _)| variable(key) == name);
    Some(match known {
        Some((key, setting)) => (Some(key.clone()), from_text(&setting.value, text)),
        None => (None, Value::Text(text)),
    })
}

fn unknown_variable(settings: &Settings, name: &str) -> String {
    let nearest = nearest(&name[PREFIX.len()..], settings.keys().map(String::as_str)).map(variable);
    let hint = nearest.map(|nearest| format!("; the nearest is {nearest}")).unwrap_or_default();
    format!("the environment variable {} is not a key and is ignored{hint}", shown(name))
}

/// The environment variable of a key.
fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_ascii_uppercase())
}

fn set(settings: &mut Settings, key: &str, value: Value, origin: Origin) -> Result<(), ConfigError> {
    if let Some(setting) = settings.get_mut(key) {
        setting.value = value;
        setting.origin = origin;
        return Ok(());
    }
    let nearest = nearest(key, settings.keys().map(String::as_str)).map(str::to_owned);
    Err(ConfigError::UnknownKey { origin, key: key.to_owned(), nearest })
}

/// Converts the text of a variable to the type of the built-in value. The items of a list are separated by commas. A text that
/// does not fit stays a text, so that the message of the reader shows it.
fn from_text(known: &Value, text: String) -> Value {
    let word = text.trim();
    let value = match known {
        Value::Integer(_) | Value::Decimal(_) => {
            let decimal = || word.parse().ok().map(Value::Decimal);
            word.parse().ok().map(Value::Integer).or_else(decimal)
        }
        Value::Bool(_) => word.parse().ok().map(Value::Bool),
        Value::Texts(_) => {
            let items = word.split(',').map(str::trim).filter(|item| !item.is_empty());
            Some(Value::Texts(items.map(str::to_owned).collect()))
        }
        Value::Text(_) | Value::Other(_) => None,
    };
    value.unwrap_or(Value::Text(text))
}

/// The keys of a TOML text in order, keys of tables one level down as `table.KEY`, each with the byte at which it
/// begins.
pub(super) fn entries(text: &str, path: Option<&Path>) -> Result<Vec<(String, Value, usize)>, ConfigError> {
    let document = DeTable::parse(text).map_err(|error| {
        let line = line_at(text, error.span().map_or(0, |span| span.start));
        let origin = path.map_or(Origin::BuiltIn, |path| Origin::File { path: path.to_owned(), line });
        ConfigError::Syntax { origin, message: syntax::sentence(text, line, error.message()) }
    })?;
    Ok(entries_of(document.get_ref()))
}

fn entries_of(document: &DeTable<'_>) -> Vec<(String, Value, usize)> {
    let mut entries = Vec::new();
    for (key, value) in document {
        match value.get_ref() {
            DeValue::Table(table) if !table.is_empty() => {
                for (inner, value) in table {
                    let name = format!("{}.{}", key.get_ref(), inner.get_ref());
                    entries.push((name, from_toml(value), inner.span().start));
                }
            }
            _ => entries.push((key.get_ref().clone().into_owned(), from_toml(value), key.span().start)),
        }
    }
    entries
}

fn from_toml(value: &Spanned<DeValue<'_>>) -> Value {
    match value.get_ref() {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::Other(shown(&number.to_string())), Value::Integer),
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<_>>().map_or_else(|| Value::Other("a list of another type".to_owned()), Value::Texts)
        }
        DeValue::Float(number) => {
            number.as_str().parse().map_or_else(|_| Value::Other(shown(number.as_str())), Value::Decimal)
        }
        DeValue::Datetime(date) => Value::Other(shown(&date.to_string())),
        DeValue::Table(table) if table.is_empty() => empty_table(),
        DeValue::Table(_) => Value::Other("a table".to_owned()),
    }
}

fn empty_table() -> Value {
    Value::Other("an empty table".to_owned())
}

/// The line, from 1, at this byte.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}
