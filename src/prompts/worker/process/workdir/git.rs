//! Worktrees of a git repository, one for each run, on branches `llts/PROMPT-START`.
//!
//! At the end of a run, its uncommitted changes are committed and the worktree is removed. The branch stays if it has a commit. A
//! folder with work that git cannot keep is moved out of the way instead. Hooks are not run: they are for people, and may ask for
//! something.
//!
//! A command may do anything to its folder, also to `.git` in it, without which git would find the repository around it. So git never
//! searches for a repository once the worktree exists: each call names it.

mod call;
mod nested;
mod programs;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use jiff::Timestamp;

use base::Wall;
use proc::background::Bell;
use proc::runs::UNKEPT_WORK;

use call::{command, git, name_of, run, run_until};

/// The folder of the branches.
const BRANCHES: &str = "llts/";

/// The entry that makes a folder a repository.
const LINK: &str = ".git";

/// Bytes of the name of a prompt in the name of a branch, which is also a file name below 255 bytes.
const NAME_BYTES_MAX: usize = 120;

/// The author of a commit if git has none configured.
const AUTHOR: [&str; 4] = ["-c", "user.name=llts", "-c", "user.email=llts@localhost"];

/// The repository that a folder is in.
#[derive(Clone, Debug)]
pub(super) struct Repository {
    top: PathBuf,
    git_dir: PathBuf,
    /// The path of the folder below `top`.
    prefix: PathBuf,
    /// The programs that its configuration named at the start of the worker.
    programs: BTreeSet<String>,
    stops: Arc<Stops>,
}

/// The end of the worker.
#[derive(Debug)]
struct Stops {
    /// Ends a git that makes a worktree, which is of no use.
    first: Bell,
    /// Ends a git that keeps the work of a run, whose folder then stays.
    second: Bell,
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
    /// The part of the repository for this worktree, with its index and `HEAD`.
    git_dir: PathBuf,
    /// The contents of its `.git`.
    link: String,
    /// All branches at its creation: `refs/heads/NAME COMMIT` in each line.
    heads: String,
}

/// The remains of a run.
#[derive(Debug, Default)]
pub(in crate::worker::process) struct Remains {
    /// The branch with the changes of the run, if there are any.
    pub(in crate::worker::process) branch: Option<String>,
    /// The working folder, if it contains something that git could not keep.
    pub(in crate::worker::process) folder: Option<PathBuf>,
}

impl Repository {
    /// The repository that the folder is in.
    ///
    /// # Errors
    /// A sentence, when there is no git, no repository, or no commit in it.
    pub(super) fn of(folder: &Path) -> Result<Self, String> {
        let top = git(folder, &["rev-parse", "--show-toplevel"]).map_err(|reason| {
            format!("--workdir git-worktree cannot use {}: {reason}; --workdir copy needs no git", folder.display())
        })?;
        let top = PathBuf::from(top);
        let git_dir = PathBuf::from(git(folder, &["rev-parse", "--absolute-git-dir"])?);
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
        let programs = programs::programs(&git_dir, &top)?;
        let bell = || Bell::new().map_err(|error| format!("--workdir git-worktree: {error}"));
        let stops = Arc::new(Stops { first: bell()?, second: bell()? });
        Ok(Self { top, git_dir, prefix, programs, stops })
    }

    /// The worker is to end; or `at_once`, for the second time.
    pub(super) fn stop(&self, at_once: bool) {
        if at_once { self.stops.second.ring() } else { self.stops.first.ring() }
    }

