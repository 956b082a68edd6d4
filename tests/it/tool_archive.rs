//! Unpacking tool archives (docs/design/hazards.md, X1, X2, X3, X4, X5, X6, X7, P8, F1), each through
//! [`ToolCache::place`], as an agent calls it. Hostile archives are made by hand, block by block.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fail")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::tools::{ArchiveError, Limits, Placed, ToolCache, ToolError};
use base::{ExitCode, ToolName};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tar::{EntryType, Header};

const SCRIPT: &[u8] = b"#!/bin/sh\necho hello\n";

/// The defaults of the configuration.
fn limits() -> Limits {
    Limits {
        packed_bytes: 268_435_456,
        unpacked_bytes: 2_147_483_648,
        entries: 20_000,
        ratio: 200,
        ratio_free_bytes: Limits::RATIO_FREE_BYTES,
        path_bytes: 1024,
        depth: 32,
        timeout: Duration::from_mins(1),
    }
}

/// A tar, as it grows.
#[derive(Clone, Default)]
struct Tar(Vec<u8>);

impl Tar {
    /// One header and its content, nothing checked.
    fn raw(mut self, kind: u8, path: &[u8], link: &[u8], mode: u32, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path);
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        header.set_mode(mode);
        header.set_entry_type(EntryType::new(kind));
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, path: &str, content: &[u8]) -> Self {
        self.raw(b'0', path.as_bytes(), b"", 0o644, content)
    }

    fn folder(self, path: &str) -> Self {
        self.raw(b'5', path.as_bytes(), b"", 0o755, b"")
    }

    fn symlink(self, path: &str, target: &str) -> Self {
        self.raw(b'2', path.as_bytes(), target.as_bytes(), 0o777, b"")
    }

    fn hard_link(self, path: &str, target: &str) -> Self {
        self.raw(b'1', path.as_bytes(), target.as_bytes(), 0o644, b"")
    }

    /// A tool that would run, to add something to.
    fn tool() -> Self {
        Self::default().file("run.sh", SCRIPT)
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }

    fn gz(self) -> Vec<u8> {
        gz(&self.end())
    }
}

