//! The additional files and folders of a task of a step: see [`api::wire::step_files`].
//!
//! The folders are kept with the folder of the task ([`super::step_folders`]). Everything else is a foreign entry for a folder
//! that is reused: its restoration removes it, so that the next task does not see it.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Dir, Mode, OFlags, mkdirat, openat, symlinkat};
use rustix::io::Errno;

use super::out_folders::OutFolder;
use super::step_folders::{INPUTS, PROVIDE, StepFolders};
use super::{OWNER_ONLY, TaskDir, WorkspaceError, tail};
use api::wire::step_files;
use api::wire::step_files::{FINISH, OUT, PROVIDE as PROVIDE_NAME, ProvideReader};
use base::{PortName, Provided, StepContext};
use proc::files::removal;

const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl TaskDir {
    /// Makes the folders of a task of a step.
    ///
    /// # Errors
    /// When one of them cannot be made; a tool of the same name is in the way.
    pub fn make_step_folders(&self) -> Result<(), WorkspaceError> {
        for name in [PROVIDE, INPUTS] {
            let made = mkdirat(&self.folder, name, OWNER_ONLY);
            made.map_err(|error| self.failed("make", &name.to_string_lossy(), error.into()))?;
        }
        Ok(())
    }

    /// Makes the files of the inputs of a task of a step. Its outputs go to `out`.
    ///
    /// # Errors
    /// When one of them cannot be made; a tool of the same name is in the way.
    pub fn make_step(&self, step: &StepContext, out: &OutFolder) -> Result<(), WorkspaceError> {
        symlinkat(out.link(), &self.folder, OUT).map_err(|error| self.failed("make", OUT, error.into()))?;
        if step.inputs.is_empty() {
            return Ok(());
        }
        let opened;
        let inputs = match self.step_folders() {
            Some(folders) => folders.inputs(),
            None => {
                opened = removal::open_folder(self.folder.as_fd(), removal::path_of(INPUTS))
                    .map_err(|error| self.failed("open", step_files::INPUTS, error.into()))?;
                opened.as_fd()
            }
        };
        for (port, content) in step_files::input_files(step) {
            let written = write_new(inputs, port, content.as_bytes());
            written.map_err(|error| self.failed("write", port.as_str(), error))?;
        }
        Ok(())
    }

    fn step_folders(&self) -> Option<&StepFolders> {
        self.reusable.as_ref()?.step()
    }

    /// Makes the file that asks a run to finish. A file that the run itself has made will do.
    ///
    /// # Errors
    /// When there is no such file and it cannot be made.
    pub fn tell_to_finish(&self) -> Result<(), WorkspaceError> {
        match openat(&self.folder, FINISH, NEW_FILE, Mode::RUSR | Mode::WUSR) {
            Ok(_) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(self.failed("make", FINISH, error.into())),
        }
    }

    /// The locations in the folder of a run for what it provides. `out` is the path of its outputs.
    ///
    /// # Errors
    /// One sentence, when an entry is not a file of locations.
    pub fn read_provided(&self, step: &StepContext, out: &str) -> Result<Provided, String> {
        let mut reader = ProvideReader::new(step, out);
        if self.step_folders().is_some_and(|folders| folders.is_nothing_provided(self.folder.as_fd())) {
            return reader.end();
        }
        let folder = match removal::open_on_mount(self.folder.as_fd(), PROVIDE) {
            Ok(folder) => folder,
            // A run that has removed it provides nothing.
            Err(Errno::NOENT) => return reader.end(),
            Err(error) => return Err(format!("../{PROVIDE_NAME} cannot be read: {error}")),
        };
        let unreadable = |error: Errno| format!("../{PROVIDE_NAME} cannot be read: {error}");
        for entry in Dir::read_from(&folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let port = reader.port(&name.to_string_lossy())?;
            let content = read_file(folder.as_fd(), &port, &reader)?;
            reader.add(port, &content)?;
        }
        reader.end()
    }
}

fn write_new(folder: BorrowedFd<'_>, port: &PortName, content: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    let file = openat(folder, port.as_str(), NEW_FILE, Mode::RUSR | Mode::WUSR)?;
    std::fs::File::from(file).write_all(content)
}

