//! The files that a client sends with a task: `--in` and `--out` of `llts submit` and `llts run`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use nix::libc;

use super::hand_over::hand_over;
use api::archives_dir::dir_in;
use api::config::Config;
use api::file_sender;
use api::wire::client::ReplyError;
use api::wire::requests::file;
use api::wire::requests::submit::{Submission, Submitted};
use api::wire::{Code, task_files};
use base::{FileName, FilePattern, TaskInput, in_quotes, os_text, words};
use llts_client::{Client, ClientError};
use proc::files::file_digest::digest_of_size;
use term::exit::{self, Failure};

/// The files of a task.
#[derive(Args, Debug)]
#[command(next_help_heading = "Files")]
pub(super) struct FileArgs {
    /// A file for the task, which finds it in the folder in which it starts; may be repeated [default NAME: that of the file]
    #[arg(long = "in", id = "in", value_name = "[NAME=]PATH")]
    inputs: Vec<OsString>,
    /// Files that are kept with the task when it ends, for `llts get`: a pattern with * and ?, and ** for any folders; may be repeated
    #[arg(long = "out", id = "out", value_name = "PATTERN")]
    outputs: Vec<OsString>,
}

/// A file of this machine that a task gets.
pub(super) struct LocalFile {
    input: TaskInput,
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl FileArgs {
    /// Whether no file is named.
    pub(super) fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty()
    }

    /// Whether files are to be kept.
    pub(super) fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Reads the inputs as a whole, which can take long.
    pub(super) fn read(&self) -> Result<Vec<LocalFile>, Failure> {
        let mut files: Vec<LocalFile> = Vec::new();
        for input in &self.inputs {
            let file = read(input)?;
            if let Some(other) = files.iter().find(|other| other.input.name == file.input.name) {
                let (name, first, second) = (&file.input.name, other.path.display(), file.path.display());
                return Err(Failure::usage(format!(
                    "--in: {first} and {second} would both be {name}; name one of them: --in NAME={second}"
                )));
            }
            files.push(file);
        }
        Ok(files)
    }

    /// Names the files in a submission.
    pub(super) fn attach(&self, mut submission: Submission, files: &[LocalFile]) -> Result<Submission, Failure> {
        if !files.is_empty() {
            let inputs = task_files::inputs_text(files.iter().map(|file| &file.input));
            submission = submission.with(words::IN, inputs);
        }
        let pattern = |text: &OsString| {
            let text = os_text(text);
            FilePattern::new(&text)
                .map_err(|why| Failure::usage(format!("--out {}: the pattern {why}", in_quotes(&text))))
        };
        let patterns = self.outputs.iter().map(pattern).collect::<Result<Vec<_>, _>>()?;
        if !patterns.is_empty() {
            submission = submission.with(words::OUT, task_files::outputs_text(&patterns));
        }
        // Its files are in the folder of the task, so it starts there.
        submission.parameters.remove(words::CWD);
        Ok(submission)
    }
}

/// The name and the path of `NAME=PATH` or of a mere path, which may contain the sign itself: `dt=2026-01-31.csv`.
fn name_and_path<'a>(here: &Path, input: &'a OsStr) -> Result<(&'a OsStr, &'a Path), Failure> {
    let whole = Path::new(input);
    let own_name = || whole.file_name().unwrap_or_default();
    let mut parts = input.as_bytes().splitn(2, |byte| *byte == b'=').map(OsStr::from_bytes);
    let name = parts.next().filter(|name| !name.as_bytes().starts_with(b".") && !name.as_bytes().starts_with(b"/"));
    let Some((name, path)) = name.zip(parts.next()) else {
        return Ok((own_name(), whole));
    };
    match (here.join(whole).exists(), here.join(path).exists()) {
        (true, true) => {
            let [input, name, path] = [input, name, path].map(os_text);
            Err(Failure::usage(format!(
                "--in {input}: {input} and {path} are both files; write --in ./{input} for the first one, or --in {name}=./{path} for \
                 the second one under the name {name}"
            )))
        }
        (true, false) => Ok((own_name(), whole)),
        (false, _) => Ok((name, Path::new(path))),
    }
}

