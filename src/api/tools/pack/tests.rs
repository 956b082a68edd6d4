//! Packing, checking and creating tools.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::tools::archive::tests::limits;
use crate::tools::{CheckError, CreateError, check, create};

/// A folder `hello` with every kind of entry.
fn tool(parent: &Path) -> PathBuf {
    let dir = parent.join("hello");
    create(&dir).unwrap();
    fs::create_dir_all(dir.join("lib/empty")).unwrap();
    fs::write(dir.join("lib/b"), "b").unwrap();
    fs::write(dir.join("lib/a"), "a").unwrap();
    fs::write(dir.join("x".repeat(200)), "a long name").unwrap();
    symlink("lib/a", dir.join("link")).unwrap();
    dir
}

#[test]
fn the_same_content_gives_the_same_bytes() {
    let parents = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let archives = parents.each_ref().map(|parent| {
        let dir = tool(parent.path());
        let out = parent.path().join("hello.tar.gz");
        let packed = pack(&dir, &out, &limits()).unwrap();
        assert!(packed.changed && packed.entries == 8, "{packed:?}");
        // Times, and mode bits other than x, are not content; neither is the order in which files were made.
        fs::File::open(dir.join("lib/a")).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        fs::set_permissions(dir.join("lib/b"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(dir.join("run.sh"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::remove_file(dir.join("link")).unwrap();
        symlink("lib/a", dir.join("link")).unwrap();
        let before = fs::metadata(&out).unwrap();
        assert!(!pack(&dir, &out, &limits()).unwrap().changed);
        let after = fs::metadata(&out).unwrap();
        assert_eq!((before.ino(), before.modified().unwrap()), (after.ino(), after.modified().unwrap()));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 2, "something is left beside the archive");
        fs::read(out).unwrap()
    });
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archives[0].as_slice()));
    let paths: Vec<PathBuf> = archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into()).collect();
    assert!(paths.is_sorted(), "{paths:?}");
    assert!(archives[0] == archives[1]);
}

#[test]
fn what_is_packed_is_what_was_there() {
    let parent = tempfile::tempdir().unwrap();
    let dir = tool(parent.path());
    fs::set_permissions(dir.join("lib/a"), fs::Permissions::from_mode(0o700)).unwrap();
    let out = parent.path().join("hello.tar.gz");
    pack(&dir, &out, &limits()).unwrap();
    let into = parent.path().join("into");
    fs::create_dir(&into).unwrap();
    let name = ToolName::new("hello").unwrap();
    unpack(&File::open(&out).unwrap(), &name, &into, &limits(), &AtomicBool::new(false)).unwrap();
    let back = into.join("hello");
    for name in ["run.sh", "lib/a", "lib/b", &"x".repeat(200)] {
        assert_eq!(fs::read(back.join(name)).unwrap(), fs::read(dir.join(name)).unwrap());
    }
    assert_eq!(fs::read_link(back.join("link")).unwrap(), Path::new("lib/a"));
    assert!(back.join("lib/empty").is_dir());
    let mode = |name: &str| fs::metadata(back.join(name)).unwrap().mode() & 0o100;
    assert_eq!([mode("run.sh"), mode("lib/a"), mode("lib/b")], [0o100, 0o100, 0]);
    // A changed tool replaces the archive.
    fs::write(dir.join("lib/b"), "c").unwrap();
    assert!(pack(&dir, &out, &limits()).unwrap().changed);
}

