//! `llts logs`: the outputs of tasks, byte for byte, also while they run.

use clap::Args;
use serde_json::json;

use super::change::about;
use super::output_reader::{Copied, RESTART_MAX, copy};
use super::selection::ids::short;
use super::selection::{Chosen, Scope, Selection};
use api::wire::client::Selector;
use api::wire::requests::rows::{RowsAsk, rows};
use base::{Stream, middle};
use llts_client::{Client, Output};
use term::exit;
use term::exit::Failure;
use term::json_lines::JsonLines;
use term::output::{Sink, Target, note};
use term::session::Session;
use term::style::{Look, PLAIN, STRONG, Screen, of_state};

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "\
stdout goes to stdout and stderr to stderr, byte for byte; a terminal shows escape sequences as text, unless \
--raw is given, and the outputs of several tasks below a line for each. With one of --stdout, --stderr and --report, that output alone goes \
to stdout. Without -f, a task that runs is shown as far as it has written. Several tasks are printed one after the \
other, as they are named, or in the order of their submits.
Exits with 1 if bytes are missing, for the reason on stderr; with 5 if a task is not known.")]
pub(super) struct LogsArgs {
    #[command(flatten)]
    selection: Selection,
    /// Follow each task until it has finished, also before it starts, and through all of its rounds
    #[arg(short, long)]
    follow: bool,
    /// Only stdout
    #[arg(long, group = "stream")]
    stdout: bool,
    /// Only stderr, to stdout
    #[arg(long, group = "stream")]
    stderr: bool,
    /// Only report.log
    #[arg(long, group = "stream")]
    report: bool,
    /// The round, from 0 [default: the newest]
    #[arg(long, value_name = "N")]
    round: Option<u32>,
    /// Only the last lines of each output
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(u64).range(1..))]
    tail: Option<u64>,
    /// Begin each line with the id of its task and a tab
    #[arg(long)]
    tag: bool,
    /// Every byte also to a terminal, which escape sequences of the task may then drive
    #[arg(long)]
    raw: bool,
    /// For those who come from `llts map`: the order is always that of the submits
    #[arg(long, hide = true)]
    keep_order: bool,
}

impl LogsArgs {
    fn streams(&self) -> Vec<(Stream, Target)> {
        match (self.stdout, self.stderr, self.report) {
            (true, ..) => vec![(Stream::Stdout, Target::Stdout)],
            (_, true, _) => vec![(Stream::Stderr, Target::Stdout)],
            (_, _, true) => vec![(Stream::Report, Target::Stdout)],
            _ => vec![(Stream::Stdout, Target::Stdout), (Stream::Stderr, Target::Stderr)],
        }
    }
}

/// The result of printing one task's outputs.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    is_cut: bool,
    is_closed: bool,
}

pub(super) fn run(session: &mut Session, args: &LogsArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    let mut worst = 0;
    let mut chosen = args.selection.resolve(&client, Scope::Every)?;
    if !args.selection.is_by_ids() {
        // A list begins with the newest task, but outputs are read from the oldest on.
        chosen.reverse();
    }
    let has_heads = chosen.len() > 1 && session.out.look().is_terminal && !args.tag && !args.raw;
    for (number, Chosen { id, state }) in chosen.into_iter().enumerate() {
        if let Err(unknown) = state {
            note(&about(&id, &unknown.sentence));
            if session.out.is_json() {
                session.out.value(&json!({ "task": id, "error": unknown.sentence }));
            }
            worst = worst.max(exit::NO_SUCH_TASK);
            continue;
        }
        if has_heads {
            if number > 0 {
                session.out.line("");
            }
            let screen = head(&client, &id, session.out.look())?;
            session.out.screen(&screen);
        }
        let shown = show(session, &client, args, &id)?;
        if shown.is_closed {
            return Ok(worst);
        }
        if shown.is_cut {
            worst = worst.max(exit::FAILED);
        }
    }
    Ok(worst)
}

