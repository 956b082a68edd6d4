//! The outputs of `llts run`'s task: followed while it runs, and completed after its end.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use super::super::caller::caller;
use super::super::output_reader::{self, Copied, RESTART_MAX, copy, print_finished};
use api::config::Config;
use api::wire::client::TaskView;
use api::wire::requests::kill::kill;
use base::Stream;
use llts_client::Client;
use proc::background::Bell;
use proc::signals::Signals;
use term::exit::Failure;
use term::output::{Sink, Target, note};

/// The outputs that are followed, with the stream of this program for each.
const STREAMS: [(Stream, Target); 2] = [(Stream::Stdout, Target::Stdout), (Stream::Stderr, Target::Stderr)];

/// The outputs that were printed while the task ran.
#[derive(Default)]
pub(super) struct Followed {
    stdout: Option<Sink>,
    stderr: Option<Sink>,
}

/// Threads that copy the outputs of a task through all of its rounds, each over its own connection. A slow reader
/// delays only its own thread.
pub(super) struct Followers {
    done: Receiver<(Stream, Sink)>,
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
                let mut sink = Sink::new(target, None);
                let client = Client::secured(&config, &endpoint).map_err(Failure::from);
                if let Err(failure) = client.and_then(|client| follow(&client, &task, stream, &mut sink)) {
                    // A failure is only noted, because the exit code is that of the task.
                    note(&format!("{}: {}", output_reader::name(stream), failure.sentence));
                }
                // The main thread may have left.
                let _ = send.send((stream, sink));
                bell.ring();
            };
            std::thread::Builder::new().name("follow".to_owned()).spawn(follow).map_err(Failure::failed)?;
        }
        Ok(Self { done, bell })
    }

    /// Waits until both outputs have been printed; `None` if a signal comes before that.
    pub(super) fn end(&mut self, signals: &mut Signals) -> Option<Followed> {
        let mut followed = Followed::default();
        while followed.stdout.is_none() || followed.stderr.is_none() {
            if signals.wait_unless(self.bell.as_fd()) {
                return None;
            }
            self.bell.take();
            while let Ok((stream, printed)) = self.done.try_recv() {
                match stream {
                    Stream::Stdout => followed.stdout = Some(printed),
                    Stream::Stderr | Stream::Report => followed.stderr = Some(printed),
                }
            }
        }
        Some(followed)
    }
}

/// Copies an output of every round.
fn follow(client: &Client, task: &str, stream: Stream, sink: &mut Sink) -> Result<(), Failure> {
    let mut next = 0;
    loop {
        match copy(client.logs(task, stream).follow().in_round(next).patient(RESTART_MAX), sink)? {
            Copied::All { round, .. } => next = round + 1,
            Copied::NoSuchRound => return Ok(()),
            Copied::Closed if stream == Stream::Stdout => {
                // As SIGPIPE would end a local program.
                client.ask(&kill(task, &caller("the reader of llts run has closed its end")))?;
                return Ok(());
            }
            Copied::Closed => return Ok(()),
        }
    }
}

/// The rest of the outputs of a finished task.
pub(super) struct Finish<'a> {
    pub(super) client: &'a Client,
    pub(super) task: &'a TaskView,
    pub(super) followed: Followed,
}

impl Finish<'_> {
    /// Prints the rest. The report goes to stdout if the task printed nothing there, otherwise to stderr. Returns the error that kept
    /// stdout from taking everything.
    pub(super) fn show(mut self, a_sentence_follows: bool) -> Option<io::ErrorKind> {
        let mut stdout = self.complete(Stream::Stdout);
        let is_quiet = stdout.is_unused();
        if is_quiet {
            print_finished(self.client, self.task, Stream::Report, Duration::ZERO, &mut stdout);
        }
        stdout.end(false);
        let has_report = !is_quiet && !self.task.report().is_empty();
        // Stderr comes before the report, because parts of it may have been printed already.
        let mut stderr = self.complete(Stream::Stderr);
        stderr.end(has_report || a_sentence_follows);
        if has_report {
            note("report.log:");
            let mut sink = Sink::new(Target::Stderr, None);
            print_finished(self.client, self.task, Stream::Report, Duration::ZERO, &mut sink);
            sink.end(a_sentence_follows);
        }
        stdout.failure()
    }

    /// The sink of an output that was followed, or that is printed here.
    fn complete(&mut self, stream: Stream) -> Sink {
        let (followed, target) = match stream {
            Stream::Stdout => (self.followed.stdout.take(), Target::Stdout),
            Stream::Stderr | Stream::Report => (self.followed.stderr.take(), Target::Stderr),
        };
        if let Some(followed) = followed {
            return followed;
        }
        let mut sink = Sink::new(target, None);
        print_finished(self.client, self.task, stream, Duration::ZERO, &mut sink);
        sink
    }
}
