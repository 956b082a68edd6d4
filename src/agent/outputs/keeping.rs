//! The thread that compresses outputs, and removes the oldest beyond the budget.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::sync::Arc;

use zeekstd::{EncodeOptions, FrameSizePolicy};

use super::KeepLimits;
use super::folder::{Entry, Folder, Form};
use base::OutputId;
use proc::clock;
use proc::files::disk_room::above_reserve;

/// Bytes of an output in one frame: a reader of a part decompresses at most one frame too much, and smaller ones compress
/// worse.
pub(super) const FRAME_BYTES: u32 = 128 << 10;

/// The fastest ratio of zstd that is worth its time: a thread compresses some hundred MB per second.
const LEVEL: i32 = 1;

const COPY_BYTES: usize = 64 << 10;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Keeping {
    folder: Arc<Folder>,
    limits: KeepLimits,
    /// The kept files, oldest first; `None` before the first output.
    kept: Option<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    files: BTreeSet<Entry>,
    bytes: u64,
}

impl Keeping {
    pub(super) const fn new(folder: Arc<Folder>, limits: KeepLimits) -> Self {
        Self { folder, limits, kept: None }
    }

    /// Compresses an output that was moved to the folder.
    ///
    /// # Errors
    /// When that fails. The output is then removed, so that a full disk does not become fuller.
    pub(super) fn keep(&mut self, output: OutputId) -> io::Result<()> {
        let compressed = self.compress(output);
        if compressed.is_err() {
            self.folder.abandon(output);
        }
        self.tidy(output);
        compressed
    }

    fn compress(&self, output: OutputId) -> io::Result<()> {
        let bytes_max = self.limits.output_bytes_max;
        let (raw, form) = match self.folder.find(output) {
            Some((raw, Form::RawOfKilled)) => (raw, Form::OfKilled),
            Some((raw, Form::Raw)) if raw.metadata()?.len() > bytes_max => (raw, Form::Cut),
            Some((raw, Form::Raw)) => (raw, Form::Whole),
            // An earlier agent was killed between its last two steps.
            Some((_, Form::Whole | Form::Cut | Form::OfKilled)) => return self.folder.remove_raw(output),
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        let draft = self.folder.draft(output)?;
        if above_reserve(&draft, self.limits.disk_reserve)? == 0 {
            let why = "the disk has no more room than its reserve (DISK_RESERVE)";
            return Err(io::Error::new(io::ErrorKind::StorageFull, why));
        }
        copy_compressed(&raw, bytes_max, draft)?;
        self.folder.complete(output, form)
    }

    /// Counts an output, and removes old ones until the age and the total are within their limits.
    fn tidy(&mut self, output: OutputId) {
        let now = i128::from(clock::now().wall.micros()) * 1000;
        let age_max = i128::try_from(self.limits.age_max.as_nanos()).unwrap_or(i128::MAX);
        let before = now.saturating_sub(age_max);
        if self.kept.is_none() {
            self.folder.tidy_others(before);
        }
        let kept = self.kept.get_or_insert_with(|| Kept::of(self.folder.compressed()));
        if let Some(entry) = self.folder.entry(output) {
            kept.insert(entry);
        }
        let budget = self.limits.budget_bytes;
        while let Some((written, name, bytes)) = kept.files.pop_first() {
            if written >= before && kept.bytes <= budget {
                kept.files.insert((written, name, bytes));
                break;
            }
            match self.folder.remove(&name) {
                Ok(()) => kept.bytes -= bytes,
                Err(error) => log::error!("cannot remove the output {name}: {error}"),
            }
        }
    }
}

impl Kept {
    fn of(entries: Vec<Entry>) -> Self {
        let mut kept = Self::default();
        entries.into_iter().for_each(|entry| kept.insert(entry));
        kept
    }

    fn insert(&mut self, entry: Entry) {
        let bytes = entry.2;
        if self.files.insert(entry) {
            self.bytes += bytes;
        }
    }
}

/// Writes the first bytes of a file, compressed, to another one.
fn copy_compressed(from: &File, bytes_max: u64, to: File) -> io::Result<()> {
    let options = EncodeOptions::new()
        .frame_size_policy(FrameSizePolicy::Uncompressed(FRAME_BYTES))
        .checksum_flag(true)
        .compression_level(LEVEL);
    let mut encoder = options.into_encoder(to).map_err(io::Error::other)?;
    // The copy uses the buffer of its source.
    io::copy(&mut BufReader::with_capacity(COPY_BYTES, from.take(bytes_max)), &mut encoder)?;
    encoder.finish().map_err(io::Error::other)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outputs::Lifetime;
    use crate::outputs::folder::raw;
    use base::{AgentId, Round, Stream};
    use std::time::Duration;

    #[test]
    fn outputs_that_wait_for_their_compression_do_not_count() {
        let work = tempfile::tempdir().unwrap();
        let folder = Arc::new(Folder::of(work.path(), &AgentId::new("a").unwrap(), Lifetime::Lasting));
        let task = "TASK_1480000000.120000_AZazA".parse().unwrap();
        let outputs = [0, 1].map(|round| OutputId { task, round: Round(round), stream: Stream::Stdout });
        let bytes = 1 << 20;
        for output in outputs {
            folder.make().unwrap();
            std::fs::write(work.path().join(".outputs/a").join(raw(output)), vec![b'x'; bytes]).unwrap();
        }
        let age_max = Duration::from_hours(1);
        let limits =
            KeepLimits { output_bytes_max: u64::MAX, budget_bytes: bytes as u64 / 2, age_max, disk_reserve: 0 };
        let mut keeping = Keeping::new(Arc::clone(&folder), limits);
        for output in outputs {
            keeping.keep(output).unwrap();
        }
        for output in outputs {
            assert_eq!(folder.find(output).map(|(_, form)| form), Some(Form::Whole));
        }
    }
}
