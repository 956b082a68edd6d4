//! `llts top`: the service in a full-screen terminal view, live, with keys that act on it.
//!
//! ```text
//! keys, size ---------> input thread --\
//! SERVICE/STATUS -----> follow thread --> events --> App --> draw, at most 20 times a second
//! rows, panes, acts <-> serve thread --/             |
//! an output ----------> log thread ---/              v orders
//! ```
//!
//! [`app`] makes all decisions, without a terminal or a connection; this file is the loop around it. The terminal is always restored:
//! after a panic, after SIGTERM, and while the program is suspended.

mod app;
mod draw;
mod feed;
mod filter;
mod help;
mod listing;
mod overview;
mod pane;
mod rows;
mod target;
mod tests;

use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::Args;
use crossterm::style::Print;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use nix::sys::signal::Signal;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use rustix::event::{PollFd, PollFlags, poll};

use super::caller::caller;
use super::show;
use app::{App, Event, Order};
use feed::Job;
use llts_client::Client;
use proc::clock;
use proc::signals::Signals;
use term::exit::Failure;
use term::session::Session;

/// The shortest time between two drawings: at most 20 in a second.
const FRAME: Duration = Duration::from_millis(50);

/// How long a controller may take to answer, including the wait for a change. It is short, so that an absent controller is noticed soon.
const ANSWER_MAX: Duration = Duration::from_secs(5);
const CHANGE_MAX: Duration = Duration::from_secs(3);

#[derive(Args, Debug)]
#[command(after_help = "\
Problems come first; then jobs, runs, why tasks wait, and failures that are alike. Digits show the other views: tasks, jobs, agents, \
graphs, gates, incidents, the history by hour, prompts, lists and TDF. `/` narrows a view down, Enter shows a task, `l` follows its \
output, `e` explains it; `k`, `r`, `h` and `p` kill, retry, hold and pause what is at the cursor or marked, after a question. `?` lists \
all keys.")]
pub(super) struct TopArgs {}

/// Makes a connection to the controller; each thread has one of its own.
type Connect = dyn Fn() -> Result<Client, Failure> + Send + Sync;

pub(super) fn run(session: &mut Session, _: &TopArgs) -> Result<u8, Failure> {
    if session.out.is_json() {
        return Err(Failure::usage("`llts top` is a screen for people; `llts status --output json` is for programs"));
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::usage("`llts top` needs a terminal; `llts status` prints the state of the service once"));
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        let sentence = "`llts top` needs a terminal that moves its cursor (TERM); `llts status` prints the state once";
        return Err(Failure::usage(sentence));
    }
    let cannot = |error: io::Error| Failure::failed(format!("cannot use the terminal: {error}"));
    // This comes before any thread, so that all of them leave these signals to the main thread.
    let signals = Signals::install(&[Signal::SIGTERM, Signal::SIGHUP]).map_err(cannot)?;
    let connect = connection(session)?;
    // A missing service gives an error message, not an empty screen.
    let client = connect()?;
    client.ask(&api::wire::requests::status::status())?;
    drop(client);
    let (sender, events) = mpsc::channel();
    let is_coloured = session.out.look().is_coloured;
    let size = crossterm::terminal::size().map_err(cannot)?;
    let mut app = App::new(clock::now().mono, size, is_coloured, &caller("llts top"));
    let mut screen = Screen::open().map_err(cannot)?;
    feed::follow(Arc::clone(&connect), sender.clone());
    let program = session.own_program()?;
    let serve = || feed::serve(Arc::clone(&connect), program.clone(), sender.clone());
    let mut jobs = serve();
    let log = Arc::new(AtomicU64::new(0));
    input(sender.clone(), signals);
    loop {
        screen.draw(&app).map_err(cannot)?;
        let frame = clock::now().mono + FRAME;
        for event in next_events(&events, &app, frame) {
            let now = clock::now().mono;
            let orders = match event {
                Some(event) => app.handle(event, now),
                None => app.handle_timeout(now),
            };
            for order in orders {
                match order {
                    Order::Quit => return Ok(0),
                    // The old thread ends with its last job.
                    Order::Reconnect => jobs = serve(),
                    Order::Suspend => screen.suspend().map_err(cannot)?,
                    Order::Load(wanted) => send(&jobs, Job::Load(wanted)),
                    Order::Show(about) => send(&jobs, Job::Show(about, app.look())),
                    Order::Act(acts) => send(&jobs, Job::Act(acts)),
                    Order::Follow(number, id, stream) => {
                        log.store(number, Ordering::Relaxed);
                        feed::log(Arc::clone(&connect), (number, id, stream), Arc::clone(&log), sender.clone());
                    }
                }
            }
        }
        if !app.is_followed(log.load(Ordering::Relaxed)) {
            log.store(0, Ordering::Relaxed);
        }
        app.size = crossterm::terminal::size().map_err(cannot)?;
    }
}