fn gz(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// A host with a tools folder, a cache, a task's folder, and something that must not change.
struct Host {
    dir: tempfile::TempDir,
    limits: Limits,
}

impl Host {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["tools", "task"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("canary"), "untouched").unwrap();
        fs::set_permissions(dir.path().join("canary"), fs::Permissions::from_mode(0o600)).unwrap();
        Self { dir, limits: limits() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn install(&self, archive: &[u8]) {
        let new = self.path("tools/new");
        fs::write(&new, archive).unwrap();
        fs::rename(new, self.path("tools/hello.tar.gz")).unwrap();
    }

    fn cache(&self) -> ToolCache {
        ToolCache::new(self.path("cache"), self.path("tools"), self.limits.clone(), 1 << 30).unwrap()
    }

    fn place(&self) -> Result<Placed, ToolError> {
        self.cache().place(&hello(), &self.path("task"), &AtomicBool::new(false))
    }

    /// Reads the archive as the controller does, which writes nothing: the defect that it finds, if any.
    fn survey(&self) -> Option<String> {
        let file = File::open(self.path("tools/hello.tar.gz")).unwrap();
        let found = api::tools::survey(&file, &hello(), &self.limits, &AtomicBool::new(false));
        found.err().map(|error| error.to_string())
    }

    /// Installs and places an archive that must be refused with `code`, and checks that nothing came of it.
    fn refuse(&self, archive: &[u8], code: ExitCode) -> ToolError {
        self.install(archive);
        let before = snapshot(self.dir.path());
        let error = self.place().expect_err("the archive must be refused");
        assert_eq!(error.exit_code(), code, "{error}");
        assert_eq!(snapshot(self.dir.path()), before, "{error}");
        let cached: Vec<_> = fs::read_dir(self.path("cache")).unwrap().map(|item| item.unwrap().file_name()).collect();
        assert!(cached.is_empty(), "the cache holds {cached:?}: {error}");
        assert!(self.survey().is_some(), "the controller would hand it out: {error}");
        error
    }

    fn defect(&self, archive: &[u8]) -> ArchiveError {
        match self.refuse(archive, ExitCode::UNPACK_FAILED) {
            ToolError::Unpack { source, .. } => source,
            other => panic!("{other}"),
        }
    }

    /// Installs and places an archive that must be fine; returns what the task finds, and empties the cache.
    fn accept(&self, archive: &[u8]) -> BTreeMap<PathBuf, String> {
        self.install(archive);
        self.place().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(self.survey(), None);
        let found = snapshot(&self.path("task/hello"));
        fs::remove_dir_all(self.path("task/hello")).unwrap();
        fs::remove_dir_all(self.path("cache")).unwrap();
        found
    }
}

fn hello() -> ToolName {
    ToolName::new("hello").unwrap()
}

/// Each path below `dir` but the cache's, with mode and content.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(&folder).unwrap() {
            let path = item.unwrap().path();
            let inner = path.strip_prefix(dir).unwrap().to_owned();
            if inner == Path::new("cache") {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if metadata.is_file() {
                String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
            } else {
                String::new()
            };
            found.insert(inner, format!("{:o} {content}", metadata.mode() & 0o7777));
            if metadata.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

#[test]
fn x1_nothing_leaves_the_folder_of_the_tool() {
    let host = Host::new();
    let out = host.path("canary");
    let out = out.to_str().unwrap();
    for (what, tar) in [
        ("..", Tar::tool().file("../canary", b"bad")),
        (".. in the middle", Tar::tool().file("a/../../canary", b"bad")),
        ("absolute", Tar::tool().file(out, b"bad")),
        ("absolute, twice the slash", Tar::tool().file(&format!("/{out}"), b"bad")),
        ("a folder outside", Tar::tool().folder("../made")),
        ("a link outside", Tar::tool().symlink("l", "../../canary")),
        ("an absolute link", Tar::tool().symlink("l", out)),
        ("a link to the task's folder", Tar::default().file("hello/run.sh", SCRIPT).symlink("hello/l", "../task.info")),
        (
            "a link through a link",
            Tar::tool().folder("a/b").symlink("a/b/up", "../..").symlink("l", "a/b/up/../../canary"),
        ),
        ("a file through a link", Tar::tool().symlink("d", "a").folder("a").file("d/x", b"bad")),
        ("a file through a link outside", Tar::tool().symlink("d", "../..").file("d/canary", b"bad")),
        ("a file over a link", Tar::tool().symlink("x", "run.sh").file("x", b"bad")),
        ("a folder over a link: its mode would change", Tar::tool().folder("a").symlink("d", "a").folder("d")),
        ("a link over a folder", Tar::tool().folder("d").symlink("d", "run.sh")),
        ("a hard link outside", Tar::tool().hard_link("l", "../../canary")),
        ("an absolute hard link", Tar::tool().hard_link("l", out)),
        ("a hard link to a link", Tar::tool().symlink("s", "run.sh").hard_link("l", "s")),
        (
            "a hard link through a link",
            Tar::tool().folder("a").file("a/f", b"").symlink("s", "a").hard_link("l", "s/f"),
        ),
        ("a hard link to what comes later", Tar::tool().hard_link("l", "f").file("f", b"")),
        ("a hard link to a folder", Tar::tool().folder("d").hard_link("l", "d")),
        ("a hard link to itself", Tar::tool().hard_link("l", "l")),
        ("a hard link to all", Tar::tool().hard_link("l", ".")),
        ("a file as folder", Tar::tool().file("run.sh/x", b"bad")),
        ("all of it a file", Tar::tool().file(".", b"")),
        ("all of it a link", Tar::tool().symlink("./", "x")),
    ] {
        let error = host.defect(&tar.gz());
        assert!(
            matches!(error, ArchiveError::Path { .. } | ArchiveError::Link { .. } | ArchiveError::Duplicate { .. }),
            "{what}: {error:?}"
        );
    }
}

#[test]
fn x1_links_that_stay_inside_are_made() {
    let host = Host::new();
    let tar = Tar::tool().folder("lib").file("lib/f", b"content").symlink("lib/up", "../run.sh").symlink("l", "lib/f");
    let found = host.accept(&tar.symlink("later", "not/yet/there").hard_link("lib/hard", "lib/f").gz());
    assert_eq!(found[Path::new("lib/up")], "777 -> ../run.sh");
    assert_eq!(found[Path::new("l")], "777 -> lib/f");
    assert_eq!(found[Path::new("later")], "777 -> not/yet/there");
    assert_eq!(found[Path::new("lib/hard")], "644 content");
}

#[test]
fn x2_only_files_folders_and_links_and_no_special_modes() {
    let host = Host::new();
    for kind in [b'3', b'4', b'6', b'S', b'M', b'V', b'D', b'X', b'9', 0xff] {
        let error = host.defect(&Tar::tool().raw(kind, b"special", b"", 0o666, b"").gz());
        assert!(matches!(error, ArchiveError::Kind { .. }), "{kind}: {error:?}");
    }
    let error = host.defect(&Tar::tool().raw(b'x', b"pax", b"", 0, b"22 GNU.sparse.major=1\n").file("f", b"").gz());
    assert!(matches!(error, ArchiveError::Header { .. }), "{error:?}");

    let tar = Tar::default()
        .raw(b'0', b"run.sh", b"", 0o6000, SCRIPT)
        .raw(b'0', b"setuid", b"", 0o7777, b"")
        .raw(b'5', b"closed", b"", 0, b"")
        .raw(b'0', b"closed/x", b"", 0o111, b"")
        .raw(b'5', b"open", b"", 0o1777, b"");
    let found = host.accept(&tar.gz());
    let mode = |path: &str| found[Path::new(path)].split(' ').next().unwrap().to_owned();
    assert_eq!(
        ["run.sh", "setuid", "closed", "closed/x", "open"].map(mode),
        ["700", "755", "700", "711", "755"],
        "{found:?}"
    );
}

#[test]
fn x3_what_unpacks_to_too_much_is_stopped_on_the_way() {
    let mut host = Host::new();
    // 32 MiB of zeros in 32 KiB.
    let bomb = Tar::tool().file("zeros", &vec![0; 32 << 20]).gz();
    assert!(matches!(host.defect(&bomb), ArchiveError::Ratio { limit: 200, .. }));
    // The same zeros behind the end mark, where they are no file.
    let mut padded = Tar::tool().end();
    padded.resize(padded.len() + (32 << 20), 0);
    assert!(matches!(host.defect(&gz(&padded)), ArchiveError::Ratio { .. }));
    // Below the 16 MiB that may compress as well as they like.
    host.accept(&Tar::tool().file("zeros", &vec![0; 15 << 20]).gz());

    host.limits.unpacked_bytes = 1 << 20;
    let big = Tar::tool().file("big", &vec![0; 1 << 20]);
    assert!(matches!(host.defect(&big.gz()), ArchiveError::UnpackedBytes { limit: 1_048_576 }));
    let mut padded = Tar::tool().end();
    padded.resize(2 << 20, 0);
    assert!(matches!(host.defect(&gz(&padded)), ArchiveError::UnpackedBytes { .. }));
    // Many small files instead of one that says how big it is.
    let many = (0..40).fold(Tar::tool(), |tar, n| tar.file(&format!("f{n}"), &vec![0; 32 << 10]));
    assert!(matches!(host.defect(&many.gz()), ArchiveError::UnpackedBytes { .. }));
    // Each hard link becomes a file of its own in the task's folder.
    let links = (0..40).fold(Tar::tool().file("f", &vec![0; 32 << 10]), |tar, n| tar.hard_link(&format!("l{n}"), "f"));
    assert!(matches!(host.defect(&links.gz()), ArchiveError::UnpackedBytes { .. }));
}

#[test]
fn x3_size_time_and_paths_have_limits() {
    let mut host = Host::new();
    host.limits = Limits { packed_bytes: 50, ..limits() };
    assert!(matches!(host.defect(&Tar::tool().gz()), ArchiveError::PackedBytes { limit: 50, .. }));
    host.limits = Limits { timeout: Duration::ZERO, ..limits() };
    assert!(matches!(host.defect(&Tar::tool().gz()), ArchiveError::TimedOut { .. }));
    host.limits = limits();
    let long = Tar::tool().raw(b'L', b"long", b"", 0, &[b"a/".repeat(600), vec![0]].concat()).file("x", b"");
    assert!(matches!(host.defect(&long.gz()), ArchiveError::PathBytes { bytes: 1200, limit: 1024, .. }));
    let long = Tar::tool().raw(b'K', b"long", b"", 0, &b"a/".repeat(600)).symlink("x", "");
    assert!(matches!(host.defect(&long.gz()), ArchiveError::PathBytes { bytes: 1200, limit: 1024, .. }));
    let deep = Tar::tool().file(&["d/".repeat(32).as_str(), "f"].concat(), b"");
    assert!(matches!(host.defect(&deep.gz()), ArchiveError::Depth { depth: 33, limit: 32, .. }));
}

/// The headers claim much, and nothing follows them: a reader that first collected what they claim would find the
/// archive cut off. That it is refused for the claim shows that nothing was collected.
#[test]
fn x4_a_long_name_bomb_is_refused_by_what_it_claims() {
    let host = Host::new();
    for kind in [b'L', b'K', b'x', b'g'] {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::new(kind));
        for claim in [64 * 1024 + 1, 600 << 20, u64::MAX] {
            header.set_size(claim);
            header.set_cksum();
            let error = host.defect(&gz(header.as_bytes()));
            assert!(
                matches!(error, ArchiveError::ExtensionBytes { bytes, limit: 65_536 } if bytes == claim),
                "{error:?}"
            );
        }
    }
    // Nor many that are each small enough.
    let name = vec![b'n'; 60_000];
    for kind in [b'L', b'K'] {
        let tar = (0..3).fold(Tar::default(), |tar, _| tar.raw(kind, b"", b"", 0, &name));
        assert!(matches!(host.defect(&tar.gz()), ArchiveError::Header { .. }));
    }
    let comment = b"19 comment=nothing\n".repeat(100);
    let tar = (0..3).fold(Tar::default(), |tar, _| tar.raw(b'x', b"", b"", 0, &comment));
    assert!(matches!(host.defect(&tar.gz()), ArchiveError::Header { .. }));
    let tar = (0..20_001).fold(Tar::default(), |tar, _| tar.raw(b'g', b"", b"", 0, b""));
    assert!(matches!(host.defect(&tar.gz()), ArchiveError::Entries { .. }));
}

#[test]
fn x5_too_many_entries_are_refused() {
    let mut host = Host::new();
    let tar = (0..=20_000).fold(Tar::tool(), |tar, _| tar.folder("same"));
    assert!(matches!(host.defect(&tar.gz()), ArchiveError::Entries { limit: 20_000 }));
    host.limits.entries = 100;
    let tar = (0..100).fold(Tar::tool(), |tar, n| tar.file(&n.to_string(), b""));
    assert!(matches!(host.defect(&tar.gz()), ArchiveError::Entries { limit: 100 }));
    // Four entries that would make 124 folders.
    let tar = (0..4).fold(Tar::tool(), |tar, n| tar.file(&format!("{n}/{}f", "d/".repeat(30)), b""));
    assert!(matches!(host.defect(&tar.gz()), ArchiveError::Entries { limit: 100 }));
    let tar = (0..101).fold(Tar::tool(), |tar, n| tar.symlink(&n.to_string(), "x"));
    assert!(matches!(host.defect(&tar.gz()), ArchiveError::Entries { limit: 100 }));
}

#[test]
fn x6_an_archive_cut_off_anywhere_is_refused() {
    let host = Host::new();
    let whole = Tar::tool().file("data", b"some content").gz();
    for length in 0..whole.len() {
        let error = host.defect(&whole[..length]);
        assert!(matches!(error, ArchiveError::Truncated | ArchiveError::Gzip { .. }), "{length}: {error:?}");
    }
    // The same inside an intact gzip. One block of zeros is enough of an end mark, as for other readers of tar.
    let tar = Tar::tool().file("data", b"some content").end();
    let shortest = tar.len() - 512;
    for length in (0..shortest).step_by(64) {
        let error = host.defect(&gz(&tar[..length]));
        assert!(matches!(error, ArchiveError::Truncated), "{length}: {error:?}");
    }
    host.accept(&gz(&tar[..shortest]));
}

#[test]
fn x6_what_is_no_clean_tar_gz_is_refused() {
    let host = Host::new();
    let whole = Tar::tool().gz();
    let (first, second) = whole.split_at(whole.len() / 2);
    assert!(matches!(host.defect(b"PK\x03\x04 a zip file"), ArchiveError::Gzip { .. }));
    assert!(matches!(host.defect(&Tar::tool().end()), ArchiveError::Gzip { .. }));
    assert!(matches!(host.defect(&gz(&[b'x'; 2048])), ArchiveError::Header { .. }));
    assert!(matches!(host.defect(&[&whole[..], b"trailing junk"].concat()), ArchiveError::Gzip { .. }));
    host.defect(&[&whole[..], &[0; 512]].concat());
    host.defect(&[first, b"\0", second].concat());
}

/// A bit may flip where it means nothing (a time, an unused bit of the last byte); then the content is the same.
#[test]
fn x6_a_flipped_bit_is_noticed_or_harmless() {
    let host = Host::new();
    let whole = Tar::tool().gz();
    let intact = host.accept(&whole);
    let mut harmless = 0;
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        host.install(&damaged);
        match host.place() {
            Ok(_) => {
                fs::remove_dir_all(host.path("task/hello")).unwrap();
                assert_eq!(host.accept(&damaged), intact, "byte {at}");
                harmless += 1;
            }
            Err(error) => assert_eq!(error.exit_code(), ExitCode::UNPACK_FAILED, "byte {at}: {error}"),
        }
    }
    assert!(harmless < 10, "{harmless} bytes of {} mean nothing", whole.len());
}

#[test]
fn x6_several_gzip_members_are_one_stream_and_two_tars_are_not_one() {
    let host = Host::new();
    let twice = [Tar::tool().end(), Tar::default().file("more", b"").end()];
    assert!(matches!(host.defect(&gz(&twice.concat())), ArchiveError::Trailing));
    assert!(matches!(host.defect(&twice.map(|tar| gz(&tar)).concat()), ArchiveError::Trailing));
    let tar = Tar::tool().file("data", b"both halves").end();
    let members = [gz(&tar[..700]), gz(b""), gz(&tar[700..])].concat();
    assert_eq!(host.accept(&members)[Path::new("data")], "644 both halves");
}

#[test]
fn x6_a_name_that_is_there_twice_is_refused() {
    let host = Host::new();
    for tar in [
        Tar::tool().file("run.sh", b"other"),
        Tar::tool().file("./run.sh", b"other"),
        Tar::tool().file("x", b"").file(".//x", b""),
        Tar::tool().file("x", b"").folder("x"),
        Tar::tool().folder("x").file("x", b""),
        Tar::tool().symlink("x", "a").symlink("x", "b"),
        Tar::tool().hard_link("run.sh", "run.sh"),
    ] {
        let error = host.defect(&tar.gz());
        assert!(matches!(error, ArchiveError::Duplicate { .. }), "{error:?}");
    }
    host.accept(&Tar::tool().folder("x").folder("x/").file("x/f", b"").folder("./x").gz());
}

#[test]
fn x6_headers_that_readers_disagree_about_are_refused() {
    let host = Host::new();
    let pax = |record: &[u8]| Tar::tool().raw(b'x', b"", b"", 0, record);
    let named = || Tar::tool().raw(b'L', b"", b"", 0, b"name\0");
    for (what, tar) in [
        ("PAX and GNU names", pax(b"9 path=a\n").raw(b'L', b"", b"", 0, b"b\0").file("c", b"")),
        ("GNU and PAX names", named().raw(b'x', b"", b"", 0, b"9 path=b\n").file("c", b"")),
        ("two GNU names", named().raw(b'L', b"", b"", 0, b"b\0").file("c", b"")),
        ("a name for nothing", named()),
        ("a name for all", Tar::tool().raw(b'g', b"", b"", 0, b"9 path=a\n").file("c", b"")),
        ("a folder with content", Tar::tool().raw(b'5', b"d", b"", 0o755, b"content")),
        ("a link with content", Tar::tool().raw(b'2', b"l", b"run.sh", 0o777, b"content")),
        ("a hard link with content", Tar::tool().raw(b'1', b"l", b"run.sh", 0o644, &[b'x'; 512])),
        ("an old folder with content", Tar::tool().raw(b'0', b"d/", b"", 0o755, b"content")),
        ("a size that is none", pax(b"13 size=100x\n").file("c", b"")),
    ] {
        let error = host.defect(&tar.gz());
        assert!(matches!(error, ArchiveError::Header { .. }), "{what}: {error:?}");
    }
    let mut tar = Tar::tool().file("x", b"");
    tar.0[148] ^= 1;
    assert!(matches!(host.defect(&tar.gz()), ArchiveError::Header { why: "has a wrong checksum", .. }));
}

/// RUSTSEC-2026-0068: a reader that ignores the PAX size takes the content for headers, and finds other files than this
/// one.
#[test]
fn x6_the_pax_size_is_the_size() {
    let host = Host::new();
    let hidden = Tar::default().file("smuggled", b"").0;
    let mut tar = Tar::tool().raw(b'x', b"", b"", 0, b"12 size=512\n").file("x", b"");
    tar.0.extend_from_slice(&hidden);
    let found = host.accept(&tar.gz());
    assert_eq!(found.keys().collect::<Vec<_>>(), [Path::new("run.sh"), Path::new("x")]);
    assert!(found[Path::new("x")].starts_with("644 smuggled"));
}

#[test]
fn x7_the_content_may_stand_in_a_folder_or_at_the_top() {
    let host = Host::new();
    let whole = |tar: Tar, prefix: &str| {
        let path = |name: &str| format!("{prefix}{name}");
        tar.file(&path("run.sh"), SCRIPT).folder(&path("lib")).file(&path("lib/a"), b"a").gz()
    };
    let expected = host.accept(&whole(Tar::default(), ""));
    assert_eq!(expected.keys().collect::<Vec<_>>(), [Path::new("lib"), Path::new("lib/a"), Path::new("run.sh")]);
    assert_eq!(expected[Path::new("run.sh")], format!("744 {}", String::from_utf8_lossy(SCRIPT)));
    for prefix in ["./", "hello/", "./hello/"] {
        assert_eq!(host.accept(&whole(Tar::default(), prefix)), expected, "{prefix}");
    }
    // As `tar c .` and `tar c ./hello` begin.
    assert_eq!(host.accept(&whole(Tar::default().folder("./"), "./")), expected);
    assert_eq!(host.accept(&whole(Tar::default().folder("./").folder("./hello/"), "./hello/")), expected);
    // A run.sh at the top decides: the folder of the same name is then part of the tool, as a Python package may be.
    let found = host.accept(&Tar::tool().file("hello/__init__.py", b"").file("hello/run.sh", b"other").gz());
    assert!(found.contains_key(Path::new("hello/run.sh")) && found[Path::new("run.sh")].contains("echo hello"));
    let error = host.defect(&Tar::default().file("README", b"").file("hello/run.sh", SCRIPT).gz());
    assert!(matches!(error, ArchiveError::Layout { ref beside, .. } if beside == "README"), "{error:?}");
}

#[test]
fn x7_an_archive_without_run_sh_is_no_damaged_archive() {
    let host = Host::new();
    for tar in [
        Tar::default(),
        Tar::default().file("hello/main.sh", SCRIPT),
        Tar::default().file("other/run.sh", SCRIPT),
        Tar::default().file("bin/run.sh", SCRIPT).file("main", b""),
        Tar::default().folder("run.sh"),
        Tar::default().file("main.sh", SCRIPT).symlink("run.sh", "main.sh"),
    ] {
        let error = host.refuse(&tar.gz(), ExitCode::PREPARE_FAILED);
        assert!(matches!(error, ToolError::NoScript { .. }), "{error}");
    }
}

/// The controller reads its text in passing, and an agent opens it.
#[test]
fn a_manifest_is_a_regular_file() {
    let host = Host::new();
    let text = b"[parameters.a]\nrequired = true\n";
    for tar in [
        Tar::tool().file("other", text).hard_link("tool.toml", "other"),
        Tar::tool().file("other", text).symlink("tool.toml", "other"),
        Tar::tool().symlink("tool.toml", "gone").file("hello/tool.toml", text),
        Tar::tool().folder("tool.toml"),
        Tar::tool().file("tool.toml/inner", text),
        Tar::default().file("hello/run.sh", SCRIPT).symlink("hello/tool.toml", "run.sh"),
    ] {
        let error = host.defect(&tar.gz());
        assert!(matches!(error, ArchiveError::ManifestNotFile), "{error}");
    }
    host.accept(&Tar::tool().file("tool.toml", text).gz());
}

/// Each version consists of files that all say the same number. One thread replaces the archive, two agents run the
/// tool.
#[test]
fn p8_each_run_sees_one_whole_version() {
    let host = Host::new();
    let version =
        |n: usize| (0..20).fold(Tar::tool(), |tar, file| tar.file(&format!("f{file}"), n.to_string().as_bytes())).gz();
    let run = |cache: &ToolCache, task: &Path| -> usize {
        fs::create_dir(task).unwrap();
        cache.place(&hello(), task, &AtomicBool::new(false)).unwrap_or_else(|error| panic!("{error}"));
        let read = |file| fs::read_to_string(task.join(format!("hello/f{file}"))).unwrap().parse().unwrap();
        let versions: Vec<usize> = (0..20).map(read).collect();
        assert!(versions.iter().all(|&version| version == versions[0]), "{versions:?}");
        fs::remove_dir_all(task).unwrap();
        versions[0]
    };
    host.install(&version(0));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let agents = ["a", "b"].map(|agent| {
            let (host, done) = (&host, &done);
            scope.spawn(move || {
                let (cache, task) = (host.cache(), host.path(agent));
                let mut seen = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    seen.push(run(&cache, &task));
                }
                seen.push(run(&cache, &task));
                seen
            })
        });
        for n in 1..=100 {
            host.install(&version(n));
        }
        done.store(true, Ordering::Relaxed);
        for agent in agents {
            let seen = agent.join().unwrap();
            assert!(seen.is_sorted() && seen.last() == Some(&100), "an old version came back: {seen:?}");
        }
    });
}

