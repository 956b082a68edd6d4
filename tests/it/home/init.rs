//! `llts init`: what it makes, and that it never overwrites anything.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::home::user::{User, names};

#[test]
fn a_home_is_made_and_its_service_runs() {
    let user = User::new();
    let said = user.ok("elsewhere", "init ../a");
    assert!(said.out.starts_with(&format!("{} is a home of llts", user.path("a").display())), "{said:?}");
    assert_eq!(names(&user.path("a")), [".llts-home", "config.toml", "log", "tools"]);
    user.ok("a/tools", "up 1");
    assert_eq!(user.ok("a/log", "run helloworld name=x").out, "hello, x\n");
    assert!(names(&user.path("a/log")).contains(&"controller.log".to_owned()));
    user.ok("a", "down");
    assert_eq!(names(&user.path("a")), [".llts-home", "config.toml", "log", "state", "testTools", "tools", "work"]);
}

#[test]
fn nothing_is_overwritten() {
    let user = User::new();
    user.ok("elsewhere", "init");
    let config = user.usual().join("config.toml");
    fs::write(&config, "LOG_LEVEL = \"debug\"\n").unwrap();
    user.llts("elsewhere", "init --listen 10.0.0.1").failed(1, "is there already, so nothing was changed");
    assert_eq!(fs::read_to_string(config).unwrap(), "LOG_LEVEL = \"debug\"\n");
    assert!(!user.usual().join("keys").exists());
}

/// Only this machine and keys that are put into the folder are let in.
#[test]
fn a_home_that_listens_has_keys() {
    let user = User::new();
    let said = user.ok("elsewhere", "init ../a --listen 0.0.0.0");
    let mode = |name: &str| fs::metadata(user.path("a/keys").join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("server.key"), mode("own.key"), mode("authorised")), (0o600, 0o600, 0o700));
    let key = fs::read_to_string(user.path("a/keys/server.key.pub")).unwrap();
    assert!(said.out.contains(key.trim_end()) && said.out.contains("keys invite --listen 0.0.0.0"), "{said:?}");
    for secret in ["server.key", "own.key"] {
        let secret = fs::read_to_string(user.path("a/keys").join(secret)).unwrap();
        assert!(!said.out.contains(secret.trim_end()), "a secret is shown");
    }
    let up = user.ok("elsewhere", &format!("--home {} up 1 --output wire", user.path("a").display())).json();
    assert_eq!(user.ok("a", "run helloworld name=x").out, "hello, x\n");
    let port = up["controller"].as_str().unwrap().rsplit(':').next().unwrap();
    let said = user.llts("elsewhere", &format!("stats --controller tcp://127.0.0.1:{port}"));
    assert!(said.code == Some(4) && said.err.contains("CURVE_SECRET_KEY_FILE"), "a stranger: {said:?}");
    let keys = format!("--server-key {0}/server.key.pub --secret-key {0}/own.key", user.path("a/keys").display());
    user.ok("elsewhere", &format!("context add here tcp://127.0.0.1:{port} {keys}"));
    user.ok("elsewhere", "stats --context here");
    // Agents in another home, with the keys of the context.
    user.ok("elsewhere", &format!("--home {} up --agents-only 2 --context here", user.path("b").display()));
    let agents = user.ok("a", "agents --output wire").json();
    assert_eq!(agents["total"].as_u64(), Some(3), "{agents}");
    user.ok("b", "down");
    user.ok("a", "down");
}
