//! Results that wait on the disk while Redis is away, so that they outlive the worker.
//!
//! A worker runs one task at a time and claims none while it cannot report, so that there is one result, besides what an
//! earlier process of the same name has left.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::pool::{Finished, RunLine};
use crate::shell::{Ending, Report};
use crate::wire::Budget;
use base::tdf::{Fence, TaskId, WorkerName};

/// The ending of a name in the folder of results.
const ENDING: &str = ".result";

/// A result that is being written, which counts for nothing.
const DRAFT: &str = ".draft";

impl Finished {
    pub(super) fn report(&self) -> Report<'_> {
        let (output, error) = (&self.output[..], &self.error[..]);
        let ending = match self.timed_out {
            None => Ending::Executed { output, error },
            Some(timeouts) => Ending::TimedOut { output, error, timeouts },
        };
        Report { fence: &self.fence, ending, log: &self.log }
    }
}

/// Why a result cannot be reported.
#[derive(Debug)]
pub(super) enum Unread {
    /// It is not on the disk: a user has removed it.
    Removed,
    /// The system refuses to read it, or it is damaged.
    Unreadable(String),
}

/// The line in front of both texts.
#[derive(Serialize, Deserialize)]
struct Head {
    /// Which namespace of which Redis.
    namespace: String,
    task: u64,
    round: u32,
    worker: String,
    started: String,
    /// Counter and bound.
    timed_out: Option<(i64, i64)>,
    output_bytes: usize,
    error_bytes: usize,
    checksum: u32,
    /// Seconds since the start, and a text.
    log: Vec<(f64, String)>,
}

/// The results of one worker, by its name.
#[derive(Debug)]
pub(super) struct Results {
    folder: PathBuf,
    namespace: String,
}

impl Results {
    /// `namespace` names the namespace and its Redis.
    pub(super) fn open(own: &Path, worker: &WorkerName, namespace: String) -> io::Result<Self> {
        // A name such as `..` is a folder of its own only with something in front.
        let folder = own.join("results").join(format!("w-{worker}"));
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, namespace })
    }

    /// The runs whose results an earlier process has left, oldest first. Results of another namespace wait for its worker. Files that a
    /// killed process has not written completely are removed.
    pub(super) fn left(&self) -> io::Result<Vec<Fence>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.to_string_lossy();
            if name.ends_with(DRAFT) {
                fs::remove_file(&path)?;
            }
            if !name.ends_with(ENDING) {
                continue;
            }
            match read(&path) {
                Ok((namespace, finished)) if namespace == self.namespace => found.push(finished.fence),
                Ok((namespace, _)) => log::warn!("{} waits for a worker of {namespace}", path.display()),
                Err(error) => log::error!("cannot read the result {}: {error}; remove it", path.display()),
            }
        }
        found.sort_by_key(|fence| (fence.task, fence.round));
        Ok(found)
    }

    /// Writes a result; it is there as a whole, and on the disk, when this returns.
    pub(super) fn keep(&self, finished: &Finished) -> io::Result<()> {
        let Fence { task, round, worker, started } = &finished.fence;
        let head = Head {
            namespace: self.namespace.clone(),
            task: task.0,
            round: *round,
            worker: worker.to_string(),
            started: started.clone(),
            timed_out: finished.timed_out.map(|budget| (budget.used, budget.max)),
            output_bytes: finished.output.len(),
            error_bytes: finished.error.len(),
            checksum: checksum(&finished.output, &finished.error),
            log: finished.log.iter().map(|line| (line.since_start.as_secs_f64(), line.text.clone())).collect(),
        };
        let path = self.path(&finished.fence);
        let draft = path.with_extension(&DRAFT[1..]);
        let mut file = File::create(&draft)?;
        serde_json::to_writer(&mut file, &head)?;
        for bytes in [b"\n", &finished.output[..], &finished.error[..]] {
            file.write_all(bytes)?;
        }
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        File::open(&self.folder)?.sync_all()
    }

    /// The result of this run from the disk.
    pub(super) fn load(&self, fence: &Fence) -> Result<Finished, Unread> {
        let path = self.path(fence);
        read(&path).map(|(_, finished)| finished).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unread::Removed,
            _ => Unread::Unreadable(format!("cannot read {}: {error}", path.display())),
        })
    }

    /// Removes the result of this run, if it is on the disk.
    pub(super) fn forget(&self, fence: &Fence) {
        let path = self.path(fence);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                log::warn!("cannot remove {}: {error}", path.display());
            }
            _ => {}
        }
    }

    fn path(&self, fence: &Fence) -> PathBuf {
        let started: String =
            fence.started.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '.').collect();
        self.folder.join(format!("{}-{}-{started}{ENDING}", fence.task, fence.round))
    }
}

