//! Worktrees of a git repository, one for each run, on branches `llts/PROMPT-START`.
//!
//! At the end of a run, its uncommitted changes are committed and the worktree is removed. The branch stays if it has a commit.
//! Hooks are not run: they are for people, and may ask for something.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use jiff::Timestamp;

use crate::shell::signals::with_clean_mask;
use crate::types::Wall;

/// The folder of the branches.
const BRANCHES: &str = "llts/";

/// Bytes of the name of a prompt in the name of a branch, which is also a file name below 255 bytes.
const NAME_BYTES_MAX: usize = 120;

/// The author of a commit where git knows none.
const AUTHOR: [&str; 4] = ["-c", "user.name=llts", "-c", "user.email=llts@localhost"];

/// The repository that a folder is in.
#[derive(Clone, Debug)]
pub(super) struct Repository {
    top: PathBuf,
    /// The path of the folder below `top`.
    prefix: PathBuf,
}

/// The worktree of one run.
#[derive(Debug)]
pub(super) struct Worktree {
    repository: Repository,
    path: PathBuf,
    branch: String,
    /// The commit at which the branch begins.
    base: String,
    /// The message of a commit.
    message: String,
}

impl Repository {
    /// The repository that the folder is in.
    ///
    /// # Errors
    /// One sentence, when there is no git, no repository, or no commit in it.
    pub(super) fn of(folder: &Path) -> Result<Self, String> {
        let top = git(folder, &["rev-parse", "--show-toplevel"]).map_err(|reason| {
            format!("--workdir git-worktree cannot use {}: {reason}; --workdir copy needs no git", folder.display())
        })?;
        let top = PathBuf::from(top);
        let prefix = PathBuf::from(git(folder, &["rev-parse", "--show-prefix"])?);
        git(&top, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).map_err(|_| {
            format!(
                "--workdir git-worktree: the git repository {} has no commit, at which a worktree could begin; commit its files",
                top.display()
            )
        })?;
        let changes = git(&top, &["status", "--porcelain", "--untracked-files=no"])?;
        if !changes.is_empty() {
            let count = changes.lines().count();
            log::warn!(
                "uncommitted changes in {} ({count}) are seen by no run: each begins at the last commit",
                top.display()
            );
        }
        Ok(Self { top, prefix })
    }

    /// Adds a worktree.
    ///
    /// # Errors
    /// One sentence; then nothing is left of it.
    pub(super) fn add(&self, path: &Path, name: &str, start: Wall, letters: &str) -> Result<Worktree, String> {
        let branch = branch_name(name, start, letters);
        let base = git(&self.top, &["rev-parse", "HEAD^{commit}"])?;
        let (repository, path) = (self.clone(), path.to_owned());
        let worktree = Worktree { repository, path, branch, base, message: name.to_owned() };
        let words = ["worktree", "add", "--quiet", "-b", &worktree.branch];
        let mut add = command(&self.top, &words);
        add.arg(&worktree.path).arg(&worktree.base);
        match run(add, "worktree") {
            Ok(_) => Ok(worktree),
            Err(reason) => {
                worktree.remove();
                Err(format!("cannot make a git worktree for a run: {reason}"))
            }
        }
    }

    /// Forgets the worktrees below `runs` that have no folder any more. A branch with commits is kept.
    pub(super) fn forget_lost(&self, runs: &Path) {
        let Ok(list) = git(&self.top, &["worktree", "list", "--porcelain"]) else { return };
        for entry in list.split("\n\n") {
            let member = |name: &str| entry.lines().find_map(|line| line.strip_prefix(name));
            let (Some(path), Some(branch)) = (member("worktree "), member("branch refs/heads/")) else { continue };
            let path = Path::new(path);
            if !path.starts_with(runs) || !branch.starts_with(BRANCHES) || path.exists() {
                continue;
            }
            let lost = Worktree {
                repository: self.clone(),
                path: path.to_owned(),
                branch: branch.to_owned(),
                base: String::new(),
                message: String::new(),
            };
            lost.remove_folder();
            match git(&self.top, &["branch", "-d", branch]) {
                Ok(_) => log::info!("the git branch {branch} of a killed worker had no commit and is removed"),
                Err(reason) => log::warn!("the git branch {branch} of a killed worker stays: {reason}"),
            }
        }
    }
}

impl Worktree {
    /// The folder in it that stands for that of the worker.
    pub(super) fn folder(&self) -> PathBuf {
        self.path.join(&self.repository.prefix)
    }

