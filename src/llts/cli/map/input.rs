//! The input of `llts map`: lines of a file or of the standard input, or values on the command line.
//!
//! A thread of its own reads a stream, a few chunks ahead. A slow stream delays nothing, and its lines arrive as soon as they are
//! written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use crate::map::input::{Combinations, Splitter, columns};
use crate::map::work::BadLine;
use proc::background::Bell;
use term::exit::Failure;

/// Bytes of one read.
const CHUNK_BYTES: usize = 64 << 10;

/// Maximum number of chunks that were read and not taken.
const CHUNKS_MAX: usize = 4;

/// The values of a line.
pub(super) type Line = Result<Vec<String>, BadLine>;

/// See the [module](self).
pub(super) struct Input {
    lines: VecDeque<Line>,
    rest: Rest,
    bell: Arc<Bell>,
    /// Whether its lines are typed at a terminal.
    is_typed: bool,
}

enum Rest {
    Stream { chunks: Receiver<Chunk>, separator: Option<String> },
    Values(Combinations),
    None,
}

/// Lines of a stream, or the error that ended it.
type Chunk = io::Result<Vec<Result<String, BadLine>>>;

/// The next item of the input.
pub(super) enum Next {
    Line(Line),
    /// Nothing yet; the bell rings.
    Later,
    End,
}

impl Input {
    /// Takes the values from a command line.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub(super) fn values(sources: Vec<Vec<String>>) -> Result<Self, Failure> {
        Ok(Self {
            lines: VecDeque::new(),
            rest: Rest::Values(Combinations::new(sources)),
            bell: bell()?,
            is_typed: false,
        })
    }

    /// The lines of a file, or of the standard input.
    ///
    /// # Errors
    /// When the file cannot be opened, or threads or descriptors have run out.
    pub(super) fn stream(file: Option<&Path>, delimiter: u8, separator: Option<String>) -> Result<Self, Failure> {
        let file = file.filter(|file| *file != Path::new("-"));
        let is_typed = file.is_none() && io::stdin().is_terminal();
        let source: Box<dyn Read + Send> = match file {
            Some(file) => Box::new(
                File::open(file).map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?,
            ),
            None => Box::new(io::stdin()),
        };
        let bell = bell()?;
        let (send, chunks) = sync_channel(CHUNKS_MAX);
        let rung = Arc::clone(&bell);
        let read = move || {
            read(source, Splitter::new(delimiter), &send, &rung);
            // The loop learns of the end when no sender is left.
            drop(send);
            rung.ring();
        };
        std::thread::Builder::new().name("input".to_owned()).spawn(read).map_err(Failure::failed)?;
        Ok(Self { lines: VecDeque::new(), rest: Rest::Stream { chunks, separator }, bell, is_typed })
    }

    /// Whether its lines are typed at a terminal.
    pub(super) const fn is_typed(&self) -> bool {
        self.is_typed
    }

    /// The next line, if there is one.
    ///
    /// # Errors
    /// When the stream cannot be read on. The end of the input follows.
    pub(super) fn next(&mut self) -> Result<Next, io::Error> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(Next::Line(line));
            }
            match &mut self.rest {
                Rest::None => return Ok(Next::End),
                Rest::Values(values) => return Ok(values.next().map_or(Next::End, |values| Next::Line(Ok(values)))),
                Rest::Stream { chunks, .. } => {
                    self.bell.take();
                    match chunks.try_recv() {
                        Ok(chunk) => self.take(chunk)?,
                        Err(TryRecvError::Empty) => return Ok(Next::Later),
                        Err(TryRecvError::Disconnected) => self.rest = Rest::None,
                    }
                }
            }
        }
    }

    /// Waits for the next line; `None` at the end.
    ///
    /// # Errors
    /// The same as for [`Self::next`].
    pub(super) fn wait(&mut self) -> Result<Option<Line>, io::Error> {
        loop {
            match self.next()? {
                Next::Line(line) => return Ok(Some(line)),
                Next::End => return Ok(None),
                Next::Later => {}
            }
            let Rest::Stream { chunks, .. } = &self.rest else { return Ok(None) };
            match chunks.recv() {
                Ok(chunk) => self.take(chunk)?,
                Err(_) => self.rest = Rest::None,
            }
        }
    }

    fn take(&mut self, chunk: Chunk) -> io::Result<()> {
        let Rest::Stream { separator, .. } = &self.rest else { return Ok(()) };
        let values = |line: Result<String, BadLine>| line.map(|line| columns(line, separator.as_deref()));
        self.lines.extend(chunk?.into_iter().map(values));
        Ok(())
    }
}

/// Readable when a stream has more.
impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

fn bell() -> Result<Arc<Bell>, Failure> {
    Ok(Arc::new(Bell::new().map_err(Failure::failed)?))
}

fn read(mut source: Box<dyn Read + Send>, mut splitter: Splitter, send: &SyncSender<Chunk>, bell: &Bell) {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let mut lines = Vec::new();
        let chunk = match source.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) => {
                lines.extend(splitter.finish());
                // An error means that the map has ended.
                let _ = send.send(Ok(lines));
                return;
            }
            Ok(count) => {
                splitter.push(buffer.get(..count).unwrap_or_default(), &mut lines);
                Ok(lines)
            }
            Err(error) => Err(error),
        };
        let is_last = chunk.is_err();
        if send.send(chunk).is_err() || is_last {
            return;
        }
        bell.ring();
    }
}