    /// Adds a worktree.
    ///
    /// # Errors
    /// A sentence; then nothing is left of the worktree.
    pub(super) fn add(&self, path: &Path, name: &str, start: Wall, letters: &str) -> Result<Worktree, String> {
        programs::check(&self.programs, &self.git_dir, &self.top)?;
        let branch = branch_name(name, start, letters);
        let base = self.git(&["rev-parse", "HEAD^{commit}"])?;
        let heads = self.git(&["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads"])?;
        let mut worktree = self.worktree(path, &branch);
        (worktree.base, worktree.message, worktree.heads) = (base, name.to_owned(), heads);
        let mut add = self.command(&["worktree", "add", "--quiet", "-b", &worktree.branch]);
        add.arg(&worktree.path).arg(&worktree.base);
        let made = run_until(add, "worktree", Some(&self.stops.first)).and_then(|_| {
            worktree.git_dir = PathBuf::from(git(&worktree.path, &["rev-parse", "--absolute-git-dir"])?);
            worktree.link = fs::read_to_string(worktree.path.join(LINK)).map_err(|error| error.to_string())?;
            Ok(())
        });
        match made {
            Ok(()) => Ok(worktree),
            Err(reason) => {
                worktree.remove();
                Err(format!("cannot make a git worktree for a run: {reason}"))
            }
        }
    }

    fn worktree(&self, path: &Path, branch: &str) -> Worktree {
        Worktree {
            repository: self.clone(),
            path: path.to_owned(),
            branch: branch.to_owned(),
            base: String::new(),
            message: String::new(),
            git_dir: PathBuf::new(),
            link: String::new(),
            heads: String::new(),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        command(&self.top, Some((&self.git_dir, &self.top)), words)
    }

    fn git(&self, words: &[&str]) -> Result<String, String> {
        run(self.command(words), name_of(words))
    }

    /// The commit that a branch is at.
    fn tip(&self, branch: &str) -> Option<String> {
        self.git(&["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}")]).ok()
    }

    /// Forgets the worktrees below `runs` that have no folder any more. A branch with commits is kept.
    pub(super) fn forget_lost(&self, runs: &Path) {
        let Ok(list) = self.git(&["worktree", "list", "--porcelain"]) else { return };
        for entry in list.split("\n\n") {
            let member = |name: &str| entry.lines().find_map(|line| line.strip_prefix(name));
            let (Some(path), Some(branch)) = (member("worktree "), member("branch refs/heads/")) else { continue };
            let path = Path::new(path);
            if !path.starts_with(runs) || !branch.starts_with(BRANCHES) || path.exists() {
                continue;
            }
            self.worktree(path, branch).remove_folder();
            match self.git(&["branch", "-d", branch]) {
                Ok(_) => log::info!("the git branch {branch} of a killed worker had no commit and is removed"),
                // Another worker that has started at the same time has removed it.
                Err(_) if self.tip(branch).is_none() => {}
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

    /// Commits changes and removes the worktree, or keeps its folder.
    ///
    /// # Errors
    /// A sentence, when the folder can be neither committed nor moved; then it is still there.
    pub(super) fn finish(self) -> Result<Remains, String> {
        let conserved = self.conserve();
        let branch = self.branch_with_changes(conserved.as_ref().ok().and_then(Option::as_deref));
        if let Some(branch) = &branch {
            log::info!("the changes of {} are on the git branch {branch}", self.message);
        }
        if let Err(reason) = conserved {
            let folder = self.keep().map_err(|error| {
                let path = self.path.display();
                format!("the changes of the run in {path} cannot be committed: {reason}; it cannot be moved: {error}")
            })?;
            log::warn!(
                "git cannot keep everything that the run of {} has left, so its folder stays as {}: {reason}",
                self.message,
                folder.display()
            );
            return Ok(Remains { branch, folder: Some(folder) });
        }
        self.remove_folder();
        if self.repository.tip(&self.branch).is_some_and(|tip| tip == self.base) {
            self.remove_branch();
        }
        Ok(Remains { branch, folder: None })
    }

    /// Gives everything to git; returns the branch that was made for commits without one.
    ///
    /// # Errors
    /// The reason why the folder has something that git does not have.
    fn conserve(&self) -> Result<Option<String>, String> {
        // The command may have removed its folder, and git must start in one.
        let is_there = self.path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        let place = if is_there { &self.path } else { &self.repository.top };
        programs::check(&self.repository.programs, &self.git_dir, place)?;
        match self.path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => self.commit_all()?,
            // The command has removed its folder.
            Ok(_) => drop(fs::remove_file(&self.path)),
            Err(_) => {}
        }
        self.branch_of_detached()
    }

    fn commit_all(&self) -> Result<(), String> {
        self.mend_link()?;
        let is_ours = |folder: &Path| self.is_unchanged_submodule(folder);
        if let Some(folder) = nested::find(&self.path).into_iter().find(|folder| !is_ours(folder)) {
            return Err(format!("{} in it is a git repository of its own", folder.display()));
        }
        self.check_branch()?;
        self.commit()
    }

    /// Restores `.git` if it is missing.
    ///
    /// # Errors
    /// When it is another one: then the folder is another repository.
    fn mend_link(&self) -> Result<(), String> {
        let path = self.path.join(LINK);
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = File::create_new(&path).and_then(|mut file| file.write_all(self.link.as_bytes()));
                made.map_err(|error| format!("its {LINK} is missing: {error}"))
            }
            Ok(metadata) if metadata.is_file() && fs::read_to_string(&path).is_ok_and(|text| text == self.link) => {
                Ok(())
            }
            _ => Err(format!("its {LINK} was replaced")),
        }
    }