    /// Commits changes, removes the worktree, and returns the branch if it has a commit.
    pub(super) fn finish(self) -> Result<Option<String>, String> {
        self.commit().map_err(|reason| {
            format!("the changes of the run in {} cannot be committed: {reason}", self.path.display())
        })?;
        let head = git(&self.path, &["rev-parse", "HEAD"])?;
        if head != self.base && git(&self.path, &["symbolic-ref", "--quiet", "HEAD"]).is_err() {
            // The command has left the branch; commits without one would be lost.
            git(&self.path, &["branch", "--force", &self.branch, &head])?;
        }
        self.remove_folder();
        let tip =
            git(&self.repository.top, &["rev-parse", "--verify", "--quiet", &format!("refs/heads/{}", self.branch)]);
        match tip {
            Ok(tip) if tip != self.base => {
                log::info!("the changes of {} are on the git branch {}", self.message, self.branch);
                Ok(Some(self.branch))
            }
            Ok(_) => {
                self.remove_branch();
                Ok(None)
            }
            // The command has renamed or removed it.
            Err(_) => Ok(None),
        }
    }

    fn commit(&self) -> Result<(), String> {
        if git(&self.path, &["status", "--porcelain"])?.is_empty() {
            return Ok(());
        }
        git(&self.path, &["add", "--all"])?;
        if git(&self.path, &["diff", "--cached", "--quiet"]).is_ok() {
            return Ok(());
        }
        let words = ["-c", "commit.gpgsign=false", "commit", "--quiet", "--no-verify", "-m", &self.message];
        git(&self.path, &words).or_else(|_| git(&self.path, &[&AUTHOR[..], &words].concat())).map(drop)
    }

    fn remove(&self) {
        self.remove_folder();
        self.remove_branch();
    }

    fn remove_folder(&self) {
        let mut remove = command(&self.repository.top, &["worktree", "remove", "--force", "--force"]);
        remove.arg(&self.path);
        if let Err(reason) = run(remove, "worktree") {
            log::debug!("the git worktree {} is not removed: {reason}", self.path.display());
        }
    }

    fn remove_branch(&self) {
        if let Err(reason) = git(&self.repository.top, &["branch", "-D", &self.branch]) {
            log::debug!("the git branch {} is not removed: {reason}", self.branch);
        }
    }
}

/// `llts/task_001_x.txt-2026-01-31-235959-abcde`. Characters that git does not allow become `-`.
fn branch_name(name: &str, start: Wall, letters: &str) -> String {
    let mut plain = String::new();
    for letter in name.chars() {
        let is_allowed = letter.is_alphanumeric() || letter == '_' || (letter == '.' && !plain.ends_with(['.', '-']));
        plain.push(if is_allowed && !(letter == '.' && plain.is_empty()) { letter } else { '-' });
    }
    let plain = &plain[..plain.floor_char_boundary(NAME_BYTES_MAX)];
    let micros = i64::try_from(start.micros()).unwrap_or_default();
    let time = Timestamp::from_microsecond(micros).unwrap_or_default().strftime("%Y-%m-%d-%H%M%S");
    format!("{BRANCHES}{plain}-{time}-{letters}")
}

/// Runs git in a folder; returns its output, without the line end.
fn git(folder: &Path, words: &[&str]) -> Result<String, String> {
    let name = words.iter().find(|word| !word.starts_with('-') && !word.contains('=')).copied().unwrap_or_default();
    run(command(folder, words), name)
}

fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"]).args(words);
    // A git that has started this worker, as in a hook, has set variables about another folder.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR"] {
        command.env_remove(name);
    }
    command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(mut command: Command, name: &str) -> Result<String, String> {
    let started = with_clean_mask(|| command.spawn());
    let Output { status, stdout, stderr } =
        started.and_then(std::process::Child::wait_with_output).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                "there is no program \"git\" in any folder of PATH".to_owned()
            } else {
                format!("git cannot be run: {error}")
            }
        })?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).trim_end().to_owned());
    }
    let text = String::from_utf8_lossy(&stderr);
    let said = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    Err(said.map_or_else(|| format!("git {name} has ended with {status}"), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_prompt_makes_a_branch() {
        let folder = tempfile::tempdir().unwrap();
        let long = "字".repeat(80);
        for name in ["a.txt", ".hidden", "a..b", "x.lock", "a b~^:?*[\\", "-x", "@{", "..", "a.", &long, "$(id)\n'"] {
            let branch = branch_name(name, Wall::from_micros(1_769_903_999_000_000), "abcde");
            assert_eq!(git(folder.path(), &["check-ref-format", "--branch", &branch]).as_ref(), Ok(&branch), "{name}");
            assert!(branch.ends_with("-2026-01-31-235959-abcde"), "{branch}");
        }
        assert!(branch_name("a.txt", Wall::from_micros(0), "x").starts_with("llts/a.txt-1970-01-01-"));
    }
}
