//! Writes results and messages. Nothing else in the command line writes results to stdout or messages to stderr.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use serde_json::{Value, json};

use super::exit::Failure;
use super::json_lines::JsonLines;
use super::style::{Look, Screen};
use super::table::{Table, grouped};
use super::{hints, schema, status_line};
use base::{Fields, Readable, Scalar, json as flat, os_bytes, printable, printable_json, printable_lines, shortened};
use proc::readable;
use proc::signals::Signals;

/// The format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables and sentences.
    Human,
    /// One JSON form for all commands, with a schema.
    Json,
    /// The objects of the wire as they are.
    Wire,
}

/// Length of the largest text that is shown on stderr when it cannot be written to stdout.
const SHOWN_MAX: usize = 200;

/// Writes results to stdout.
pub struct Output {
    format: Format,
    /// The name of the command that writes.
    verb: String,
    /// The first write error. Nothing is written after it.
    error: Option<io::Error>,
    /// The text that met it.
    unwritten: String,
    /// Columns and rows, if stdout is a terminal.
    size: Option<(usize, usize)>,
    /// Number of lines of the last block, which the next one overwrites.
    drawn: usize,
}

/// Whether screens have colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colours {
    /// On a terminal, unless the environment says otherwise.
    Auto,
    #[expect(missing_docs, reason = "clap shows such a comment as help")]
    Always,
    #[expect(missing_docs, reason = "clap shows such a comment as help")]
    Never,
}

impl Colours {
    /// Makes the colours of this program follow this choice.
    pub fn apply(self) {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

impl Output {
    /// The output of a command whose results have no name.
    pub fn new(format: Format) -> Self {
        let mut out = Self { format, verb: String::new(), error: None, unwritten: String::new(), size: None, drawn: 0 };
        out.measure();
        out
    }

    /// Reads the size of the terminal, which may have changed.
    pub fn measure(&mut self) {
        let size = terminal_size::terminal_size_of(io::stdout()).filter(|_| io::stdout().is_terminal());
        self.size = size.map(|(columns, rows)| (usize::from(columns.0), usize::from(rows.0)));
    }

    /// The output of this command.
    pub fn of(format: Format, verb: impl Into<String>) -> Self {
        Self { verb: verb.into(), ..Self::new(format) }
    }

    /// Another writer with the same format and command.
    pub fn same(&self) -> Self {
        Self::of(self.format, self.verb.clone())
    }

    /// Whether a program reads the results, in the documented form or as on the wire.
    pub const fn is_json(&self) -> bool {
        matches!(self.format, Format::Json | Format::Wire)
    }

    /// Whether a program reads the results in the documented form.
    pub const fn is_of_schema(&self) -> bool {
        matches!(self.format, Format::Json)
    }

    /// The number of columns, if stdout is a terminal.
    pub fn columns(&self) -> Option<usize> {
        self.size.map(|(columns, _)| columns)
    }

    /// The kind of the first write error.
    pub fn failure_of_write(&self) -> Option<io::ErrorKind> {
        self.error.as_ref().map(io::Error::kind)
    }

    /// Rows of the terminal, if stdout is one.
    pub fn rows(&self) -> Option<usize> {
        self.size.map(|(_, rows)| rows)
    }

    /// How a screen is drawn. Colours follow `--color`, NO_COLOR, CLICOLOR and CLICOLOR_FORCE.
    pub fn look(&self) -> Look {
        let is_coloured = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        Look { width: self.columns(), is_terminal: self.size.is_some(), is_coloured }
    }

    /// Writes a screen, whose parts are already printable.
    pub fn screen(&mut self, screen: &Screen) {
        self.raw(screen.text().as_bytes());
    }

    /// Whether a write has failed, probably because the reader has closed the pipe.
    pub const fn is_broken(&self) -> bool {
        self.error.is_some()
    }

    /// Draws a block of lines. On a terminal it overwrites the previous block, and is cut to the height of the terminal.
    pub fn redraw(&mut self, block: &str) {
        self.redraw_plain(&printable_lines(block));
    }

    /// As [`Self::redraw`].
    pub fn redraw_screen(&mut self, screen: &Screen) {
        self.redraw_plain(&screen.text());
    }

    /// Waits before a block is drawn again: a second is often enough for people, and a negligible load for the other side. False if a
    /// signal has come, or the reader is gone.
    pub fn redraws(&self, signals: &mut Signals) -> bool {
        const INTERVAL: Duration = Duration::from_secs(1);
        !self.is_broken() && (!readable::is_readable(&*signals, Some(INTERVAL)) || signals.read().is_empty())
    }

    /// The block is safe for a terminal.
    fn redraw_plain(&mut self, block: &str) {
        let Some((_, rows)) = self.size else { return self.raw(block.as_bytes()) };
        let lines: Vec<&str> = block.lines().collect();
        let shown = lines.len().min(rows.saturating_sub(1).max(1));
        // Line wrapping is off meanwhile: a line that is too long would take two rows and shift the next block down.
        let mut text = "\x1b[?7l".to_owned();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}F\x1b[J", self.drawn));
        }
        for line in lines.iter().take(shown) {
            text.push_str(line);
            text.push('\n');
        }
        text.push_str("\x1b[?7h");
        self.drawn = shown;
        self.raw(text.as_bytes());
    }

    /// Writes a line, or several.
    pub fn line(&mut self, line: impl Display) {
        self.raw(printable_lines(&format!("{line}\n")).as_bytes());
    }

    /// Writes a line given in the form of [`base::os_text()`]. A program gets the original bytes, a terminal a
    /// printable text.
    pub fn os_line(&mut self, line: &str) {
        match os_bytes(line).filter(|bytes| bytes.to_str().is_none() && !io::stdout().is_terminal()) {
            Some(bytes) => self.raw(&[bytes.as_bytes(), b"\n"].concat()),
            None => self.line(line),
        }
    }

    /// Writes a text of a tool, and ends its last line.
    pub fn text(&mut self, text: &str) {
        self.raw(printable_lines(text).as_bytes());
        if !text.is_empty() && !text.ends_with('\n') {
            self.raw(b"\n");
        }
    }

    /// Writes a styled text of this program, without the styles if the reader does not want them.
    pub fn styled(&mut self, text: &str) {
        match AutoStream::choice(&io::stdout()) {
            ColorChoice::Never => self.raw(anstream::adapter::strip_str(text).to_string().as_bytes()),
            _ => self.raw(text.as_bytes()),
        }
    }

    /// Writes a table.
    pub fn table(&mut self, table: &Table) {
        self.raw(table.show(self.look()).as_bytes());
    }

    /// Says how to see the next page, unless the shown rows include the last.
    pub fn next_page(&mut self, what: &str, offset: u64, shown: usize, total: u64) {
        let end = offset.saturating_add(shown as u64);
        if end < total {
            let line = format!("{shown} of {} {what}; --offset {end} shows the next", grouped(total));
            // On a pipe stdout is for rows alone.
            if self.columns().is_some() { self.line(line) } else { note(&line) }
        }
    }

    /// Writes a JSON value on one line.
    pub fn value(&mut self, value: &Value) {
        let converted = self.is_of_schema().then(|| schema::value(&self.verb, value));
        self.json_text(&converted.as_ref().unwrap_or(value).to_string());
    }

    /// Writes a flat object as a JSON value on one line.
    pub fn fields(&mut self, fields: &Fields) {
        if self.is_of_schema() { self.value(&to_value(fields)) } else { self.json_line(&flat::to_vec(fields)) }
    }

    /// Writes an object of the wire unchanged on one line.
    pub fn json_line(&mut self, value: &[u8]) {
        self.json_text(&String::from_utf8_lossy(value));
    }

    fn json_text(&mut self, value: &str) {
        self.raw(printable_json(value).as_bytes());
        self.raw(b"\n");
    }

    fn raw(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            if self.size.is_some() {
                status_line::clear();
            }
            let mut stdout = io::stdout().lock();
            self.error = stdout.write_all(bytes).and_then(|()| stdout.flush()).err();
            if self.error.is_some() {
                self.unwritten = String::from_utf8_lossy(bytes).trim_end().to_owned();
            }
        }
    }

