//! The results of a run: `NAME.out`, `NAME.err` and `NAME.json` in `.tasks/done/` or `.tasks/failed/` below a root.
//!
//! A worker puts them there before the master gets the report, and syncs them to the disk unless `DURABILITY` is otherwise. With a
//! common root, they are there before the prompt file appears beside them. A worker with another root, or on another machine, has
//! them in the same layout there, and sends them to the master, which puts them beside the prompt in the same way. The worker keeps
//! the whole output: the run wrote it to the user's disk.
//!
//! No file is ever overwritten. NAME means the last run: results of an earlier run that have no prompt beside them, because
//! it waits again or because prompts of this root never come here, are renamed with a number first; so are results that a
//! killed worker has put there and not reported ([`draft`]). A file that is not a result keeps its name, and the new
//! results get the number.

mod draft;
mod root_id;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::files::create::TASKS;
use crate::master::engine::FileName;
use crate::wire::RESULT_PART_BYTES_MAX;
use base::{ExitCode, Usd, Wall};
use proc::files::disk_room::check_room;
use proc::files::file_part::read_part;
use proc::files::rename::{place_new, rename_new};

use draft::Draft;
pub(crate) use root_id::{read_root_id, root_id};

/// Number of names that are tried, the same as a master tries.
const NAMES_MAX: u32 = 10_000;

/// Bytes of a name that leave room for a number and for the ending of a result or a draft.
const NAME_BYTES_MAX: usize = 240;

/// The outputs of a run. The JSON file comes last: if it exists, the outputs do too.
const OUTPUTS: [&str; 2] = ["out", "err"];
pub(crate) const JSON: &str = "json";
const ENDINGS: [&str; 3] = ["out", "err", JSON];

/// Bytes of a JSON file that are read: a command line may be long.
const JSON_BYTES_MAX: u64 = 8 << 20;

/// Members that only a JSON file of a run has.
const OUTCOME: &str = "outcome";
const WORKER: &str = "worker";

/// The member with the label of the run.
pub(crate) const RUN: &str = "run";

/// The folder for the output of runs without results, beside the folders of prompts.
pub(crate) const ATTEMPTS: &str = "attempts";

/// The member with the sizes of outputs that are sent to a master.
pub(crate) const SIZES: &str = "bytes";

/// A run that has ended, and its results.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    /// The master's name for the prompt, or a replacement.
    pub(crate) file: String,
    /// The label of the run.
    pub(crate) run: String,
    pub(crate) worker: String,
    pub(crate) command: Vec<String>,
    /// Exit code of the command; negative for a signal.
    pub(crate) exit: ExitCode,
    pub(crate) start: Wall,
    pub(crate) end: Wall,
    /// The git branch with the changes of the run.
    pub(crate) branch: Option<String>,
    /// Working folder of the run, if it contains something that git could not keep.
    pub(crate) workdir: Option<PathBuf>,
    /// Cost of the run, if its output contains it.
    pub(crate) cost: Option<Usd>,
    pub(crate) placement: Placement,
}

/// Outputs in a folder, and the place where they go.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    /// The name of the prompt's file.
    pub(crate) name: FileName,
    /// `done` or `failed`: the name of the folder.
    pub(crate) outcome: &'static str,
    /// The time of the run was up: the prompt's file may be there already.
    pub(crate) is_overdue: bool,
    /// The folder with `out` and `err`, which are moved.
    pub(crate) from: PathBuf,
    /// Sync the outputs to the disk before they are in place.
    pub(crate) durable: bool,
}

impl Results {
    /// Puts the results in place.
    ///
    /// # Errors
    /// When one of them cannot be put in place; then the others are back at their source.
    pub(crate) fn put_in_place(&self, root: &Path) -> io::Result<()> {
        self.placement.put(root, &self.json())
    }

    /// The text of the JSON file.
    pub(crate) fn json(&self) -> String {
        let ExitCode(code) = self.exit;
        let (exit_code, signal) = if code < 0 { (None, Some(code.unsigned_abs())) } else { (Some(code), None) };
        let mut value = json!({
            "file": self.file,
            OUTCOME: self.placement.outcome,
            "exit_code": exit_code,
            "signal": signal,
            "start": self.start.unix_seconds(),
            "end": self.end.unix_seconds(),
            "seconds": self.end.since(self.start).as_secs_f64(),
            WORKER: self.worker,
            RUN: self.run,
            "command": self.command,
        });
        if let Some(branch) = &self.branch {
            value["branch"] = branch.as_str().into();
        }
        if let Some(folder) = &self.workdir {
            value["workdir"] = folder.to_string_lossy().into();
        }
        if let Some(cost) = self.cost {
            value["cost_usd"] = cost.dollars().into();
        }
        if self.placement.is_overdue {
            value["timed_out"] = true.into();
        }
        format!("{value:#}\n")
    }
}

