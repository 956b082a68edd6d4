//! Results that workers of other roots send: `.tasks/.incoming/<run>/{out,err,json}` until the run is reported, then beside its prompt,
//! as if the worker had this root. The report is confirmed when the results are on the disk there. A thread of its own waits for the
//! disk.
//!
//! A worker sends the JSON file last, with the sizes of the other two. If a part cannot be stored, the worker keeps the results and
//! sends all of them again, as it does after an interrupted connection.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::files::results::{Placement, SIZES, name_with_room, try_read_json};
use crate::master::engine::{Destination, FileName, NotStored};
use crate::wire::{RequestId, ResultFile, ResultPart};
use proc::background::Background;
use proc::files::removal;

const INCOMING: &str = ".incoming";

/// Ending of a folder whose files are being put in place.
const PLACING: &str = "placing";

/// Bytes of a JSON file, whatever the limit of the outputs is.
const JSON_BYTES_MAX: u64 = 8 << 20;

#[derive(Debug)]
pub(super) struct Incoming {
    root: PathBuf,
    folder: PathBuf,
    bytes_max: u64,
    /// Sync results to the disk before their run is confirmed.
    durable: bool,
    /// The runs of which a part could not be stored, and why.
    broken: BTreeMap<RequestId, String>,
    /// The runs whose files are being put in place, and those whose files are there while their prompt is in `working/`.
    placing: BTreeSet<RequestId>,
    placed: BTreeSet<RequestId>,
    placer: Background<Job, (RequestId, Result<(), NotStored>)>,
}

/// The results of a run, and their place.
#[derive(Debug)]
struct Job {
    root: PathBuf,
    run: RequestId,
    placement: Placement,
}

impl Incoming {
    /// Removes the parts that an earlier master has received: their workers send them again.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn open(root: &Path, tasks: &Path, bytes_max: u64, durable: bool) -> io::Result<Self> {
        let folder = tasks.join(INCOMING);
        remove(&folder);
        let placer = Background::start("prompt-answers", |job: Job, report| report((job.run.clone(), job.put())))?;
        let (broken, placing, placed) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Ok(Self { root: root.to_owned(), folder, bytes_max, durable, broken, placing, placed, placer })
    }

    /// Stores a part.
    ///
    /// # Errors
    /// The reason why it cannot be stored, once for each run.
    pub(super) fn store(&mut self, part: &ResultPart) -> Result<(), String> {
        if part.file == ResultFile::Out && part.offset == 0 {
            self.broken.remove(&part.run);
        }
        let bytes_max = if part.file == ResultFile::Json { JSON_BYTES_MAX } else { self.bytes_max };
        if part.offset.saturating_add(part.bytes.len() as u64) > bytes_max {
            log::warn!("a worker sends more than {bytes_max} bytes of an output (RESULT_BYTES_MAX)");
            return Ok(());
        }
        if self.broken.contains_key(&part.run) {
            return Ok(());
        }
        let folder = self.folder_of(&part.run);
        write(&folder, part).map_err(|error| {
            let reason = format!("cannot store an answer in {}: {error}", folder.display());
            self.broken.insert(part.run.clone(), reason.clone());
            // The rest of it only takes room.
            remove(&folder);
            reason
        })
    }

    /// Begins to put the results of a run beside its prompt, if the worker has sent any. `None` if [`Self::next_placed`] returns the
    /// outcome later.
    pub(super) fn place(
        &mut self,
        run: &RequestId,
        file: &FileName,
        destination: &Destination,
    ) -> Option<Result<(), NotStored>> {
        let folder = self.folder_of(run);
        if let Some(reason) = self.broken.remove(run) {
            return Some(Err(NotStored::NoRoom(reason)));
        }
        if folder.symlink_metadata().is_err() {
            // The worker has the same root, or sends nothing.
            return (!self.placing.contains(run)).then_some(Ok(()));
        }
        if self.placing.contains(run) || self.placed.contains(run) {
            // The worker has sent them a second time, over another connection.
            remove(&folder);
            return self.placed.contains(run).then_some(Ok(()));
        }
        let from = folder.with_added_extension(PLACING);
        if let Err(error) = fs::rename(&folder, &from) {
            return Some(Err(NotStored::NoRoom(format!("cannot rename {}: {error}", folder.display()))));
        }
        self.placing.insert(run.clone());
        let outcome = if *destination == Destination::Done { "done" } else { "failed" };
        let name = name_with_room(file, run.as_str());
        let placement = Placement { name, outcome, is_overdue: false, from, durable: self.durable };
        self.placer.give(Job { root: self.root.clone(), run: run.clone(), placement });
        None
    }

    /// The next run whose results are in place, or cannot be put there.
    pub(super) fn next_placed(&mut self) -> Option<(RequestId, Result<(), NotStored>)> {
        let (run, outcome) = self.placer.poll()?;
        self.placing.remove(&run);
        if outcome.is_ok() {
            self.placed.insert(run.clone());
        }
        Some((run, outcome))
    }

    /// The prompt of a run leaves `working/`.
    pub(super) fn forget(&mut self, run: &RequestId) {
        self.placed.remove(run);
        self.broken.remove(run);
        remove(&self.folder_of(run));
    }

    fn folder_of(&self, run: &RequestId) -> PathBuf {
        self.folder.join(run.as_str())
    }
}

