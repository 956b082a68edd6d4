//! Copies, sharing, eviction. Bad archives are covered in `tests/it/tool_archive.rs`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::*;
use crate::tools::{archive, pack};
use base::ToolName;
use mountkit::{Precious, in_own_mount_namespace, ways_to_mount};

struct Host {
    dir: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["tools", "task", "source"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Packs a tool of one run.sh and a file `data`.
    fn install(&self, tool: &str, data: &[u8]) -> ToolName {
        let folder = self.path("source").join(tool);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("run.sh"), "#!/bin/sh\n").unwrap();
        fs::write(folder.join("data"), data).unwrap();
        self.pack(tool)
    }

    fn pack(&self, tool: &str) -> ToolName {
        let archive = self.path("tools").join(format!("{tool}.tar.gz"));
        pack(&self.path("source").join(tool), &archive, &archive::tests::limits()).unwrap();
        ToolName::new(tool).unwrap()
    }

    fn cache(&self, bytes_max: u64) -> ToolCache {
        ToolCache::new(self.path("cache"), self.path("tools"), archive::tests::limits(), bytes_max).unwrap()
    }

    fn place(&self, cache: &ToolCache, tool: &ToolName) -> Result<Placed, ToolError> {
        cache.place(tool, &self.path("task"), &AtomicBool::new(false))
    }

    /// Places a tool, reads its `data` and removes the copy again.
    fn run(&self, cache: &ToolCache, tool: &ToolName) -> (Vec<u8>, bool) {
        let placed = self.place(cache, tool).unwrap_or_else(|error| panic!("{error}"));
        let copy = self.path("task").join(tool.as_str());
        let data = fs::read(copy.join("data")).unwrap();
        fs::remove_dir_all(copy).unwrap();
        (data, placed.unpacked)
    }

    /// The contents of the cache folder, without its locks.
    fn cached(&self) -> Vec<String> {
        let names =
            fs::read_dir(self.path("cache")).unwrap().map(|item| item.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != ".evict").collect();
        names.sort();
        names
    }
}

#[test]
fn an_archive_is_unpacked_once_for_all_processes() {
    let host = Host::new();
    let tool = host.install("hello", b"1");
    let caches = [host.cache(u64::MAX), host.cache(u64::MAX)];
    assert_eq!(host.run(&caches[0], &tool), (b"1".to_vec(), true));
    for cache in &caches {
        assert_eq!(host.run(cache, &tool), (b"1".to_vec(), false));
    }
    // A touched archive with the same content is not unpacked again, a new one is.
    let archive = fs::File::open(host.path("tools/hello.tar.gz")).unwrap();
    archive.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(host.run(&caches[0], &tool), (b"1".to_vec(), false));
    host.install("hello", b"2");
    assert_eq!(host.run(&caches[0], &tool), (b"2".to_vec(), true));
    assert_eq!(host.run(&caches[1], &tool), (b"2".to_vec(), false));
}

#[test]
fn a_known_tool_is_warm_until_its_archive_changes() {
    let host = Host::new();
    let tool = host.install("hello", b"12345");
    let cache = host.cache(u64::MAX);
    assert_eq!(cache.is_warm(&tool), None);
    host.run(&cache, &tool);
    assert_eq!(cache.is_warm(&tool), Some(Size { entries: 2, bytes: 15 }));
    host.install("hello", b"other");
    assert_eq!(cache.is_warm(&tool), None);
    host.run(&cache, &tool);
    assert!(cache.is_warm(&tool).is_some());
    fs::remove_file(host.path("tools/hello.tar.gz")).unwrap();
    assert_eq!(cache.is_warm(&tool), None);
    assert!(matches!(host.place(&cache, &tool), Err(ToolError::Missing { .. })));
}

/// A write that `stat` does not show, as within one tick of a coarse clock: the identity is the same, the content is not.
#[test]
fn a_young_archive_is_read_again() {
    let host = Host::new();
    let tool = host.install("hello", b"1");
    let cache = host.cache(u64::MAX);
    host.run(&cache, &tool);
    host.install("hello", b"2");
    let identity = cache.stamp(&(&tool).into()).unwrap();
    cache.known().get_mut(&ToolVersion::from(&tool)).unwrap().identity = identity;
    assert_eq!(host.run(&cache, &tool), (b"2".to_vec(), true));
}

