//! Mounts for the tests of what removes folders: what a tool has mounted in its folder must stay unchanged.

#![expect(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "it is a part of tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Runs a test in a mount namespace of its own. Where that is not permitted, the test is skipped with a message.
pub fn in_own_mount_namespace(test: impl FnOnce() + Send + 'static) {
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
pub fn bind(what: &Path, place: &Path) {
    mount(Some(what), place, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
}

/// Other people's data: a folder that no removal may touch.
pub struct Precious {
    folder: tempfile::TempDir,
    before: Vec<(PathBuf, u32)>,
}

impl Default for Precious {
    fn default() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        for name in ["f", "a/g", "a/b/h"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        fs::set_permissions(folder.path().join("a/b"), fs::Permissions::from_mode(0o500)).unwrap();
        let before = listed(folder.path());
        Self { folder, before }
    }
}

impl Precious {
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    #[track_caller]
    pub fn is_untouched(&self) {
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
pub type MountIn = fn(&Path, &Precious);

/// The ways in which a tool can have something mounted in its folder `top`, each with a name.
pub fn ways_to_mount() -> Vec<(&'static str, MountIn)> {
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
