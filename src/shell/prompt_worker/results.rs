//! The results of a run: `NAME.out`, `NAME.err` and `NAME.json` in `.tasks/done/` or `.tasks/failed/` below the worker's root.
//!
//! They are in place before the master hears of the end: if both use the same root, before the prompt file appears beside them.
//! A worker with another root, or on another machine, has them in the same layout there. The whole output is kept: it is the user's disk, and the run wrote it there. They outlive a kill of every process, not
//! a power cut: a check of the master must not wait for the disk.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::json;

use crate::engine::master::FileName;
use crate::shell::prompt_create::TASKS;
use crate::types::{ExitCode, Wall};

/// Names that are tried, as many as a master tries.
const NAMES_MAX: u32 = 10_000;

/// Who a run was, and how it went.
pub(super) struct Results<'a> {
    /// The name of the prompt's file.
    pub(super) name: &'a str,
    /// `done` or `failed`.
    pub(super) folder: &'a str,
    /// The prompt's file may be there already.
    pub(super) may_be_late: bool,
    /// Its standard output, to be moved.
    pub(super) out: &'a Path,
    /// Its standard error, to be moved.
    pub(super) err: &'a Path,
    pub(super) worker: &'a str,
    pub(super) command: &'a [String],
    /// Of the command; negative for a signal.
    pub(super) exit: ExitCode,
    pub(super) start: Wall,
    pub(super) end: Wall,
}

impl Results<'_> {
    /// Puts them in place. The JSON file comes last: where it is, the others are.
    pub(super) fn keep(&self, root: &Path) -> io::Result<()> {
        let folder = root.join(TASKS).join(self.folder);
        fs::create_dir_all(&folder)?;
        let name = name_beside(&folder, self.name, self.may_be_late);
        let place = |ending: &str| folder.join(format!("{name}.{ending}"));
        fs::rename(self.out, place("out"))?;
        fs::rename(self.err, place("err"))?;
        // Written where the output was, so that it appears whole.
        let draft = self.out.with_file_name("json");
        fs::write(&draft, self.json())?;
        fs::rename(draft, place("json"))
    }

    fn json(&self) -> String {
        let ExitCode(code) = self.exit;
        let (exit_code, signal) = if code < 0 { (None, Some(code.unsigned_abs())) } else { (Some(code), None) };
        let value = json!({
            "file": self.name,
            "outcome": self.folder,
            "exit_code": exit_code,
            "signal": signal,
            "start": self.start.unix_seconds(),
            "end": self.end.unix_seconds(),
            "seconds": self.end.since(self.start).as_secs_f64(),
            "worker": self.worker,
            "command": self.command,
        });
        format!("{value:#}\n")
    }
}

/// The name under which the prompt's file will arrive, or has: a master does not replace one that is there.
///
/// Results without their prompt are of a run that could not be reported any more; the new ones take their place.
fn name_beside(folder: &Path, name: &str, may_be_late: bool) -> String {
    let is_there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    let is_bare = |name: &str| !is_there(&format!("{name}.json"));
    let numbered = |number| FileName::from(name).numbered(number).to_string();
    let mut candidates = std::iter::once(name.to_owned()).chain((2..NAMES_MAX).map(numbered));
    // One look at each: the prompt may be arriving at this moment.
    let found = candidates.find(|name| !is_there(name) || (may_be_late && is_bare(name)));
    found.unwrap_or_else(|| name.to_owned())
}

/// The name of a prompt's file that can stand in a path: what the master says, or one made of the request.
pub(super) fn file_name(said: Option<&str>, request: &str) -> String {
    if let Some(name) = said.filter(|name| is_plain(name)) {
        return name.to_owned();
    }
    let part: String = request.chars().filter(|letter| letter.is_alphanumeric() || "._-".contains(*letter)).collect();
    format!("task_{}", part.chars().take(50).collect::<String>())
}

/// A master is a stranger: a name of its is no path, and leaves room for an ending.
fn is_plain(name: &str) -> bool {
    let odd = |letter: char| letter == '/' || letter.is_control();
    !name.is_empty() && !name.starts_with('.') && name.len() <= 240 && !name.contains(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_stranger_is_no_path() {
        assert_eq!(file_name(Some("task_001_a b.txt"), "r"), "task_001_a b.txt");
        for said in [None, Some(""), Some("../x"), Some("a/b"), Some(".hidden"), Some("a\nb"), Some(&"x".repeat(241))] {
            assert_eq!(file_name(said, "0f/../\0e"), "task_0f..e", "{said:?}");
        }
    }

    #[test]
    fn results_go_with_their_prompt_and_replace_only_those_that_lost_it() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let keep = |text: &str, may_be_late: bool| {
            fs::write(path("out"), text).unwrap();
            fs::write(path("err"), "").unwrap();
            let (exit, start, end) = (ExitCode(-9), Wall::from_micros(1_000_000), Wall::from_micros(3_500_000));
            let (out, err) = (&path("out"), &path("err"));
            let command = ["sh".to_owned()];
            let results = Results {
                name: "a",
                folder: "done",
                may_be_late,
                out,
                err,
                worker: "w",
                command: &command,
                exit,
                start,
                end,
            };
            results.keep(root.path()).unwrap();
        };
        let text = |name: &str| fs::read_to_string(path(".tasks/done").join(name)).unwrap();
        keep("lost", false);
        keep("first", false);
        assert_eq!(text("a.out"), "first");
        fs::write(path(".tasks/done/a"), "prompt").unwrap();
        keep("second", false);
        assert_eq!((text("a.out"), text("a.2.out")), ("first".to_owned(), "second".to_owned()));
        fs::write(path(".tasks/done/a.2"), "prompt").unwrap();
        fs::write(path(".tasks/done/a.3"), "prompt").unwrap();
        keep("late", true);
        assert_eq!((text("a.2.out"), text("a.3.out")), ("second".to_owned(), "late".to_owned()));
        let json: serde_json::Value = serde_json::from_str(&text("a.json")).unwrap();
        assert_eq!((&json["signal"], &json["exit_code"], &json["seconds"]), (&json!(9), &json!(null), &json!(2.5)));
    }
}