/// Readable when [`Incoming::next_placed`] has something.
impl AsFd for Incoming {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.placer.as_fd()
    }
}

impl Job {
    fn put(&self) -> Result<(), NotStored> {
        let from = &self.placement.from;
        let failed = |error| NotStored::NoRoom(format!("cannot store an answer: {error}"));
        let placed = match whole_json(from).map_err(failed) {
            Ok(Some(json)) => self.placement.put(&self.root, &format!("{json:#}\n")).map_err(failed),
            Ok(None) => Err(NotStored::Torn("its answer has not arrived as a whole".to_owned())),
            Err(error) => Err(error),
        };
        remove(from);
        placed
    }
}

fn remove(folder: &Path) {
    if folder.symlink_metadata().is_ok()
        && let Err(error) = removal::remove(folder)
    {
        log::warn!("cannot remove {}: {error}", folder.display());
    }
}

fn write(folder: &Path, part: &ResultPart) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let path = folder.join(part.file.ending());
    let mut file = File::options().write(true).create(true).truncate(part.offset == 0).open(path)?;
    file.seek(SeekFrom::Start(part.offset))?;
    file.write_all(&part.bytes)
}

/// The JSON file of results, if both outputs have the sizes that it names.
///
/// # Errors
/// When one of the files is there and cannot be read: its worker, which has all of it, sends it again.
fn whole_json(folder: &Path) -> io::Result<Option<Value>> {
    let Some(json) = found(&folder.join(ResultFile::Json.ending()), try_read_json)?.flatten() else { return Ok(None) };
    for output in [ResultFile::Out, ResultFile::Err].map(ResultFile::ending) {
        let size = found(&folder.join(output), |path| path.metadata().map(|metadata| metadata.len()))?;
        if size.is_none() || json[SIZES][output].as_u64() != size {
            return Ok(None);
        }
    }
    Ok(Some(json))
}

