//! Homes and temporary folders in unusual places: with long names, with bytes that are no text, or not there at all.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::home::user::{Said, Start as _, User, eventually};

/// A service without ports in this home: a task, a task that talks to it, a look from elsewhere, a restart, and its end.
fn serves(user: &User, home: &Path) {
    fs::create_dir_all(home).expect("made");
    fs::write(home.join("config.toml"), "LOG_DIR = \"log\"\nCONTROLLER_IP = \"\"\n").expect("written");
    fs::create_dir_all(home.join("log")).expect("made");
    let llts = |arguments: &[&OsStr]| -> Said {
        let mut command = user.command("elsewhere", "");
        command.env_remove("LLTS_CONTROLLER_REP_PORT").env_remove("LLTS_CONTROLLER_PUB_PORT");
        command.env("LLTS_HOME", home).args(arguments).said()
    };
    let ok = |line: &str| -> Said {
        let words: Vec<&OsStr> = line.split(' ').map(OsStr::new).collect();
        let said = llts(&words);
        assert_eq!(said.code, Some(0), "{line} in {home:?}: {said:?}");
        said
    };
    ok("up 1");
    assert_eq!(ok("run -- echo x").out, "x\n");
    let inner = format!("{} run -- echo inner", env!("CARGO_BIN_EXE_llts"));
    let said = llts(&["run", "--sh", &inner].map(OsStr::new));
    assert_eq!((said.code, said.out.as_str()), (Some(0), "inner\n"), "in {home:?}: {said:?}");
    assert_eq!(ok("info --output wire").json()["health"], "good");
    ok("restart --wait");
    assert_eq!(ok("run -- echo y").out, "y\n");
    ok("down");
    eventually("no process is left", || user.processes().is_empty());
}

fn with_bytes(folder: &Path, name: &[u8]) -> PathBuf {
    folder.join(OsString::from_vec(name.to_vec()))
}

#[test]
fn a_home_with_a_long_path_serves_without_ports() {
    let user = User::new();
    serves(&user, &user.path(&"a".repeat(120)));
    let deep = user.path("deep").join("d".repeat(200)).join("d".repeat(200));
    serves(&user, &deep);
    // SQLite takes no such path.
    let deeper = deep.join("d".repeat(200));
    fs::create_dir_all(&deeper).expect("made");
    user.command("elsewhere", "up 1")
        .env("LLTS_HOME", &deeper)
        .said()
        .failed(1, "name another folder with --home or STATE_DIR");
}

#[test]
fn a_home_whose_path_is_no_text_or_has_a_newline_serves() {
    let user = User::new();
    for name in [&b"new\nline"[..], b"no\xfftext"] {
        serves(&user, &with_bytes(&user.path("elsewhere"), name));
    }
}

#[test]
fn a_hosted_run_has_its_folder_wherever_tmpdir_says() {
    let user = User::new();
    let long = user.path("tmp").join("t".repeat(200));
    let newline = with_bytes(&user.path("tmp"), b"new\nline");
    for folder in [&long, &newline, &with_bytes(&user.path("tmp"), b"no\xfftext")] {
        fs::create_dir(folder).expect("made");
        let mut command = user.command("elsewhere", "run --no-service --sh");
        let inner = format!("echo $CONTROLLER_ADDRESS; {} run -- echo inner", env!("CARGO_BIN_EXE_llts"));
        let said = command.arg(inner).env("TMPDIR", folder).said();
        assert_eq!(said.code, Some(0), "{folder:?}: {said:?}");
        // No port is opened.
        assert!(said.out.starts_with("ipc://") && said.out.ends_with("\ninner\n"), "{folder:?}: {said:?}");
        assert_eq!(fs::read_dir(folder).expect("read").count(), 0, "{folder:?}");
    }
    user.command("elsewhere", "run --no-service -- echo x").env("TMPDIR", "").said().prints("x\n");
    assert_eq!(user.processes(), []);
}

#[test]
fn a_temporary_folder_that_cannot_be_used_is_named_with_its_variable() {
    let user = User::new();
    fs::write(user.path("tmp/file"), "").expect("written");
    let mut places = vec![user.path("nowhere"), user.path("tmp/file")];
    if !geteuid().is_root() {
        places.push("/proc".into());
    }
    for place in places {
        let said = user.command("elsewhere", "run --no-service -- echo x").env("TMPDIR", &place).said();
        let named = said.err.contains(&format!("cannot make {}/llts-run-", place.display()));
        assert!(said.code == Some(1) && named && said.err.contains("the variable TMPDIR is"), "{said:?}");
    }
}