    /// True for a submodule at its original commit and without changes.
    fn is_unchanged_submodule(&self, folder: &Path) -> bool {
        let Some(folder) = folder.to_str() else { return false };
        let path = format!(":(top,literal){folder}");
        let known = self.git(&["ls-tree", "--full-tree", &self.base, "--", folder]);
        known.is_ok_and(|entry| entry.starts_with("160000 "))
            && self.git(&["diff", "--quiet", "--ignore-submodules=none", &self.base, "--", &path]).is_ok()
    }

    /// The branch that is checked out, if any.
    fn head(&self) -> Option<String> {
        let name = self.git(&["symbolic-ref", "--quiet", "HEAD"]).ok()?;
        name.strip_prefix("refs/heads/").map(str::to_owned)
    }

    /// A commit must not move the branch of another folder, whose files would seem to be changed then.
    fn check_branch(&self) -> Result<(), String> {
        let Some(branch) = self.head().filter(|branch| *branch != self.branch) else { return Ok(()) };
        let list = self.repository.git(&["worktree", "list", "--porcelain"])?;
        let line = format!("branch refs/heads/{branch}");
        if list.lines().filter(|one| *one == line).count() > 1 {
            return Err(format!("its branch {branch} is also that of another folder"));
        }
        Ok(())
    }

    /// A branch for commits that no branch or tag has, and that would be lost.
    fn branch_of_detached(&self) -> Result<Option<String>, String> {
        if self.git(&["symbolic-ref", "--quiet", "HEAD"]).is_ok() {
            return Ok(None);
        }
        let head = self.git(&["rev-parse", "--verify", "HEAD^{commit}"])?;
        if !self.git(&["for-each-ref", "--count=1", "--contains", &head])?.is_empty() {
            return Ok(None);
        }
        let tip = self.repository.tip(&self.branch);
        let is_behind = |tip: String| self.repository.git(&["merge-base", "--is-ancestor", &tip, &head]).is_ok();
        let name = if tip.is_none_or(is_behind) { self.branch.clone() } else { format!("{}-detached", self.branch) };
        self.repository.git(&["branch", "--force", &name, &head])?;
        Ok(Some(name))
    }

    /// The branch that the run has changed: the one that is checked out, or its own.
    fn branch_with_changes(&self, detached: Option<&str>) -> Option<String> {
        let is_changed = |branch: &String| {
            let tip = self.repository.tip(branch);
            tip.is_some_and(|tip| {
                let before = format!("refs/heads/{branch} {tip}");
                if *branch == self.branch { tip != self.base } else { self.heads.lines().all(|line| line != before) }
            })
        };
        let named = detached.map(str::to_owned).or_else(|| self.head()).filter(is_changed);
        let own = Some(self.branch.clone()).filter(is_changed);
        if let (Some(named), Some(own)) = (&named, &own)
            && named != own
        {
            log::info!("other changes of {} are on the git branch {own}", self.message);
        }
        named.or(own)
    }