fn read(input: &OsStr) -> Result<LocalFile, Failure> {
    let (name, path) = name_and_path(Path::new(""), input)?;
    let name = os_text(name);
    let name = FileName::new(&name).map_err(|why| {
        let (input, name) = (in_quotes(&os_text(input)), in_quotes(&name));
        Failure::usage(format!("--in {input}: the name {name} {why}; use --in NAME=PATH"))
    })?;
    let unreadable = |error: std::io::Error| Failure::failed(format!("cannot read {}: {error}", path.display()));
    // A FIFO without a writer would block the open otherwise.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        let why = "is not a regular file; pack a folder first, for example with tar";
        return Err(Failure::usage(format!("--in: {} {why}", path.display())));
    }
    let bytes = metadata.len();
    let digest = digest_of_size(&file, bytes).map_err(unreadable)?.ok_or_else(|| {
        let path = path.display();
        Failure::failed(format!(
            "--in: {path} does not have the {bytes} bytes of its size: it is being written, or is made as it is read, as files of /proc \
             are; send a copy of it: cat {path} > copy"
        ))
    })?;
    let input = TaskInput { name, digest, is_executable: metadata.mode() & 0o100 != 0 };
    Ok(LocalFile { input, path: path.to_owned(), file, bytes })
}

/// Sends the files that the controller lacks, before a submit. A sender that may not send commands may send files only after its submit
/// was refused for lack of them. Returns the task if that submit was accepted, because another sender had sent the files meanwhile.
pub(super) fn prepare(
    config: &Config,
    client: &Client,
    submission: &Submission,
    files: &[LocalFile],
) -> Result<Option<Submitted>, Failure> {
    match send(config, client, files) {
        Err(Unsent::NotAllowed(_)) => {}
        sent => return sent.map(|()| None).map_err(Unsent::into_failure),
    }
    let refused = match hand_over(client, submission) {
        Ok(submitted) => return Ok(Some(submitted)),
        Err(failure) if failure.exit == exit::NO_CONTROLLER => return Err(failure),
        Err(failure) => failure,
    };
    match send(config, client, files) {
        // The submit was refused for another reason than a lack of files, and that is the one to mend.
        Err(Unsent::NotAllowed(_)) => Err(refused),
        sent => sent.map(|()| None).map_err(Unsent::into_failure),
    }
}

/// Why a file was not sent.
enum Unsent {
    /// Its sender may not send it.
    NotAllowed(Failure),
    Other(Failure),
}

impl Unsent {
    fn into_failure(self) -> Failure {
        let (Self::NotAllowed(failure) | Self::Other(failure)) = self;
        failure
    }
}

fn send(config: &Config, client: &Client, files: &[LocalFile]) -> Result<(), Unsent> {
    for LocalFile { path, file, input, bytes } in files {
        let store = dir_in(&config.paths.state_dir);
        let sent = file_sender::send(file, (input.digest, *bytes), None, &store, |part| {
            // Sending it twice is harmless: the controller may have been killed, or may check its copy.
            client.ask_patiently(&file::put(part), Duration::ZERO)
        });
        sent.map_err(|error| match error {
            file_sender::SendError::Asked(ClientError::Reply(error)) => {
                let is_not_allowed =
                    matches!(error, ReplyError::Refused { code, .. } if code == i64::from(Code::NotAllowed.number()));
                let failure = Failure::from(ClientError::Reply(error));
                let failure = Failure { sentence: format!("{}: {}", path.display(), failure.sentence), ..failure };
                if is_not_allowed { Unsent::NotAllowed(failure) } else { Unsent::Other(failure) }
            }
            file_sender::SendError::Asked(error) => Unsent::Other(error.into()),
            other => Unsent::Other(Failure::failed(format!("{}: {other}", path.display()))),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the parts of a table are usually like that.
    #[test]
    fn a_name_with_an_equals_sign_sends_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        let named = |input: &'static str| {
            let found = name_and_path(here, OsStr::new(input)).map_err(|failure| failure.sentence);
            found.map(|(name, path)| (name.to_str().unwrap(), path))
        };
        std::fs::write(here.join("dt=2026.csv"), "right").unwrap();
        assert_eq!(named("dt=2026.csv"), Ok(("dt=2026.csv", Path::new("dt=2026.csv"))));
        std::fs::write(here.join("2026.csv"), "wrong").unwrap();
        let refused = named("dt=2026.csv").unwrap_err();
        assert!(refused.contains("write --in ./dt=2026.csv for the first one, or --in dt=./2026.csv"), "{refused}");
        assert_eq!(named("./dt=2026.csv"), Ok(("dt=2026.csv", Path::new("./dt=2026.csv"))));
        assert_eq!(named("dt=./2026.csv"), Ok(("dt", Path::new("./2026.csv"))));
        assert_eq!(named("x=missing"), Ok(("x", Path::new("missing"))));
    }
}
