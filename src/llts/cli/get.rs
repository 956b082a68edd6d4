//! `llts get`: fetch the files that are kept with tasks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::selection::{Scope, Selection};
use api::wire::client::{Selector, TaskView};
use api::wire::requests::query::query;
use api::wire::task_files::kept_files;
use base::{FileName, KeptFile, Outcome, ToolDigest, in_quotes, os_text, words};
use llts_client::{Client, FileError};
use proc::files::file_digest::digest_at;
use term::exit::{self, Failure};
use term::output::note;
use term::session::Session;

#[derive(Args, Debug)]
#[command(after_help = "\
Fetches what matched the --out of each task when its last run ended. A file that is there with the same content is left as it is; one \
with another content is not overwritten without --force.
In --by, {id}, {given-id}, {tool} and {job} stand for those of each task; a slash in them becomes _.")]
pub(super) struct GetArgs {
    #[command(flatten)]
    selection: Selection,
    /// The folder that gets the files, made if it is missing [default: this one]
    #[arg(long = "dir", short = 'o', value_name = "DIR")]
    dir: Option<PathBuf>,
    /// A text before the name of each file, for example '{given-id}/'
    #[arg(long, value_name = "TEMPLATE", default_value = "", hide_default_value = true)]
    by: String,
    /// Overwrite files with another content
    #[arg(long)]
    force: bool,
}

/// The places for fetched files.
pub(super) struct Target<'a> {
    pub(super) dir: &'a Path,
    pub(super) by: &'a str,
    pub(super) force: bool,
}

/// A fetched file in its place.
pub(super) struct Got {
    task: String,
    file: KeptFile,
    path: PathBuf,
    /// Whether the file was missing before.
    is_new: bool,
}

pub(super) fn run(session: &mut Session, args: &GetArgs) -> Result<u8, Failure> {
    if !args.selection.is_given() {
        return Err(Failure::usage(
            "name the tasks whose files to get: ids, --job NAME, or all; see `llts get --help`",
        ));
    }
    let client = session.client()?;
    let target = Target { dir: args.dir.as_deref().unwrap_or(Path::new("")), by: &args.by, force: args.force };
    let mut getter = Getter::new(&client, &target);
    let mut worst = 0;
    for chosen in args.selection.resolve(&client, Scope::Ended(&Outcome::ALL))? {
        let got = match chosen.state {
            Ok(_) => client
                .ask(&query(&Selector::task(&chosen.id), None))
                .map_err(Failure::from)
                .and_then(|task| getter.get(&task, args.selection.is_by_ids())),
            Err(unknown) => Err(unknown),
        };
        if let Err(failure) = got {
            // The next task would fail as well.
            if failure.exit == exit::NO_CONTROLLER {
                return Err(failure);
            }
            let is_named = failure.sentence.contains(&chosen.id);
            note(&if is_named { failure.sentence } else { format!("{}: {}", chosen.id, failure.sentence) });
            worst = worst.max(failure.exit);
        }
    }
    let got = getter.got;
    show(session, &got);
    Ok(worst)
}

fn show(session: &mut Session, got: &[Got]) {
    if session.out.is_json() {
        let value = |got: &Got| {
            json!({
                "task": got.task,
                "name": got.file.name.as_str(),
                "path": os_text(got.path.as_os_str()),
                "bytes": got.file.bytes,
                "sha256": got.file.digest.to_string(),
                "executable": got.file.is_executable,
                "new": got.is_new,
            })
        };
        return session.out.value(&Value::Array(got.iter().map(value).collect()));
    }
    for Got { file, path, is_new, .. } in got {
        let there = if *is_new { "" } else { " (was there already)" };
        session.out.line(format_args!("{} {} bytes{there}", os_text(path.as_os_str()), file.bytes));
    }
}

/// Reports which files of a finished task are not kept with it.
pub(super) fn note_files(task: &TaskView) {
    let said = [words::OUT_NOTE, words::OUT_IDLE].into_iter().filter_map(|word| task.fields().text(word));
    said.for_each(|said| note(&format!("{}: {said}", task.id())));
}

/// Fetches the files of tasks, one after the other.
pub(super) struct Getter<'a> {
    client: &'a Client,
    target: &'a Target<'a>,
    pub(super) got: Vec<Got>,
    /// The places that this call has filled, each with the task and digest of its file.
    filled: BTreeMap<PathBuf, (String, ToolDigest)>,
}

impl<'a> Getter<'a> {
    pub(super) fn new(client: &'a Client, target: &'a Target<'a>) -> Self {
        Self { client, target, got: Vec::new(), filled: BTreeMap::new() }
    }

