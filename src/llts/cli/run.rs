//! `llts run`: submit a task, show its outputs as they come, exit as it did.

mod follow;

use std::fs;
use std::io::{self, ErrorKind, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use nix::sys::signal::Signal;
use rustix::process::geteuid;

use super::caller::caller;
use super::file;
use super::get::{Getter, Target};
use super::hand_over::hand_over;
use super::host::{HostArgs, at_controller};
use super::selection::ids;
use super::submit::TaskArgs;
use super::tails::note_tails;
use super::waiting::{self, Looks};
use api::wire::client::{Selector, TaskView};
use api::wire::requests::kill::kill;
use api::wire::requests::submit::{Submission, Submitted};
use base::{Mono, Outcome, Phase, words};
use llts_client::{Client, Waited};
use proc::clock;
use proc::signals::{STOP, Signals};
use proc::terminal::Terminal;
use term::exit::Failure;
use term::output::note;
use term::session::Session;
use term::{exit, status_line};

use follow::{Finish, Followed, Followers};

/// How long to wait for the end of a task before following its outputs. It is too short for a user to notice, and a task that ends in
/// this time costs only two requests.
const SHORT_RUN: Duration = Duration::from_millis(30);

#[derive(Args, Debug)]
#[command(after_help = "\
Prints the output of the task as it comes: stdout to stdout, stderr to stderr, byte for byte. Its report log goes to stdout at \
the end if it has printed nothing there, otherwise to stderr. If another round follows a failed one, the outputs of both are \
printed. A note on stderr says so if something is missing. What matches --out comes into this folder at the end; `llts get` \
fetches it again. With --output json, the end of each output is part of the value.
Ctrl-C ends the task and waits for its end, with the exit code 130; a second Ctrl-C leaves at once. A closed terminal ends the task, \
too; one of `llts submit` goes on.
With --tty the command has a terminal of its own from its start to its end: Ctrl-C, Ctrl-\\, Ctrl-Z and the size of the window go to \
it, and `llts kill` from another terminal ends it. If this program ends first, that terminal is hung up, as by closing a window.
If no service runs here, one is started that stays; it ends after ten minutes without tasks (IDLE_STOP).
The options of Policy are explained by `llts submit --help`.")]
pub(super) struct RunArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// Give the command a terminal of its own, which this one shows: no output is kept
    #[arg(long, conflicts_with = "tool", help_heading = "Command")]
    tty: bool,
    #[command(flatten)]
    host: HostArgs,
}

impl RunArgs {
    /// The name of the tool, unless the task is a command.
    pub(super) fn tool(&self) -> Option<&str> {
        self.task.tool()
    }
}

pub(super) fn run(session: &mut Session, args: &RunArgs) -> Result<u8, Failure> {
    // A signal may still end this program here, because no task exists yet.
    let files = args.task.read_files()?;
    // Before any thread is started.
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    let (submission, terminal) = submission(session, args, &signals)?;
    let submission = args.task.with_father(session, args.task.with_files(submission, &files)?);
    // The terminal is restored before any message about the end of the service.
    let mut terminal = Some(terminal);
    at_controller(session, &mut signals, args.host, None, |session, signals, place| {
        let client = Client::secured(&session.config, &place.endpoint)?;
        let submission = ids::with_whole(&client, submission.clone())?;
        let mut submitted = None;
        if !files.is_empty() {
            let sent = signals.let_end(|| file::prepare(&session.config, &client, &submission, &files));
            submitted = sent.map_err(Failure::failed)??;
        }
        let submitted = match submitted {
            Some(submitted) => submitted,
            None => hand_over(&client, &submission)?,
        };
        let terminal = terminal.take().flatten();
        run_at(session, signals, &client, (&submitted, args.task.has_outputs()), terminal)
    })
}

/// The submission, and the terminal that is offered to the task.
fn submission(session: &Session, args: &RunArgs, signals: &Signals) -> Result<(Submission, Option<Terminal>), Failure> {
    if !session.is_elsewhere()? {
        let owner = fs::metadata(&session.config.paths.state_dir).map(|folder| folder.uid());
        let users = [Ok(geteuid().as_raw()), Ok(0), owner].into_iter().flatten().collect();
        if !args.tty {
            return Ok((args.task.submission_with_streams(users)?, None));
        }
        if !io::stdin().is_terminal() {
            return Err(Failure::usage(
                "--tty needs a terminal as the standard input, and this one is none; omit --tty",
            ));
        }
        let failed = |error| Failure::failed(format!("cannot make a terminal for the command: {error}"));
        let terminal = Terminal::open(users).map_err(failed)?;
        return Ok((args.task.submission_on_terminal(terminal.name())?, Some(terminal)));
    }
    if args.tty {
        return Err(Failure::usage(
            "--tty needs a controller of this machine: a terminal cannot be given to another one",
        ));
    }
    // The writer of its standard input may take its time.
    let submission = signals.let_end(|| args.task.submission_with_stdin()).map_err(Failure::failed)??;
    Ok((submission, None))
}