/// The same length, the same tick of the clock, the same inode: no `stat` shows it.
#[test]
fn p8_an_archive_written_over_in_place_is_noticed() {
    let host = Host::new();
    let cache = host.cache();
    for n in 0..50 {
        // Stored, so that each has the same length.
        let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
        encoder.write_all(&Tar::tool().file("n", format!("{n:02}").as_bytes()).end()).unwrap();
        fs::write(host.path("tools/hello.tar.gz"), encoder.finish().unwrap()).unwrap();
        cache.place(&hello(), &host.path("task"), &AtomicBool::new(false)).unwrap();
        assert_eq!(fs::read_to_string(host.path("task/hello/n")).unwrap(), format!("{n:02}"));
        fs::remove_dir_all(host.path("task/hello")).unwrap();
    }
}

/// The second wall: the name is checked elsewhere, and a link in the tools folder may not lead out of it
/// (docs/design/hazards.md, F1).
#[test]
fn f1_only_archives_in_the_tools_folder_are_opened() {
    let host = Host::new();
    let place = || host.place().map_err(|error| error.exit_code());
    assert_eq!(place(), Err(ExitCode::TOOL_MISSING));
    fs::write(host.path("outside.tar.gz"), Tar::tool().gz()).unwrap();
    let archive = host.path("tools/hello.tar.gz");
    symlink("../outside.tar.gz", &archive).unwrap();
    assert_eq!(place(), Err(ExitCode::TOOL_MISSING));
    fs::remove_file(&archive).unwrap();
    symlink(host.path("outside.tar.gz"), &archive).unwrap();
    assert_eq!(place(), Err(ExitCode::TOOL_MISSING));
    fs::remove_file(&archive).unwrap();
    // A link to a version beside it is how some people deploy.
    fs::rename(host.path("outside.tar.gz"), host.path("tools/hello-1.tar.gz")).unwrap();
    symlink("hello-1.tar.gz", &archive).unwrap();
    assert!(place().is_ok());
}

