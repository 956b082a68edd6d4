//! Programs from a small server, from files and by rsync: what becomes of them, and what is left of what fails.

mod archives;
mod server;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::*;
use archives::{bzip2, gzip, tar, zip};
use server::{Answer as Said, Server};

struct Place {
    root: tempfile::TempDir,
    programs: Programs,
    stop: Stop,
    environment: Environment,
}

impl Place {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(narrow: impl FnOnce(&mut Limits)) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut limits = Limits {
            packed_bytes: 1 << 20,
            unpacked_bytes: 64 << 20,
            entries: 100,
            ratio: 200,
            ratio_free_bytes: 16 << 20,
            path_bytes: 1024,
            depth: 32,
            timeout: Duration::from_mins(1),
        };
        narrow(&mut limits);
        let programs =
            Programs::open((root.path(), &root.path().join(".own")), ProgramForm::Folders, limits, TIMEOUTS).unwrap();
        Self { root, programs, stop: Stop::new().unwrap(), environment: Environment::inherited(|_| false) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn options(&self) -> FetchOptions<'_> {
        FetchOptions {
            stop: &self.stop,
            folder: self.root.path(),
            environment: &self.environment,
            brand: None,
            allowed: None,
            sha256: None,
            tool: None,
        }
    }

    fn fetch(&self, name: &str, source: &str) -> Result<(), String> {
        let name = ProgramName::new(name).unwrap();
        self.programs.fetch(&name, source, &self.options()).map(drop).map_err(|error| error.to_string())
    }

    fn look_again(&self, name: &str, source: &str) -> Result<(), String> {
        let name = ProgramName::new(name).unwrap();
        self.programs.look_again(&name, source, &self.options()).map(drop).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn fails(&self, name: &str, source: &str, why: &str) {
        let sentence = self.fetch(name, source).unwrap_err();
        assert!(sentence.contains(why), "{sentence}");
        self.is_clean();
        assert!(!self.path(name).exists());
    }

    #[track_caller]
    fn is_clean(&self) {
        for name in [FETCHING, ASIDE] {
            let left: Vec<_> = fs::read_dir(self.path(".own").join(name)).unwrap().collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }

    #[track_caller]
    fn has(&self, name: &str, text: &str) {
        let script = self.path(name).join("run.sh");
        assert_eq!(fs::read_to_string(&script).unwrap(), text);
        assert_ne!(fs::metadata(&script).unwrap().permissions().mode() & 0o100, 0, "it can be executed");
        self.is_clean();
    }
}

const TIMEOUTS: Timeouts = Timeouts { fetch: Duration::from_mins(10), silence: Duration::from_secs(30) };

const SCRIPT: &str = "#!/bin/sh\necho hello\n";

fn program() -> Vec<u8> {
    tar(&[("run.sh", SCRIPT), ("data/numbers", "1 2 3")])
}

/// A file in a folder that rsync is asked for.
fn local(folder: &Path, name: &str, bytes: &[u8]) -> String {
    fs::write(folder.join(name), bytes).unwrap();
    format!("rsync:{}", folder.join(name).display())
}

#[test]
fn each_form_is_unpacked_over_http_and_with_rsync() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    let forms: [(&str, Vec<u8>); 7] = [
        ("a.tar", program()),
        ("a.tar.gz", gzip(&program())),
        ("a.tar.bz", bzip2(&program())),
        ("a.tar.bz2", bzip2(&program())),
        ("a.zip", zip(&[("run.sh", 0o100_644, SCRIPT), ("data/numbers", 0o100_644, "1 2 3")])),
        ("b.zip", zip(&[("data/", 0o40_755, ""), ("data/numbers", 0, "1 2 3"), ("run.sh", 0, SCRIPT)])),
        ("run.sh", SCRIPT.into()),
    ];
    for (name, bytes) in forms {
        let server = Server::start({
            let bytes = bytes.clone();
            move |_| Said::ok(&bytes)
        });
        let programs = [format!("http-{name}"), format!("rsync-{name}"), format!("relative-{name}")];
        place.fetch(&programs[0], &server.url(name)).unwrap();
        place.fetch(&programs[1], &local(folder.path(), name, &bytes)).unwrap();
        fs::create_dir_all(place.path("also-local")).unwrap();
        fs::write(place.path("also-local").join(name), &bytes).unwrap();
        place.fetch(&programs[2], &format!("rsync:also-local/{name}")).unwrap();
        for program in programs {
            place.has(&program, SCRIPT);
            let data = fs::read_to_string(place.path(&program).join("data/numbers"));
            assert!(name == "run.sh" || data.unwrap() == "1 2 3", "{program}");
        }
    }
}

#[test]
fn a_program_that_is_there_is_not_fetched() {
    let (place, server) = (Place::new(), Server::start(|_| Said::ok(SCRIPT.as_bytes())));
    let name = ProgramName::new("p").unwrap();
    assert!(place.programs.present(&name).is_none());
    for _ in 0..3 {
        place.fetch("p", &server.url("run.sh")).unwrap();
    }
    assert_eq!(server.requests().len(), 1);
    assert!(place.programs.present(&name).is_some());
    fs::create_dir(place.path("mine")).unwrap();
    fs::write(place.path("mine/run.sh"), "mine").unwrap();
    place.fetch("mine", "no source at all").unwrap();
}

#[test]
fn what_cannot_be_fetched_is_said_and_leaves_nothing() {
    let place = Place::with(|limits| limits.packed_bytes = 10_000);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|request| match request.path.as_str() {
        "/round/run.sh" => Said::status("302 Found").with("Location", "/round/run.sh"),
        "/long/run.sh" => Said::ok(&vec![b'#'; 10_001]),
        "/endless/run.sh" => Said::endless(),
        "/cut/run.sh" => Said::cut(b"#!/bin/sh\n", 100),
        "/page.zip" => Said::ok(b"<html>not found</html>"),
        "/empty.tar" => Said::ok(b""),
        "/half.tar.gz" => Said::ok(&gzip(&program())[..60]),
        "/no-script.tar" => Said::ok(&tar(&[("program/run.sh", SCRIPT)])),
        "/folder.tar" => Said::ok(&tar(&[("run.sh/x", SCRIPT)])),
        _ => Said::status("404 Not Found"),
    });
    for (path, why) in [
        ("round/run.sh", "moved more than 5 times"),
        ("long/run.sh", "more than the 10000 bytes"),
        ("endless/run.sh", "more than the 10000 bytes"),
        ("cut/run.sh", "cannot fetch http://"),
        ("page.zip", "not zip or is damaged"),
        ("empty.tar", "truncated"),
        ("half.tar.gz", "truncated"),
        ("no-script.tar", "no run.sh in it"),
        ("folder.tar", "not a regular file"),
        ("missing/run.sh", "404 Not Found"),
    ] {
        place.fails("p", &server.url(path), why);
    }
    let gone = server.url("run.sh");
    drop(server);
    place.fails("p", &gone, "cannot fetch http://");
    place.fails("p", "http://host.invalid/run.sh", "cannot fetch http://host.invalid/run.sh");
    place.fails("p", "gopher://x/run.sh", "must begin with");
    place.fails("p", "rsync:/nowhere/at/all/run.sh", "No such file");
    place.fails("p", &local(folder.path(), "long.tar", &[0; 10_001]), "more than the 10000 bytes");
    fs::create_dir(folder.path().join("run.sh")).unwrap();
    place.fails("p", &format!("rsync:{}/run.sh", folder.path().display()), "no regular file");
}

