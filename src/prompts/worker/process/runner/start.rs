//! The start of a run: its files, the folder that it works in, its command.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::thread::JoinHandle;

use super::{
    DEFER, ERR, MARK, OUT, PROMPT, PROMPT_DEFER_FILE, PROMPT_FILE, PROMPT_NAME, PendingRun, Preparation, Run, Runner,
    Startup, WorkFolder,
};
use crate::files::results::file_name;
use crate::wire::Request;
use crate::worker::engine::StartError;
use crate::worker::engine::command_line::PromptValues;
use crate::worker::process::memory;
use proc::files::disk_room::check_room;
use proc::one_job::OneJob;
use proc::process::{CommandPlan, Environment, RunningChild, Subject as _};
use proc::runs::WorkerRun;
use proc::{clock, process};

impl Runner {
    /// Begins a run for a prompt: the command is started at once, unless it has to wait for a folder of its own.
    pub(in crate::worker::process) fn begin(&mut self, request: Request) -> Startup {
        let start = clock::now().wall;
        self.last = None;
        let id = WorkerRun::new(start);
        let folder = self.runs.folder_of(&id);
        let name = file_name(request.file.as_deref(), request.id.as_str());
        if let Some(given) = request.file.as_deref().filter(|given| *given != name) {
            log::info!(
                "the results of {given:?} are stored as {name}, because the given name cannot be part of a file name"
            );
        }
        let made = self.make_files(&id, &folder, &request.prompt);
        let pending = PendingRun { id, request, name, folder, start };
        if let Err(error) = made {
            return Startup::Started(self.give_up(&pending, error));
        }
        if self.workplace.is_shared() {
            let work = self.workplace.shared();
            return Startup::Started(self.start_command(pending, work));
        }
        match self.prepare(&pending) {
            Ok(preparation) => {
                self.pending = Some(pending);
                Startup::Preparing(preparation)
            }
            Err(error) => Startup::Started(self.give_up(&pending, StartError::Disk(error.to_string()))),
        }
    }

    /// Makes the folder that the command works in, after the last one has been removed.
    fn prepare(&mut self, pending: &PendingRun) -> io::Result<Preparation> {
        let (workplace, cleaning) = (self.workplace.clone(), self.cleaning.take());
        let (folder, name, start) = (pending.folder.clone(), pending.name.clone(), pending.start);
        let letters = pending.id.letters().to_owned();
        OneJob::start("workdir", move || {
            // A panic of the thread has already been reported by the thread.
            let _ = cleaning.map(JoinHandle::join);
            workplace.prepare(&folder, &name, start, &letters)
        })
    }

    /// Starts the command in its folder, which has been made or could not be.
    pub(in crate::worker::process) fn launch(
        &mut self,
        prepared: Result<WorkFolder, String>,
    ) -> Result<(), StartError> {
        let Some(pending) = self.pending.take() else { return Err(StartError::Disk("there is no run".to_owned())) };
        match prepared {
            Ok(work) => self.start_command(pending, work),
            Err(reason) => self.give_up(&pending, StartError::Disk(reason)),
        }
    }

    fn start_command(&mut self, pending: PendingRun, work: WorkFolder) -> Result<(), StartError> {
        let memory_kills = memory::kills();
        let child = match self.spawn(&pending, &work.folder) {
            Ok(child) => child,
            Err(error) => {
                self.remove_work_folder(&pending.id, work);
                return Err(error);
            }
        };
        let PendingRun { id, request, name, folder, start } = pending;
        log::info!("{name}: started");
        let present = self.record_of(&id, Some(child.id()));
        if let Some(Err(error)) = self.record.as_mut().map(|record| record.write(&present)) {
            // The run can still be identified by its mark.
            log::error!("{error}");
        }
        self.processes.start(child, base::EndSignal::Term);
        let (given_name, request) = (request.file, request.id);
        let work = Some(work);
        self.run =
            Some(Run { id, request, given_name, name, folder, work, start, end: None, cost: None, memory_kills });
        Ok(())
    }

    fn give_up(&mut self, pending: &PendingRun, error: StartError) -> Result<(), StartError> {
        self.runs.clean(&pending.id, self.record.take());
        Err(error)
    }

    /// Makes the files of a run.
    fn make_files(&mut self, id: &WorkerRun, folder: &Path, prompt: &str) -> Result<(), StartError> {
        // The folder .tasks/ may have been removed since the last run.
        self.runs = self.runs.reopen().map_err(|error| StartError::Disk(error.to_string()))?;
        let mut record = self.runs.records.of(self.own, None).map_err(|error| StartError::Disk(error.to_string()))?;
        record.write(&self.record_of(id, None)).map_err(|error| StartError::Disk(error.to_string()))?;
        self.record = Some(record);
        // The answer would be lost on a full disk.
        check_room(folder.parent().unwrap_or(folder)).map_err(|error| no_files(folder, &error))?;
        DirBuilder::new().mode(0o700).create(folder).map_err(|error| no_files(folder, &error))?;
        fs::write(folder.join(PROMPT), prompt).map_err(|error| no_files(folder, &error))
    }

    fn spawn(&self, pending: &PendingRun, work: &Path) -> Result<RunningChild, StartError> {
        let PendingRun { id, name, folder, .. } = pending;
        let failed = |error: io::Error| no_files(folder, &error);
        let path = folder.join(PROMPT);
        // The command must not see the configuration of its worker: with the secret it could take prompts and report
        // results.
        let mut environment = Environment::inherited(|name| name.as_bytes().starts_with(b"LLTS_"));
        let added: [(&str, OsString); 4] = [
            (PROMPT_FILE, path.clone().into()),
            (PROMPT_NAME, name.into()),
            (PROMPT_DEFER_FILE, folder.join(DEFER).into()),
            (MARK, id.folder().into()),
        ];
        for (name, value) in added {
            environment.set(name, value).map_err(|error| StartError::Command(error.to_string()))?;
        }
        let values = PromptValues { prompt: &pending.request.prompt, name, file: &path.to_string_lossy() };
        let words = self.line.as_ref().map(|line| line.fill(values)).transpose().map_err(StartError::Prompt)?;
        let filled = words.map(|words| self.command.with_words(words));
        let stdin = File::open(&path).map_err(failed)?;
        let stdout = File::create_new(folder.join(OUT)).map_err(failed)?;
        let stderr = File::create_new(folder.join(ERR)).map_err(failed)?;
        let plan = CommandPlan {
            command: filled.as_ref().unwrap_or(&self.command),
            folder: work,
            environment: &environment,
            stdin: stdin.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
            brand: self.brand,
            is_terminal: false,
        };
        process::spawn_command(&plan).map_err(|error| StartError::Command(error.to_string()))
    }
}

fn no_files(folder: &Path, error: &io::Error) -> StartError {
    StartError::Disk(format!("cannot make the files of a run in {}: {error}", folder.display()))
}
