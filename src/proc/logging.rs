//! The log of a process: one bounded file, stderr, or the journal. Each event is one line, whatever text it contains.
//!
//! A line is `2026-01-31 12:00:00.000 +01:00 INFO text`, or follows `LOG_FORMATTER` and `LOG_FORMAT`. Texts from
//! outside go through [`shown()`].

mod journald;
mod rotating;
mod shown;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use log::{Level, Log, Metadata, Record};

use crate::clock;
use base::journal::{LogLine, Severity};
use base::{LogFormat, LogLayout, LogPart, LogPiece, LogSection, Wall};

use rotating::Rotating;
use shown::OneLine;
pub use shown::shown;

/// Why a process cannot log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Another process logs to the file. Two would lose each other's lines at the next rename.
    #[error("another process logs to {path}; give each its own LOG_DIR, log file name or agent id", path = .0.display())]
    InUse(PathBuf),
    /// The file cannot be created or opened.
    #[error("cannot open the log {path}: {source}", path = path.display())]
    Open {
        /// The log file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The machine's journal cannot be used.
    #[error("LOG_FORMAT is \"journald\", and {path} cannot be used: {source}; set it to \"text\" or \"json\"", path = .path.display())]
    NoJournal {
        /// Its socket.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// `init` was called before.
    #[error("the log is already set up")]
    Twice(#[from] log::SetLoggerError),
}

/// Writes the lines that an engine has noted.
pub fn write(lines: impl IntoIterator<Item = LogLine>) {
    for LogLine { severity, text, place } in lines {
        let level = match severity {
            Severity::Error => Level::Error,
            Severity::Warn => Level::Warn,
            Severity::Info => Level::Info,
            Severity::Debug => Level::Debug,
        };
        if level <= log::max_level() {
            let mut record = Record::builder();
            record.level(level).target("llts").file_static(Some(place.file())).line(Some(place.line()));
            log::logger().log(&record.args(format_args!("{text}")).build());
        }
    }
}

/// Sends `log::info!` and the like to `file`, or to stderr without one. Call it once per process.
///
/// # Errors
/// When the file cannot be opened or belongs to another process, or on a second call.
pub fn init(section: &LogSection, file: Option<&Path>) -> Result<(), LogError> {
    let sink = match file {
        _ if section.layout == LogLayout::Journald => {
            let path = Path::new(journald::SOCKET);
            let journal = journald::connect(path);
            Sink::Journal(journal.map_err(|source| LogError::NoJournal { path: path.to_owned(), source })?)
        }
        None => Sink::Stderr,
        Some(path) => {
            Sink::File(Rotating::open(path, section.file_bytes_max).map_err(|source| match source.kind() {
                io::ErrorKind::WouldBlock => LogError::InUse(path.to_owned()),
                _ => LogError::Open { path: path.to_owned(), source },
            })?)
        }
    };
    let lines = Arc::new(Mutex::new(Lines { sink, lost: 0 }));
    log::set_boxed_logger(logger(section, Arc::clone(&lines)))?;
    log::set_max_level(section.level);
    // This cannot fail: a second logger was refused above.
    let _ = LINES.set(lines);
    Ok(())
}

/// Reopens the log file if it was renamed or removed, as programs that rotate logs do, and applies a new level.
///
/// # Errors
/// When the new file cannot be opened. Lines still go to the old one.
pub fn reload(section: &LogSection) -> io::Result<()> {
    log::set_max_level(section.level);
    match lines().as_deref_mut() {
        Some(Lines { sink: Sink::File(file), .. }) => file.reopen(),
        _ => Ok(()),
    }
}

/// Does work without the lock on the log file: the program that this process becomes opens that file, and a process
/// that was just started shares the lock until its own exec.
pub(crate) fn unlocked<T>(work: impl FnOnce() -> T) -> T {
    let change = |change: fn(&Rotating)| {
        if let Some(Lines { sink: Sink::File(file), .. }) = lines().as_deref() {
            change(file);
        }
    };
    change(Rotating::unlock);
    let done = work();
    change(Rotating::lock);
    done
}

/// The sink of this process, for [`reload`] and [`unlocked`].
static LINES: OnceLock<Arc<Mutex<Lines>>> = OnceLock::new();

fn lines() -> Option<MutexGuard<'static, Lines>> {
    LINES.get().map(|lines| lines.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A moment for people: ISO 8601 in UTC with milliseconds.
#[must_use]
pub fn utc(wall: Wall) -> String {
    format!("{:.3}", timestamp(wall))
}

fn timestamp(wall: Wall) -> Timestamp {
    let micros = i64::try_from(wall.micros()).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(micros).unwrap_or_default()
}

fn logger(section: &LogSection, lines: Arc<Mutex<Lines>>) -> Box<dyn Log> {
    Box::new(LineLog { layout: section.layout.clone(), zone: TimeZone::system(), lines })
}

/// Makes each event one line. The level is that of the whole process.
struct LineLog {
    layout: LogLayout,
    zone: TimeZone,
    lines: Arc<Mutex<Lines>>,
}

impl Log for LineLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let mut line = match &self.layout {
                LogLayout::Words => words(clock::now().wall, &self.zone, record),
                LogLayout::Fields(format) => line(format, clock::now().wall, record),
                LogLayout::Json => json(clock::now().wall, record),
                LogLayout::Journald => journald::entry(record),
            };
            line.push('\n');
            // A thread that panicked while writing has left a complete line or none.
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).write(&line);
        }
    }

    fn flush(&self) {}
}