#[test]
fn what_rsync_is_given_is_never_a_command() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    place.fails("p", "rsync:/nothing; touch pwned; echo /run.sh", "No such file");
    place.fails("p", "rsync:$(touch pwned)/run.sh", "No such file");
    place.fails("p", "rsync:-etouch pwned/run.sh", "would be an option");
    assert!(!place.path("pwned").exists() && !Path::new("pwned").exists());
    let odd = folder.path().join("a $(folder); it's");
    fs::create_dir(&odd).unwrap();
    place.fetch("q", &local(&odd, "run.sh", SCRIPT.as_bytes())).unwrap();
    place.has("q", SCRIPT);
}

#[test]
fn hostile_archives_are_refused_by_the_rules_for_tools() {
    let place = Place::new();
    let many: Vec<(String, &str)> = (0..101).map(|number| (format!("f{number}"), "")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let many_zipped: Vec<(&str, u32, &str)> = many.iter().map(|(name, text)| (*name, 0o100_644, *text)).collect();
    let zeros = "\0".repeat(20 << 20);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("up.tar", tar(&[("run.sh", SCRIPT), ("../out", "x")]), "holds .."),
        ("up.zip", zip(&[("run.sh", 0, SCRIPT), ("../out", 0, "x")]), "holds .."),
        ("root.zip", zip(&[("run.sh", 0, SCRIPT), ("/tmp/out", 0, "x")]), "absolute"),
        ("link.zip", zip(&[("run.sh", 0, SCRIPT), ("out", 0o120_777, "../..")]), "leaves the tool's folder"),
        ("fifo.zip", zip(&[("run.sh", 0, SCRIPT), ("pipe", 0o010_644, "")]), "a FIFO"),
        ("many.tar", tar(&many), "more than the 100 entries"),
        ("many.zip", zip(&many_zipped), "more than the 100 entries"),
        ("bomb.zip", zip(&[("run.sh", 0, SCRIPT), ("zeros", 0, &zeros)]), "more than 200 times"),
        ("bomb.tar.bz2", bzip2(&tar(&[("run.sh", SCRIPT), ("zeros", &zeros)])), "more than 200 times"),
        ("twice.zip", archives::twice(), "occurs twice"),
        ("damaged.zip", archives::damaged(), "not zip or is damaged"),
        ("tail.tar.bz2", [bzip2(&program()), b"tail".to_vec()].concat(), "not bzip2 or is damaged"),
        ("tail.tar", [program(), b"tail".to_vec()].concat(), "continues after its end"),
    ];
    for (name, bytes, why) in cases {
        let server = Server::start(move |_| Said::ok(&bytes));
        place.fails("p", &server.url(name), why);
        assert!(!place.path("out").exists(), "{name}");
    }
}

