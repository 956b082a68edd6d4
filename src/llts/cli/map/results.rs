//! `--results DIR`: the outputs of each task in files of its own, `DIR/<number>/{stdout,stderr,exit_code,command}`.
//!
//! The exit code is written last, so a folder that has one is complete. Incomplete files are removed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::map::template::quoted;
use api::wire::client::TaskView;
use api::wire::command;
use base::{os_bytes, os_text, words};
use term::exit;
use term::exit::Failure;
use term::output::{Sink, note};

/// See the [module](self).
pub(super) struct Results {
    folder: PathBuf,
    /// The number of tasks with incomplete files.
    missing: u64,
}

impl Results {
    /// # Errors
    /// When the folder cannot be made.
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(folder).map_err(|error| Failure::usage(cannot_write(folder, &error)))?;
        Ok(Self { folder: folder.to_owned(), missing: 0 })
    }

    pub(super) const fn missing(&self) -> u64 {
        self.missing
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file for an output of this task, if it can be made.
    pub(super) fn file(&self, number: u64, name: &str) -> Result<File, String> {
        let folder = self.folder.join(number.to_string());
        let path = folder.join(name);
        fs::create_dir_all(&folder).and_then(|()| File::create(&path)).map_err(|error| cannot_write(&path, &error))
    }

    /// Completes the folder of a task. `outputs` are the names and sinks of its files.
    pub(super) fn finish(&mut self, number: u64, task: &TaskView, outputs: [(&str, Result<&mut Sink, String>); 2]) {
        let mut failure: Option<String> = None;
        for (name, sink) in outputs {
            let error = sink.map(Sink::take_copy_error);
            let why = match error {
                Ok(None) => continue,
                Ok(Some(error)) => cannot_write(&self.path(number, name), &error),
                Err(why) => why,
            };
            // An incomplete output must not look complete.
            let _ = fs::remove_file(self.path(number, name));
            failure.get_or_insert(why);
        }
        let (code, _) = exit::of_task(task);
        let written = self.write(number, "command", command_line(task).into_vec());
        let written = written.and_then(|()| match failure {
            None => self.write(number, "exit_code", code.to_string()),
            Some(why) => Err(why),
        });
        if let Err(why) = written {
            self.missing += 1;
            if self.missing == 1 {
                note(&format!("{why}; the service keeps the outputs: llts logs {}", task.id()));
            }
        }
    }

    fn write(&self, number: u64, name: &str, text: impl Into<Vec<u8>>) -> Result<(), String> {
        let path = self.path(number, name);
        let mut text = text.into();
        text.push(b'\n');
        fs::write(&path, text).map_err(|error| {
            let _ = fs::remove_file(&path);
            cannot_write(&path, &error)
        })
    }

    fn path(&self, number: u64, name: &str) -> PathBuf {
        self.folder.join(number.to_string()).join(name)
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

/// The command of a task as a line for sh, or the name of its tool.
fn command_line(task: &TaskView) -> OsString {
    let line = task.fields().text(words::SHELL).map(str::to_owned);
    let line = line.unwrap_or_else(|| match command::read(task.fields()) {
        Ok(Some(command)) => {
            let word = |word: &OsString| quoted(&os_text(word)).into_owned();
            command.words.iter().map(word).collect::<Vec<_>>().join(" ")
        }
        Ok(None) | Err(_) => task.tool().to_owned(),
    });
    os_bytes(&line).unwrap_or_else(|| line.into())
}