/// The source location, for debugging.
fn place<'a>(record: &Record<'a>) -> Option<(&'a str, u32)> {
    let file = record.file()?.rsplit('/').next()?;
    (log::max_level() >= Level::Debug).then_some((file, record.line().unwrap_or_default()))
}

/// A line for operators: `2026-01-31 12:00:00.000 +01:00 INFO text`.
fn words(at: Wall, zone: &TimeZone, record: &Record<'_>) -> String {
    let moment = timestamp(at).to_zoned(zone.clone());
    let moment = moment.strftime("%Y-%m-%d %H:%M:%S%.3f %:z");
    let mut line = format!("{moment} {} {}", record.level(), OneLine(*record.args()));
    if let Some((file, number)) = place(record) {
        // Writing to a text cannot fail.
        let _ = write!(line, " ({file}:{number})");
    }
    line
}

/// An event as a JSON object.
fn json(at: Wall, record: &Record<'_>) -> String {
    let mut event = serde_json::json!({
        "time": utc(at),
        "level": record.level().as_str().to_ascii_lowercase(),
        "message": OneLine(*record.args()).to_string(),
        "process": std::process::id(),
    });
    if let Some((file, number)) = place(record) {
        event["file"] = file.into();
        event["line"] = number.into();
    }
    event.to_string()
}

fn line(format: &LogFormat, at: Wall, record: &Record<'_>) -> String {
    let mut line = String::with_capacity(128);
    for piece in format.pieces() {
        match piece {
            LogPiece::Literal(text) => line.push_str(text),
            LogPiece::Part { part, width: 0, .. } => write_part(&mut line, *part, at, record),
            LogPiece::Part { part, width, is_left } => {
                let mut text = String::new();
                write_part(&mut text, *part, at, record);
                // Writing to a text cannot fail.
                let _ = if *is_left { write!(line, "{text:<width$}") } else { write!(line, "{text:>width$}") };
            }
        }
    }
    line
}

fn write_part(line: &mut String, part: LogPart, at: Wall, record: &Record<'_>) {
    let path = record.file().unwrap_or_default();
    // Writing to a text cannot fail.
    let _ = match part {
        LogPart::Time => line.write_str(&utc(at)),
        LogPart::Level => write!(line, "{}", record.level()),
        LogPart::File => line.write_str(path.rsplit('/').next().unwrap_or_default()),
        LogPart::Path => line.write_str(path),
        LogPart::Line => write!(line, "{}", record.line().unwrap_or_default()),
        LogPart::Module => line.write_str(record.target()),
        LogPart::Process => write!(line, "{}", std::process::id()),
        LogPart::Message => write!(line, "{}", OneLine(*record.args())),
    };
}

enum Sink {
    Stderr,
    File(Rotating),
    Journal(UnixDatagram),
}

impl Sink {
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Stderr => io::stderr().lock().write_all(line),
            Self::File(file) => file.write_line(line),
            Self::Journal(journal) => journal.send(line).map(drop),
        }
    }
}

/// The sink of log lines, and the number of lost ones.
struct Lines {
    sink: Sink,
    /// Number of lines that could not be written since the last written one.
    lost: u64,
}

impl Lines {
    /// Writes a whole line.
    fn write(&mut self, line: &str) {
        let written = if self.lost == 0 {
            self.sink.write_line(line.as_bytes())
        } else {
            // A journal entry cannot contain other lines.
            let lost = match self.sink {
                Sink::Journal(_) => String::new(),
                Sink::Stderr | Sink::File(_) => format!("{} lines could not be written\n", self.lost),
            };
            self.sink.write_line(format!("{lost}{line}").as_bytes())
        };
        match written {
            Ok(()) => self.lost = 0,
            // Only the log itself can report that it was full, once there is room again.
            Err(_) => self.lost = self.lost.saturating_add(1),
        }
    }
}

#[cfg(test)]
mod tests;
