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

/// Who a run was, and how it went.
pub(super) struct Results<'a> {
    /// The name of the prompt's file.
    pub(super) name: &'a str,
    /// `done` or `failed`.
    pub(super) folder: &'a str,
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
        let name = free_name(&folder, self.name);
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

/// The name under which the prompt file will arrive: a master does not replace one that is there.
///
/// Results without their prompt file are of a run that could not be reported any more; the new ones take their place.
fn free_name(folder: &Path, name: &str) -> String {
    let is_free = |name: &FileName| folder.join(name.as_os_str()).symlink_metadata().is_err();
    let name = FileName::from(name);
    let numbered = (2..u32::MAX).map(|number| name.numbered(number));
    let free = std::iter::once(name.clone()).chain(numbered).find(is_free).unwrap_or(name);
    free.to_string()
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
        let keep = |text: &str| {
            fs::write(path("out"), text).unwrap();
            fs::write(path("err"), "").unwrap();
            let (exit, start, end) = (ExitCode(-9), Wall::from_micros(1_000_000), Wall::from_micros(3_500_000));
            let (out, err) = (&path("out"), &path("err"));
            let command = ["sh".to_owned()];
            let results =
                Results { name: "a", folder: "done", out, err, worker: "w", command: &command, exit, start, end };
            results.keep(root.path()).unwrap();
        };
        let text = |name: &str| fs::read_to_string(path(".tasks/done").join(name)).unwrap();
        keep("lost");
        keep("first");
        assert_eq!(text("a.out"), "first");
        fs::write(path(".tasks/done/a"), "prompt").unwrap();
        keep("second");
        assert_eq!((text("a.out"), text("a.2.out")), ("first".to_owned(), "second".to_owned()));
        let json: serde_json::Value = serde_json::from_str(&text("a.json")).unwrap();
        assert_eq!((&json["signal"], &json["exit_code"], &json["seconds"]), (&json!(9), &json!(null), &json!(2.5)));
    }
}