fn checksum(output: &[u8], error: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(output);
    hasher.update(error);
    hasher.finalize()
}

fn read(path: &Path) -> io::Result<(String, Finished)> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "it is damaged");
    let bytes = fs::read(path)?;
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
    let head: Head = serde_json::from_slice(&bytes[..end])?;
    let (output, error) = bytes[end + 1..].split_at_checked(head.output_bytes).ok_or_else(damaged)?;
    let worker = WorkerName::new(&head.worker).map_err(|_| damaged())?;
    if error.len() != head.error_bytes || checksum(output, error) != head.checksum {
        return Err(damaged());
    }
    let log = head.log.into_iter().filter_map(|(seconds, text)| {
        let since_start = std::time::Duration::try_from_secs_f64(seconds).ok()?;
        Some(RunLine { since_start, text })
    });
    let finished = Finished {
        fence: Fence { task: TaskId(head.task), round: head.round, worker, started: head.started },
        timed_out: head.timed_out.map(|(used, max)| Budget { used, max }),
        output: output.to_vec(),
        error: error.to_vec(),
        log: log.collect(),
    };
    Ok((head.namespace, finished))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn finished(worker: &WorkerName) -> Finished {
        Finished {
            fence: Fence { task: TaskId(7), round: 1, worker: worker.clone(), started: "1795312915.493763".to_owned() },
            timed_out: Some(Budget { used: 0, max: 2 }),
            output: vec![0, 255, b'\n', 7],
            error: b"bad\n".to_vec(),
            log: vec![RunLine { since_start: Duration::from_millis(250), text: "executing".to_owned() }],
        }
    }

    #[test]
    fn a_result_comes_back_as_it_was_to_a_worker_of_its_name_and_namespace() {
        let own = tempfile::tempdir().unwrap();
        for name in ["w", "..", "a b"] {
            let worker = WorkerName::new(name).unwrap();
            let results = Results::open(own.path(), &worker, "ns".to_owned()).unwrap();
            assert_eq!(results.left().unwrap(), []);
            let kept = finished(&worker);
            results.keep(&kept).unwrap();
            let next = Results::open(own.path(), &worker, "ns".to_owned()).unwrap();
            assert_eq!(next.left().unwrap(), std::slice::from_ref(&kept.fence));
            assert_eq!(next.load(&kept.fence).unwrap(), kept);
            let other = Results::open(own.path(), &worker, "other".to_owned()).unwrap();
            assert_eq!(other.left().unwrap(), []);
            next.forget(&kept.fence);
            next.forget(&kept.fence);
            assert_eq!(next.left().unwrap(), []);
        }
    }

    #[test]
    fn what_was_not_written_completely_is_removed() {
        let own = tempfile::tempdir().unwrap();
        let worker = WorkerName::new("w").unwrap();
        let results = Results::open(own.path(), &worker, "ns".to_owned()).unwrap();
        let draft = results.path(&finished(&worker).fence).with_extension(&DRAFT[1..]);
        fs::write(&draft, "half").unwrap();
        assert_eq!(results.left().unwrap(), []);
        assert!(!draft.exists());
    }

    #[test]
    fn a_damaged_result_is_passed_over() {
        let own = tempfile::tempdir().unwrap();
        let worker = WorkerName::new("w").unwrap();
        let results = Results::open(own.path(), &worker, "ns".to_owned()).unwrap();
        let kept = finished(&worker);
        results.keep(&kept).unwrap();
        let path = results.path(&kept.fence);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(results.left().unwrap(), [], "{length}");
        }
    }
}