fn run_at(
    session: &mut Session,
    signals: &mut Signals,
    client: &Client,
    (submitted, has_outputs): (&Submitted, bool),
    terminal: Option<Terminal>,
) -> Result<u8, Failure> {
    let mut run = Run { client, signals, id: &submitted.id, asked: None, looks: Looks::begin() };
    let shown = run.show(session);
    let asked = run.asked;
    drop(terminal);
    let Some((task, failure)) = shown? else {
        return Err(Failure::new(
            exit::INTERRUPTED,
            format!("left; the task is being ended: llts wait {}", submitted.id),
        ));
    };
    let (code, sentence) = match (failure, exit::of_task(&task)) {
        // Exits like a program that Ctrl-C ended, whatever the task did with the signal.
        (None, (_, sentence))
            if asked == Some(Signal::SIGINT) && task.outcome() == Some(words::outcome(Outcome::Killed)) =>
        {
            (exit::INTERRUPTED, sentence)
        }
        (Some(ErrorKind::BrokenPipe), _) => return Ok(exit::BROKEN_PIPE),
        (Some(_), (0, sentence)) => (exit::FAILED, sentence),
        (_, of_task) => of_task,
    };
    if let Some(sentence) = sentence {
        note(&sentence);
    }
    if !has_outputs {
        return Ok(code);
    }
    let target = Target { dir: Path::new(""), by: "", force: false };
    let mut getter = Getter::new(client, &target);
    let got = signals.let_end(|| getter.get(&task, code == 0)).map_err(Failure::failed)?;
    match got {
        Ok(()) => Ok(code),
        Err(failure) => {
            note(&failure.sentence);
            Ok(if code == 0 { failure.exit } else { code })
        }
    }
}

/// A submitted task.
struct Run<'a> {
    client: &'a Client,
    signals: &'a mut Signals,
    id: &'a str,
    /// The signal that asked for its end.
    asked: Option<Signal>,
    looks: Looks,
}

impl Run<'_> {
    /// Shows the outputs of the task live until it finishes. Returns the task, and the error that kept stdout from taking all of its
    /// output; `None` if the user leaves.
    ///
    /// Most tasks end before a reader of their outputs has connected, and their results contain all of the output. So outputs are
    /// followed only if the task is still unfinished after a moment.
    fn show(&mut self, session: &mut Session) -> Result<Option<(TaskView, Option<ErrorKind>)>, Failure> {
        if session.out.is_json() {
            let task = self.wait(None)?;
            if let Some(task) = &task {
                session.out.fields(task.fields());
                note_tails(task);
            }
            let failure = session.out.failure_of_write();
            return Ok(task.map(|task| (task, failure)));
        }
        let soon = clock::now().mono + SHORT_RUN;
        let early = match self.wait(Some(soon))? {
            Some(task) if task.is_finished() && task.round() == 0 => Some(task),
            Some(_) => None,
            None => return Ok(None),
        };
        let mut followed = Followed::default();
        let task = match early {
            Some(task) => task,
            None => {
                let mut followers = Followers::start(&session.config, self.client.endpoint(), self.id)?;
                let Some(task) = self.wait(None)? else { return Ok(None) };
                let Some(ended) = followers.end(self.signals) else { return Ok(None) };
                followed = ended;
                task
            }
        };
        let (_, sentence) = exit::of_task(&task);
        let failure = Finish { client: self.client, task: &task, followed }.show(sentence.is_some());
        Ok(Some((task, failure)))
    }

    /// Shows why the task waits. Once it runs, the terminal belongs to its outputs.
    fn look(&mut self, task: &TaskView) -> Result<(), Failure> {
        if self.looks.is_due() && task.status() == words::phase(Phase::Waiting) {
            let why = waiting::why(self.client, self.id)?;
            status_line::show_with_hint(&format!("waiting: {why}"), "Ctrl-C ends the task");
        } else {
            status_line::clear();
        }
        Ok(())
    }

    /// Waits for the end, or until a moment; the first signal requests the end, the second gives up.
    fn wait(&mut self, until: Option<Mono>) -> Result<Option<TaskView>, Failure> {
        loop {
            match self.client.wait_for_task(
                &Selector::task(self.id),
                self.looks.or(until),
                Some(self.signals.as_fd()),
            )? {
                Waited::Expired(task) if until.is_none_or(|until| clock::now().mono < until) => self.look(&task)?,
                Waited::Finished(task) | Waited::Expired(task) => {
                    status_line::clear();
                    return Ok(Some(task));
                }
                Waited::Interrupted => {
                    let Some(signal) = self.signals.read().first().copied() else { continue };
                    if self.asked.is_some() {
                        return Ok(None);
                    }
                    let reason = match signal {
                        Signal::SIGINT => "Ctrl-C in llts run".to_owned(),
                        signal => format!("{signal} to llts run"),
                    };
                    note(&format!("ending {}; press Ctrl-C again to leave at once", self.id));
                    self.client.ask(&kill(self.id, &caller(&reason)))?;
                    self.asked = Some(signal);
                }
            }
        }
    }
}