#[test]
fn f1_what_is_no_file_never_blocks() {
    let host = Host::new();
    let archive = host.path("tools/hello.tar.gz");
    let place = || host.place().map_err(|error| error.exit_code());
    nix::unistd::mkfifo(&archive, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(place(), Err(ExitCode::UNPACK_FAILED));
    fs::remove_file(&archive).unwrap();
    fs::create_dir(&archive).unwrap();
    assert_eq!(place(), Err(ExitCode::UNPACK_FAILED));
    fs::remove_dir(&archive).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&archive).unwrap();
    assert_eq!(place(), Err(ExitCode::UNPACK_FAILED));
    fs::remove_file(&archive).unwrap();
    File::create(&archive).unwrap();
    assert_eq!(place(), Err(ExitCode::UNPACK_FAILED));
}

#[test]
fn a_run_that_is_stopped_while_it_is_prepared_leaves_nothing() {
    let host = Host::new();
    host.install(&Tar::tool().gz());
    let cache = host.cache();
    let stop = AtomicBool::new(true);
    // While it is unpacked, then while it is copied.
    for _ in 0..2 {
        let error = cache.place(&hello(), &host.path("task"), &stop).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::KILLED_PREPARING);
        assert!(fs::read_dir(host.path("task")).unwrap().next().is_none());
        host.place().unwrap();
        fs::remove_dir_all(host.path("task/hello")).unwrap();
    }
}