/// The line above the outputs of one of several tasks: `==> OdjwP  failed, exit 3  convert in=film7.mov <==`.
fn head(client: &Client, id: &str, look: Look) -> Result<Screen, Failure> {
    let found = client.ask(&rows(&Selector::task(id), &RowsAsk::default(), 0, 1))?;
    let mut screen = Screen::new(look);
    let Some(task) = found.rows.first() else { return Ok(screen) };
    let exit = task.exit_code().filter(|code| code.0 != 0).map(|code| format!(", exit {code}")).unwrap_or_default();
    let state = format!("{}{exit}", task.state().word());
    let around = "==> ".len() + short(id).len() + state.len() + "    ".len() + " <==".len();
    let room = look.width.unwrap_or(usize::MAX).saturating_sub(around).max(1);
    let what = if task.given_id().is_empty() { task.what() } else { task.given_id() };
    screen.line([
        (STRONG, "==> "),
        (STRONG, short(id)),
        (PLAIN, "  "),
        (of_state(task.state()), state.as_str()),
        (PLAIN, "  "),
        (PLAIN, middle(what, room).as_str()),
        (STRONG, " <=="),
    ]);
    Ok(screen)
}

fn show(session: &Session, client: &Client, args: &LogsArgs, id: &str) -> Result<Shown, Failure> {
    let streams = args.streams();
    let Some(((last, last_target), others)) = streams.split_last() else { return Ok(Shown::default()) };
    let is_json = session.out.is_json();
    let copy = |client: &Client, stream, target| Copy { client, args, id, stream, target, is_json }.run();
    if !args.follow || others.is_empty() {
        let mut shown = Shown::default();
        for (stream, target) in &streams {
            let Shown { is_cut, is_closed } = copy(client, *stream, *target)?;
            shown = Shown { is_cut: shown.is_cut || is_cut, is_closed: shown.is_closed || is_closed };
        }
        return Ok(shown);
    }
    // Each output has a connection of its own, so that neither waits for the other.
    std::thread::scope(|scope| {
        let threads: Vec<_> = others
            .iter()
            .map(|(stream, target)| {
                let (config, endpoint) = (&session.config, client.endpoint());
                scope.spawn(move || copy(&Client::secured(config, endpoint)?, *stream, *target))
            })
            .collect();
        let mut shown = copy(client, *last, *last_target)?;
        for thread in threads {
            let other = thread.join().map_err(|_| Failure::failed("a thread has panicked"))??;
            shown = Shown { is_cut: shown.is_cut || other.is_cut, is_closed: shown.is_closed || other.is_closed };
        }
        Ok(shown)
    })
}

/// One output of one task.
struct Copy<'a> {
    client: &'a Client,
    args: &'a LogsArgs,
    id: &'a str,
    stream: Stream,
    target: Target,
    is_json: bool,
}

impl Copy<'_> {
    fn run(&self) -> Result<Shown, Failure> {
        let mut sink = if self.is_json {
            Sink::of_lines(JsonLines::new(self.id, self.stream))
        } else {
            Sink::new(self.target, self.args.tag.then(|| self.id.to_owned())).raw_if(self.args.raw)
        };
        let mut output = self.output(self.args.round.map(u64::from));
        if let Some(lines) = self.args.tail {
            output = output.from_last_lines(lines)?;
        }
        let mut shown = Shown::default();
        let mut is_first = true;
        loop {
            match copy(output, &mut sink)? {
                Copied::All { round, is_cut } => {
                    shown.is_cut |= is_cut;
                    if !self.args.follow || self.args.round.is_some() {
                        break;
                    }
                    output = self.output(Some(round + 1));
                }
                Copied::NoSuchRound if is_first => {
                    let round = self.args.round.unwrap_or_default();
                    return Err(Failure::new(exit::REFUSED, format!("{} has no round {round}", self.id)));
                }
                Copied::NoSuchRound => break,
                Copied::Closed => {
                    shown.is_closed = true;
                    break;
                }
            }
            is_first = false;
        }
        sink.end(false);
        Ok(shown)
    }

    fn output(&self, round: Option<u64>) -> Output<'_> {
        let output = self.client.logs(self.id, self.stream);
        let output = if self.args.follow { output.follow().patient(RESTART_MAX) } else { output };
        if let Some(round) = round { output.in_round(round) } else { output }
    }
}
