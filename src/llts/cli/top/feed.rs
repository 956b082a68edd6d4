//! The threads that talk to the controller, so that a slow answer delays no key. One follows the state of the service, one carries out
//! the orders of the screen, and one follows the shown log.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::super::graph;
use super::app::Event;
use super::listing::{self, Answer, Data, Wanted};
use super::pane::{About, Line};
use super::target::Act;
use super::{CHANGE_MAX, Connect, show};
use api::wire::client::Selector;
use api::wire::requests::graph::{query, steps};
use api::wire::requests::logs::output;
use api::wire::requests::status::{Followed, changes};
use base::{Stream, printable_lines};
use llts_client::{Client, PARK_MAX};
use proc::own_program::OwnProgram;
use term::style::{Look, Screen};

/// The first pause after a controller did not answer; it grows to the second one.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How many bytes at the end of an output a log shows.
const LOG_BYTES: u64 = 256 * 1024;

/// Maximum number of shown characters in a line of a log.
const LINE_CHARS_MAX: usize = 2_000;

/// Maximum number of shown steps of a graph.
const STEPS_MAX: u64 = 1_000;

/// Follows the state of the service until the screen ends.
pub(super) fn follow(connect: Arc<Connect>, events: Sender<Event>) {
    thread::spawn(move || {
        // Nothing is ever sent here. The channel closes when the screen ends, and its timeout measures the pauses.
        let (_open, pauses) = mpsc::channel::<()>();
        let (mut client, mut followed, mut pause) = (None, Followed::default(), PAUSE);
        loop {
            let asked = client.take().map_or_else(|| connect(), Ok).and_then(|client: Client| {
                let answer = client.ask_over_restarts(&changes(&followed, CHANGE_MAX))?;
                Ok((client, answer))
            });
            let event = match asked {
                Ok((kept, answer)) => {
                    followed.apply(answer);
                    (client, pause) = (Some(kept), PAUSE);
                    Event::Status(Box::new(followed.status()))
                }
                Err(failure) => Event::Lost(failure.sentence),
            };
            let is_lost = matches!(event, Event::Lost(_));
            if events.send(event).is_err() {
                return;
            }
            if is_lost {
                if pauses.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    });
}

/// A job for the thread that sends requests.
#[derive(Debug)]
pub(super) enum Job {
    Load(Wanted),
    Show(About, Look),
    Act(Vec<Act>),
}

/// Carries out the orders of the screen in turn. Of several requests for rows, only the last one is sent.
pub(super) fn serve(connect: Arc<Connect>, program: OwnProgram, events: Sender<Event>) -> Sender<Job> {
    let (orders, jobs) = mpsc::channel();
    thread::spawn(move || {
        let mut client: Option<Client> = None;
        let mut waiting = VecDeque::new();
        while let Some(job) = next(&jobs, &mut waiting) {
            let connected = match client.take() {
                Some(client) => Ok(client),
                None => connect().map_err(|failure| failure.sentence),
            };
            let event = match (&connected, job) {
                (connected, Job::Load(wanted)) => {
                    let answer = match (wanted.view.beside(), connected) {
                        (Some(beside), _) => {
                            Ok(Answer { data: Data::Text(program.printed(beside.command())), total: 0 })
                        }
                        (None, Ok(client)) => listing::load(client, &wanted).map_err(|error| error.to_string()),
                        (None, Err(why)) => Err(why.clone()),
                    };
                    Event::Loaded(wanted, answer)
                }
                (Ok(client), Job::Show(about, look)) => {
                    let lines = lines(client, &about, look);
                    Event::Shown(about, lines)
                }
                (Ok(client), Job::Act(acts)) => Event::Acted(acted(client, &acts)),
                (Err(why), Job::Show(about, _)) => Event::Shown(about, Err(why.clone())),
                (Err(why), Job::Act(_)) => Event::Acted(format!("nothing was changed: {why}")),
            };
            client = connected.ok();
            if events.send(event).is_err() {
                return;
            }
        }
    });
    orders
}

/// The next job. A request for rows is skipped if a later one follows.
fn next(jobs: &Receiver<Job>, waiting: &mut VecDeque<Job>) -> Option<Job> {
    if waiting.is_empty() {
        waiting.push_back(jobs.recv().ok()?);
    }
    waiting.extend(jobs.try_iter());
    let is_load = |job: &Job| matches!(job, Job::Load(_));
    while waiting.front().is_some_and(is_load) && waiting.iter().skip(1).any(is_load) {
        waiting.pop_front();
    }
    waiting.pop_front()
}

fn lines(client: &Client, about: &About, look: Look) -> Result<Vec<Line>, String> {
    let screen = match about {
        About::Task(id) => show::screen(client, id, false, look).map_err(|failure| failure.sentence)?,
        About::Reason(id) => show::screen(client, id, true, look).map_err(|failure| failure.sentence)?,
        About::Graph(id) => {
            let graph = client.ask(&query(id, None)).map_err(|error| error.to_string())?;
            let steps = client.ask(&steps(id, 0, STEPS_MAX)).map_err(|error| error.to_string())?;
            let mut screen = Screen::new(look);
            graph::show::facts(&graph).draw(&mut screen);
            screen.gap();
            graph::show::table(&steps.rows, graph.has_ended()).draw(&mut screen);
            screen
        }
        About::Log(..) | About::Sentence | About::Keys => return Ok(Vec::new()),
    };
    Ok(screen.into_lines())
}

/// Makes the changes. Returns how many succeeded, and the first warning or failure.
fn acted(client: &Client, acts: &[Act]) -> String {
    let (mut done, mut said) = (0, None);
    for Act { name, ask } in acts {
        match client.ask(ask) {
            Ok(warning) => {
                done += 1;
                said = said.or(warning);
            }
            Err(error) => said = said.or_else(|| Some(format!("{name}: {error}"))),
        }
    }
    let count = if acts.len() == 1 { "done".to_owned() } else { format!("{done} of {} done", acts.len()) };
    match said {
        Some(said) if done == 0 && acts.len() == 1 => said,
        Some(said) => format!("{count}; {said}"),
        None => count,
    }
}

/// Follows an output from its last lines on, as long as `present` is its number.
pub(super) fn log(
    connect: Arc<Connect>,
    (number, id, stream): (u64, String, Stream),
    present: Arc<AtomicU64>,
    events: Sender<Event>,
) {
    thread::spawn(move || {
        let is_present = || present.load(Ordering::Relaxed) == number;
        let say = |lines: Vec<String>| events.send(Event::Logged(number, lines)).is_ok();
        let last = |line: String| {
            let _ = say(vec![line]);
        };
        let client = match connect() {
            Ok(client) => client,
            Err(failure) => return last(failure.sentence),
        };
        let selector = Selector::task(&id);
        let known = client.ask(&output(&selector, stream, 0, None).at_most(0));
        let total = known.ok().and_then(|part| part.total()).unwrap_or_default();
        let (mut offset, mut rest) = (total.saturating_sub(LOG_BYTES), Vec::new());
        while is_present() {
            let part = match client.ask_patiently(&output(&selector, stream, offset, Some(PARK_MAX)), PARK_MAX) {
                Ok(part) => part,
                Err(error) => return last(error.to_string()),
            };
            if let Some(why) = part.missing() {
                rest.extend_from_slice(format!("[{why}]\n").as_bytes());
            }
            let data = part.data();
            offset = part.offset() + data.len() as u64;
            rest.extend_from_slice(&data);
            let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            // An unfinished line is shown when the output ends, or when the line gets too long.
            let shown = if part.is_end() || rest.len() - whole > LINE_CHARS_MAX { rest.len() } else { whole };
            let lines: Vec<u8> = rest.drain(..shown).collect();
            let lines: Vec<String> = String::from_utf8_lossy(&lines).lines().map(line).collect();
            let is_end = part.is_end();
            if !lines.is_empty() && !say(lines) {
                return;
            }
            if is_end {
                return last("[end of the output]".to_owned());
            }
        }
    });
}

/// A line that cannot control the terminal.
fn line(text: &str) -> String {
    printable_lines(&text.chars().take(LINE_CHARS_MAX).collect::<String>()).replace('\t', "    ")
}
