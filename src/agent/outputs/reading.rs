//! The thread that reads parts of outputs: of a running run, or of a kept file.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zeekstd::Decoder;

use super::folder::{Folder, Form};
use api::wire::requests::serve::{Gap, Part, Wanted};
use base::{OutputId, Wall, counted};
use proc::files::file_part::read_part;

/// The largest part, even if a controller wants more.
const PART_BYTES_MAX: u64 = 16 << 20;

/// A part to read.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) wanted: Wanted,
    pub(super) source: Source,
}

#[derive(Debug)]
pub(super) enum Source {
    /// The file of the run with this number, as long as that run is the present one.
    Live { file: File, run: u64, trimmed: Arc<AtomicU64> },
    /// The folder of kept outputs.
    Kept,
}

/// The result of a job.
#[derive(Debug)]
pub(super) enum Outcome {
    Part(Part),
    /// The run has ended meanwhile, and its file may have another content.
    Moved,
    /// There is no such output.
    Unknown,
}

/// See the [module](self).
pub(super) struct Reading {
    folder: Arc<Folder>,
    run: Arc<AtomicU64>,
    /// The first bytes of an output that are kept.
    output_bytes_max: u64,
    /// The compressed output that was read last: the next part usually follows.
    last: Option<Open>,
}

struct Open {
    output: OutputId,
    form: Form,
    decoder: Decoder<'static, File>,
}

/// When a file was written to last.
fn written_at(metadata: &Metadata) -> Wall {
    let micros = metadata.mtime().saturating_mul(1_000_000).saturating_add(metadata.mtime_nsec() / 1_000);
    Wall::from_micros(u64::try_from(micros).unwrap_or_default())
}

impl Reading {
    pub(super) const fn new(folder: Arc<Folder>, run: Arc<AtomicU64>, output_bytes_max: u64) -> Self {
        Self { folder, run, output_bytes_max, last: None }
    }

    pub(super) fn read(&mut self, job: &Job) -> Outcome {
        let Wanted { output, offset, .. } = job.wanted;
        let limit = usize::try_from(job.wanted.limit.min(PART_BYTES_MAX)).unwrap_or_default();
        let read = match &job.source {
            Source::Live { file, run, trimmed } => self.live(file, (*run, trimmed), offset, limit),
            Source::Kept => self.kept(output, offset, limit),
        };
        read.unwrap_or_else(|error| {
            self.last = None;
            Outcome::Part(Part::Missing(format!("the agent cannot read it: {error}")))
        })
    }

    /// The file is given to the next run only after the number has changed: bytes that were read before that are of this
    /// run. Its middle is dropped only after `trimmed` has changed: bytes that were read before that are those of the run.
    fn live(&self, file: &File, (run, trimmed): (u64, &AtomicU64), offset: u64, limit: usize) -> io::Result<Outcome> {
        let (from, mut at) = (self.output_bytes_max, offset);
        loop {
            let metadata = file.metadata()?;
            let size = metadata.len();
            let mut data = read_at(file, at, limit, size)?;
            let to = trimmed.load(Ordering::SeqCst);
            if self.run.load(Ordering::SeqCst) != run {
                return Ok(Outcome::Moved);
            }
            if (from..to).contains(&at) {
                at = to;
                continue;
            }
            if at < from && from < to {
                data.truncate(usize::try_from(from - at).unwrap_or(usize::MAX));
            }
            let why = || {
                format!(
                    "the task has printed more than the first {from} bytes that are kept (OUTPUT_KEEP_BYTES), faster than they were read"
                )
            };
            let gap = (at > offset).then(|| Gap { end: at, why: why() });
            return Ok(Outcome::Part(Part::Live { data, size, gap, written: Some(written_at(&metadata)) }));
        }
    }

    fn kept(&mut self, output: OutputId, offset: u64, limit: usize) -> io::Result<Outcome> {
        if self.last.as_ref().is_none_or(|last| last.output != output) {
            self.last = None;
            let Some((file, form)) = self.folder.find(output) else { return Ok(Outcome::Unknown) };
            if let Form::Raw | Form::RawOfKilled = form {
                let length = file.metadata()?.len();
                // The bytes behind these may have been dropped.
                let kept = length.min(self.output_bytes_max);
                let form = if form == Form::Raw && kept < length { Form::Cut } else { form };
                let data = read_at(&file, offset, limit, kept)?;
                return Ok(Outcome::Part(Part::Kept { data, kept, cut: why_cut(form, kept) }));
            }
            let decoder = Decoder::new(file).map_err(io::Error::other)?;
            self.last = Some(Open { output, form, decoder });
        }
        let Some(Open { form, decoder, .. }) = &mut self.last else { return Ok(Outcome::Unknown) };
        let kept = decoder.seek_table().size_decomp();
        let mut data = Vec::new();
        if offset < kept && limit > 0 {
            decoder.set_offset(offset).map_err(io::Error::other)?;
            data.reserve_exact(limit.min(usize::try_from(kept - offset).unwrap_or(limit)));
            decoder.take(limit as u64).read_to_end(&mut data)?;
        }
        Ok(Outcome::Part(Part::Kept { data: whole_text(data, offset, kept), kept, cut: why_cut(*form, kept) }))
    }
}

/// Why an output may have more than the bytes that were kept.
fn why_cut(form: Form, kept: u64) -> Option<String> {
    match form {
        Form::Raw | Form::Whole => None,
        Form::Cut => {
            Some(format!("the agent keeps only the first {kept} bytes of an output (OUTPUT_KEEP_BYTES) and its end"))
        }
        Form::RawOfKilled | Form::OfKilled => {
            Some(format!("its agent was killed during the run, and kept {} of the output", counted(kept, "byte")))
        }
    }
}

/// Reads until the limit or the end of a file of this size.
fn read_at(file: &File, offset: u64, limit: usize, size: u64) -> io::Result<Vec<u8>> {
    let data = read_part(file, offset, size.saturating_sub(offset).min(limit as u64))?;
    Ok(whole_text(data, offset, size))
}

/// Without a character that the limit has cut, so that a text is sent as text. The next part begins with that character.
fn whole_text(mut data: Vec<u8>, offset: u64, size: u64) -> Vec<u8> {
    let is_limited = offset + (data.len() as u64) < size;
    if is_limited
        && let Err(error) = str::from_utf8(&data)
        && error.error_len().is_none()
        && error.valid_up_to() > 0
    {
        data.truncate(error.valid_up_to());
    }
    data
}
