//! The files `server.cfg`, `worker.cfg` and `manager.cfg` of TDF (docs/sources/tdf.md, 7), checked once and typed.

mod file;
mod url;

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::ConfigError;
use super::prompt::Secret;
use super::reader::Reader;
use base::tdf::{WorkerName, number};
use file::File;

/// Why a file is refused. The text names the file, the section, the key, the value and the allowed values.
#[derive(Debug, thiserror::Error)]
pub enum TdfConfigError {
    /// The file cannot be read, is longer than a configuration can be, or is not UTF-8.
    #[error("cannot read the configuration {path}: {source}", path = path.display())]
    Read {
        /// The file as it was named.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A line is neither a section nor a key.
    #[error("{path}:{line}: {message}", path = path.display())]
    Syntax {
        /// The file as it was named.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The fault, as a sentence part.
        message: &'static str,
    },
    /// A section is missing.
    #[error("{path}: the section [{section}] is missing", path = path.display())]
    NoSection {
        /// The file as it was named.
        path: PathBuf,
        /// The name of the section.
        section: &'static str,
    },
    /// A key without a default is missing.
    #[error("{path}: [{section}] lacks the key {key}; write {key} = {allowed}", path = path.display())]
    NoKey {
        /// The file as it was named.
        path: PathBuf,
        /// The name of the section.
        section: &'static str,
        /// The name of the key.
        key: &'static str,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A value that is not allowed.
    #[error("{path}:{line}: [{section}] {key} is {value:?}; allowed is {allowed}", path = path.display())]
    BadValue {
        /// The file as it was named.
        path: PathBuf,
        /// The line of the key, from 1.
        line: usize,
        /// The name of the section.
        section: &'static str,
        /// The name of the key.
        key: &'static str,
        /// The value, shortened.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
}

/// `[tdf]` of the configuration of llts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TdfRules {
    /// Number of workers that a task may lose.
    pub max_losses: u32,
    /// The namespace for which a controller works.
    pub pool: Option<TdfPool>,
}

/// A controller as a worker pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TdfPool {
    /// Where Redis is.
    pub redis: RedisSection,
    /// The prefix of all keys.
    pub namespace: String,
    /// The name of the worker; `None` derives it from the machine and the home.
    pub name: Option<WorkerName>,
    /// The folder with the programs.
    pub dir: PathBuf,
    /// Time between the starts of two rounds of the server.
    pub round_duration: Duration,
}

impl TdfRules {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let redis = reader.secret("tdf.REDIS_URL", URL, |text| {
            if text.is_empty() { Some(None) } else { url::parse(text).map(Some) }
        })?;
        let namespace = reader.parsed("tdf.NAMESPACE", "\"\" or a text without control characters", |text| {
            (text.len() <= 1024 && !text.contains(char::is_control)).then(|| text.to_owned())
        })?;
        let ca_file = reader.path_or_none("tdf.REDIS_CA_FILE")?;
        let name =
            reader.parsed("tdf.NAME", "\"\" or 1 to 128 bytes without control characters and without /", |text| {
                if text.is_empty() { Some(None) } else { WorkerName::new(text).ok().map(Some) }
            })?;
        let dir = reader.path("tdf.DIR")?;
        let round_duration = reader.millis("tdf.ROUND_DURATION", 10..=3_600_000)?;
        let max_losses = reader.count("tdf.MAX_LOSSES")?;
        if redis.is_some() == namespace.is_empty() {
            let sentence = if namespace.is_empty() {
                "tdf.REDIS_URL is set and tdf.NAMESPACE is not; set both, or neither".to_owned()
            } else {
                format!("tdf.NAMESPACE is {namespace:?} and tdf.REDIS_URL is not set; set both, or neither")
            };
            return Err(ConfigError::Contradiction(sentence));
        }
        let pool = redis.map(|mut redis| {
            redis.tls.iter_mut().for_each(|tls| tls.ca_file.clone_from(&ca_file));
            TdfPool { redis, namespace, name, dir, round_duration }
        });
        Ok(Self { max_losses, pool })
    }
}

const URL: &str = "\"\" or a URL such as redis://127.0.0.1:6379/0 or rediss://USER:PASSWORD@redis.example:6380/0";

/// `[redis]`: where the tasks are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSection {
    /// A name or a numeric address.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// A user of Redis' access control lists, if not the default one.
    pub username: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
    /// The number of the database.
    pub db: u32,
    /// TLS, if the connection is to be encrypted.
    pub tls: Option<TlsSettings>,
}

/// How the other side of an encrypted connection is verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// A PEM file with the certificates to trust; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
}

/// The part that all three files share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TdfSection {
    /// Where Redis is.
    pub redis: RedisSection,
    /// The prefix of all keys.
    pub namespace: String,
    /// Sentences about lines that another reader would understand differently, and about keys that nothing reads.
    pub warnings: Vec<String>,
}

