//! The history of finished rounds and incidents: SQLite databases in `STATE_DIR/history`, one for each day of UTC ([`tables`]).
//!
//! | thread | has | gets |
//! |---|---|---|
//! | the loop of the controller | [`History`] | questions; incidents |
//! | the store | [`Feed`] | after each commit the rounds that ended in it |
//! | `history` | the [`Keeper`](crate::history::rules::Keeper) and the files | all of these; it alone writes |
//! | `history-read` | the files, for reading | questions, after everything before them is written |
//!
//! No round is missing and none is there twice, wherever a controller is killed: the store has the task of a round until it is
//! forgotten, and the [`Feed`] makes the commit that forgets it wait until the round is written. A controller that starts compares
//! the rounds in its store with those in the files, by task and round, and adds the missing ones ([`recovery`]). A batch of rows is
//! one transaction; SQLite drops the part of a batch that a killed controller has written.
//!
//! Apart from that commit, no work waits for the history. If the disk is full, or rounds come faster than they are written, some
//! are counted and left out; one line in the log and an incident tell of it, and the next start adds them.
//!
//! A file has a log of its own (WAL) while it is open, so that neither a reader of the service nor `sqlite3` keeps the writer
//! waiting, nor the other way round. The writer has one file open, that of the day that it has written last. A question opens the
//! files of its time, one after the other, in a thread that answers one question at a time. Within this process only SQLite may
//! open these files: closing another descriptor of a file releases the locks that SQLite has on it.
//!
//! Files go as a whole, by age and by size ([`folder`]). When the writer or a reader meets a damaged file, the writer sets it aside and
//! copies the readable rows into another one. Files of versions before SQLite are converted, one in each turn of the writer ([`old`]).

mod feed;
mod folder;
mod jobs;
mod old;
mod reader;
mod recovery;
pub mod rules;
mod tables;
mod writer;

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

pub use feed::Feed;

use folder::Folder;
use jobs::{Asked, Job, Progress};
use reader::Reader;
use writer::Writer;

use super::door::Address;
use api::wire::page::PageBytes;
use api::wire::reply::Reply;
use api::wire::requests::history::{Question, is_off};
use api::wire::{Code, Refusal};
use base::{Incident, IncidentKind, Now};
use engine::Stored;
use proc::background::Bell;
use proc::incidents;

/// Maximum number of waiting questions. A reader of large pages takes some tenths of a second for each.
const QUESTIONS_MAX: usize = 100;

/// The limits of the history.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Days that are kept: `HISTORY_KEEP_DAYS`; 0 for no history.
    pub keep_days: u32,
    /// Bytes of all files: `HISTORY_KEEP_BYTES_MAX`.
    pub keep_bytes_max: u64,
    /// Whether written rows survive a power failure.
    pub syncs: bool,
    /// Maximum number of rows in an answer.
    pub page_max: usize,
    /// Bytes after which an answer ends early.
    pub page_bytes: PageBytes,
}

/// The loop's end of the history. Readable when an answer is there.
#[derive(Debug)]
pub struct History {
    /// `None` if there is no history.
    jobs: Option<Sender<Job>>,
    answers: Receiver<(Address, Vec<u8>)>,
    /// The incidents of this process, for the loop.
    noted: Receiver<Incident>,
    bell: Arc<Bell>,
    waiting: usize,
    thread: Option<JoinHandle<()>>,
}

