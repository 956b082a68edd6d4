//! Results that workers of other roots send: `.tasks/.incoming/<run>/{out,err,json}` until their prompt leaves `working/`, then beside
//! it, as if its worker had this root.
//!
//! A worker sends the JSON file last, with the sizes of the other two. Results that are not whole are not used: a worker that
//! was interrupted sends all of them again.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::engine::master::{Destination, FileName};
use crate::protocol::prompt::{RequestId, ResultFile, ResultPart};
use crate::shell::prompt_results::{Placement, SIZES, read_json};
use crate::shell::removal;

const INCOMING: &str = ".incoming";

/// Bytes of a JSON file, whatever the limit of the outputs is.
const JSON_BYTES_MAX: u64 = 8 << 20;

#[derive(Debug)]
pub(super) struct Incoming {
    root: PathBuf,
    folder: PathBuf,
    bytes_max: u64,
}

impl Incoming {
    /// Removes the parts that an earlier master has received: their workers send them again.
    pub(super) fn open(root: &Path, tasks: &Path, bytes_max: u64) -> Self {
        let incoming = Self { root: root.to_owned(), folder: tasks.join(INCOMING), bytes_max };
        incoming.remove(&incoming.folder);
        incoming
    }

    /// Stores a part.
    pub(super) fn store(&self, part: &ResultPart) {
        let bytes_max = if part.file == ResultFile::Json { JSON_BYTES_MAX } else { self.bytes_max };
        if part.offset.saturating_add(part.bytes.len() as u64) > bytes_max {
            return log::warn!("a worker sends more than {bytes_max} bytes of an output (RESULT_BYTES_MAX)");
        }
        let folder = self.folder_of(&part.run);
        if let Err(error) = write(&folder, part) {
            log::error!("cannot store a result in {}: {error}", folder.display());
        }
    }

    /// Puts the results of a run beside its prompt, which is about to leave `working/`.
    pub(super) fn place(&self, run: &RequestId, file: &FileName, destination: &Destination) {
        let folder = self.folder_of(run);
        let Ok(_) = folder.metadata() else { return };
        let json = read_json(&folder.join(ResultFile::Json.ending()));
        let outcome = match destination {
            Destination::Done => Some("done"),
            Destination::Failed { .. } => Some("failed"),
            // A failure after which it waits again. Without a report, the next run has results of its own.
            Destination::Pending => json.as_ref().is_some_and(|json| json["outcome"] == "failed").then_some("failed"),
        };
        match (json.filter(|json| is_whole(&folder, json)), outcome) {
            (Some(json), Some(outcome)) => {
                let text = format!("{json:#}\n");
                let placement =
                    Placement { name: file, outcome, may_be_late: false, from: &folder, json: &text, durable: false };
                if let Err(error) = placement.put(&self.root) {
                    let worker = &json["worker"];
                    log::error!("cannot store the results of {file}: {error}; they are at worker {worker}");
                }
            }
            (None, Some(_)) => log::warn!("the results of {file} have not arrived as a whole; they are at its worker"),
            (_, None) => {}
        }
        self.remove(&folder);
    }

    fn folder_of(&self, run: &RequestId) -> PathBuf {
        self.folder.join(run.as_str())
    }

    fn remove(&self, folder: &Path) {
        if folder.symlink_metadata().is_ok()
            && let Err(error) = removal::remove(folder)
        {
            log::warn!("cannot remove {}: {error}", folder.display());
        }
    }
}

fn write(folder: &Path, part: &ResultPart) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let path = folder.join(part.file.ending());
    let mut file = File::options().write(true).create(true).truncate(part.offset == 0).open(path)?;
    file.seek(SeekFrom::Start(part.offset))?;
    file.write_all(&part.bytes)
}

/// Whether both outputs have the sizes that the JSON file names.
fn is_whole(folder: &Path, json: &Value) -> bool {
    let has_size = |file: ResultFile| {
        let size = folder.join(file.ending()).metadata().map(|metadata| metadata.len());
        size.is_ok_and(|size| json[SIZES][file.ending()].as_u64() == Some(size))
    };
    has_size(ResultFile::Out) && has_size(ResultFile::Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(file: ResultFile, offset: u64, text: &str) -> ResultPart {
        ResultPart { run: "r1".into(), file, offset, bytes: text.as_bytes().to_vec() }
    }

    fn json(out: u64, outcome: &str) -> String {
        serde_json::json!({ "outcome": outcome, "worker": "w", SIZES: { "out": out, "err": 0 } }).to_string()
    }

    /// Sends these parts and moves the prompt; the name and the text of each result in `folder`.
    fn results(parts: &[ResultPart], destination: &Destination, folder: &str) -> Vec<(String, String)> {
        let root = tempfile::tempdir().unwrap();
        let tasks = root.path().join(".tasks");
        let incoming = Incoming::open(root.path(), &tasks, 20);
        parts.iter().for_each(|part| incoming.store(part));
        incoming.place(&"r1".into(), &"a.txt".into(), destination);
        assert!(!tasks.join(INCOMING).join("r1").exists());
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
        assert_eq!(results(&whole("failed"), &Destination::Pending, "failed"), expected);
        assert_eq!(results(&whole("done"), &Destination::Pending, "done"), []);
        let mut torn = whole("done");
        torn.remove(2);
        assert_eq!(results(&torn, &Destination::Done, "done"), []);
        torn.pop();
        assert_eq!(results(&torn, &Destination::Done, "done"), []);
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
}