/// A task's changes to its copy must not be visible to the next task.
#[test]
fn a_copy_belongs_to_its_task() {
    let host = Host::new();
    host.install("hello", b"original");
    fs::create_dir(host.path("source/hello/lib")).unwrap();
    fs::hard_link(host.path("source/hello/data"), host.path("source/hello/lib/same")).unwrap();
    symlink("../data", host.path("source/hello/lib/link")).unwrap();
    fs::write(host.path("source/hello/large"), vec![7; 1 << 20]).unwrap();
    fs::write(host.path("source/hello/empty"), b"").unwrap();
    let tool = host.pack("hello");
    let cache = host.cache(u64::MAX);
    let copy = host.path("task/hello");
    for _ in 0..2 {
        host.place(&cache, &tool).unwrap();
        assert_eq!(fs::read(copy.join("data")).unwrap(), b"original");
        assert_eq!(fs::read(copy.join("lib/same")).unwrap(), b"original");
        assert_eq!(fs::read(copy.join("lib/link")).unwrap(), b"original");
        assert_eq!(fs::read(copy.join("large")).unwrap(), vec![7; 1 << 20]);
        assert_eq!(fs::read(copy.join("empty")).unwrap(), b"");
        assert!(!copy.join("report.log").exists());
        let mode = |name: &str| fs::metadata(copy.join(name)).unwrap().permissions().mode() & 0o700;
        assert_eq!([mode("run.sh"), mode("data"), mode("lib")], [0o700, 0o600, 0o700]);
        for name in ["data", "large", "run.sh", "lib/same"] {
            fs::OpenOptions::new().write(true).open(copy.join(name)).unwrap().set_len(3).unwrap();
        }
        fs::remove_file(copy.join("lib/link")).unwrap();
        fs::write(copy.join("report.log"), "mine").unwrap();
        fs::set_permissions(copy.join("data"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::remove_dir_all(&copy).unwrap();
    }
}

#[test]
fn what_was_unpacked_may_disappear_at_any_time() {
    let host = Host::new();
    let tool = host.install("hello", b"data");
    let cache = host.cache(u64::MAX);
    // As if the archive were a few seconds old, so that `stat` alone decides.
    let trust = || cache.known().get_mut(&ToolVersion::from(&tool)).unwrap().settled = true;
    host.run(&cache, &tool);
    let [entry] = host.cached().try_into().unwrap();
    let entry = host.path("cache").join(entry);
    let damages: [&dyn Fn(); 7] = [
        &|| fs::remove_dir_all(&entry).unwrap(),
        &|| fs::remove_dir_all(entry.join("hello")).unwrap(),
        &|| fs::remove_file(entry.join("hello/run.sh")).unwrap(),
        &|| fs::write(entry.join("hello/data"), b"longer data").unwrap(),
        &|| fs::write(entry.join("hello/data"), b"").unwrap(),
        &|| drop(fs::remove_file(entry.join("size"))),
        &|| fs::remove_dir_all(host.path("cache")).unwrap(),
    ];
    for (n, damage) in damages.iter().enumerate() {
        // A process that knows the tool, one that knows it and reads the archive, and one that does not know it.
        damage();
        trust();
        assert_eq!(host.run(&cache, &tool).0, b"data", "{n}");
        damage();
        assert_eq!(host.run(&cache, &tool).0, b"data", "{n}");
        damage();
        let unpacked = host.run(&host.cache(u64::MAX), &tool);
        assert_eq!(unpacked, (b"data".to_vec(), true), "{n}");
        assert_eq!(host.run(&cache, &tool).0, b"data", "{n}");
    }
    trust();
    assert_eq!(host.run(&cache, &tool), (b"data".to_vec(), false));
    trust();
    host.install("hello", b"new!");
    assert_eq!(host.run(&cache, &tool), (b"new!".to_vec(), true));
}

/// A tool runs as the user of the agent: it can write into the cache.
#[test]
fn what_a_tool_has_changed_is_not_run_by_another_one() {
    let host = Host::new();
    host.install("hello", b"data");
    fs::create_dir(host.path("source/hello/lib")).unwrap();
    fs::write(host.path("source/hello/lib/large"), vec![7; 1 << 20]).unwrap();
    symlink("lib/large", host.path("source/hello/link")).unwrap();
    let tool = host.pack("hello");
    let cache = host.cache(u64::MAX);
    host.run(&cache, &tool);
    let [entry] = host.cached().try_into().unwrap();
    let entry = host.path("cache").join(entry).join("hello");
    let set_mode = |path: &str, mode| fs::set_permissions(entry.join(path), fs::Permissions::from_mode(mode)).unwrap();
    let damages: [&dyn Fn(); 9] = [
        &|| fs::write(entry.join("data"), b"evil").unwrap(),
        &|| fs::write(entry.join("lib/large"), vec![8; 1 << 20]).unwrap(),
        &|| {
            fs::write(host.path("evil"), b"evil").unwrap();
            fs::rename(host.path("evil"), entry.join("data")).unwrap();
        },
        &|| set_mode("run.sh", 0o4755),
        &|| set_mode("lib", 0o000),
        &|| set_mode(".", 0o000),
        &|| {
            fs::remove_file(entry.join("link")).unwrap();
            symlink("/etc/shadow", entry.join("link")).unwrap();
        },
        &|| fs::write(entry.join("extra"), b"").unwrap(),
        &|| {
            fs::remove_file(entry.join("run.sh")).unwrap();
            fs::create_dir(entry.join("run.sh")).unwrap();
        },
    ];
    let snapshot = host.path("pristine");
    host.place(&cache, &tool).unwrap();
    fs::rename(host.path("task/hello"), &snapshot).unwrap();
    let copied = |cache: &ToolCache| {
        let placed = host.place(cache, &tool).unwrap_or_else(|error| panic!("{error}"));
        let same = std::process::Command::new("diff").arg("-r").arg(&snapshot).arg(host.path("task/hello")).status();
        let mode = fs::metadata(host.path("task/hello/run.sh")).unwrap().permissions().mode() & 0o7700;
        fs::remove_dir_all(host.path("task/hello")).unwrap();
        (same.unwrap().success(), mode, placed.unpacked)
    };
    for (n, damage) in damages.iter().enumerate() {
        // A process that knows the tool and has compared all of it long ago.
        let known = Arc::clone(&cache.known()[&ToolVersion::from(&tool)].entry);
        assert!(known.is_right().unwrap());
        known.seal_now();
        let before = fs::symlink_metadata(entry.join("data")).unwrap().ctime_nsec();
        damage();
        // The clock of the file system may stand still for some milliseconds.
        while n == 0 && fs::symlink_metadata(entry.join("data")).unwrap().ctime_nsec() == before {
            damage();
        }
        let (same, mode, _) = copied(&cache);
        assert!(same && mode == 0o700, "{n}");
        // One that has known it only briefly; and one that does not know it.
        damage();
        let (same, mode, _) = copied(&cache);
        assert!(same && mode == 0o700, "{n}");
        if entry.exists() {
            damage();
        }
        let (same, mode, unpacked) = copied(&host.cache(u64::MAX));
        assert!(same && mode == 0o700 && unpacked, "{n}");
        host.run(&cache, &tool);
    }
}

/// A small tool is kept in memory completely, and never with a tool's changes.
#[test]
fn what_a_tool_has_changed_is_not_kept_in_memory() {
    let host = Host::new();
    host.install("hello", b"data");
    let tool = host.pack("hello");
    let cache = host.cache(u64::MAX);
    host.run(&cache, &tool);
    cache.known().get_mut(&ToolVersion::from(&tool)).unwrap().settled = true;
    let [entry] = host.cached().try_into().unwrap();
    fs::write(host.path("cache").join(entry).join("hello/run.sh"), "#!/bin/x!\n").unwrap();
    assert!(cache.snapshot(&tool).is_none());
}

#[test]
fn what_a_tool_has_mounted_in_the_cache_stays_as_it_is() {
    in_own_mount_namespace(|| {
        for (way, mount) in ways_to_mount() {
            for within in ["", "hello"] {
                let (host, precious) = (Host::new(), Precious::default());
                let tool = host.install("hello", b"data");
                host.run(&host.cache(u64::MAX), &tool);
                let [entry] = host.cached().try_into().unwrap();
                mount(&host.path("cache").join(entry).join(within), &precious);
                let cache = host.cache(0);
                assert_eq!(host.run(&cache, &tool).0, b"data", "{way}");
                cache.store.evict().unwrap();
                drop(host.cache(0));
                assert_eq!(host.cached(), [""; 0], "{way} in {within:?}");
                precious.is_untouched();
            }
        }
    });
}

#[test]
fn the_longest_unused_tools_are_evicted() {
    let host = Host::new();
    let tools = ["a", "b", "c", "d"].map(|name| host.install(name, &[0; 100_000]));
    // Room for two tools, including their entries.
    let cache = host.cache(250_000);
    let age = |tool: &ToolName, seconds: u64| {
        let name = host.cached().into_iter().find(|name| name.starts_with(&format!("{tool}-"))).unwrap();
        let folder = fs::File::open(host.path("cache").join(name)).unwrap();
        folder.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    };
    let kept = || -> Vec<String> { host.cached().iter().map(|name| name[..1].to_owned()).collect() };
    for (ages, left) in [([1, 2], ["b", "c"]), ([2, 1], ["a", "c"])] {
        let _ = fs::remove_dir_all(host.path("cache"));
        host.run(&cache, &tools[0]);
        host.run(&cache, &tools[1]);
        age(&tools[0], ages[0]);
        age(&tools[1], ages[1]);
        host.run(&cache, &tools[2]);
        assert_eq!(kept(), left);
    }
    // An entry that another process has just unpacked and not yet copied is left alone, even if it is the oldest.
    age(&tools[0], 1);
    age(&tools[2], 2);
    let name = host.cached()[0].clone();
    let held = crate::tools::scratch::lock(&host.path("cache").join(name)).unwrap().unwrap();
    host.run(&cache, &tools[3]);
    assert_eq!(kept(), ["a", "d"]);
    drop(held);
    // A tool that is larger than the limit is kept as long as it is the last one.
    let big = host.install("e", &[0; 300_000]);
    host.run(&cache, &big);
    assert_eq!(kept(), ["e"]);
    assert_eq!(host.run(&cache, &big), (vec![0; 300_000], false));
}

#[test]
fn a_start_removes_what_dead_processes_and_earlier_boots_left() {
    let host = Host::new();
    let tool = host.install("hello", b"data");
    let cache = host.cache(u64::MAX);
    host.run(&cache, &tool);
    let current = host.cached();
    let alive = cache.store.scratch().unwrap();
    let digest = "0123456789abcdef";
    for name in [".tmp-1-x".into(), ".trash-1-x".into(), format!("hello-00000000-1-{digest}"), "notes".to_owned()] {
        fs::create_dir_all(host.path("cache").join(name).join("hello")).unwrap();
    }
    let _ = host.cache(u64::MAX);
    let mut expected =
        [current, vec![alive.path().file_name().unwrap().to_string_lossy().into(), "notes".into()]].concat();
    expected.sort();
    assert_eq!(host.cached(), expected);
}

#[test]
fn a_cache_that_others_may_write_to_is_refused() {
    let host = Host::new();
    let open = || ToolCache::new(host.path("cache"), host.path("tools"), archive::tests::limits(), 0).map(|_| ());
    open().unwrap();
    assert_eq!(fs::metadata(host.path("cache")).unwrap().permissions().mode() & 0o777, 0o700);
    fs::set_permissions(host.path("cache"), fs::Permissions::from_mode(0o770)).unwrap();
    assert!(matches!(open(), Err(CacheError::Writable { .. })));
}

/// Many processes, one archive, an empty cache, and an eviction that always wants to remove everything.
#[test]
fn processes_do_not_disturb_one_another() {
    let host = Host::new();
    let tools = ["a", "b", "c"].map(|name| host.install(name, name.repeat(1000).as_bytes()));
    std::thread::scope(|scope| {
        for process in 0..6 {
            let (host, tools) = (&host, &tools);
            scope.spawn(move || {
                let cache = host.cache(0);
                let task = host.path(&format!("task{process}"));
                for round in 0..30 {
                    fs::create_dir(&task).unwrap();
                    let tool = &tools[(process + round) % 3];
                    cache.place(tool, &task, &AtomicBool::new(false)).unwrap_or_else(|error| panic!("{error}"));
                    let data = fs::read(task.join(tool.as_str()).join("data")).unwrap();
                    assert_eq!(data, tool.as_str().repeat(1000).as_bytes());
                    fs::remove_dir_all(&task).unwrap();
                }
            });
        }
    });
    assert!(host.cached().iter().all(|name| !name.starts_with('.')), "{:?}", host.cached());
}

#[test]
fn a_failed_copy_leaves_nothing_and_touches_nothing() {
    let host = Host::new();
    let tool = host.install("hello", b"data");
    let cache = host.cache(u64::MAX);
    host.run(&cache, &tool);
    fs::create_dir(host.path("task/hello")).unwrap();
    fs::write(host.path("task/hello/theirs"), "theirs").unwrap();
    assert!(matches!(host.place(&cache, &tool), Err(ToolError::Io { .. })));
    assert_eq!(fs::read_dir(host.path("task/hello")).unwrap().count(), 1);
    fs::remove_dir_all(host.path("task/hello")).unwrap();
    let stop = AtomicBool::new(false);
    assert!(matches!(cache.place(&tool, &host.path("nowhere"), &stop), Err(ToolError::Io { .. })));
    stop.store(true, Ordering::Relaxed);
    assert!(matches!(cache.place(&tool, &host.path("task"), &stop), Err(ToolError::Stopped)));
    assert_eq!(fs::read_dir(host.path("task")).unwrap().count(), 0);
}
