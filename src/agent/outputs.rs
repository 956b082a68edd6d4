//! The outputs of the runs of one agent: the kept files of ended runs, and the files of the present one.
//!
//! Layout of `.outputs/<AGENT_ID>/` in AGENT_WORK_DIR:
//!
//! ```text
//! <TASK_ID>.<round>.<stream>.raw       as the run has left it: moved here, which costs a rename
//! <TASK_ID>.<round>.<stream>.part      being compressed from it
//! <TASK_ID>.<round>.<stream>.zst       compressed, whole
//! <TASK_ID>.<round>.<stream>.cut.zst   compressed, the first OUTPUT_KEEP_BYTES of it
//! <TASK_ID>.<round>.<stream>.killed    as a run has left it whose agent was killed; then the same with .zst
//! ```
//!
//! Each name but `.part` is made by one rename of a complete file, so a kill at any moment leaves no half that passes for a
//! whole: the next start compresses what is `.raw` or `.killed`, and removes what is `.part`. Compressed files have the seekable format of
//! zstd, whose frames are independent, so that a part in the middle costs one frame.
//!
//! One thread compresses and removes, another one reads. The loop of the agent only renames.

mod folder;
mod keeping;
mod reading;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::FallocateFlags;

use api::wire::requests::serve::{Part, Served, Wanted};
use base::{AgentId, OutputId, Round, Stream, TaskId};
use proc::background::Background;

use folder::Folder;
use keeping::Keeping;
use reading::{Job, Outcome, Reading, Source};

/// Reasons that are remembered for outputs that could not be kept. They are for readers that come soon; the log has all.
const REASONS_MAX: usize = 1000;

/// Bytes by which a following reader may be behind the end of an output.
const FOLLOWED_BYTES: u64 = 64 << 20;

/// Minimum bytes that are freed by one call.
const TRIM_BYTES_MIN: u64 = 16 << 20;

/// The limits of an agent.
#[derive(Clone, Copy, Debug)]
pub struct KeepLimits {
    /// The first bytes of an output that are kept.
    pub output_bytes_max: u64,
    /// Bytes of all kept outputs, compressed.
    pub budget_bytes: u64,
    /// The age at which they are removed.
    pub age_max: Duration,
    /// Free bytes of the disk below which none is kept.
    pub disk_reserve: u64,
}

/// Whether an agent of this name comes again after the end of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The name is given, and the next agent of the name has these outputs.
    Lasting,
    /// The name is for one life only.
    OneLife,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Outputs {
    limits: KeepLimits,
    folder: Arc<Folder>,
    keeper: Background<OutputId, (OutputId, io::Error)>,
    reader: Background<Job, (Wanted, Outcome)>,
    /// Changes when the files of a run may be given to the next one.
    run: Arc<AtomicU64>,
    /// How far the middle of the outputs of the present run was dropped: the offset of the first byte behind the dropped ones, which
    /// begin behind the kept ones.
    trimmed: BTreeMap<Stream, Arc<AtomicU64>>,
    /// Whether the file system can free the middle of a file, as far as is known.
    can_trim: bool,
    /// Outputs that could not be kept, with the reason.
    lost: VecDeque<(OutputId, String)>,
}