impl History {
    /// Adds the rounds of stored tasks that the files lack, and starts the threads. Without days to keep, this end has no threads.
    ///
    /// # Errors
    /// When descriptors or threads have run out.
    pub fn start(
        state_dir: &Path,
        limits: HistoryLimits,
        now: Now,
        stored: &Stored,
    ) -> io::Result<(Self, Option<Feed>)> {
        let bell = Arc::new(Bell::new()?);
        let (outgoing, answers) = mpsc::channel();
        let (to_loop, noted) = mpsc::channel();
        let rings = Arc::clone(&bell);
        let tell = move |incident: Incident| {
            // A loop that has ended shows no more.
            let _ = to_loop.send(incident);
            rings.ring();
        };
        if limits.keep_days == 0 {
            incidents::listen(Some(Box::new(tell)));
            return Ok((Self { jobs: None, answers, noted, bell, waiting: 0, thread: None }, None));
        }
        let folder = Folder::of(state_dir);
        let progress = Arc::new(Progress::default());
        let (jobs, incoming) = mpsc::channel();
        let asks = start_reader(folder.clone(), limits, jobs.clone(), outgoing, Arc::clone(&bell))?;
        let mut writer = Writer::new(folder, limits, Arc::clone(&progress), asks);
        let is_excused = stored.raised.is_some() || incidents::is_left(state_dir, IncidentKind::Deposed);
        tell(writer.begin(now, &stored.tasks, is_excused));
        let thread = std::thread::Builder::new().name("history".to_owned()).spawn(move || writer.run(&incoming))?;
        let kept = jobs.clone();
        incidents::listen(Some(Box::new(move |incident| {
            let _ = kept.send(Job::Incident(incident.clone()));
            tell(incident);
        })));
        let feed = Feed::new(jobs.clone(), progress);
        Ok((Self { jobs: Some(jobs), answers, noted, bell, waiting: 0, thread: Some(thread) }, Some(feed)))
    }

    /// Begins to answer a question.
    ///
    /// # Errors
    /// When there is no history, or too many questions wait.
    pub fn ask(&mut self, to: Address, kind: &'static str, question: Box<Question>) -> Result<(), (Address, Refusal)> {
        let Some(jobs) = &self.jobs else { return Err((to, is_off())) };
        if self.waiting >= QUESTIONS_MAX {
            let message = format!("{QUESTIONS_MAX} questions about the history wait already; ask again later");
            return Err((to, Refusal::new(Code::LimitReached, message)));
        }
        self.waiting += 1;
        // The thread ends before us only by a panic, which the log shows.
        let _ = jobs.send(Job::Ask(Asked { to, kind, question }));
        Ok(())
    }

    /// Whether every question has been answered.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.waiting == 0
    }

    /// The next incident of this process, if there is one.
    pub fn poll_incident(&mut self) -> Option<Incident> {
        self.noted.try_recv().ok()
    }

    /// The next answer, if there is one. The descriptor wakes a loop once for all of them, and for incidents.
    pub fn poll_answer(&mut self) -> Option<(Address, Vec<u8>)> {
        self.bell.take();
        let answer = self.answers.try_recv().ok()?;
        self.waiting -= 1;
        Some(answer)
    }

    /// Writes everything, and notes that the controller stops as it was told to. The [`Feed`] must be gone by then.
    pub fn stop(mut self, now: Now) {
        incidents::listen(None);
        let Some(jobs) = self.jobs.take() else { return };
        let text = "the controller has stopped".to_owned();
        let _ = jobs.send(Job::Incident(Incident { at: now.wall, kind: IncidentKind::Stopped, text }));
        let _ = jobs.send(Job::Stop);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread of the history has panicked");
        }
    }
}

impl AsFd for History {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Starts the thread that reads. It ends when its last question is answered and no other can come.
fn start_reader(
    folder: Folder,
    limits: HistoryLimits,
    jobs: Sender<Job>,
    answers: Sender<(Address, Vec<u8>)>,
    bell: Arc<Bell>,
) -> io::Result<Sender<Asked>> {
    let (asks, incoming) = mpsc::channel::<Asked>();
    std::thread::Builder::new().name("history-read".to_owned()).spawn(move || {
        for Asked { to, kind, question } in incoming {
            let reader = Reader::new(&folder, limits.page_max, &jobs);
            let mut reply = match reader.answer(&question) {
                Ok(answer) => Reply::History(Box::new(answer)),
                Err(refusal) => refusal.into(),
            };
            // A loop that has stopped does not listen.
            let body = to.encode(kind, &mut reply, limits.page_bytes, |_| None);
            let _ = answers.send((to, body));
            bell.ring();
        }
    })?;
    Ok(asks)
}