/// The content of a file of locations. A run may have put anything in its place, and may have left a process that writes to it.
fn read_file(folder: BorrowedFd<'_>, port: &PortName, reader: &ProvideReader<'_>) -> Result<Vec<u8>, String> {
    let file = tail::open_regular(folder, &[""; 0], port.as_str()).map_err(|error| match error {
        Errno::LOOP | Errno::INVAL | Errno::NXIO => {
            format!("../{PROVIDE_NAME}/{port} is not a regular file with one name, which it must be")
        }
        error => format!("../{PROVIDE_NAME}/{port} cannot be read: {error}"),
    })?;
    let failed = |error: std::io::Error| format!("../{PROVIDE_NAME}/{port} cannot be read: {error}");
    let (bytes, max) = (file.metadata().map_err(failed)?.len(), reader.bytes_left() as u64);
    if bytes > max {
        return Err(reader.too_long(port, bytes));
    }
    let mut content = Vec::new();
    file.take(max + 1).read_to_end(&mut content).map_err(failed)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::workspace::Workspace;
    use base::{StepName, StepRole, TaskId, Wall};

    struct Site {
        folder: tempfile::TempDir,
        step: StepContext,
        dir: TaskDir,
        out: OutFolder,
    }

    fn port(name: &str) -> PortName {
        PortName::new(name).unwrap()
    }

    impl Site {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let workspace = Workspace::open(&folder.path().join("work")).unwrap();
            let step = StepContext {
                graph: "GRAPH_1480000000.120000_AZazA".parse().unwrap(),
                step: StepName::new("s").unwrap(),
                role: StepRole::Main,
                partition: 0,
                inputs: [(port("in"), Arc::from(["/a b".into(), "".into()])), (port("none"), Arc::from([]))].into(),
                outputs: Arc::from([port("a"), port("b")]),
                grace: Duration::ZERO,
            };
            let task = TaskId::new(Wall::from_micros(1), [0; 5]);
            let (dir, _) = workspace.create(task).unwrap();
            let (out, _) = workspace.make_out(step.graph, task).unwrap();
            dir.make_step_folders().unwrap();
            dir.make_step(&step, &out).unwrap();
            Self { folder, step, dir, out }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn provided(&self) -> Result<Provided, String> {
            self.dir.read_provided(&self.step, self.out.path().to_str().unwrap())
        }

        /// The refusal of what stands in place of the file of the output a.
        fn refused(&self) -> String {
            let sentence = self.provided().unwrap_err();
            let path = self.path("provide/a");
            if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) }.unwrap();
            sentence
        }
    }

    #[test]
    fn a_task_finds_its_inputs_and_empty_folders() {
        let site = Site::new();
        assert_eq!(fs::read_to_string(site.path("inputs/in")).unwrap(), "/a b\n\n");
        assert_eq!(fs::read_to_string(site.path("inputs/none")).unwrap(), "");
        assert_eq!(fs::read_dir(site.path("provide")).unwrap().count(), 0);
        fs::write(site.path("out/data"), "x").unwrap();
        assert_eq!(fs::read_to_string(site.out.path().join("data")).unwrap(), "x");
        assert!(!site.path("finish").exists());
        assert_eq!(site.provided(), Ok(Provided::new()));
    }

    #[test]
    fn what_a_task_writes_is_provided_with_the_paths_of_its_outputs() {
        let site = Site::new();
        fs::write(site.path("provide/a"), "out/data\n/x").unwrap();
        fs::write(site.path("provide/b"), "").unwrap();
        let data = format!("{}/data", site.out.path().display());
        assert_eq!(site.provided(), Ok([(port("a"), vec![data.into(), "/x".into()]), (port("b"), vec![])].into()));
    }

    #[test]
    fn what_is_no_file_of_locations_is_refused_and_never_waited_for() {
        let site = Site::new();
        let (a, precious) = (site.path("provide/a"), site.folder.path().join("precious"));
        fs::write(&precious, "secret\n").unwrap();
        let not_a_file = "../provide/a is not a regular file with one name, which it must be";
        symlink(&precious, &a).unwrap();
        assert_eq!(site.refused(), not_a_file);
        symlink("nowhere", &a).unwrap();
        assert_eq!(site.refused(), not_a_file);
        fs::hard_link(&precious, &a).unwrap();
        assert_eq!(site.refused(), not_a_file);
        rustix::fs::mkfifoat(rustix::fs::CWD, &a, Mode::RWXU).unwrap();
        assert_eq!(site.refused(), not_a_file);
        let socket = std::os::unix::net::UnixListener::bind(&a).unwrap();
        assert_eq!(site.refused(), not_a_file);
        drop(socket);
        fs::create_dir(&a).unwrap();
        assert_eq!(site.refused(), not_a_file);
        fs::write(&a, b"x\0").unwrap();
        assert!(site.refused().starts_with("../provide/a: line 1 contains"));
        fs::write(&a, b"x\ny\xff").unwrap();
        assert_eq!(site.refused(), "../provide/a: line 2 is not UTF-8");
        fs::File::create(&a).unwrap().set_len(1 << 30).unwrap();
        assert!(site.refused().starts_with("../provide/a has 1073741824 bytes; a task may provide at most 4194304"));
        fs::write(site.path("provide/c d"), "").unwrap();
        assert!(
            site.provided()
                .unwrap_err()
                .starts_with("../provide has a file \"c d\", which is not the name of an output")
        );
    }

    #[test]
    fn a_folder_that_a_run_has_replaced_is_not_followed() {
        let site = Site::new();
        fs::remove_dir(site.path("provide")).unwrap();
        assert_eq!(site.provided(), Ok(Provided::new()), "it provides nothing");
        let other = site.folder.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("a"), "secret\n").unwrap();
        symlink(&other, site.path("provide")).unwrap();
        assert!(site.provided().unwrap_err().starts_with("../provide cannot be read"));
    }

    #[test]
    fn a_run_is_told_to_finish_whatever_stands_there() {
        let site = Site::new();
        site.dir.tell_to_finish().unwrap();
        assert!(site.path("finish").is_file());
        fs::remove_file(site.path("finish")).unwrap();
        let precious = site.folder.path().join("precious");
        symlink(&precious, site.path("finish")).unwrap();
        site.dir.tell_to_finish().unwrap();
        assert!(!precious.exists(), "no link is followed");
    }
}