/// Keeps the outputs of a run whose agent was killed, for the next agent of that name: `take` moves each one that exists to the
/// given folder, under the given name. The agent must be dead, and its successor must not run yet.
///
/// # Errors
/// When the folder cannot be made.
pub fn keep_of_killed(
    work: BorrowedFd<'_>,
    agent: &str,
    (task, round): (TaskId, Round),
    mut take: impl FnMut(Stream, (BorrowedFd<'_>, &str)) -> io::Result<()>,
) -> io::Result<()> {
    let folder = Folder::of_killed(work, agent)?;
    for stream in Stream::ALL {
        let output = OutputId { task, round, stream };
        take(stream, (folder.as_fd(), &folder::raw_of_killed(output)))?;
    }
    Ok(())
}

impl Outputs {
    /// Starts the threads. Nothing is made before there is an output to keep.
    ///
    /// # Errors
    /// When threads or descriptors have run out.
    pub fn open(work: &Path, agent: &AgentId, lifetime: Lifetime, limits: KeepLimits) -> io::Result<Self> {
        let folder = Arc::new(Folder::of(work, agent, lifetime));
        let run = Arc::new(AtomicU64::new(0));
        let mut keeping = Keeping::new(Arc::clone(&folder), limits);
        let keeper = Background::start("outputs", move |output, done| {
            if let Err(error) = keeping.keep(output) {
                done((output, error));
            }
        })?;
        let mut reading = Reading::new(Arc::clone(&folder), Arc::clone(&run), limits.output_bytes_max);
        let reader = Background::start("read outputs", move |job: Job, done| {
            let outcome = reading.read(&job);
            done((job.wanted, outcome));
        })?;
        let outputs = Self {
            limits,
            folder,
            keeper,
            reader,
            run,
            trimmed: BTreeMap::new(),
            can_trim: true,
            lost: VecDeque::new(),
        };
        for output in outputs.folder.unfinished() {
            outputs.keeper.give(output);
        }
        Ok(outputs)
    }

    /// Keeps an output: `take` moves it to the given folder, under the given name.
    pub fn keep(&mut self, output: OutputId, take: impl FnOnce((BorrowedFd<'_>, &str)) -> io::Result<()>) {
        if self.limits.output_bytes_max == 0 {
            return;
        }
        match self.folder.make().and_then(|folder| take((folder, &folder::raw(output)))) {
            Ok(()) => self.keeper.give(output),
            Err(error) => self.note_lost(output, &error),
        }
    }

    /// The files of the present run may be given to the next one: their readers look elsewhere.
    pub fn end_run(&mut self) {
        self.run.fetch_add(1, Ordering::SeqCst);
        self.trimmed.clear();
    }

    /// Frees the disk of the middle of a long output of the present run: of all but the first bytes, which are kept, and the last
    /// ones, for readers that follow it. The file keeps its length, and the run notices nothing. Returns whether the output is
    /// long enough to be looked at again soon.
    pub fn trim(&mut self, stream: Stream, file: &File) -> bool {
        let from = self.limits.output_bytes_max;
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        if !self.can_trim || size <= from.saturating_add(FOLLOWED_BYTES) / 2 {
            return false;
        }
        let trimmed = self.trimmed_to(stream);
        let before = trimmed.load(Ordering::SeqCst);
        let (start, end) = (before.max(from), size.saturating_sub(FOLLOWED_BYTES));
        if end < start.saturating_add(TRIM_BYTES_MIN) {
            return true;
        }
        // First, so that no reader takes the hole for bytes of the run.
        trimmed.store(end, Ordering::SeqCst);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(error) = rustix::fs::fallocate(file, flags, start, end - start) {
            log::warn!("this file system cannot free the middle of a file, so a run may fill it with output: {error}");
            trimmed.store(before, Ordering::SeqCst);
            self.can_trim = false;
        }
        self.can_trim
    }

    fn trimmed_to(&mut self, stream: Stream) -> Arc<AtomicU64> {
        Arc::clone(self.trimmed.entry(stream).or_default())
    }

    /// Reads a part of the output of a run that has its files open, or of an earlier run. The result comes by
    /// [`Self::poll`].
    pub fn read(&mut self, wanted: Wanted, live: Option<File>) {
        let run = self.run.load(Ordering::SeqCst);
        let trimmed = self.trimmed_to(wanted.output.stream);
        let source = live.map_or(Source::Kept, |file| Source::Live { file, run, trimmed });
        self.reader.give(Job { wanted, source });
    }

    /// The next part that has been read.
    pub fn poll(&mut self) -> Option<Served> {
        while let Some((output, error)) = self.keeper.poll() {
            self.note_lost(output, &error);
        }
        loop {
            let (wanted, outcome) = self.reader.poll()?;
            let part = match outcome {
                Outcome::Part(part) => part,
                Outcome::Moved => {
                    self.read(wanted, None);
                    continue;
                }
                Outcome::Unknown => Part::Missing(self.why_unknown(wanted.output)),
            };
            return Some(Served::Part(wanted.ask, part));
        }
    }

    /// Readable when [`Self::poll`] has something.
    #[must_use]
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.reader.as_fd(), self.keeper.as_fd()]
    }

    /// The agent ends: outputs that no later agent can reach are removed.
    pub fn close(mut self) {
        self.keeper.finish();
        self.folder.leave();
    }

    fn note_lost(&mut self, output: OutputId, error: &io::Error) {
        let OutputId { task, round, stream } = output;
        log::error!("cannot keep the {} of round {round} of task {task}: {error}", stream.word());
        self.lost.push_back((output, format!("the agent could not keep it: {error}")));
        if self.lost.len() > REASONS_MAX {
            self.lost.pop_front();
        }
    }

    fn why_unknown(&self, output: OutputId) -> String {
        if self.limits.output_bytes_max == 0 {
            return "its agent keeps no outputs (OUTPUT_KEEP_BYTES is 0)".to_owned();
        }
        let reason = self.lost.iter().find(|(lost, _)| *lost == output).map(|(_, reason)| reason.clone());
        reason.unwrap_or_else(|| {
            "its agent does not have it, or not any more (OUTPUT_BUDGET_BYTES, TASK_KEEP_HOURS)".to_owned()
        })
    }
}