/// What `look` finds; `None` if there is no such file.
fn found<T>(path: &Path, look: impl Fn(&Path) -> io::Result<T>) -> io::Result<Option<T>> {
    match look(path) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc::readable;

    fn part(file: ResultFile, offset: u64, text: &str) -> ResultPart {
        ResultPart { run: "r1".into(), file, offset, bytes: text.as_bytes().to_vec() }
    }

    fn json(out: u64, outcome: &str) -> String {
        serde_json::json!({ "outcome": outcome, "worker": "w", SIZES: { "out": out, "err": 0 } }).to_string()
    }

    /// Sends these parts and moves the prompt; the name and the text of each result in `folder`, which is empty unless they are whole.
    fn results(parts: &[ResultPart], destination: &Destination, folder: &str) -> Vec<(String, String)> {
        let root = tempfile::tempdir().unwrap();
        let tasks = root.path().join(".tasks");
        let mut incoming = Incoming::open(root.path(), &tasks, 20, true).unwrap();
        parts.iter().for_each(|part| incoming.store(part).unwrap());
        if incoming.place(&"r1".into(), &"a.txt".into(), destination).is_none() {
            assert!(readable::is_readable(&incoming, None));
            let (run, outcome) = incoming.next_placed().unwrap();
            let is_there = tasks.join(folder).exists();
            assert!(
                run == "r1".into() && matches!(&outcome, Ok(()) if is_there)
                    || matches!(&outcome, Err(NotStored::Torn(_)) if !is_there),
                "{outcome:?}"
            );
        }
        assert_eq!(fs::read_dir(tasks.join(INCOMING)).map_or(0, Iterator::count), 0);
        let entries = fs::read_dir(tasks.join(folder)).into_iter().flatten().flatten();
        let mut found: Vec<_> = entries
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
            .filter(|(name, _)| !name.ends_with("json"))
            .collect();
        found.sort();
        found
    }

    #[test]
    fn results_that_have_arrived_as_a_whole_are_put_beside_their_prompt() {
        let [out, err] = [ResultFile::Out, ResultFile::Err];
        // The worker begins again after a lost connection.
        let whole = |outcome: &str| {
            let json = part(ResultFile::Json, 0, &json(9, outcome));
            vec![part(out, 0, "old and long"), part(out, 0, "answer "), part(out, 7, "42"), part(err, 0, ""), json]
        };
        let expected = [("a.txt.err".to_owned(), String::new()), ("a.txt.out".to_owned(), "answer 42".to_owned())];
        assert_eq!(results(&whole("done"), &Destination::Done, "done"), expected);
        assert_eq!(results(&whole("failed"), &Destination::Failed { reason: None }, "failed"), expected);
        let mut torn = whole("done");
        torn.remove(2);
        assert_eq!(results(&torn, &Destination::Done, "done"), []);
        torn.pop();
        assert_eq!(results(&torn, &Destination::Done, "done"), []);
    }

    #[test]
    fn results_of_a_prompt_whose_name_leaves_no_room_for_an_ending_are_stored_under_another_one() {
        let root = tempfile::tempdir().unwrap();
        let tasks = root.path().join(".tasks");
        for name in ["あ".repeat(84), "x".repeat(255), "x".repeat(241)] {
            let mut incoming = Incoming::open(root.path(), &tasks, 20, true).unwrap();
            let mut json: Value = serde_json::from_str(&json(2, "done")).unwrap();
            json["file"] = name.as_str().into();
            let texts = [(ResultFile::Out, "42"), (ResultFile::Err, ""), (ResultFile::Json, &json.to_string())];
            texts.iter().for_each(|(file, text)| incoming.store(&part(*file, 0, text)).unwrap());
            let file = FileName::from(name.as_str());
            assert_eq!(incoming.place(&"r1".into(), &file, &Destination::Done), None);
            assert!(readable::is_readable(&incoming, None));
            assert_eq!(incoming.next_placed(), Some(("r1".into(), Ok(()))));
            fs::write(tasks.join("done").join(&name), "prompt").unwrap();
            let found = crate::files::outcomes::outcomes(root.path()).unwrap();
            let found = found.iter().find(|outcome| outcome.name == file).unwrap();
            assert_eq!(found.output("out").unwrap().as_deref(), Some("42"), "{name}");
            assert_eq!(fs::read_to_string(tasks.join("done/task_r1.out")).unwrap(), "42");
        }
    }

    #[test]
    fn results_that_cannot_be_read_at_this_moment_are_sent_again() {
        for broken in ["out", "json"] {
            let root = tempfile::tempdir().unwrap();
            let tasks = root.path().join(".tasks");
            let mut incoming = Incoming::open(root.path(), &tasks, 20, true).unwrap();
            let texts = [(ResultFile::Out, "42"), (ResultFile::Err, ""), (ResultFile::Json, &json(2, "done"))];
            texts.iter().for_each(|(file, text)| incoming.store(&part(*file, 0, text)).unwrap());
            // In place of a broken disk: a link to itself.
            let path = tasks.join(INCOMING).join("r1").join(broken);
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(broken, &path).unwrap();
            fs::create_dir_all(tasks.join(INCOMING)).unwrap();
            incoming.place(&"r1".into(), &"a.txt".into(), &Destination::Done);
            assert!(readable::is_readable(&incoming, None));
            let (_, outcome) = incoming.next_placed().unwrap();
            assert!(matches!(&outcome, Err(NotStored::NoRoom(why)) if why.contains(broken)), "{broken}: {outcome:?}");
        }
    }

    #[test]
    fn more_than_is_allowed_is_not_stored() {
        let parts = [
            part(ResultFile::Out, 15, "123456"),
            part(ResultFile::Err, 0, ""),
            part(ResultFile::Json, 0, &json(21, "done")),
        ];
        assert_eq!(results(&parts, &Destination::Done, "done"), []);
    }

    #[test]
    fn results_that_find_no_room_are_refused_until_they_are_sent_again() {
        let root = tempfile::tempdir().unwrap();
        let tasks = root.path().join(".tasks");
        let mut incoming = Incoming::open(root.path(), &tasks, 20, true).unwrap();
        // In place of a full disk.
        fs::create_dir(&tasks).unwrap();
        fs::write(tasks.join(INCOMING), "").unwrap();
        let [first, rest] = [part(ResultFile::Out, 0, "answer "), part(ResultFile::Out, 7, "42")];
        assert!(incoming.store(&first).unwrap_err().contains("cannot store an answer"));
        fs::remove_file(tasks.join(INCOMING)).unwrap();
        assert_eq!(incoming.store(&rest), Ok(()));
        let (run, file) = ("r1".into(), "a.txt".into());
        assert!(incoming.place(&run, &file, &Destination::Done).unwrap().is_err());
        for part in [first, rest, part(ResultFile::Err, 0, ""), part(ResultFile::Json, 0, &json(9, "done"))] {
            incoming.store(&part).unwrap();
        }
        assert_eq!(incoming.place(&run, &file, &Destination::Done), None);
        // The same report again, over another connection.
        assert_eq!(incoming.place(&run, &file, &Destination::Done), None);
        assert!(readable::is_readable(&incoming, None));
        assert_eq!(incoming.next_placed(), Some((run.clone(), Ok(()))));
        assert_eq!(incoming.place(&run, &file, &Destination::Done), Some(Ok(())));
        assert_eq!(fs::read_to_string(tasks.join("done/a.txt.out")).unwrap(), "answer 42");
    }
}