/// `server.cfg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Redis and the namespace.
    pub tdf: TdfSection,
    /// Time between the starts of two rounds.
    pub round_duration: Duration,
}

/// `worker.cfg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// Redis and the namespace.
    pub tdf: TdfSection,
    /// Where stdout of a run is kept; `$program`, `$worker`, `$taskId` and `$round` are replaced.
    pub task_output_filename: String,
    /// The same for stderr.
    pub task_error_filename: String,
    /// The pause after a run that wrote nothing to stderr.
    pub sleep_after_success: Duration,
    /// The pause after any other run.
    pub sleep_after_failure: Duration,
    /// The longest pause while no task is open.
    pub sleep_after_no_process_claimed: Duration,
}

/// `manager.cfg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerConfig {
    /// Redis and the namespace.
    pub tdf: TdfSection,
    /// Time between the starts of two rounds.
    pub round_duration: Duration,
    /// The values for a task that does not set its own.
    pub task_defaults: TdfTaskDefaults,
}

/// `[task_defaults]`: the texts as written, because they go into the hash of a task unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TdfTaskDefaults {
    /// Unix seconds.
    pub start_after: String,
    /// Unix seconds, or `inf`.
    pub end_before: String,
    /// Seconds, or `inf`.
    pub timeout: String,
    /// A whole number.
    pub max_fails: String,
    /// A whole number.
    pub max_timeouts: String,
    /// Whether up to one second is added to `start_after`.
    pub add_random_start_offset: bool,
}

impl ServerConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// [`TdfConfigError`], which names the file, the section, the key and the value.
    pub fn load(path: &Path) -> Result<Self, TdfConfigError> {
        let mut file = File::open(path)?;
        let tdf = file.tdf()?;
        file.enter("server")?;
        let round_duration = file.seconds("round_duration", Some(2.0))?;
        Ok(Self { tdf: file.finish(tdf), round_duration })
    }
}

impl WorkerConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// [`TdfConfigError`], which names the file, the section, the key and the value.
    pub fn load(path: &Path) -> Result<Self, TdfConfigError> {
        let mut file = File::open(path)?;
        let tdf = file.tdf()?;
        file.enter("worker")?;
        let task_output_filename =
            file.text("task_output_filename", Some("$program/results/$worker-$taskId-$round.out"), FILE_NAME)?;
        let task_error_filename =
            file.text("task_error_filename", Some("$program/results/$worker-$taskId-$round.err"), FILE_NAME)?;
        Ok(Self {
            task_output_filename,
            task_error_filename,
            sleep_after_success: file.seconds("sleep_after_success", Some(0.1))?,
            sleep_after_failure: file.seconds("sleep_after_failure", Some(0.5))?,
            sleep_after_no_process_claimed: file.seconds("sleep_after_no_process_claimed", Some(2.0))?,
            tdf: file.finish(tdf),
        })
    }
}

impl ManagerConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// [`TdfConfigError`], which names the file, the section, the key and the value.
    pub fn load(path: &Path) -> Result<Self, TdfConfigError> {
        let mut file = File::open(path)?;
        let tdf = file.tdf()?;
        file.enter("manager")?;
        let round_duration = file.seconds("round_duration", Some(2.0))?;
        file.enter("task_defaults")?;
        let task_defaults = TdfTaskDefaults {
            start_after: file.number("start_after", "0", MOMENT, is_moment)?,
            end_before: file.number("end_before", "inf", MOMENT, is_moment)?,
            timeout: file.number("timeout", "inf", MOMENT, is_moment)?,
            max_fails: file.number("max_fails", "0", COUNT, is_count)?,
            max_timeouts: file.number("max_timeouts", "0", COUNT, is_count)?,
            add_random_start_offset: file.boolean("add_random_start_offset", false)?,
        };
        Ok(Self { tdf: file.finish(tdf), round_duration, task_defaults })
    }
}

impl TdfSection {
    /// Reads the part that all configurations share, whatever component the file is for.
    ///
    /// # Errors
    /// [`TdfConfigError`], which names the file, the section, the key and the value.
    pub fn load(path: &Path) -> Result<Self, TdfConfigError> {
        let mut file = File::open(path)?;
        let mut tdf = file.tdf()?;
        tdf.warnings = file.warnings;
        Ok(tdf)
    }
}

const FILE_NAME: &str = "the name of a file, such as results/$worker-$taskId-$round.out";
const MOMENT: &str = "a number of seconds, such as 0 or 12.5, or inf";
const COUNT: &str = "a whole number";

/// Whether Python's `float` reads this text. A number must be finite, unless it is written as infinite: Redis cannot read a
/// number that is too large.
fn is_moment(text: &str) -> bool {
    let is_named = !text.contains(|letter: char| letter.is_ascii_digit());
    number::float(text).is_some_and(|number| number.is_finite() || (is_named && number > 0.0))
}

fn is_count(text: &str) -> bool {
    number::int(text).is_some()
}

#[cfg(test)]
mod tests;
