#![cfg(test)]
//! Which folders count as those of an abandoned service; all others are left alone.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use mountkit::{Precious, bind, in_own_mount_namespace};

/// A folder as a command makes it, whose keepers are gone when the lock is dropped.
fn guest(base: &Path, name: &str) -> (PathBuf, KeeperLock) {
    let folder = base.join(format!("{EPHEMERAL_PREFIX}{name}"));
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(PRIVATE)).unwrap();
    let lock = KeeperLock::make(&folder).unwrap();
    fs::create_dir_all(folder.join("work/TASK_1/deep")).unwrap();
    fs::write(folder.join("work/TASK_1/deep/file"), "x").unwrap();
    (folder, lock)
}

fn abandoned(base: &Path) -> Vec<PathBuf> {
    let found = end_abandoned_in(base, &Config::default());
    found.into_iter().map(|one| one.ended.map(|_| one.folder).unwrap()).collect()
}

#[test]
fn a_guest_is_ended_when_its_last_keeper_is_gone() {
    let base = tempfile::tempdir().unwrap();
    let (folder, first) = guest(base.path(), "x");
    // As in a TMPDIR that belongs to a group.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o2700)).unwrap();
    let second = KeeperLock::join(&folder).unwrap();
    for keeper in [first, second] {
        assert!(abandoned(base.path()).is_empty());
        assert!(folder.join("work/TASK_1/deep/file").exists());
        drop(keeper);
    }
    assert_eq!(abandoned(base.path()), [folder.as_path()]);
    assert!(!folder.exists());
    assert!(KeeperLock::join(&folder).is_err());
    assert!(abandoned(base.path()).is_empty());
}

/// A supervisor or a guard that starts late, while its service is being ended.
#[test]
fn no_keeper_joins_a_guest_that_is_being_ended() {
    let base = tempfile::tempdir().unwrap();
    let (folder, first) = guest(base.path(), "x");
    let late = options().open(lock_file(&folder)).unwrap();
    drop(first);
    let parent = removal::open_folder(rustix::fs::CWD, base.path()).unwrap();
    let name = CString::new(format!("{EPHEMERAL_PREFIX}x")).unwrap();
    let ending = lock_abandoned(&open_private(&parent, &name).unwrap(), &folder).unwrap();
    let refused = KeeperLock::join(&folder).unwrap_err().to_string();
    assert!(refused.contains("another command ends") && refused.contains("keepers.lock"), "{refused}");
    assert!(end_abandoned_in(base.path(), &Config::default()).is_empty(), "one ends it");
    fs::remove_file(lock_file(&folder)).unwrap();
    drop(ending);
    late.try_lock_shared().unwrap();
    assert_eq!(late.metadata().unwrap().nlink(), 0, "by which a keeper knows");
}

#[test]
fn what_is_no_abandoned_guest_of_ours_stays() {
    let base = tempfile::tempdir().unwrap();
    let text = |folder: &Path| fs::read_to_string(lock_file(folder)).unwrap();
    let put = |folder: &Path, text: &str| fs::write(lock_file(folder), text).unwrap();
    let (starting, _) = guest(base.path(), "starting");
    put(&starting, "");
    let (torn, _) = guest(base.path(), "torn");
    put(&torn, &text(&torn)[..20]);
    let (earlier, _) = guest(base.path(), "of-another-boot-or-machine");
    put(&earlier, &text(&earlier).replace(boot_id(), "11111111-2222-3333-4444-555555555555"));
    let (unseen, _) = guest(base.path(), "of-another-pid-namespace");
    put(&unseen, &text(&unseen).replace("pid:[", "pid:[1"));
    let (moved, _) = guest(base.path(), "moved");
    put(&moved, &text(&moved).replace("moved", "elsewhere"));
    let (open, _) = guest(base.path(), "open-to-others");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    let (unlocked, _) = guest(base.path(), "without-a-lock");
    fs::remove_file(lock_file(&unlocked)).unwrap();
    let (linked_lock, _) = guest(base.path(), "with-a-link-for-a-lock");
    fs::rename(lock_file(&linked_lock), base.path().join("lock")).unwrap();
    symlink(base.path().join("lock"), lock_file(&linked_lock)).unwrap();
    let (elsewhere, _) = guest(base.path(), "elsewhere");
    let target = base.path().join("target");
    fs::rename(&elsewhere, &target).unwrap();
    symlink(&target, &elsewhere).unwrap();
    let (other_name, _) = guest(base.path(), "other-name");
    let renamed = base.path().join("other");
    fs::rename(&other_name, &renamed).unwrap();
    put(&renamed, &text(&renamed).replace(&format!("{EPHEMERAL_PREFIX}other-name"), "other"));
    if rustix::process::geteuid().is_root() {
        let (foreign, _) = guest(base.path(), "of-another-user");
        nix::unistd::chown(&foreign, Some(nix::unistd::Uid::from_raw(1234)), None).unwrap();
    }
    let before = fs::read_dir(base.path()).unwrap().count();
    assert!(abandoned(base.path()).is_empty());
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), before);
    for folder in [&starting, &torn, &earlier, &unseen, &moved, &open, &unlocked, &linked_lock, &target, &renamed] {
        assert!(folder.join("work/TASK_1/deep/file").exists(), "{}", folder.display());
    }
}

#[test]
fn the_end_of_a_guest_follows_no_link_and_crosses_no_mount() {
    in_own_mount_namespace(|| {
        let base = tempfile::tempdir().unwrap();
        let precious = Precious::default();
        let (folder, lock) = guest(base.path(), "x");
        symlink(precious.path(), folder.join("link")).unwrap();
        symlink(precious.path(), folder.join("work/TASK_1/link")).unwrap();
        fs::create_dir(folder.join("state")).unwrap();
        for place in ["work/TASK_1/deep", "work", "state"] {
            bind(precious.path(), &folder.join(place));
        }
        drop(lock);
        assert_eq!(abandoned(base.path()), [folder.as_path()]);
        assert!(!folder.exists());
        precious.is_untouched();
        // The lock is hidden: whether there are keepers is unknown.
        let (covered, lock) = guest(base.path(), "y");
        drop(lock);
        bind(precious.path(), &covered);
        assert!(abandoned(base.path()).is_empty());
        precious.is_untouched();
        nix::mount::umount(&covered).unwrap();
        // The supervisor and the guard remove the folder by its name.
        bind(precious.path(), &covered);
        drop(EphemeralDir::new(&covered));
        assert!(!covered.exists());
        precious.is_untouched();
    });
}

#[test]
fn a_link_in_the_place_of_a_folder_is_not_followed() {
    let base = tempfile::tempdir().unwrap();
    let precious = Precious::default();
    let (folder, lock) = guest(base.path(), "x");
    symlink(precious.path(), folder.join("state")).unwrap();
    drop(lock);
    let found = end_abandoned_in(base.path(), &Config::default());
    let why = found[0].ended.as_ref().unwrap_err();
    assert!(why.contains("state"), "{why}");
    assert!(folder.exists());
    precious.is_untouched();
}

#[test]
fn only_a_folder_of_a_guest_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let [guest, other] = [format!("{EPHEMERAL_PREFIX}x"), "other".to_owned()].map(|name| folder.path().join(name));
    for dir in [&guest, &other] {
        fs::create_dir(dir).unwrap();
        drop(EphemeralDir::new(dir));
    }
    assert!(!guest.exists() && other.exists());
}