#[test]
fn a_link_inside_of_a_zip_is_one() {
    let place = Place::new();
    let bytes = zip(&[("lib/start", 0o100_755, SCRIPT), ("run.sh", 0, SCRIPT), ("start", 0o120_777, "lib/start")]);
    let server = Server::start(move |_| Said::ok(&bytes));
    place.fetch("p", &server.url("p.zip")).unwrap();
    assert_eq!(fs::read_link(place.path("p/start")).unwrap(), Path::new("lib/start"));
    assert_ne!(fs::metadata(place.path("p/start")).unwrap().permissions().mode() & 0o100, 0);
}

/// An archive that was broken once.
#[test]
fn a_mended_archive_is_fetched_anew_and_the_same_broken_one_is_not() {
    let place = Place::new();
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let server = Server::start({
        let broken = Arc::clone(&broken);
        move |request| {
            let is_broken = broken.load(std::sync::atomic::Ordering::SeqCst);
            let bytes = if is_broken { b"broken".to_vec() } else { gzip(&program()) };
            // It was mended within a second.
            let date = "Mon, 01 Jan 2024 00:00:00 GMT";
            if request.header("if-modified-since").as_deref() == Some(date) {
                return Said::status("304 Not Modified");
            }
            Said::ok(&bytes).with("Last-Modified", date)
        }
    });
    let source = server.url("p.tar.gz");
    place.fails("p", &source, "cannot unpack");
    place.fails("p", &source, "has not changed since");
    assert_eq!(server.requests()[1].header("if-modified-since"), None);
    broken.store(false, std::sync::atomic::Ordering::SeqCst);
    place.fetch("p", &source).unwrap();
    place.has("p", SCRIPT);
}

#[test]
fn a_doubted_program_is_fetched_anew_only_when_its_source_has_changed() {
    let place = Place::new();
    let text = Arc::new(Mutex::new(("Mon, 01 Jan 2024 00:00:00 GMT", "one")));
    let server = Server::start({
        let text = Arc::clone(&text);
        move |request| {
            let (date, text) = *text.lock().unwrap();
            if request.header("if-modified-since").as_deref() == Some(date) {
                return Said::status("304 Not Modified");
            }
            Said::ok(text.as_bytes()).with("Last-Modified", date)
        }
    });
    let source = server.url("run.sh");
    place.fetch("p", &source).unwrap();
    fs::create_dir(place.path("p/results")).unwrap();
    fs::write(place.path("p/results/w-1-0.out"), "answer").unwrap();
    place.look_again("p", &source).unwrap();
    place.has("p", "one");
    *text.lock().unwrap() = ("Tue, 02 Jan 2024 00:00:00 GMT", "two");
    place.look_again("p", "rsync:elsewhere/run.sh").unwrap();
    place.has("p", "one");
    let running = place.programs.present(&ProgramName::new("p").unwrap()).unwrap();
    let other = Programs::open(
        (place.root.path(), &place.path(".own")),
        ProgramForm::Folders,
        place.programs.limits.clone(),
        TIMEOUTS,
    )
    .unwrap();
    let name = ProgramName::new("p").unwrap();
    drop(other.look_again(&name, &source, &place.options()).unwrap());
    place.has("p", "one");
    drop(running);
    drop(other.look_again(&name, &source, &place.options()).unwrap());
    place.has("p", "two");
    assert_eq!(fs::read_to_string(place.path("p/results/w-1-0.out")).unwrap(), "answer");
    drop(server);
    place.look_again("p", &source).unwrap();
    place.has("p", "two");
}

#[test]
fn a_changed_file_is_known_by_its_checksum() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    let source = local(folder.path(), "p.tar", &program());
    place.fetch("p", &source).unwrap();
    fs::write(place.path("p/written"), "by a task").unwrap();
    place.look_again("p", &source).unwrap();
    place.has("p", SCRIPT);
    local(folder.path(), "p.tar", &tar(&[("run.sh", "two")]));
    place.look_again("p", &source).unwrap();
    place.has("p", "two");
    assert_eq!(fs::read_to_string(place.path("p/written")).unwrap(), "by a task");
}

