//! The programs that the configuration of a repository names. Git starts them by itself, and a run can write that configuration, so
//! they would run outside of every run. Only programs that were configured when the worker started are allowed.

use std::collections::BTreeSet;
use std::path::Path;

use super::call::{command, name_of, run};

/// The last part of settings that git runs, behind `filter.NAME`, `diff.NAME` and `merge.NAME`.
const OF_A_DRIVER: [&str; 6] = [".clean", ".smudge", ".process", ".command", ".textconv", ".driver"];

/// Other settings that git runs. `core.fsmonitor` and hooks are turned off in each call.
const ALONE: [&str; 4] = ["diff.external", "core.sshcommand", "core.gitproxy", "core.askpass"];

const LIST: [&str; 5] = ["config", "--list", "-z", "--show-scope", "--includes"];

/// The settings of this repository and worktree that name programs, each with its value.
pub(super) fn programs(git_dir: &Path, files: &Path) -> Result<BTreeSet<String>, String> {
    let list = run(command(files, Some((git_dir, files)), &LIST), name_of(&LIST))?;
    let mut parts = list.split('\0');
    let mut found = BTreeSet::new();
    while let (Some(scope), Some(setting)) = (parts.next(), parts.next()) {
        let name = setting.split('\n').next().unwrap_or_default();
        if ["local", "worktree"].contains(&scope) && is_program(name) {
            found.insert(setting.to_owned());
        }
    }
    Ok(found)
}

/// Refuses a repository with other programs than these.
///
/// # Errors
/// A sentence with the first one.
pub(super) fn check(trusted: &BTreeSet<String>, git_dir: &Path, files: &Path) -> Result<(), String> {
    let present = programs(git_dir, files)?;
    let Some(new) = present.difference(trusted).next() else { return Ok(()) };
    let (name, value) = new.split_once('\n').unwrap_or((new, ""));
    Err(format!(
        "{name} was set to {value:?} in the configuration of the repository {} after the worker has started, and git would run that \
         outside of every run; remove it with `git config --unset {name}`, or start the worker again if it is yours",
        git_dir.display()
    ))
}

/// Names are in lower case but for their middle part.
fn is_program(name: &str) -> bool {
    let is_of_a_driver = ["filter.", "diff.", "merge."].iter().any(|kind| name.starts_with(kind))
        && OF_A_DRIVER.iter().any(|part| name.ends_with(part));
    is_of_a_driver || ALONE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::super::call::git;
    use super::*;

    #[test]
    fn a_program_that_a_run_has_named_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        git(top, &["init", "--quiet"]).unwrap();
        let git_dir = top.join(".git");
        git(top, &["config", "filter.own.clean", "cat"]).unwrap();
        let trusted = programs(&git_dir, top).unwrap();
        assert_eq!(trusted.len(), 1, "{trusted:?}");
        git(top, &["config", "user.name", "x"]).unwrap();
        assert_eq!(check(&trusted, &git_dir, top), Ok(()));
        for name in ["filter.Mine.smudge", "diff.external", "core.sshCommand"] {
            git(top, &["config", name, "touch pwn"]).unwrap();
            let said = check(&trusted, &git_dir, top).unwrap_err();
            assert!(
                said.contains("was set to \"touch pwn\"") && said.to_lowercase().contains(&name.to_lowercase()),
                "{said}"
            );
            git(top, &["config", "--unset", name]).unwrap();
        }
        git(top, &["config", "filter.own.clean", "touch pwn"]).unwrap();
        assert!(check(&trusted, &git_dir, top).is_err(), "another value of a known name");
    }

    /// The monitor would be run by a mere `status`.
    #[test]
    fn a_monitor_that_a_run_has_named_is_not_started() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        git(top, &["init", "--quiet"]).unwrap();
        std::fs::write(top.join("a"), "").unwrap();
        git(top, &["add", "a"]).unwrap();
        let mark = top.join("pwn");
        git(top, &["config", "core.fsmonitor", &format!("touch {}; false", mark.display())]).unwrap();
        git(top, &["status", "--porcelain"]).unwrap();
        assert!(!mark.exists());
    }
}
