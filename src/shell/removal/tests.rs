#![cfg(test)]
//! What a tool has mounted in its folder stays unchanged, whichever function removes the folder.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::*;

/// Runs a test in a mount namespace of its own. Where that is not permitted, the test is skipped with a message.
pub(in crate::shell) fn in_own_mount_namespace(test: impl FnOnce() + Send + 'static) {
    // On a thread of its own, because its namespace ends with it.
    let thread = std::thread::spawn(|| match unshare(CloneFlags::CLONE_NEWNS) {
        Ok(()) => {
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
            test();
        }
        Err(error) => println!("skipped: this user may not make a mount namespace: {error}"),
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Binds `what` to `place`, as `mount --bind` does.
pub(in crate::shell) fn bind(what: &Path, place: &Path) {
    mount(Some(what), place, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
}

/// Other people's data: a folder that no removal may touch.
pub(in crate::shell) struct Precious {
    folder: tempfile::TempDir,
    before: Vec<(PathBuf, u32)>,
}

impl Precious {
    pub(in crate::shell) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        for name in ["f", "a/g", "a/b/h"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        fs::set_permissions(folder.path().join("a/b"), fs::Permissions::from_mode(0o500)).unwrap();
        let before = listed(folder.path());
        Self { folder, before }
    }

    pub(in crate::shell) fn path(&self) -> &Path {
        self.folder.path()
    }

    #[track_caller]
    pub(in crate::shell) fn is_untouched(&self) {
        assert_eq!(listed(self.path()), self.before);
    }
}

/// Every path below a folder, with its mode.
fn listed(folder: &Path) -> Vec<(PathBuf, u32)> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            found.push((path, metadata.permissions().mode()));
        }
    }
    found.sort();
    found
}

/// Mounts something in the folder, or on it.
type MountIn = fn(&Path, &Precious);

/// The ways in which a tool can have something mounted in its folder `top`, each with a name.
pub(in crate::shell) fn ways_to_mount() -> Vec<(&'static str, MountIn)> {
    vec![
        ("a folder", |top, precious| {
            fs::create_dir(top.join("mnt")).unwrap();
            bind(precious.path(), &top.join("mnt"));
        }),
        ("far below", |top, precious| {
            fs::create_dir_all(top.join("a/b/c/d")).unwrap();
            bind(precious.path(), &top.join("a/b/c/d"));
        }),
        ("a file", |top, precious| {
            fs::write(top.join("file"), "").unwrap();
            bind(&precious.path().join("f"), &top.join("file"));
        }),
        ("the folder itself", |top, precious| bind(precious.path(), top)),
        ("the folder itself on itself", |top, _| bind(top, top)),
        ("one on another", |top, precious| {
            fs::create_dir(top.join("mnt")).unwrap();
            bind(precious.path(), &top.join("mnt"));
            bind(precious.path(), &top.join("mnt"));
            bind(precious.path(), &top.join("mnt/a"));
        }),
        ("one behind another", |top, precious| {
            fs::create_dir_all(top.join("x/y/z")).unwrap();
            bind(precious.path(), &top.join("x/y/z"));
            bind(precious.path(), &top.join("x/y"));
            bind(precious.path(), &top.join("x/y/a"));
            fs::write(top.join("x/file"), "").unwrap();
            bind(&precious.path().join("f"), &top.join("x/file"));
            bind(precious.path(), &top.join("x"));
        }),
        ("a file in the place of what another one has behind it", |top, precious| {
            fs::create_dir_all(top.join("x/y")).unwrap();
            bind(precious.path(), &top.join("x/y"));
            let lower = tempfile::tempdir().unwrap();
            fs::write(lower.path().join("y"), "").unwrap();
            bind(lower.path(), &top.join("x"));
        }),
        ("the folder itself over others", |top, precious| {
            fs::create_dir(top.join("mnt")).unwrap();
            bind(precious.path(), &top.join("mnt"));
            bind(precious.path(), top);
            bind(precious.path(), top);
        }),
        ("many on one another", |top, precious| {
            fs::create_dir(top.join("mnt")).unwrap();
            (0..100).for_each(|_| bind(precious.path(), &top.join("mnt")));
        }),
        ("a file system of its own", |top, _| {
            fs::create_dir(top.join("mnt")).unwrap();
            mount(Some("none"), &top.join("mnt"), Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
            fs::write(top.join("mnt/file"), "").unwrap();
        }),
    ]
}

fn site() -> (tempfile::TempDir, PathBuf, Precious) {
    let around = tempfile::tempdir().unwrap();
    let top = around.path().join("a top with blanks");
    fs::create_dir_all(top.join("own/deep")).unwrap();
    fs::write(top.join("own/deep/file"), "").unwrap();
    (around, top, Precious::new())
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
