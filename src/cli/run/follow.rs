//! The outputs of the task of `llts run`: followed while it runs, and completed when it has finished.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use super::super::exit::Failure;
use super::super::output::{Sink, Target, note};
use super::super::output_reader::{Copied, OutputReader};
use crate::client::Client;
use crate::config::Config;
use crate::protocol::client::TaskView;
use crate::shell::background::Bell;
use crate::shell::signals::Signals;
use crate::types::{Stream, exact_tail};

/// The outputs that are followed, with the stream of this program for each.
const STREAMS: [(Stream, Target); 2] = [(Stream::Stdout, Target::Stdout), (Stream::Stderr, Target::Stderr)];

/// The outputs that were printed while the task ran.
#[derive(Default)]
pub(super) struct Followed {
    stdout: Option<Printed>,
    stderr: Option<Printed>,
}

/// An output that was printed.
struct Printed {
    sink: Sink,
    is_empty: bool,
}

/// Threads that copy the outputs of a task through all of its rounds, each over a connection of its own. A thread whose
/// reader is slow delays only itself.
pub(super) struct Followers {
    done: Receiver<(Stream, Result<Printed, Failure>)>,
    bell: Arc<Bell>,
}

impl Followers {
    /// # Errors
    /// When threads or descriptors have run out.
    pub(super) fn start(config: &Config, endpoint: &str, task: &str) -> Result<Self, Failure> {
        let bell = Arc::new(Bell::new().map_err(Failure::failed)?);
        let (send, done) = mpsc::channel();
        for (stream, target) in STREAMS {
            let (send, bell) = (send.clone(), Arc::clone(&bell));
            let (config, endpoint, task) = (config.clone(), endpoint.to_owned(), task.to_owned());
            let follow = move || {
                let copied = Client::secured(&config, &endpoint)
                    .map_err(Failure::from)
                    .and_then(|client| follow(&client, &task, stream, Sink::new(target, None)));
                // The main thread may have left.
                let _ = send.send((stream, copied));
                bell.ring();
            };
            std::thread::Builder::new().name("follow".to_owned()).spawn(follow).map_err(Failure::failed)?;
        }
        Ok(Self { done, bell })
    }

    /// Waits until both outputs have been printed; `None` if a signal comes before that.
    ///
    /// # Errors
    /// When an output could not be printed.
    pub(super) fn end(&mut self, signals: &mut Signals) -> Result<Option<Followed>, Failure> {
        let mut followed = Followed::default();
        while followed.stdout.is_none() || followed.stderr.is_none() {
            if signals.wait_unless(self.bell.as_fd()) {
                return Ok(None);
            }
            self.bell.take();
            while let Ok((stream, printed)) = self.done.try_recv() {
                let printed = Some(printed?);
                match stream {
                    Stream::Stdout => followed.stdout = printed,
                    Stream::Stderr | Stream::Report => followed.stderr = printed,
                }
            }
        }
        Ok(Some(followed))
    }
}

/// Copies an output of every round.
fn follow(client: &Client, task: &str, stream: Stream, mut sink: Sink) -> Result<Printed, Failure> {
    let mut reader = OutputReader { client, task, stream, round: Some(0), follows: true };
    while let Copied::All { round, .. } = reader.copy(0, &mut sink)? {
        reader.round = Some(round + 1);
    }
    let is_empty = sink.is_unused();
    Ok(Printed { sink, is_empty })
}

/// The rest of the outputs of a finished task.
pub(super) struct Finish<'a> {
    pub(super) client: &'a Client,
    pub(super) task: &'a TaskView,
    pub(super) followed: Followed,
}

impl Finish<'_> {
    /// Prints what has not been followed. The report of a task without another output goes to stdout, beside one to stderr.
    pub(super) fn show(mut self, a_sentence_follows: bool) -> Result<(), Failure> {
        let mut stdout = self.complete(Stream::Stdout, self.task.stdout())?;
        let is_quiet = stdout.is_empty;
        if is_quiet {
            self.print(Stream::Report, self.task.report(), &mut stdout.sink)?;
        }
        stdout.sink.end(false);
        let has_report = !is_quiet && !self.task.report().is_empty();
        if has_report {
            if let Some(stderr) = &mut self.followed.stderr {
                stderr.sink.end(true);
            }
            note("report.log:");
            let mut sink = Sink::new(Target::Stderr, None);
            self.print(Stream::Report, self.task.report(), &mut sink)?;
            sink.end(self.followed.stderr.is_none() || a_sentence_follows);
        }
        let mut stderr = self.complete(Stream::Stderr, self.task.stderr())?;
        stderr.sink.end(a_sentence_follows);
        Ok(())
    }

    /// The output as it was followed, or printed here.
    fn complete(&mut self, stream: Stream, tail: &str) -> Result<Printed, Failure> {
        let (followed, target) = match stream {
            Stream::Stdout => (self.followed.stdout.take(), Target::Stdout),
            Stream::Stderr | Stream::Report => (self.followed.stderr.take(), Target::Stderr),
        };
        if let Some(followed) = followed {
            return Ok(followed);
        }
        let mut sink = Sink::new(target, None);
        self.print(stream, tail, &mut sink)?;
        let is_empty = sink.is_unused();
        Ok(Printed { sink, is_empty })
    }

    /// Prints an output of the last round: from the result if that has all of it.
    fn print(&self, stream: Stream, tail: &str, sink: &mut Sink) -> Result<(), Failure> {
        let total = self.task.output_bytes().map(|bytes| match stream {
            Stream::Stdout => bytes.stdout,
            Stream::Stderr => bytes.stderr,
            Stream::Report => bytes.report,
        });
        if total.is_none_or(|total| exact_tail(tail, total) == Some(0)) {
            // A reader that has closed its end is no failure.
            let _ = sink.write(tail.as_bytes());
            return Ok(());
        }
        let round = Some(self.task.round());
        let reader = OutputReader { client: self.client, task: self.task.id(), stream, round, follows: false };
        reader.copy(0, sink).map(drop)
    }
}