    /// Reports whether everything could be written. A reader that stops early, such as head(1), is not a failure. The text that was
    /// not written may be the id of an accepted task, which its user would submit again.
    pub fn flushed(&mut self) -> Result<(), Failure> {
        let unwritten = std::mem::take(&mut self.unwritten);
        let is_short = unwritten.len() <= SHOWN_MAX && unwritten.lines().count() == 1;
        written(self.error.take().map_or(Ok(()), Err)).map_err(|Failure { exit, sentence }| {
            Failure::new(exit, if is_short { format!("{sentence}; the text was: {unwritten}") } else { sentence })
        })
    }

    /// Writes the message of a failed command.
    pub fn failure(&mut self, failure: &Failure) {
        note(&failure.sentence);
        if self.is_json() {
            let sentence = hints::typed(&failure.sentence);
            // A failure has one form, whatever the form of the command's results.
            self.verb.clear();
            self.value(&json!({ "error": shortened(&sentence), "exit_code": failure.exit }));
        }
    }
}

/// Reports whether stdout was written, as [`Output::flushed`] does.
pub fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes help to stdout or stderr.
pub fn print(text: &str, to_stderr: bool) -> io::Result<()> {
    if to_stderr {
        return io::stderr().write_all(text.as_bytes());
    }
    let mut out = io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a message to stderr, as one line whatever it contains.
pub fn note(sentence: &str) {
    let sentence = hints::typed(sentence);
    raw_stderr(&format!("llts: {}\n", printable(&shortened(&sentence).replace(['\n', '\r', '\t'], " "))));
}

/// Writes a question to stderr. The answer follows on the same line.
pub fn ask(question: &str) {
    raw_stderr(question);
}

fn raw_stderr(text: &str) {
    status_line::clear();
    // A failure cannot be reported anywhere else.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Passes on the bytes of a task's output, optionally with a tag before each line. They are unchanged, except that a
/// terminal gets readable text.
pub struct Sink {
    target: Target,
    /// Makes bytes readable that could act on the terminal, if the target is one.
    readable: Option<Readable>,
    tag: Option<OsString>,
    /// Whether the last line has no end yet.
    is_open: bool,
    is_unused: bool,
    /// The first write error.
    failure: Option<io::ErrorKind>,
    /// A file that gets the original bytes, until a write to it fails.
    copy: Option<io::Result<File>>,
    /// The JSON Lines form for a program, if wanted.
    lines: Option<JsonLines>,
}

/// The stream to which a [`Sink`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Only a copy is wanted.
    Nowhere,
}

impl Target {
    fn is_terminal(self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
            Self::Nowhere => false,
        }
    }
}

