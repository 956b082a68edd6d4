//! The outputs of the runs of this agent for readers: outputs of the present run from its folder, outputs of earlier runs from the
//! kept files.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{Mode, OFlags, openat};

use super::ending::{Places, REPORT_LOG};
use super::growth::Growth;
use super::preparation::{STDERR, STDOUT};
use crate::outputs::Outputs;
use crate::slot::Slot;
use crate::workspace::TaskDir;
use api::wire::requests::apply::Dispatch;
use api::wire::requests::serve::{Part, Served, Wanted};
use base::{ExitCode, OutputId, PastRound, RunResult, Stream, exact_tail};
use proc::files::file_copy::copy_into;

/// See the [module](self).
pub(super) struct Serving {
    outputs: Outputs,
    growth: Growth,
    /// The outputs of the present run that its result does not contain.
    worth_keeping: Vec<Stream>,
}

impl Serving {
    pub(super) fn of(outputs: Outputs) -> Self {
        Self { outputs, growth: Growth::default(), worth_keeping: Vec::new() }
    }

    /// run.sh has ended, with these ends of its outputs.
    pub(super) fn handle_end(&mut self, result: &RunResult) {
        self.worth_keeping = Stream::ALL.into_iter().filter(|stream| is_worth_keeping(*stream, result)).collect();
    }

    /// Keeps the outputs of a run whose folder is about to be removed.
    pub(super) fn keep(&mut self, dispatch: &Dispatch, dir: &mut TaskDir) {
        for stream in std::mem::take(&mut self.worth_keeping) {
            let output = OutputId { task: dispatch.task, round: dispatch.round, stream };
            let (folder, name) = place(stream, dispatch);
            self.outputs.keep(output, |to| dir.move_output((&folder, name), to));
        }
    }

    /// Keeps the outputs of a task of a tool that stays, with this report. Its files stay the tool's.
    pub(super) fn keep_copies(&mut self, places: Places<'_>) {
        for stream in std::mem::take(&mut self.worth_keeping) {
            let output = OutputId { task: places.dispatch.task, round: places.dispatch.round, stream };
            self.outputs.keep(output, |(folder, name)| {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let mut copy = File::from(openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?);
                match (stream, places.report) {
                    (Stream::Report, Some(report)) => copy.write_all(report.as_bytes()),
                    _ => match live(stream, places.dispatch, places.outputs) {
                        Some(file) => copy_into(&file, &copy),
                        None => Ok(()),
                    },
                }
            });
        }
    }

    /// The folder of the present run is about to be removed or reused.
    pub(super) fn end_run(&mut self) {
        self.growth.end();
        self.outputs.end_run();
    }

    /// Frees the middle of long outputs on the disk; true if one is long. The report of a tool is not touched: the tool owns it.
    pub(super) fn trim(&mut self, dispatch: &Dispatch, dir: &TaskDir) -> bool {
        let mut is_long = false;
        for stream in [Stream::Stdout, Stream::Stderr] {
            is_long |= live(stream, dispatch, dir).is_some_and(|file| self.outputs.trim(stream, &file));
        }
        is_long
    }

    /// Begins to read a part, which is sent at once or by [`Self::poll`].
    pub(super) fn read(&mut self, wanted: Wanted, run: Option<(&Dispatch, &TaskDir)>, slot: &mut Slot) {
        let is_wanted = |(dispatch, _): &(&Dispatch, &TaskDir)| {
            (dispatch.task, dispatch.round) == (wanted.output.task, wanted.output.round)
        };
        let Some((dispatch, dir)) = run.filter(is_wanted) else { return self.outputs.read(wanted, None) };
        let file = match live(wanted.output.stream, dispatch, dir) {
            Some(file) if size_of(&file) > wanted.offset && wanted.limit > 0 => {
                return self.outputs.read(wanted, Some(file));
            }
            file => file,
        };
        if wanted.watch
            && let Err(error) = self.watch(wanted.output, file.as_ref(), dispatch, dir)
        {
            log::warn!("an output of task {} cannot be watched: {error}; its readers ask again", dispatch.task);
        }
        // Measured again, because the output may have grown before the watch.
        let size = live(wanted.output.stream, dispatch, dir).as_ref().map_or(0, size_of);
        let served = Served::Part(wanted.ask, Part::Live { data: Vec::new(), size, gap: None, written: None });
        slot.handle_served(served);
        if wanted.watch && size > wanted.offset {
            slot.handle_served(Served::Grown(wanted.output));
        }
    }

    fn watch(&mut self, output: OutputId, file: Option<&File>, dispatch: &Dispatch, dir: &TaskDir) -> io::Result<()> {
        match file {
            Some(file) => self.growth.watch_file(output, file.as_fd()),
            None => {
                let (folder, _) = place(output.stream, dispatch);
                self.growth.watch_folder(output, dir.folder_of(&folder)?.as_fd())
            }
        }
    }

    /// Reports the parts that have been read, and the outputs that have grown.
    pub(super) fn poll(&mut self, slot: &mut Slot) {
        while let Some(served) = self.outputs.poll() {
            slot.handle_served(served);
        }
        for output in self.growth.poll() {
            slot.handle_served(Served::Grown(output));
        }
    }

    /// Readable when [`Self::poll`] may have something.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.outputs.fds().into_iter().chain(self.growth.fd())
    }

    pub(super) fn close(self) {
        self.outputs.close();
    }
}

/// Whether the result lacks a part of the output. The controller shortens the end of an output in a result if another round
/// follows, as it may after a failure.
fn is_worth_keeping(stream: Stream, result: &RunResult) -> bool {
    let bytes = result.total(stream).unwrap_or_default();
    let is_shortened = result.exit_code != ExitCode(0) && bytes > PastRound::TAIL_BYTES_MAX as u64;
    bytes > 0 && (is_shortened || exact_tail(result.tail(stream), bytes) != Some(0))
}

fn live(stream: Stream, dispatch: &Dispatch, dir: &TaskDir) -> Option<File> {
    let (folder, name) = place(stream, dispatch);
    dir.live_output(&folder, name).ok()
}

/// The subfolders and the name of an output in the folder of a run.
fn place(stream: Stream, dispatch: &Dispatch) -> (Vec<&str>, &'static str) {
    match stream {
        Stream::Stdout => (Vec::new(), STDOUT),
        Stream::Stderr => (Vec::new(), STDERR),
        Stream::Report => (vec![dispatch.tool.folder_name()], REPORT_LOG),
    }
}

fn size_of(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}