impl Placement {
    /// Puts the outputs in place, with this text of the JSON file.
    ///
    /// # Errors
    /// When one of them cannot be put in place; then the others are back at their source.
    pub(crate) fn put(&self, root: &Path, json: &str) -> io::Result<()> {
        let folder = root.join(TASKS).join(self.outcome);
        fs::create_dir_all(&folder)?;
        check_room(&self.from)?;
        // If they cannot be put in place, the folder then contains everything.
        fs::write(self.from.join(JSON), json)?;
        if self.durable {
            OUTPUTS.iter().try_for_each(|ending| sync(&self.from.join(ending)))?;
        }
        let first = &self.name;
        settle_elsewhere(root, self.outcome, first);
        let numbered = (2..NAMES_MAX).map(|number| first.numbered(number));
        for name in std::iter::once(first.clone()).chain(numbered) {
            let mut draft = take_draft(&folder, &name)?;
            let placed = match make_free(&folder, &name, self.is_overdue) {
                Ok(true) => self.place(&folder, &name, json, &mut draft),
                Ok(false) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(error) => Err(error),
            };
            match placed {
                Ok(()) if self.durable => return File::open(&folder)?.sync_all(),
                Ok(()) => return Ok(()),
                Err(error) => {
                    draft.discard();
                    // The name is taken, or a prompt has arrived just now.
                    if error.kind() != io::ErrorKind::AlreadyExists {
                        return Err(error);
                    }
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{NAMES_MAX} names like {first} are taken")))
    }

    /// Places all files, or none.
    fn place(&self, folder: &Path, name: &FileName, json: &str, draft: &mut Draft) -> io::Result<()> {
        // The draft identifies the output that follows, if this worker is killed.
        draft.write(json, self.durable)?;
        let mut placed: Vec<(PathBuf, PathBuf)> = Vec::new();
        let mut place = |ending| {
            let (from, to) = (self.from.join(ending), result(folder, name, ending));
            place_new(&from, &to).map(|()| placed.push((from, to)))
        };
        let whole = OUTPUTS.into_iter().try_for_each(&mut place);
        let published = whole.and_then(|()| draft.publish(&result(folder, name, JSON)));
        if published.is_err() {
            for (from, to) in placed {
                undo(&from, &to);
            }
        }
        published
    }
}

/// Takes one file back out of its place.
fn undo(from: &Path, to: &Path) {
    // If it was copied, the source still exists.
    let undone = if from.symlink_metadata().is_ok() { fs::remove_file(to) } else { rename_new(to, from) };
    if let Err(error) = undone {
        log::warn!("{} is left of results that cannot be kept: {error}", to.display());
    }
}

fn result(folder: &Path, name: &FileName, ending: &str) -> PathBuf {
    let mut file = name.as_os_str().to_owned();
    file.push(".");
    file.push(ending);
    folder.join(file)
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Whether results can have this name: that of the prompt's file, which arrives later or is there already. A master does not overwrite
/// an existing file. Results of an earlier run that are in the way get a number.
fn make_free(folder: &Path, name: &FileName, is_overdue: bool) -> io::Result<bool> {
    let is_bare = !is_there(&result(folder, name, JSON));
    // A single check of each file: the prompt may be arriving at this moment.
    if is_there(&folder.join(name.as_os_str())) && !(is_overdue && is_bare) {
        return Ok(false);
    }
    if ENDINGS.iter().all(|ending| !is_there(&result(folder, name, ending))) {
        return Ok(true);
    }
    if !is_ours(&result(folder, name, JSON)) {
        return Ok(false);
    }
    give_number(folder, name, &result(folder, name, JSON))?;
    Ok(ENDINGS.iter().all(|ending| !is_there(&result(folder, name, ending))))
}

/// Takes the draft of a name, after removing the output of a killed worker.
fn take_draft(folder: &Path, name: &FileName) -> io::Result<Draft> {
    let draft = Draft::take(folder, name)?;
    let is_whole = is_there(&result(folder, name, JSON));
    let has_output = OUTPUTS.iter().any(|ending| is_there(&result(folder, name, ending)));
    if is_whole || !has_output || !is_ours(draft.path()) {
        return Ok(draft);
    }
    // With its draft as its JSON file.
    give_number(folder, name, draft.path())?;
    drop(draft);
    Draft::take(folder, name)
}

/// An earlier run may have been killed while it put its results into the other folder, where this one has none.
fn settle_elsewhere(root: &Path, outcome: &str, name: &FileName) {
    for folder in ["done", "failed"].into_iter().filter(|folder| *folder != outcome) {
        let folder = root.join(TASKS).join(folder);
        if is_there(&Draft::path_of(&folder, name)) {
            match take_draft(&folder, name) {
                Ok(draft) => draft.discard(),
                Err(error) => {
                    log::warn!("cannot rename the results of a killed worker in {}: {error}", folder.display());
                }
            }
        }
    }
}

/// Gives the results of an earlier run, whose JSON file is at `json`, the first free number.
fn give_number(folder: &Path, name: &FileName, json: &Path) -> io::Result<()> {
    let is_unused = |other: &FileName| {
        !is_there(&folder.join(other.as_os_str()))
            && ENDINGS.iter().all(|ending| !is_there(&result(folder, other, ending)))
    };
    let Some(other) = (2..NAMES_MAX).map(|number| name.numbered(number)).find(is_unused) else { return Ok(()) };
    log::info!("the results of an earlier run of {name} are called {other} from now on");
    let from = [result(folder, name, "out"), result(folder, name, "err"), json.to_owned()];
    for (from, ending) in from.iter().zip(ENDINGS) {
        match rename_new(from, &result(folder, &other, ending)) {
            // Another worker was faster.
            Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {}
            moved => moved?,
        }
    }
    Ok(())
}

/// True for the JSON file of a run, false for a prompt with such a name.
pub(crate) fn is_ours(path: &Path) -> bool {
    read_json(path).is_some()
}

/// The JSON file of a run; `None` if it is another file, or cannot be read.
pub(crate) fn read_json(path: &Path) -> Option<serde_json::Value> {
    try_read_json(path).ok().flatten()
}

/// The JSON file of a run; `None` if it is another file.
///
/// # Errors
/// The error of the system.
pub(crate) fn try_read_json(path: &Path) -> io::Result<Option<serde_json::Value>> {
    let mut text = Vec::new();
    let file = open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    file.take(JSON_BYTES_MAX).read_to_end(&mut text)?;
    let value: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    Ok(value.filter(|value| value[OUTCOME].is_string() && value[WORKER].is_string()))
}

/// Syncs a file to the disk. An empty one, like most error outputs, needs no sync: its name is synced with the folder.
fn sync(path: &Path) -> io::Result<()> {
    let file = open(path)?;
    if file.metadata()?.len() > 0 { file.sync_all() } else { Ok(()) }
}

/// Opens a path that may be any kind of file, without blocking and without following a link.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    File::options().read(true).custom_flags(flags).open(path)
}

/// Opens an output. The command may have put anything in its place.
///
/// # Errors
/// The error of the system; or when it is no regular file.
pub(crate) fn open_output(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

/// A part of an output from this position, and whether the file ends with it.
///
/// # Errors
/// The error of the system; or when it is no regular file.
pub(crate) fn read_output(path: &Path, offset: u64) -> io::Result<(Vec<u8>, bool)> {
    read_open_output(&open_output(path)?, offset)
}

/// A part of an open output, and whether the file ends with it.
///
/// # Errors
/// The error of the system.
pub(crate) fn read_open_output(file: &File, offset: u64) -> io::Result<(Vec<u8>, bool)> {
    let bytes = read_part(file, offset, RESULT_PART_BYTES_MAX as u64)?;
    let ends = offset.saturating_add(bytes.len() as u64) >= file.metadata()?.len();
    Ok((bytes, ends))
}

/// The name for the results of this prompt: its own, or one made of the request id if its own leaves no room for an ending.
pub(crate) fn name_with_room(prompt: &FileName, request: &str) -> FileName {
    if prompt.as_os_str().len() > NAME_BYTES_MAX {
        return file_name(None, request).as_str().into();
    }
    prompt.clone()
}

/// A name for the results that is safe in a path: the name from the master, or one made of the request id.
pub(crate) fn file_name(given: Option<&str>, request: &str) -> String {
    if let Some(name) = given.filter(|name| is_plain(name)) {
        return name.to_owned();
    }
    let part: String = request.chars().filter(|letter| letter.is_alphanumeric() || "._-".contains(*letter)).collect();
    format!("task_{}", part.chars().take(50).collect::<String>())
}

/// A master is a stranger: its name must not be a path, and must leave room for an ending.
fn is_plain(name: &str) -> bool {
    let odd = |letter: char| letter == '/' || letter.is_control();
    !name.is_empty() && !name.starts_with('.') && name.len() <= NAME_BYTES_MAX && !name.contains(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of this prompt that was killed after 2.5 seconds, with its outputs in `from`.
    pub(super) fn results(name: &str, worker: &str, from: &Path) -> Results {
        let (name, outcome, from) = (FileName::from(name), "done", from.to_owned());
        Results {
            file: name.to_string(),
            run: String::new(),
            worker: worker.to_owned(),
            command: Vec::new(),
            exit: ExitCode(-9),
            start: Wall::from_micros(1_000_000),
            end: Wall::from_micros(3_500_000),
            branch: None,
            workdir: None,
            cost: None,
            placement: Placement { name, outcome, is_overdue: false, from, durable: true },
        }
    }

    #[test]
    fn a_name_of_a_stranger_is_no_path() {
        assert_eq!(file_name(Some("task_001_a b.txt"), "r"), "task_001_a b.txt");
        for given in [None, Some(""), Some("../x"), Some("a/b"), Some(".hidden"), Some("a\nb"), Some(&"x".repeat(241))]
        {
            assert_eq!(file_name(given, "0f/../\0e"), "task_0f..e", "{given:?}");
        }
    }

    /// A root with finished runs.
    struct Place(tempfile::TempDir);

    impl Place {
        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.path(".tasks/done").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
        }

        fn write(&self, name: &str, text: &str) {
            fs::create_dir_all(self.path(".tasks/done")).unwrap();
            fs::write(self.path(".tasks/done").join(name), text).unwrap();
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.path(".tasks/done")).unwrap().flatten();
            let mut names: Vec<String> =
                entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        }

        fn store(&self, name: &str, text: &str, is_overdue: bool) -> io::Result<()> {
            fs::write(self.path("out"), text).unwrap();
            fs::write(self.path("err"), "").unwrap();
            let mut results = results(name, "w", self.0.path());
            results.placement.is_overdue = is_overdue;
            results.put_in_place(self.0.path())
        }
    }

    #[test]
    fn the_last_run_has_the_name_and_no_result_is_lost() {
        let place = Place(tempfile::tempdir().unwrap());
        for text in ["one", "two", "three"] {
            place.store("a.txt", text, false).unwrap();
        }
        let texts = ["a.txt.out", "a.2.txt.out", "a.3.txt.out"].map(|name| place.text(name));
        assert_eq!(texts, ["three", "one", "two"]);
        assert_eq!(place.names().len(), 9, "{:?}", place.names());
        let json: serde_json::Value = serde_json::from_str(&place.text("a.2.txt.json")).unwrap();
        assert_eq!((&json["signal"], &json["exit_code"], &json["seconds"]), (&json!(9), &json!(null), &json!(2.5)));
        assert_eq!(json["file"], "a.txt");
    }

    #[test]
    fn results_that_have_their_prompt_keep_their_name() {
        let place = Place(tempfile::tempdir().unwrap());
        place.store("a", "first", false).unwrap();
        place.write("a", "prompt");
        place.store("a", "second", false).unwrap();
        assert_eq!((place.text("a.out"), place.text("a.2.out")), ("first".to_owned(), "second".to_owned()));
        place.write("a.2", "prompt");
        place.write("a.3", "prompt");
        place.store("a", "late", true).unwrap();
        assert_eq!((place.text("a.2.out"), place.text("a.3.out")), ("second".to_owned(), "late".to_owned()));
    }

    #[test]
    fn a_prompt_that_is_called_like_a_result_stays() {
        for ending in ENDINGS {
            let place = Place(tempfile::tempdir().unwrap());
            let taken = format!("a.{ending}");
            place.write(&taken, "{\"outcome\": \"a prompt\"}");
            place.store("a", "answer", false).unwrap();
            assert_eq!(
                (place.text(&taken), place.text("a.2.out")),
                ("{\"outcome\": \"a prompt\"}".into(), "answer".into())
            );
        }
    }

    #[test]
    fn what_cannot_be_kept_stays_where_it_was() {
        let place = Place(tempfile::tempdir().unwrap());
        fs::create_dir_all(place.path(".tasks/done")).unwrap();
        // There is no error output.
        let run = place.path("run");
        fs::create_dir(&run).unwrap();
        fs::write(run.join("out"), "answer").unwrap();
        let mut results = results("a", "w", &run);
        results.placement.durable = false;
        assert_eq!(results.put_in_place(place.0.path()).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!((fs::read_to_string(run.join("out")).unwrap(), place.names()), ("answer".to_owned(), vec![]));
    }
}
