#![cfg(test)]

use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

const INTERVAL: Duration = Duration::from_secs(3);

fn later(now: Now, by: Duration) -> Now {
    Now { mono: now.mono + by, wall: now.wall + by }
}

fn folder(dir: &Path) -> ToolsFolder {
    ToolsFolder::open(dir.to_owned(), 1000, INTERVAL)
}

#[test]
fn a_tool_is_an_archive_that_a_run_would_find() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for name in ["b.tar.gz", "a-1.tar.gz", "no.tar", ".hidden.tar.gz", "with space.tar.gz", "tar.gz"] {
        fs::write(path(name), "").unwrap();
    }
    fs::create_dir(path("folder.tar.gz")).unwrap();
    symlink("a-1.tar.gz", path("a.tar.gz")).unwrap();
    symlink("nowhere", path("dangling.tar.gz")).unwrap();
    symlink("/dev/null", path("outside.tar.gz")).unwrap();
    assert_eq!(folder(dir.path()).tools().to_string(), "a,a-1,b");
}

#[test]
fn too_many_tools_are_every_tool() {
    let dir = tempfile::tempdir().unwrap();
    for number in 100..400 {
        fs::write(dir.path().join(format!("{number}.tar.gz")), "").unwrap();
    }
    let mut folder = folder(dir.path());
    assert_eq!(*folder.tools(), ToolSet::every());
    let [there, absent] = ["100", "x"].map(|name| ToolName::new(name).unwrap());
    assert!(folder.missed(clock::now(), &absent));
    assert!(!folder.missed(clock::now(), &there), "it was added again before the read");
    assert_eq!(folder.tools().to_string(), "*,-x");
    fs::write(dir.path().join("x.tar.gz"), "").unwrap();
    folder.notice();
    assert!(folder.check_if_due(later(clock::now(), PAUSE)));
    assert_eq!(*folder.tools(), ToolSet::every());
}

#[test]
fn a_change_is_seen_with_a_notice_or_with_the_next_heartbeat() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = folder(dir.path());
    let start = clock::now();
    fs::write(dir.path().join("a.tar.gz"), "").unwrap();
    folder.check_if_due(start);
    assert_eq!(folder.tools().to_string(), "", "no notice was sent");
    folder.notice();
    folder.check_if_due(later(start, PAUSE));
    assert_eq!(folder.tools().to_string(), "a");
    fs::remove_file(dir.path().join("a.tar.gz")).unwrap();
    folder.check_if_due(later(start, PAUSE + INTERVAL));
    assert_eq!(folder.tools().to_string(), "");
}

#[test]
fn a_tool_that_a_run_has_not_found_is_looked_for_at_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.tar.gz"), "").unwrap();
    let mut folder = folder(dir.path());
    fs::remove_file(dir.path().join("a.tar.gz")).unwrap();
    folder.missed(clock::now(), &ToolName::new("a").unwrap());
    assert_eq!(folder.tools().to_string(), "");
}

#[test]
fn a_folder_may_come_later_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tools");
    let mut folder = folder(&path);
    let mut now = clock::now();
    let mut look = |folder: &mut ToolsFolder| {
        now = later(now, INTERVAL);
        folder.check_if_due(now);
        folder.tools().to_string()
    };
    assert_eq!(look(&mut folder), "");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("a.tar.gz"), "").unwrap();
    assert_eq!(look(&mut folder), "a");
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(look(&mut folder), "");
}
