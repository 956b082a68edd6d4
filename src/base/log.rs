//! The settings of logs: folder, file names, size and format.

use std::path::PathBuf;

use log::LevelFilter;

use super::AgentId;

/// The log settings of every process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSection {
    /// The folder of the log files.
    pub dir: PathBuf,
    /// The file name of the controller's log, without the folder.
    pub controller_name: PathBuf,
    /// The file name of an agent's log, without its id.
    pub agent_name: PathBuf,
    /// Whether a configuration file or the environment sets `agent_name`.
    pub agent_name_is_set: bool,
    /// The least severe level that is logged.
    pub level: LevelFilter,
    /// The layout of a line.
    pub layout: LogLayout,
    /// Bytes after which a new file is started.
    pub file_bytes_max: u64,
}

impl LogSection {
    /// The controller's log file.
    #[must_use]
    pub fn controller_file(&self) -> PathBuf {
        self.dir.join(&self.controller_name)
    }

    /// The log file of one agent: `agent.log.<id>`.
    #[must_use]
    pub fn agent_file(&self, agent: &AgentId) -> PathBuf {
        let mut name = self.agent_name.clone().into_os_string();
        name.push(format!(".{agent}"));
        self.dir.join(name)
    }
}

/// The layout of a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogLayout {
    /// For operators: local time, level and message.
    Words,
    /// As `LOG_FORMATTER` says.
    Fields(LogFormat),
    /// A JSON object.
    Json,
    /// An entry in the systemd journal.
    Journald,
}

/// The pieces of a line from left to right: a format of Python's `logging`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFormat(Vec<LogPiece>);

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPiece {
    /// Text that is the same on every line.
    Literal(String),
    /// A value that differs per event.
    Part {
        /// The kind of value.
        part: LogPart,
        /// Minimum width in characters.
        width: usize,
        /// Whether the padding follows the value instead of preceding it.
        is_left: bool,
    },
}

/// A value that each event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPart {
    /// Time of the event.
    Time,
    /// Severity of the event.
    Level,
    /// Name of the source file.
    File,
    /// Path of the source file.
    Path,
    /// Line in the source file.
    Line,
    /// Name of the module.
    Module,
    /// Process id.
    Process,
    /// The message.
    Message,
}

/// Largest width. A larger one is a typing error.
const WIDTH_MAX: usize = 100;

impl LogFormat {
    /// The pieces of a line. They always include the message, at the end if the format does not name it.
    #[must_use]
    pub fn pieces(&self) -> &[LogPiece] {
        &self.0
    }

    /// Parses a format; `None` if it is malformed or names an unknown part.
    #[must_use]
    pub fn parse(format: &str) -> Option<Self> {
        if format.contains(char::is_control) {
            return None;
        }
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = format;
        while let Some((before, after)) = rest.split_once('%') {
            literal.push_str(before);
            if let Some(after) = after.strip_prefix('%') {
                literal.push('%');
                rest = after;
                continue;
            }
            let (piece, after) = part(after)?;
            pieces.extend((!literal.is_empty()).then(|| LogPiece::Literal(std::mem::take(&mut literal))));
            pieces.push(piece);
            rest = after;
        }
        literal.push_str(rest);
        let is_message = |piece: &LogPiece| matches!(piece, LogPiece::Part { part: LogPart::Message, .. });
        let has_message = pieces.iter().any(is_message);
        let is_apart = literal.ends_with(' ') || (literal.is_empty() && pieces.is_empty());
        if !(has_message || is_apart) {
            literal.push(' ');
        }
        pieces.extend((!literal.is_empty()).then_some(LogPiece::Literal(literal)));
        if !has_message {
            pieces.push(LogPiece::Part { part: LogPart::Message, width: 0, is_left: true });
        }
        Some(Self(pieces))
    }
}

/// Parses the text after a `%`, such as `(levelname)-5s`, and returns the rest.
fn part(text: &str) -> Option<(LogPiece, &str)> {
    let (name, rest) = text.strip_prefix('(')?.split_once(')')?;
    let (part, conversion) = match name {
        "asctime" => (LogPart::Time, 's'),
        "levelname" => (LogPart::Level, 's'),
        "filename" => (LogPart::File, 's'),
        "pathname" => (LogPart::Path, 's'),
        "lineno" => (LogPart::Line, 'd'),
        "name" => (LogPart::Module, 's'),
        "process" => (LogPart::Process, 'd'),
        "message" => (LogPart::Message, 's'),
        _ => return None,
    };
    let (is_left, rest) = rest.strip_prefix('-').map_or((false, rest), |rest| (true, rest));
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (width, rest) = rest.split_at(digits);
    let width = if width.is_empty() { 0 } else { width.parse().ok().filter(|width| *width <= WIDTH_MAX)? };
    // Python also accepts %s for numbers.
    let rest = rest.strip_prefix(conversion).or_else(|| rest.strip_prefix('s'))?;
    Some((LogPiece::Part { part, width, is_left }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(part: LogPart) -> LogPiece {
        LogPiece::Part { part, width: 0, is_left: false }
    }

    fn text(text: &str) -> LogPiece {
        LogPiece::Literal(text.to_owned())
    }

    #[test]
    fn a_format_is_read_piece_by_piece() {
        let last = LogPiece::Part { part: LogPart::Message, width: 0, is_left: true };
        let pieces = |format: &str| LogFormat::parse(format).map(|format| format.0);
        assert_eq!(
            pieces("%(asctime)s %(filename)s[line:%(lineno)d] %(levelname)s"),
            Some(vec![
                piece(LogPart::Time),
                text(" "),
                piece(LogPart::File),
                text("[line:"),
                piece(LogPart::Line),
                text("] "),
                piece(LogPart::Level),
                text(" "),
                last.clone(),
            ])
        );
        assert_eq!(
            pieces("100%% %(levelname)-5s|%(message)s|"),
            Some(vec![
                text("100% "),
                LogPiece::Part { part: LogPart::Level, width: 5, is_left: true },
                text("|"),
                piece(LogPart::Message),
                text("|"),
            ])
        );
        assert_eq!(pieces(""), Some(vec![last.clone()]));
        assert_eq!(pieces("llts: "), Some(vec![text("llts: "), last]));
    }

    #[test]
    fn what_there_is_not_is_refused() {
        for format in [
            "%(levelnme)s",
            "%(asctime",
            "%(asctime)",
            "%(asctime)d",
            "%",
            "50%",
            "%s",
            "%(name)1000s",
            "%(thread)d",
            "a\nb",
        ] {
            assert_eq!(LogFormat::parse(format), None, "{format}");
        }
    }
}
