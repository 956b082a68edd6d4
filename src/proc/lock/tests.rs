//! Tests of the lock, with a second open file and with a second process.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use super::*;

/// Set for the copy of this test program that only tries to take the lock.
const SECOND: &str = "LOCK_TEST_FOLDER";

#[test]
fn a_second_holder_is_told_who_the_first_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = StateLock::acquire(folder.path(), "controller").expect("free");
    let error = StateLock::acquire(folder.path(), "controller").expect_err("held");
    assert!(matches!(error, LockError::Held { pid: Some(pid), .. } if pid == std::process::id()), "{error:?}");
    let sentence = error.to_string();
    assert!(sentence.contains("another controller") && sentence.contains("llts down"), "{sentence}");
    assert_eq!(StateLock::holder(folder.path(), "controller"), Some(Holder { pid: Some(std::process::id()) }));
    assert!(StateLock::acquire(folder.path(), "agent.a1").is_ok(), "another lock in the same folder");
    drop(first);
    assert_eq!(StateLock::holder(folder.path(), "controller"), None);
    assert!(StateLock::acquire(folder.path(), "controller").is_ok());
}

#[test]
fn a_second_process_is_refused_and_the_first_is_undisturbed() {
    if let Some(folder) = std::env::var_os(SECOND) {
        let error = StateLock::acquire(Path::new(&folder), "controller").expect_err("held by the parent");
        let parent = std::os::unix::process::parent_id();
        assert!(matches!(error, LockError::Held { pid: Some(pid), .. } if pid == parent), "{error:?}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let _first = StateLock::acquire(folder.path(), "controller").expect("free");
    let name = std::thread::current().name().expect("the test's name").to_owned();
    let second = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", &name])
        .env(SECOND, folder.path())
        .output()
        .expect("started");
    let text = String::from_utf8_lossy(&second.stdout);
    assert!(second.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(StateLock::holder(folder.path(), "controller"), Some(Holder { pid: Some(std::process::id()) }));
}

#[test]
fn a_child_does_not_inherit_the_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let lock = StateLock::acquire(folder.path(), "controller").expect("free");
    // `cat` lives until its stdin is closed.
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
    let open_files = |pid: u32| -> Vec<PathBuf> {
        let links = fs::read_dir(format!("/proc/{pid}/fd")).expect("its files");
        links.filter_map(|link| fs::read_link(link.expect("a file").path()).ok()).collect()
    };
    let path = fs::canonicalize(lock_file(folder.path(), "controller")).expect("there");
    let (ours, its) = (open_files(std::process::id()), open_files(child.id()));
    drop(child.stdin.take());
    child.wait().expect("ended");
    assert!(ours.contains(&path) && !its.contains(&path), "{its:?}");
    drop(lock);
}

#[test]
fn the_text_of_a_dead_process_names_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = lock_file(folder.path(), "controller");
    let pid = std::process::id();
    let start = start_ticks(pid).expect("a start");
    let text = |start: u64, boot: &str| format!("pid {pid}\nstart_ticks {start}\nboot_id {boot}\nsince x\n");
    for (text, expected) in [
        (text(start, boot_id()), Some(pid)),
        (text(start + 1, boot_id()), None),
        (text(start, "another boot"), None),
        (String::new(), None),
        ("pid -1\n".to_owned(), None),
    ] {
        fs::write(&path, &text).expect("written");
        assert_eq!(living_writer(&path), expected, "{text}");
        // The file names a holder but is not locked.
        assert_eq!(StateLock::holder(folder.path(), "controller"), None, "{text}");
    }
    // Locked by a holder that has not written its name, so no process is named.
    let file = open(&path, true).expect("open");
    file.lock().expect("free");
    assert_eq!(StateLock::holder(folder.path(), "controller"), Some(Holder { pid: None }));
    let error = StateLock::acquire(folder.path(), "controller").expect_err("held");
    assert!(matches!(error, LockError::Held { pid: None, .. }), "{error:?}");
}

#[test]
fn folder_and_file_are_private_and_a_link_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("new").join("state");
    let _lock = StateLock::acquire(&dir, "controller").expect("free");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&dir.join("controller.lock"))), (0o700, 0o600));
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").expect("written");
    std::os::unix::fs::symlink(&victim, dir.join("agent.lock")).expect("linked");
    assert!(matches!(StateLock::acquire(&dir, "agent"), Err(LockError::Io { .. })));
    assert_eq!(fs::read_to_string(&victim).expect("there"), "precious");
    assert_eq!(StateLock::holder(&folder.path().join("missing"), "controller"), None);
}

/// The copy of this test program that has the lock until it is killed.
fn holder_to_be_killed(folder: &Path) -> std::process::Child {
    let name = std::thread::current().name().expect("the test's name").to_owned();
    let mut holder = Command::new(std::env::current_exe().expect("this program"));
    holder.args(["--exact", &name, "--nocapture"]).env(SECOND, folder).stdin(Stdio::piped()).stdout(Stdio::null());
    let holder = holder.spawn().expect("started");
    while StateLock::holder(folder, "service") != Some(Holder { pid: Some(holder.id()) }) {
        std::thread::yield_now();
    }
    holder
}

#[test]
fn a_holder_that_was_killed_just_now_is_none_that_lasts() {
    if let Some(folder) = std::env::var_os(SECOND) {
        return hold_until_killed(&folder);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut holder = holder_to_be_killed(folder.path());
    let living = Some(Holder { pid: Some(holder.id()) });
    assert_eq!(StateLock::lasting_holder(folder.path(), "service", SIGNAL_MAX), living);
    holder.kill().expect("it is ours");
    assert_eq!(StateLock::lasting_holder(folder.path(), "service", SIGNAL_MAX), None);
    holder.wait().expect("it was killed");
}

/// Runs and kills [`holder_to_be_killed`].
fn hold_until_killed(folder: &std::ffi::OsStr) {
    let _lock = StateLock::acquire(Path::new(folder), "service").expect("free");
    // Until it is killed, or the test has ended.
    let _ = io::stdin().read(&mut [0]);
}

#[test]
fn a_holder_that_dies_is_waited_for() {
    if let Some(folder) = std::env::var_os(SECOND) {
        return hold_until_killed(&folder);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut holder = holder_to_be_killed(folder.path());
    assert!(!is_dying(holder.id()) && !is_dying(std::process::id()));
    let (sender, acquired) = std::sync::mpsc::channel();
    let path = folder.path().to_owned();
    std::thread::spawn(move || sender.send(StateLock::acquire_within(&path, "service", Duration::from_secs(60))));
    assert!(acquired.recv_timeout(Duration::from_millis(50)).is_err(), "it is held");
    holder.kill().expect("it is ours");
    let lock = acquired.recv_timeout(Duration::from_secs(60)).expect("an answer");
    assert!(lock.is_ok(), "{lock:?}");
    // Not reaped, so its pid and start time still exist.
    assert!(is_dying(holder.id()) && living_writer(&lock_file(folder.path(), "service")) != Some(holder.id()));
    holder.wait().expect("it was killed");
}