/// An entry with a nasty name and a nasty target.
fn any_entry() -> impl Strategy<Value = (u8, String, String)> {
    let name = || prop::sample::select(vec!["a", "b", "..", ".", "", "run.sh", "hello"]);
    let path = move || prop::collection::vec(name(), 1..5).prop_map(|names| names.join("/"));
    let kind = prop::sample::select(vec![b'0', b'0', b'5', b'2', b'2', b'2', b'1', b'L', b'K']);
    (kind, path(), path())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever becomes of the archive, nothing outside changes, and what comes out leads to places inside only.
    #[test]
    fn no_sequence_of_entries_escapes(entries in prop::collection::vec(any_entry(), 1..7)) {
        let host = Host::new();
        let tar = entries.iter().fold(Tar::tool(), |tar, (kind, path, link)| {
            let content = if matches!(kind, b'L' | b'K') { link.as_bytes() } else { b"" };
            tar.raw(*kind, path.as_bytes(), link.as_bytes(), 0o644, content)
        });
        host.install(&tar.gz());
        let before = snapshot(host.dir.path());
        let root = host.path("task/hello");
        let placed = host.place();
        prop_assert_eq!(placed.is_ok(), host.survey().is_none(), "{:?} {:?}", placed, host.survey());
        if placed.is_ok() {
            for (path, text) in snapshot(&root) {
                // A link may lead nowhere, but not outside.
                if text.contains("->") && let Ok(real) = fs::canonicalize(root.join(&path)) {
                    prop_assert!(real.starts_with(fs::canonicalize(&root).unwrap()), "{path:?} {text}");
                }
            }
            fs::remove_dir_all(&root).unwrap();
        }
        prop_assert_eq!(snapshot(host.dir.path()), before);
    }
}

