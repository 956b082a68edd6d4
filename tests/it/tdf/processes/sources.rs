//! Where programs come from, as a worker meets it.

use std::fs;
use std::process::{Command, Stdio};

use testkit::{Program, Start as _, eventually, names, own_ip};

use super::place::Place;
use crate::tdf::original::Order;

/// `python3 -m http.server` in a folder.
struct Web {
    _program: Program,
    port: u16,
}

impl Web {
    fn start(folder: &std::path::Path) -> Self {
        let port =
            std::net::TcpListener::bind((own_ip(), 0)).and_then(|free| free.local_addr()).expect("a port").port();
        let mut command = Command::new("python3");
        let [ip, number] = [own_ip().to_string(), port.to_string()];
        command.args(["-m", "http.server", "--bind", &ip, &number, "--directory"]).arg(folder);
        let program = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).start();
        let web = Self { _program: program, port };
        eventually("a web server", || std::net::TcpStream::connect((own_ip(), port)).is_ok());
        web
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}:{}/{path}", own_ip(), self.port)
    }
}

/// Packs files of a folder.
fn pack(folder: &std::path::Path, arguments: &[&str]) {
    let packed = Command::new("tar").current_dir(folder).args(arguments).status().expect("tar");
    assert!(packed.success());
}

#[test]
fn programs_come_over_http_and_with_rsync() {
    let (place, store) = (Place::new(), tempfile::tempdir().unwrap());
    place.program("made", "echo \"$1\"; cat data");
    fs::write(place.path("made/data"), "data\n").unwrap();
    let made = place.path("made");
    let archive = store.path().join("a.tar.gz");
    pack(&made, &["-czf", archive.to_str().unwrap(), "run.sh", "data"]);
    fs::write(store.path().join("run.sh"), "#!/bin/sh\necho bare $1\n").unwrap();
    let web = Web::start(store.path());
    let _worker = place.worker("w");
    let local = format!("rsync:{}", archive.display());
    for (program, source, output) in [
        ("packed", web.url("a.tar.gz"), "x\ndata\n"),
        ("bare", web.url("run.sh"), "bare x\n"),
        ("copied", local, "x\ndata\n"),
    ] {
        let id = place.open(&Order { program, source: &source, input: b"x", ..Order::default() });
        assert_eq!(place.result(id), (output.into(), String::new()), "{program}");
        let log = place.field(id, "log");
        assert!(log.contains(&format!("fetching {program} from {source}")), "{log}");
    }
}

#[test]
fn a_program_that_cannot_be_had_is_a_failed_run_that_says_why() {
    let (place, store) = (Place::new(), tempfile::tempdir().unwrap());
    let web = Web::start(store.path());
    fs::write(store.path().join("page.zip"), "<html>").unwrap();
    let _worker = place.worker("w");
    for (source, why) in [
        (web.url("missing.zip"), "404"),
        (web.url("page.zip"), "not zip or is damaged"),
        ("rsync:/nowhere/run.sh".to_owned(), "No such file"),
        ("ftp://x/run.sh".to_owned(), "must begin with http://"),
        (web.url("program.zip?x=1"), "must end with .zip"),
    ] {
        let id = place.open(&Order { program: "q", source: &source, ..Order::default() });
        let (output, error) = place.result(id);
        assert_eq!(output, "");
        assert!(error.starts_with("program './q/run.sh' does not exist! ") && error.contains(why), "{error}");
        assert!(!place.path("q").exists());
    }
    eventually("nothing of it is left", || names(&place.path(".llts@tdf/programs/fetching")).is_empty());
}

/// An original runs them as commands (docs/design/hazards.md, X9, X10).
#[test]
fn neither_program_nor_source_is_ever_a_command_or_a_path() {
    let place = Place::new();
    let _worker = place.worker("w");
    for program in ["x;touch pwned;y", "../outside", "..", ".", "", "-x", "a b", "$(touch pwned)", "a/b", ".llts@tdf"] {
        let id = place.open(&Order { program, source: "rsync:/nowhere/run.sh", ..Order::default() });
        let (_, error) = place.result(id);
        assert!(error.starts_with(&format!("{program:?} is not the name of a program")), "{error}");
    }
    for source in
        ["rsync:/nothing; touch pwned; echo /run.sh", "rsync:-e touch pwned/run.sh", "http://$(touch pwned)/run.sh"]
    {
        let id = place.open(&Order { source, ..Order::default() });
        assert!(place.result(id).1.starts_with("program './p/run.sh' does not exist! "));
    }
    let found = names(&place.path("."));
    assert!(found.iter().all(|name| name.ends_with(".cfg") || name == ".llts@tdf"), "{found:?}");
    assert!(!place.path("../outside").exists() && !place.path("../pwned").exists());
}

/// In an original, the second worker sees half of the program (docs/design/hazards.md, X11).
#[test]
fn workers_in_one_folder_fetch_a_program_once_and_see_all_of_it() {
    let (place, store) = (Place::new(), tempfile::tempdir().unwrap());
    place.program("made", "wc -c <big");
    fs::write(place.path("made/big"), vec![b'x'; 15_000_000]).unwrap();
    let archive = store.path().join("a.tar.gz");
    pack(&place.path("made"), &["-czf", archive.to_str().unwrap(), "run.sh", "big"]);
    let _workers: Vec<_> = ["a", "b", "c", "d"].map(|name| place.worker(name)).into();
    let source = format!("rsync:{}", archive.display());
    let ids: Vec<u64> =
        (0..12).map(|_| place.open(&Order { program: "q", source: &source, ..Order::default() })).collect();
    let mut fetches = 0;
    for id in ids {
        assert_eq!(place.result(id), ("15000000\n".into(), String::new()));
        fetches += usize::from(place.field(id, "log").contains("fetching"));
    }
    assert!((1..=4).contains(&fetches), "{fetches}");
}

/// The program is there, fails, is mended at its source, and is fetched anew.
#[test]
fn a_mended_program_is_fetched_anew_and_its_results_stay() {
    let (place, store) = (Place::new(), tempfile::tempdir().unwrap());
    let script = store.path().join("run.sh");
    fs::write(&script, "#!/bin/sh\necho bug >&2\n").unwrap();
    let source = format!("rsync:{}", script.display());
    let _worker = place.worker("w");
    let task = Order { program: "q", source: &source, ..Order::default() };
    let first = place.open(&task);
    assert_eq!(place.result(first).1, "bug\n");
    fs::write(&script, "#!/bin/sh\necho mended\n").unwrap();
    assert_eq!(place.result(place.open(&task)), ("mended\n".into(), String::new()));
    assert_eq!(fs::read_to_string(place.path(&format!("q/results/w-{first}-0.err"))).unwrap(), "bug\n");
}
