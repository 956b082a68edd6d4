//! The files that a run writes to, and the reported part of them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::engine::cut;
use agent::source::ProgramName;
use base::tdf::Fence;
use proc::files::file_part::read_part;

/// The names of the output files, with `$worker`, `$taskId`, `$round` and `$program` in them.
#[derive(Clone, Debug)]
pub(super) struct Templates {
    pub(super) output: String,
    pub(super) error: String,
}

/// The two files of a run. The program may remove them, or put others in their places: what it has written is still in these.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) output: File,
    pub(super) error: File,
}

impl Templates {
    /// Makes both files, and the folders that they lie in.
    ///
    /// # Errors
    /// A sentence with the path.
    pub(super) fn create(&self, root: &Path, program: &ProgramName, fence: &Fence) -> Result<Outputs, String> {
        let file = |template: &str| {
            let path = root.join(fill(template, program, fence));
            create(&path).map_err(|error| format!("cannot make the output file {}: {error}", path.display()))
        };
        Ok(Outputs { output: file(&self.output)?, error: file(&self.error)? })
    }
}

/// Replaces the variables in one pass: a value is not expanded again.
fn fill(template: &str, program: &ProgramName, fence: &Fence) -> PathBuf {
    let (task, round) = (fence.task.to_string(), fence.round.to_string());
    let values =
        [("$worker", fence.worker.as_str()), ("$taskId", &task), ("$round", &round), ("$program", program.as_str())];
    let (mut filled, mut rest) = (String::new(), template);
    while let Some(letter) = rest.chars().next() {
        if let Some((name, value)) = values.iter().find(|(name, _)| rest.starts_with(name)) {
            filled.push_str(value);
            rest = &rest[name.len()..];
        } else {
            filled.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    filled.into()
}

/// A new file in the place of an old one, which may be a link or a pipe of an earlier program.
fn create(path: &Path) -> io::Result<File> {
    let open = || File::options().read(true).write(true).create_new(true).mode(0o644).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            open()
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            open()
        }
        opened => opened,
    }
}

/// The content of a file; of more than `max` bytes the beginning and the end, with a line about the cut between them.
///
/// # Errors
/// The error of the system.
pub(super) fn read(file: &File, max: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let pieces =
        cut::ranges(length, max).into_iter().map(|range| read_part(file, range.start, range.end - range.start));
    Ok(cut::joined(&pieces.collect::<io::Result<Vec<_>>>()?, length, max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::tdf::{TaskId, WorkerName};
    use std::io::Write as _;

    fn fence(worker: &str) -> Fence {
        let worker = WorkerName::new(worker).unwrap();
        Fence { task: TaskId(7), round: 2, worker, started: "1.5".to_owned() }
    }

    fn program() -> ProgramName {
        ProgramName::new("p").unwrap()
    }

    #[test]
    fn a_template_is_filled_in_one_pass() {
        for (template, worker, path) in [
            ("$program/results/$worker-$taskId-$round.out", "w", "p/results/w-7-2.out"),
            ("results/$worker$worker$", "a", "results/aa$"),
            ("$taskid $tasks $ $$round", "w", "$taskid $tasks $ $2"),
            ("$worker", "$round", "$round"),
            ("größe-$round", "w", "größe-2"),
        ] {
            assert_eq!(fill(template, &program(), &fence(worker)), Path::new(path));
        }
    }

    #[test]
    fn a_file_takes_the_place_of_whatever_is_there() {
        let root = tempfile::tempdir().unwrap();
        let precious = root.path().join("precious");
        fs::write(&precious, "mine").unwrap();
        let templates = Templates { output: "$program/results/$taskId.out".into(), error: "err".into() };
        fs::create_dir_all(root.path().join("p/results")).unwrap();
        std::os::unix::fs::symlink(&precious, root.path().join("p/results/7.out")).unwrap();
        nix::unistd::mkfifo(&root.path().join("err"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut outputs = templates.create(root.path(), &program(), &fence("w")).unwrap();
        outputs.output.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(root.path().join("p/results/7.out")).unwrap(), "new");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
        assert!(root.path().join("err").is_file());
        let templates = Templates { output: "precious/x".into(), error: "err".into() };
        let sentence = templates.create(root.path(), &program(), &fence("w")).unwrap_err();
        assert!(sentence.starts_with("cannot make the output file /"), "{sentence}");
    }

    #[test]
    fn a_long_output_is_cut_in_the_middle_and_says_so() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[&[b'a'; 3000][..], &[b'b'; 3000]].concat()).unwrap();
        assert_eq!(read(&file, 6000).unwrap().len(), 6000);
        let cut = String::from_utf8(read(&file, 1024).unwrap()).unwrap();
        assert!(cut.len() <= 1024 && cut.len() > 1000, "{}", cut.len());
        assert!(cut.starts_with("aaa") && cut.ends_with("bbb"));
        let kept = cut.bytes().filter(|byte| b"ab".contains(byte)).count();
        let line = cut.lines().nth(1).unwrap();
        // Letters of the sentence are counted, too.
        let letters = line.bytes().filter(|byte| b"ab".contains(byte)).count();
        assert_eq!(line, format!("[llts: {} of 6000 bytes are left out here]", 6000 - (kept - letters)));
    }
}
