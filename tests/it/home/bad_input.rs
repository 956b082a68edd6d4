//! What is no home, what cannot be one, and who has it: each a sentence.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};

use crate::home::user::{Start as _, User};

/// The sentence with which `llts` refuses a home.
#[track_caller]
fn refused(user: &User, line: &str, code: i32) -> String {
    let said = user.llts("elsewhere", line);
    assert!(said.code == Some(code) && said.out.is_empty(), "{line}: {said:?}");
    assert_eq!(said.err.lines().count(), 1, "{line}: {said:?}");
    said.err
}

#[test]
fn a_file_is_no_home() {
    let user = User::new();
    fs::write(user.path("elsewhere/file"), "").unwrap();
    for line in ["--home file up 1", "--home file/below list", "--home file info"] {
        let why = refused(&user, line, 2);
        assert!(why.contains("is not a folder, so it is no home") && why.contains("--home"), "{line}: {why}");
    }
}

#[test]
fn doctor_goes_on_beside_a_home_that_cannot_be_one() {
    let user = User::new();
    fs::write(user.path("elsewhere/file"), "").unwrap();
    let said = user.llts("elsewhere", "--home file doctor").ended(1);
    assert!(said.out.contains("is not a folder, so it is no home") && said.out.contains("open files"), "{said:?}");
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(user.path("elsewhere/below"), fs::Permissions::from_mode(0o500)).unwrap();
        let said = user.llts("elsewhere", "--home below/new doctor");
        assert!(said.code == Some(1) && said.out.contains("cannot be made"), "{said:?}");
        fs::set_permissions(user.path("elsewhere/below"), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn info_names_no_file_of_a_configuration_that_is_not_there() {
    let user = User::new();
    let said = user.command("elsewhere", "info").env("LLTS_IDLE_STOP", "bogus").said();
    said.failed(0, "variable LLTS_IDLE_STOP: IDLE_STOP is \"bogus\"");
    let line = said.out.lines().find(|line| line.starts_with("config ")).unwrap_or_default();
    assert!(line.contains("none (") && !line.contains("config.toml"), "{said:?}");
}

#[test]
fn hints_repeat_the_options_that_name_the_home() {
    let user = User::new();
    let why = refused(&user, "--home below/new list", 3);
    assert!(why.ends_with("start one with `llts --home below/new up`\n"), "{why}");
    let first = user.ok("elsewhere", "--home below/new status --alone").out;
    assert!(first.contains("| llts --home below/new map -- echo {}"), "{first}");
    let mut init = user.command("elsewhere", "init");
    let made = init.arg("below/a b").said().ok();
    let quoted = format!("`llts --home '{}' up`", user.path("elsewhere/below/a b").display());
    assert!(made.out.contains(&quoted), "{made:?}");
}

#[test]
fn escape_sequences_in_wrong_arguments_are_text() {
    let user = User::new();
    for words in [["list", "--limit", "\u{1b}[31m5"], ["list", "\u{1b}[31mx", "--\u{1b}[31m"]] {
        let said = user.command("elsewhere", "").args(words).said();
        assert!(said.code == Some(2) && !said.err.contains('\u{1b}') && said.err.contains("\u{fffd}[31m"), "{said:?}");
    }
}

#[test]
fn a_damaged_archive_in_the_tools_folder_is_named() {
    let user = User::new();
    user.ok("elsewhere", "--home ../a up 1");
    let archive = user.path("a/testTools/broken.tar.gz");
    fs::write(&archive, "no archive").unwrap();
    let named = format!("{} cannot be run: ", archive.canonicalize().unwrap().display());
    let listed = user.ok("elsewhere", "--home ../a tool list");
    assert!(
        listed.err.contains(&named) && listed.err.contains("pack it again with `llts --home ../a tool pack"),
        "{listed:?}"
    );
    assert!(listed.out.contains("helloworld") && !listed.err.contains("helloworld"), "{listed:?}");
    let told = user.llts("elsewhere", "--home ../a doctor");
    assert!(told.code == Some(1) && told.out.contains(&named) && told.out.contains("-> pack it again"), "{told:?}");
}

#[test]
fn a_home_of_a_newer_layout_is_left_alone() {
    let user = User::new();
    fs::write(user.path("elsewhere/.llts-home"), "version 7\n").unwrap();
    for line in ["up 1", "list", "down", "info"] {
        let why = refused(&user, line, 2);
        assert!(why.contains("has the layout 7 of a newer llts"), "{line}: {why}");
    }
}

#[test]
fn a_home_that_cannot_be_made_is_named() {
    let user = User::new();
    // Not even root makes a folder there.
    let why = refused(&user, "--home /proc/llts up 1", 1);
    assert!(why.contains("cannot make the home /proc/llts (named by --home)"), "{why}");
    let why = refused(&user, "--home /proc/llts run helloworld", 1);
    assert!(why.contains("cannot make the home /proc/llts"), "{why}");
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(user.path("elsewhere/below"), fs::Permissions::from_mode(0o500)).unwrap();
        let why = refused(&user, "--home below up 1", 1);
        assert!(why.contains("cannot make the home") && why.contains("Permission denied"), "{why}");
        fs::set_permissions(user.path("elsewhere/below"), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn a_home_of_another_user_is_not_used() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let user = User::new();
    fs::create_dir(user.path("b")).unwrap();
    chown(user.path("b"), Some(65_534), Some(65_534)).unwrap();
    let why = refused(&user, "--home ../b up 1", 2);
    assert!(why.contains("belongs to user nobody, who decides with it what runs here"), "{why}");
    let way = format!("sudo -u nobody llts --home {} ...", user.path("b").canonicalize().unwrap().display());
    assert!(why.contains(&way), "{why}");
    // The units are those of the caller.
    let why = refused(&user, "--home ../b service status --user", 1);
    assert!(why.contains("no unit of llts is in "), "{why}");
}

/// Whoever starts a second service on a port learns whose it is.
#[test]
fn a_port_that_is_taken_is_told_with_the_home_that_has_it() {
    let user = User::new();
    let said = user.ok("elsewhere", &format!("--home {} up 1 --output wire", user.path("a").display()));
    let said = said.json();
    let port = said["controller"].as_str().unwrap().rsplit(':').next().unwrap();
    let mut second = user.command("elsewhere", &format!("--home {} up 1", user.path("b").display()));
    let said = second.env("LLTS_CONTROLLER_REP_PORT", port).said();
    let has_it = format!("the service in the home {} (process ", user.path("a").display());
    assert!(said.code == Some(1) && said.err.contains("Address already in use"), "{said:?}");
    assert!(said.err.contains(&has_it), "{said:?}");
}

/// A file system without room, as far as an unprivileged test can have one: every write fails.
#[test]
fn a_home_on_a_full_disk_is_told() {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let user = User::new();
    fs::create_dir(user.path("full")).unwrap();
    let options = c"size=4096,nr_inodes=3,mode=700";
    if mount("llts", user.path("full"), "tmpfs", MountFlags::empty(), options).is_err() {
        return;
    }
    fs::write(user.path("full/filler"), [0; 4096]).unwrap();
    let said = user.llts("elsewhere", "--home ../full up 1");
    unmount(user.path("full"), UnmountFlags::DETACH).unwrap();
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("cannot make the home") && said.err.contains("No space left"), "{said:?}");
}