/// Archives as the usual programs write them, with names that need each of the extensions.
#[test]
fn archives_of_other_writers_are_read() {
    let host = Host::new();
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(120));
    let mut builder = tar::Builder::new(Vec::new());
    let add = |builder: &mut tar::Builder<Vec<u8>>, mut header: Header, path: &str, content: &[u8]| {
        header.set_mode(0o755);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, content).unwrap();
    };
    add(&mut builder, Header::new_ustar(), "hello/run.sh", SCRIPT);
    add(&mut builder, Header::new_gnu(), &format!("hello/{long}"), b"gnu");
    let mut link = Header::new_gnu();
    link.set_entry_type(EntryType::Symlink);
    link.set_size(0);
    builder.append_link(&mut link, "hello/link", &long).unwrap();
    let pax_name = format!("hello/{}\n{}", "p".repeat(100), "ä".repeat(50));
    builder.append_pax_extensions([("path", pax_name.as_bytes()), ("mtime", b"1.5")]).unwrap();
    add(&mut builder, Header::new_ustar(), "short", b"pax");
    let found = host.accept(&gz(&builder.into_inner().unwrap()));
    assert_eq!(found[Path::new(&long)], "755 gnu");
    assert_eq!(found[Path::new(&pax_name[6..])], "755 pax");
    assert_eq!(found[Path::new("link")], format!("777 -> {long}"));
}