/// Two workers in one folder (docs/design/hazards.md, X11).
#[test]
fn many_who_want_one_program_fetch_it_once_and_see_all_of_it() {
    let place = Place::new();
    let big = "x".repeat(1 << 20);
    let bytes = gzip(&tar(&[("run.sh", SCRIPT), ("big", &big)]));
    let server = Server::start(move |_| Said::ok(&bytes));
    let source = server.url("p.tar.gz");
    let name = ProgramName::new("p").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let own = Programs::open(
                    (place.root.path(), &place.path(".own")),
                    ProgramForm::Folders,
                    place.programs.limits.clone(),
                    TIMEOUTS,
                )
                .unwrap();
                let _held = own.fetch(&name, &source, &place.options()).unwrap();
                assert_eq!(fs::metadata(place.path("p/big")).unwrap().len(), 1 << 20);
            });
        }
    });
    assert_eq!(server.requests().len(), 1);
    place.is_clean();
}

#[test]
fn a_program_that_another_worker_runs_is_not_waited_for() {
    let (place, server) = (Place::new(), Server::start(|_| Said::ok(SCRIPT.as_bytes())));
    let (name, source) = (ProgramName::new("p").unwrap(), server.url("run.sh"));
    let running = place.programs.fetch(&name, &source, &place.options()).unwrap();
    let fetched = place.programs.fetch(&name, &source, &place.options()).unwrap();
    let doubted = place.programs.look_again(&name, &source, &place.options()).unwrap();
    drop((running, fetched, doubted));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_stop_ends_a_download_and_rsync_and_leaves_nothing() {
    let place = Place::with(|limits| limits.packed_bytes = 1 << 30);
    let server = Server::start(|_| Said::endless());
    let name = ProgramName::new("p").unwrap();
    let source = server.url("run.sh");
    std::thread::scope(|scope| {
        let fetching = scope.spawn(|| place.programs.fetch(&name, &source, &place.options()).map(drop));
        server.wait_for_requests(1);
        place.stop.set();
        assert!(matches!(fetching.join().unwrap(), Err(SourceError::Stopped)));
    });
    place.is_clean();

    // Nobody writes into the pipe that stands for a slow host.
    let place = Place::new();
    let shell = place.path("slow");
    fs::write(&shell, "#!/bin/sh\ntouch started\nexec sleep 1000\n").unwrap();
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
    let mut environment = Environment::inherited(|_| false);
    environment.set("PATH", format!("{}:{}", place.root.path().display(), std::env::var("PATH").unwrap())).unwrap();
    symlink(&shell, place.path("ssh")).unwrap();
    let options = FetchOptions { environment: &environment, ..place.options() };
    std::thread::scope(|scope| {
        let fetching = scope.spawn(|| place.programs.fetch(&name, "rsync:host:a/run.sh", &options).map(drop));
        let until = proc::clock::now().mono + Duration::from_mins(1);
        while !place.path("started").exists() && proc::clock::now().mono < until {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        place.stop.set();
        assert!(matches!(fetching.join().unwrap(), Err(SourceError::Stopped)));
    });
    place.is_clean();
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let mut place = Place::new();
    let timeouts = Timeouts { silence: Duration::from_millis(200), ..TIMEOUTS };
    let own = place.path(".own");
    place.programs =
        Programs::open((place.root.path(), &own), ProgramForm::Folders, place.programs.limits.clone(), timeouts)
            .unwrap();
    // Before its answer, and within it.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stuck = Server::start(|_| Said::stuck(b"#!"));
    for source in [format!("http://{}/run.sh", silent.local_addr().unwrap()), stuck.url("run.sh")] {
        place.fails("p", &source, "timeout");
    }
}

#[test]
fn what_a_killed_worker_was_fetching_is_removed_by_the_next() {
    let place = Place::new();
    let left = place.path(".own").join(FETCHING).join("1-dead");
    fs::create_dir(&left).unwrap();
    fs::write(left.join(DOWNLOAD), "half").unwrap();
    let _next = Programs::open(
        (place.root.path(), &place.path(".own")),
        ProgramForm::Folders,
        place.programs.limits.clone(),
        TIMEOUTS,
    )
    .unwrap();
    place.is_clean();
}

/// The folder of results that a failed task has made, or what a worker of another kind has left.
#[test]
fn a_folder_without_a_script_gets_the_program_and_keeps_what_it_has() {
    let (place, server) = (Place::new(), Server::start(|_| Said::ok(SCRIPT.as_bytes())));
    fs::create_dir_all(place.path("p/results")).unwrap();
    fs::write(place.path("p/results/w-1-0.err"), "no program").unwrap();
    place.fetch("p", &server.url("run.sh")).unwrap();
    place.has("p", SCRIPT);
    assert_eq!(fs::read_to_string(place.path("p/results/w-1-0.err")).unwrap(), "no program");
}