impl Sink {
    /// A sink with an optional tag in the form of [`base::os_text()`].
    pub fn new(target: Target, tag: Option<String>) -> Self {
        // A terminal gets the tag in the same readable form as the output.
        let tag = tag.map(|tag| if target.is_terminal() { printable(&tag) } else { tag });
        let tag = tag.map(|tag| os_bytes(&tag).unwrap_or_else(|| tag.into()));
        let readable = target.is_terminal().then(Readable::default);
        Self { target, readable, tag, is_open: false, is_unused: true, failure: None, copy: None, lines: None }
    }

    /// A sink for a program, which prints an object for each line.
    pub fn of_lines(lines: JsonLines) -> Self {
        Self { lines: Some(lines), readable: None, ..Self::new(Target::Stdout, None) }
    }

    /// The sink, which passes every byte on unchanged, even to a terminal, if `is_raw`.
    pub fn raw_if(self, is_raw: bool) -> Self {
        if is_raw { Self { readable: None, ..self } } else { self }
    }

    /// The sink, whose bytes also go to this file.
    pub fn copied_to(self, file: File) -> Self {
        Self { copy: Some(Ok(file)), ..self }
    }

    /// Writes bytes of the output.
    ///
    /// # Errors
    /// When the reader has closed its end, or the disk is full.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(Ok(file)) = &mut self.copy
            && let Err(error) = file.write_all(bytes)
        {
            self.copy = Some(Err(error));
        }
        if let Some(lines) = &mut self.lines {
            let objects = lines.take(bytes);
            self.is_unused = false;
            return self.pass(objects.as_bytes());
        }
        let text = self.readable.as_mut().map(|readable| readable.text(bytes));
        let bytes = text.as_deref().map_or(bytes, str::as_bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        let tagged = self.tag.as_ref().map(|tag| tagged(bytes, tag, self.is_open));
        self.is_open = !bytes.ends_with(b"\n");
        self.is_unused = false;
        self.pass(tagged.as_deref().unwrap_or(bytes)).inspect_err(|error| {
            self.failure.get_or_insert(error.kind());
        })
    }

    /// The first write error.
    pub const fn failure(&self) -> Option<io::ErrorKind> {
        self.failure
    }

    /// Why the copy is incomplete, if there is a copy and a write to it has failed.
    pub fn take_copy_error(&mut self) -> Option<io::Error> {
        self.copy.take().and_then(Result::err)
    }

    /// Whether nothing has been written.
    pub const fn is_unused(&self) -> bool {
        self.is_unused
    }

    /// Ends an unfinished last line on a terminal, before another message, and after a tag.
    pub fn end(&mut self, a_message_follows: bool) {
        if let Some(lines) = &mut self.lines {
            let last = lines.end();
            // The error of a broken stream is already known.
            let _ = self.pass(last.as_bytes());
            return;
        }
        let rest = self.readable.as_mut().map(Readable::end).unwrap_or_default();
        if !rest.is_empty() {
            self.is_open = true;
            // As above.
            let _ = self.pass(rest.as_bytes());
        }
        let is_terminal = self.target.is_terminal() || (self.target == Target::Stderr && a_message_follows);
        if std::mem::take(&mut self.is_open) && (is_terminal || self.tag.is_some()) {
            // As above.
            let _ = self.pass(b"\n");
        }
    }

    fn pass(&self, bytes: &[u8]) -> io::Result<()> {
        // Output to a pipe or a file does not touch the terminal.
        if self.target == Target::Stderr || io::stdout().is_terminal() {
            status_line::clear();
        }
        match self.target {
            Target::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes).and_then(|()| stdout.flush())
            }
            Target::Stderr => io::stderr().write_all(bytes),
            Target::Nowhere => Ok(()),
        }
    }
}

fn tagged(bytes: &[u8], tag: &OsStr, mut is_open: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + tag.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if !std::mem::take(&mut is_open) {
            out.extend_from_slice(tag.as_bytes());
            out.push(b'\t');
        }
        out.extend_from_slice(line);
    }
    out
}

/// A flat object as a JSON value.
pub fn to_value(fields: &Fields) -> Value {
    let value = |scalar: &Scalar| match scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => Value::Bool(*value),
        Scalar::Number(number) => Value::Number(number.clone()),
        Scalar::Text(text) => Value::String(text.clone()),
    };
    Value::Object(fields.iter().map(|(name, scalar)| (name.to_owned(), value(scalar))).collect())
}