    /// Moves the folder out of that of the run, which is removed; git still knows it.
    fn keep(&self) -> io::Result<PathBuf> {
        let run = self.path.parent().unwrap_or(&self.path);
        let mut name = OsString::from(UNKEPT_WORK);
        name.push(run.file_name().unwrap_or_default());
        let folder = run.with_file_name(name);
        // A folder that is read-only cannot be moved.
        let mode = self.path.symlink_metadata()?.permissions().mode() | 0o700;
        fs::set_permissions(&self.path, fs::Permissions::from_mode(mode))?;
        fs::rename(&self.path, &folder)?;
        let link = format!("{}\n", folder.join(LINK).display());
        if let Err(error) = fs::write(self.git_dir.join("gitdir"), link) {
            log::debug!("git does not know {}: {error}", folder.display());
        }
        Ok(folder)
    }

    fn commit(&self) -> Result<(), String> {
        // Settings of the user may hide files.
        if self.git(&["status", "--porcelain", "--untracked-files=normal"])?.is_empty() {
            return Ok(());
        }
        self.git(&["add", "--all"])?;
        if self.git(&["diff", "--cached", "--quiet"]).is_ok() {
            return Ok(());
        }
        let words = ["-c", "commit.gpgsign=false", "commit", "--quiet", "--no-verify", "-m", &self.message];
        self.git(&words).or_else(|_| self.git(&[&AUTHOR[..], &words].concat())).map(drop)
    }

    fn git(&self, words: &[&str]) -> Result<String, String> {
        let command = command(&self.repository.top, Some((&self.git_dir, &self.path)), words);
        run_until(command, name_of(words), Some(&self.repository.stops.second))
    }

    fn remove(&self) {
        self.remove_folder();
        self.remove_branch();
    }

    fn remove_folder(&self) {
        let mut remove = self.repository.command(&["worktree", "remove", "--force", "--force"]);
        remove.arg(&self.path);
        if let Err(reason) = run(remove, "worktree") {
            log::debug!("the git worktree {} is not removed: {reason}", self.path.display());
        }
    }

    fn remove_branch(&self) {
        if let Err(reason) = self.repository.git(&["branch", "-D", &self.branch]) {
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

    #[test]
    fn a_filter_that_waits_ends_with_its_worker() {
        use super::super::{Workdir, Workplace};
        let folder = tempfile::tempdir().unwrap();
        let [top, run, gate, fifo] = ["top", "run", "gate", "fifo"].map(|name| folder.path().join(name));
        fs::create_dir(&top).unwrap();
        fs::write(top.join("a"), "text").unwrap();
        fs::write(top.join(".gitattributes"), "a filter=slow").unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let filter = format!("test -e {0} || exec cat; echo >{1}; sleep 600", gate.display(), fifo.display());
        git(&top, &["init", "--quiet"]).unwrap();
        for name in ["filter.slow.clean", "filter.slow.smudge"] {
            git(&top, &["config", name, &filter]).unwrap();
        }
        git(&top, &["add", "--all"]).unwrap();
        git(&top, &[&AUTHOR[..], &["commit", "--quiet", "-m", "x"]].concat()).unwrap();
        let has_begun = || fs::read(&fifo).unwrap();
        for is_made in [false, true] {
            let _ = fs::remove_file(&gate);
            let workplace = Workplace::open(Workdir::GitWorktree, &top).unwrap();
            let make = || workplace.prepare(&run, "a", Wall::from_micros(0), &is_made.to_string());
            std::thread::scope(|scope| {
                if is_made {
                    let work = make().unwrap();
                    fs::write(work.folder.join("a"), "other").unwrap();
                    fs::write(&gate, "").unwrap();
                    let ending = scope.spawn(|| work.finish());
                    has_begun();
                    workplace.stop();
                    workplace.stop();
                    let remains = ending.join().unwrap().unwrap();
                    assert_eq!(fs::read_to_string(remains.folder.unwrap().join("a")).unwrap(), "other");
                } else {
                    fs::write(&gate, "").unwrap();
                    let making = scope.spawn(make);
                    has_begun();
                    workplace.stop();
                    let reason = making.join().unwrap().unwrap_err();
                    assert!(reason.contains("git worktree was killed, because its worker is to end"), "{reason}");
                }
            });
        }
    }
}