    /// Fetches the files of a task. If there are none, that is an error for a task that `must_have` some.
    pub(super) fn get(&mut self, task: &TaskView, must_have: bool) -> Result<(), Failure> {
        let fields = task.fields();
        if !task.is_finished() {
            return Err(Failure::failed(format!("it has not finished; wait for it: llts wait {}", task.id())));
        }
        let Some(text) = fields.text(words::OUT_FILES) else {
            let why = if fields.get(words::OUT).is_none() {
                "it was submitted without --out, so no file is kept with it"
            } else {
                "its last run has no result, so no file is kept with it"
            };
            return if must_have { Err(Failure::failed(why)) } else { Ok(()) };
        };
        let files =
            kept_files(text).ok_or_else(|| Failure::failed(format!("{} cannot be read: {text}", words::OUT_FILES)))?;
        for file in files {
            let name = file.name.clone();
            self.get_one(task, file)
                .map_err(|failure| Failure { sentence: format!("{name}: {}", failure.sentence), ..failure })?;
        }
        fields.text(words::OUT_IDLE).into_iter().for_each(|idle| note(&format!("{}: {idle}", task.id())));
        // The existing files are in place by now.
        fields.text(words::OUT_NOTE).map_or(Ok(()), |why| Err(Failure::failed(why)))
    }

    fn get_one(&mut self, task: &TaskView, file: KeptFile) -> Result<(), Failure> {
        let place = format!("{}{}", prefix(self.target.by, task)?, file.name.as_str());
        let place = FileName::new(&place)
            .map_err(|why| Failure::usage(format!("--by makes {} of it, which {why}", in_quotes(&place))))?;
        let path = self.target.dir.join(place.path());
        if let Some((other, digest)) = self.filled.get(&path).filter(|(_, digest)| *digest != file.digest) {
            return Err(Failure::failed(format!(
                "{} has just been written with other content ({}) for task {other}; use --by '{{id}}/'",
                path.display(),
                digest.short()
            )));
        }
        let is_new = is_missing(&path, &file.digest, self.target.force, task.id())?;
        if is_new {
            self.client.fetch(&file, &path).map_err(|error| match error {
                FileError::Write(error) => Failure::failed(format!("cannot write {}: {error}", path.display())),
                FileError::Asked(error) => error.into(),
                other => Failure::failed(other),
            })?;
        }
        self.filled.insert(path.clone(), (task.id().to_owned(), file.digest));
        self.got.push(Got { task: task.id().to_owned(), file, path, is_new });
        Ok(())
    }
}

/// Whether a file must be written to a place. With `force`, it may replace another regular file.
fn is_missing(path: &Path, digest: &ToolDigest, force: bool, task: &str) -> Result<bool, Failure> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(true);
    }
    // Reading a FIFO would wait for a writer, and a device may have no end.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        let path = path.display();
        return Err(Failure::failed(format!(
            "{path} is there and is no regular file; remove it, or name another folder: `llts get {task} -o DIR`"
        )));
    }
    if digest_at(path).is_ok_and(|there| there == *digest) {
        return Ok(false);
    }
    if force {
        return Ok(true);
    }
    let path = path.display();
    Err(Failure::failed(format!(
        "{path} is there with other content; `llts get {task} --force` overwrites it, `llts get {task} -o DIR` leaves it"
    )))
}

/// The text in front of the names of a task's files.
fn prefix(template: &str, task: &TaskView) -> Result<String, Failure> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, (name, after))) =
        rest.split_once('{').and_then(|(before, behind)| Some((before, behind.split_once('}')?)))
    {
        let value = match name {
            "id" => Some(task.id()),
            "given-id" => task.fields().text(words::GIVEN_ID),
            "tool" => Some(task.tool()),
            "job" => task.fields().text(words::JOB),
            _ => {
                let known = "{id}, {given-id}, {tool} and {job}";
                return Err(Failure::usage(format!("--by: {{{name}}} is unknown; the known ones are {known}")));
            }
        };
        let value = value.ok_or_else(|| Failure::failed(format!("the task has no {name}, which --by names")))?;
        text.push_str(before);
        text.push_str(&value.replace('/', "_"));
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;

    use super::*;

    #[test]
    fn only_a_regular_file_is_compared_or_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [file, fifo, link] = ["file", "fifo", "link"].map(|name| folder.path().join(name));
        let digest = {
            fs::write(&file, "here").unwrap();
            digest_at(&file).unwrap()
        };
        let other = ToolDigest::new([7; 32]);
        assert_eq!(is_missing(&folder.path().join("none"), &digest, false, "last"), Ok(true));
        assert_eq!(is_missing(&file, &digest, false, "last"), Ok(false));
        assert_eq!(is_missing(&file, &other, true, "last"), Ok(true));
        assert!(is_missing(&file, &other, false, "last").unwrap_err().sentence.contains("other content"));
        nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(&fifo, &link).unwrap();
        for (path, force) in [(&fifo, false), (&fifo, true), (&link, true)] {
            let failure = is_missing(path, &digest, force, "last").unwrap_err();
            assert!(failure.sentence.contains("no regular file"), "{}", failure.sentence);
        }
    }
}
