//! The log of a process: one bounded file, or stderr; one event is one line, whatever text it shows.
//!
//! A line is `2026-01-31T12:00:00.000Z [INFO] [src/shell/agent.rs:41] text`; `LOG_FORMATTER` switches the parts before the
//! text off. Texts from outside go through [`shown()`].

mod rotating;
mod shown;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use chrono::{DateTime, SecondsFormat, Utc};
use log::{LevelFilter, Log, Metadata, Record};
use simplelog::{ConfigBuilder, LevelPadding, WriteLogger};

use crate::config::LogSection;
use crate::shell::clock;
use crate::types::Wall;

use rotating::Rotating;
use shown::OneLine;
pub use shown::shown;

/// Why a process cannot log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Two processes would take each other's lines away at the next rename.
    #[error("another process logs to {path}; give each its own LOG_DIR, log file name or agent id", path = .0.display())]
    InUse(PathBuf),
    /// The file cannot be created or opened.
    #[error("cannot open the log {path}: {source}", path = path.display())]
    Open {
        /// The log file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `init` was called before.
    #[error("the log is already set up")]
    Twice(#[from] log::SetLoggerError),
}

/// Sends `log::info!` and its like to `file`, or to stderr without one. Once per process.
///
/// # Errors
/// When the file cannot be opened or belongs to another process, or on a second call.
pub fn init(section: &LogSection, file: Option<&Path>) -> Result<(), LogError> {
    let sink = match file {
        None => Sink::Stderr,
        Some(path) => {
            Sink::File(Rotating::open(path, section.file_bytes_max).map_err(|source| match source.kind() {
                io::ErrorKind::WouldBlock => LogError::InUse(path.to_owned()),
                _ => LogError::Open { path: path.to_owned(), source },
            })?)
        }
    };
    log::set_boxed_logger(logger(section, sink))?;
    log::set_max_level(section.level);
    Ok(())
}

/// A moment for people: ISO 8601 in UTC with milliseconds.
#[must_use]
pub fn utc(wall: Wall) -> String {
    let micros = i64::try_from(wall.micros()).unwrap_or(i64::MAX);
    DateTime::<Utc>::from_timestamp_micros(micros).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn logger(section: &LogSection, sink: Sink) -> Box<dyn Log> {
    let shown_if = |shown| if shown { LevelFilter::Error } else { LevelFilter::Off };
    // simplelog cannot write milliseconds without macros of another crate; the time comes from `Lines`.
    let format = ConfigBuilder::new()
        .set_time_level(LevelFilter::Off)
        .set_thread_level(LevelFilter::Off)
        .set_target_level(LevelFilter::Off)
        .set_max_level(shown_if(section.parts.level))
        .set_level_padding(LevelPadding::Off)
        .set_location_level(shown_if(section.parts.place))
        .build();
    let lines = Lines { sink, line: Vec::new(), time: section.parts.time, lost: 0 };
    Box::new(OneLineLog(WriteLogger::new(section.level, format, lines)))
}

/// Makes each message one line before it is formatted, so that the newline that ends it is the only one.
struct OneLineLog(Box<WriteLogger<Lines>>);

impl Log for OneLineLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        let mut line = Record::builder();
        line.metadata(record.metadata().clone()).file(record.file()).line(record.line());
        self.0.log(&line.args(format_args!("{}", OneLine(*record.args()))).build());
    }

    fn flush(&self) {}
}

enum Sink {
    Stderr,
    File(Rotating),
}

impl Sink {
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Stderr => io::stderr().lock().write_all(line),
            Self::File(file) => file.write_line(line),
        }
    }
}

/// Collects what the formatter writes in pieces, and passes each line on whole, after its time.
struct Lines {
    sink: Sink,
    line: Vec<u8>,
    time: bool,
    /// Lines that could not be written since the last one that could.
    lost: u64,
}

impl Lines {
    fn end_line(&mut self) {
        let time = if self.time { format!("{} ", utc(clock::now().wall)) } else { String::new() };
        let mut text = Vec::with_capacity(time.len() + self.line.len());
        if self.lost > 0 {
            text.extend_from_slice(format!("{time}{} lines could not be written\n", self.lost).as_bytes());
        }
        text.extend_from_slice(time.as_bytes());
        text.append(&mut self.line);
        match self.sink.write_line(&text) {
            Ok(()) => self.lost = 0,
            // Nobody can be told that the log is full, except the log when it is not.
            Err(_) => self.lost = self.lost.saturating_add(1),
        }
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
