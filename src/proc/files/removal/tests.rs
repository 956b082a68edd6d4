#![cfg(test)]
//! What a tool has mounted in its folder stays unchanged, whichever function removes the folder.

use std::fs;

use nix::mount::{MsFlags, mount};

use mountkit::{Precious, bind, in_own_mount_namespace, ways_to_mount};

use super::*;

fn site() -> (tempfile::TempDir, PathBuf, Precious) {
    let around = tempfile::tempdir().unwrap();
    let top = around.path().join("a top with blanks");
    fs::create_dir_all(top.join("own/deep")).unwrap();
    fs::write(top.join("own/deep/file"), "").unwrap();
    (around, top, Precious::default())
}

#[test]
fn a_mount_is_not_crossed_and_what_holds_it_stays() {
    in_own_mount_namespace(|| {
        for (way, mount) in ways_to_mount() {
            let (_around, top, precious) = site();
            mount(&top, &precious);
            let error = remove(&top).unwrap_err().to_string();
            assert!(error.contains("mounted") && error.contains("a top with blanks"), "{way}: {error}");
            precious.is_untouched();
        }
    });
}

#[test]
fn what_a_tool_has_mounted_is_unmounted_and_then_all_else_goes() {
    in_own_mount_namespace(|| {
        for (way, mount) in ways_to_mount() {
            let (_around, top, precious) = site();
            mount(&top, &precious);
            // A mount in use can only be unmounted lazily.
            let _used = fs::File::open(&top).unwrap();
            remove_and_unmount(&top).unwrap_or_else(|error| panic!("{way}: {error}"));
            assert!(!top.exists(), "{way}");
            precious.is_untouched();
        }
    });
}

/// A recursive bind mount shares its mounts with the original, as is the default under systemd.
#[test]
fn unmounting_a_recursive_bind_leaves_the_original_mounted() {
    in_own_mount_namespace(|| {
        let (_around, top, precious) = site();
        let original = tempfile::tempdir().unwrap();
        bind(original.path(), original.path());
        let shared = MsFlags::MS_REC | MsFlags::MS_SHARED;
        mount(None::<&str>, original.path(), None::<&str>, shared, None::<&str>).unwrap();
        fs::create_dir(original.path().join("inner")).unwrap();
        bind(precious.path(), &original.path().join("inner"));
        fs::create_dir(top.join("mnt")).unwrap();
        let recursive = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(original.path()), &top.join("mnt"), None::<&str>, recursive, None::<&str>).unwrap();
        remove_and_unmount(&top).unwrap();
        assert!(!top.exists());
        assert!(original.path().join("inner/f").exists(), "it is still mounted at its own place");
        precious.is_untouched();
    });
}

/// Kernels before 5.6, and containers whose filters reject unknown system calls.
#[test]
fn a_mount_is_seen_without_openat2() {
    in_own_mount_namespace(|| {
        let (_around, top, precious) = site();
        fs::create_dir(top.join("mnt")).unwrap();
        bind(precious.path(), &top.join("mnt"));
        let folder = tree::open_folder(CWD, &top).unwrap();
        for (name, expected) in [(c"own", Ok(())), (c"mnt", Err(Errno::XDEV)), (c"none", Err(Errno::NOENT))] {
            for open in [tree::open_and_compare, tree::open_on_mount_as] {
                assert_eq!(open(folder.as_fd(), name, OFlags::RDONLY).map(drop), expected, "{name:?}");
            }
        }
    });
}

#[test]
fn what_is_removed_is_gone_whatever_it_is() {
    let (around, top, _) = site();
    remove(&top).unwrap();
    remove(&top).unwrap();
    fs::write(&top, "a file").unwrap();
    remove(&top).unwrap();
    let target = around.path().join("target");
    fs::create_dir(&target).unwrap();
    std::os::unix::fs::symlink(&target, &top).unwrap();
    remove(&top).unwrap();
    assert!(!top.exists() && target.exists());
    remove(&top.join("in/none")).unwrap();
}