#[test]
fn what_an_agent_would_refuse_is_not_packed() {
    type Spoil<'a> = (&'a str, &'a dyn Fn(&Path));
    let spoil: [Spoil<'_>; 7] = [
        ("leaves the tool's folder", &|dir| symlink("../outside", dir.join("l")).unwrap()),
        ("absolute", &|dir| symlink("/etc/passwd", dir.join("l")).unwrap()),
        ("neither a file", &|dir| nix::unistd::mkfifo(&dir.join("f"), nix::sys::stat::Mode::S_IRWXU).unwrap()),
        ("no run.sh", &|dir| fs::remove_file(dir.join("run.sh")).unwrap()),
        ("40 are allowed", &|dir| fs::create_dir_all(dir.join("d/".repeat(60))).unwrap()),
        ("entries", &|dir| (0..100).for_each(|n| fs::write(dir.join(n.to_string()), "").unwrap())),
        ("unpacks to more", &|dir| File::create(dir.join("sparse")).unwrap().set_len(1 << 40).unwrap()),
    ];
    let limits = Limits { entries: 100, depth: 40, ..limits() };
    for (text, spoil) in spoil {
        let parent = tempfile::tempdir().unwrap();
        let (dir, out) = (tool(parent.path()), parent.path().join("hello.tar.gz"));
        fs::write(&out, "the old one").unwrap();
        spoil(&dir);
        for error in [pack(&dir, &out, &limits).unwrap_err().to_string(), check(&dir, &limits).unwrap_err().to_string()]
        {
            assert!(error.contains(text) && error.contains("hello"), "{text}: {error}");
        }
        assert_eq!(fs::read(&out).unwrap(), b"the old one");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 2, "{text}: something is left");
    }
}

#[test]
fn names_must_fit() {
    let parent = tempfile::tempdir().unwrap();
    let dir = tool(parent.path());
    let error = pack(&dir, &parent.path().join("other.tar.gz"), &limits()).unwrap_err();
    assert!(matches!(error, PackError::OutName { .. }), "{error}");
    let bad = parent.path().join("a tool");
    fs::create_dir(&bad).unwrap();
    assert!(matches!(pack(&bad, &bad, &limits()), Err(PackError::Name { .. })));
    assert!(matches!(create(&parent.path().join("another tool")), Err(CreateError::Name { .. })));
    assert!(matches!(create(&dir), Err(CreateError::Exists { .. })));
}

/// A push would refuse it, and a packed one would be refused with each submit.
#[test]
fn a_tool_that_no_controller_takes_is_neither_packed_nor_passed() {
    let parent = tempfile::tempdir().unwrap();
    let dir = tool(parent.path());
    let out = parent.path().join("hello.tar.gz");
    for (file, text, expected) in [
        ("tool.toml", "descripton = \"x\"", "the key \"descripton\" is unknown; the nearest is description"),
        ("run.sh", "", "its run.sh is empty"),
    ] {
        let before = fs::read_to_string(dir.join(file)).ok();
        fs::write(dir.join(file), text).unwrap();
        for said in
            [pack(&dir, &out, &limits()).unwrap_err().to_string(), check(&dir, &limits()).unwrap_err().to_string()]
        {
            assert!(said.contains(expected), "{said}");
        }
        assert!(!out.exists());
        match before {
            Some(before) => fs::write(dir.join(file), before).unwrap(),
            None => fs::remove_file(dir.join(file)).unwrap(),
        }
    }
    pack(&dir, &out, &limits()).unwrap();
    fs::write(dir.join("tool.toml"), "x = 1").unwrap();
    assert!(pack(&dir, &out, &limits()).is_err(), "also where an archive is there already");
}

#[test]
fn a_new_tool_passes_its_check_as_folder_and_as_archive() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("made/for/hello");
    assert_eq!(create(&dir).unwrap().as_str(), "hello");
    let checked = check(&dir, &limits()).unwrap();
    assert_eq!((checked.tool.as_str(), checked.warnings.len()), ("hello", 0), "{:?}", checked.warnings);
    let out = parent.path().join("hello.tar.gz");
    pack(&dir, &out, &limits()).unwrap();
    assert_eq!(check(&out, &limits()).unwrap(), checked);

    fs::set_permissions(dir.join("run.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(dir.join("run.sh"), "echo\r\n").unwrap();
    let warnings = check(&dir, &limits()).unwrap().warnings;
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    fs::write(dir.join("run.sh"), "").unwrap();
    assert!(matches!(check(&dir, &limits()), Err(CheckError::Invalid { why, .. }) if why == "its run.sh is empty"));
    fs::write(&out, "no archive").unwrap();
    assert!(matches!(check(&out, &limits()), Err(CheckError::Refused { .. })));
    let other = parent.path().join("hello.zip");
    fs::write(&other, "").unwrap();
    assert!(matches!(check(&other, &limits()), Err(CheckError::NotTool { .. })));
}