fn send(jobs: &Sender<Job>, job: Job) {
    // The thread does not end before this one.
    let _ = jobs.send(job);
}

/// How each thread connects: as the options of the command say.
fn connection(session: &Session) -> Result<Arc<Connect>, Failure> {
    let endpoint = session.global.named().endpoint(&session.config)?;
    let mut config = session.config.clone();
    config.client.reply_timeout = config.client.reply_timeout.max(ANSWER_MAX);
    Ok(Arc::new(move || Ok(Client::secured(&config, &endpoint)?)))
}

/// The events until the next drawing, at least one. `None` stands for time that passed without an event.
fn next_events(events: &mpsc::Receiver<Event>, app: &App, frame: base::Mono) -> Vec<Option<Event>> {
    let now = clock::now().mono;
    let first = match events.recv_timeout(app.poll_timeout(now).since(now)) {
        Ok(event) => Some(event),
        Err(RecvTimeoutError::Timeout) => None,
        // The input has ended: the terminal is gone.
        Err(RecvTimeoutError::Disconnected) => Some(Event::Quit),
    };
    let mut found = vec![first];
    // Events within the time of a frame are drawn together.
    while let Ok(event) = events.recv_timeout(frame.since(clock::now().mono)) {
        found.push(Some(event));
    }
    found
}

/// Reads keys, resizes and signals.
fn input(events: Sender<Event>, mut signals: Signals) {
    let quits = events.clone();
    thread::spawn(move || {
        let mut polled = [PollFd::new(&signals, PollFlags::IN)];
        while poll(&mut polled, None).is_err() {}
        let _ = signals.read();
        let _ = quits.send(Event::Quit);
    });
    thread::spawn(move || {
        // Without a thread for keys, a user could not leave the screen.
        let _last = LastEvent(events.clone());
        loop {
            let event = match crossterm::event::read() {
                Ok(crossterm::event::Event::Key(key)) => Event::Key(key),
                Ok(crossterm::event::Event::Resize(..)) => Event::Resized,
                Ok(_) => continue,
                Err(_) => Event::Quit,
            };
            let is_end = matches!(event, Event::Quit);
            if events.send(event).is_err() || is_end {
                return;
            }
        }
    });
}

/// Ends the screen together with its thread, even after a panic.
struct LastEvent(Sender<Event>);

impl Drop for LastEvent {
    fn drop(&mut self) {
        let _ = self.0.send(Event::Quit);
    }
}

/// Makes the terminal send the wheel as arrow keys while the screen is shown. Other uses of the mouse, such as selecting text, stay with
/// the terminal.
const WHEEL_AS_ARROWS: &str = "\x1b[?1007h";

/// The terminal, which is restored on drop.
struct Screen {
    terminal: Terminal<CrosstermBackend<Quiet>>,
}

/// Whether the screen has the terminal, so that a panic in any thread can restore it.
static TAKEN: Mutex<bool> = Mutex::new(false);

impl Screen {
    fn open() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            before(panic);
        }));
        let mut screen = Self { terminal: Terminal::new(CrosstermBackend::new(Quiet::default()))? };
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&mut self) -> io::Result<()> {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = true;
        enable_raw_mode()?;
        crossterm::execute!(io::stdout(), EnterAlternateScreen, Print(WHEEL_AS_ARROWS))?;
        // A new one assumes that nothing is drawn. Clearing the old one would ask for the position of the cursor, and the input thread
        // would get the answer.
        crossterm::execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(Quiet::default()))?;
        Ok(())
    }

    fn draw(&mut self, app: &App) -> io::Result<()> {
        let now = clock::now().mono;
        self.terminal.draw(|frame| draw::draw(frame, app, now)).map(drop)
    }

    /// Gives the terminal back until the program is continued.
    fn suspend(&mut self) -> io::Result<()> {
        leave();
        // Stops the whole job, like a Ctrl-Z that the terminal handles.
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(0), Signal::SIGTSTP)?;
        self.enter()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Restores the terminal, once.
fn leave() {
    if std::mem::replace(&mut *TAKEN.lock().unwrap_or_else(PoisonError::into_inner), false) {
        let _ = crossterm::execute!(io::stdout(), LeaveAlternateScreen, crossterm::cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// Writes the changes of a drawing to stdout. An unchanged drawing would write only the sequence to hide the cursor, which is hidden
/// already.
#[derive(Debug, Default)]
struct Quiet {
    bytes: Vec<u8>,
    is_hidden: bool,
}

/// The sequence that hides the cursor.
const HIDE: &[u8] = b"\x1b[?25l";

impl Write for Quiet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.is_empty() || self.is_hidden && bytes == HIDE {
            return Ok(());
        }
        self.is_hidden |= bytes.ends_with(HIDE);
        let mut stdout = io::stdout().lock();
        stdout.write_all(&bytes)?;
        stdout.flush()
    }
}
