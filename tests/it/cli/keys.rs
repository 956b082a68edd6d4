//! `llts keys`, and a service that is secured with what it makes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use crate::cli::sandbox::{Sandbox, Start as _};

#[test]
fn a_pair_is_made_once_and_its_secret_is_for_its_owner() {
    let sandbox = Sandbox::new();
    let said = sandbox.ok("keys new one.key two.key");
    let lines: Vec<&str> = said.out.lines().collect();
    let read = |name: &str| fs::read_to_string(sandbox.path(name)).unwrap();
    for (line, name) in lines.iter().zip(["one.key", "two.key"]) {
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(sandbox.path(name)), 0o600);
        assert_eq!(line.split("  ").next().unwrap(), read(&format!("{name}.pub")).trim_end());
        assert!(!said.out.contains(read(name).trim_end()), "a secret is shown");
    }
    assert_eq!(lines.len(), 2);
    let before = (read("one.key"), read("one.key.pub"));
    sandbox.llts("keys new one.key").failed(1, "one.key.pub exists already");
    fs::remove_file(sandbox.path("one.key.pub")).unwrap();
    sandbox.llts("keys new one.key").failed(1, "one.key exists already");
    assert!(read("one.key") == before.0 && !sandbox.path("one.key.pub").exists());
    sandbox.llts("keys new nowhere/x.key").failed(1, "cannot write the key file nowhere/x.key");
    let made = sandbox.ok("keys new three.key --output wire").json();
    assert_eq!(made[0]["public_key"], read("three.key.pub").trim_end());
    // The name is one of bytes that are no text.
    let mut command = sandbox.command("keys new --output wire");
    let made = command.arg(OsStr::from_bytes(b"\xff.key")).said().ok().json();
    assert_eq!(made[0]["secret_file"], "%2E/%FF.key");
}

/// A mistake in the configuration is told as one, by every command that needs the keys.
#[test]
fn a_key_file_that_is_missing_or_open_to_others_is_a_mistake_of_the_configuration() {
    let sandbox = Sandbox::new();
    sandbox.tool("true", "exit 0");
    sandbox.ok("keys new server.key agent.key");
    fs::create_dir(sandbox.path("authorised")).unwrap();
    fs::copy(sandbox.path("agent.key.pub"), sandbox.path("authorised/agent")).unwrap();
    let plain = fs::read_to_string(sandbox.path("config.toml")).unwrap();
    let client = "CURVE_SECRET_KEY_FILE = \"agent.key\"\nCURVE_SERVER_PUBLIC_KEY_FILE = \"server.key.pub\"\n";
    let server = "CURVE_SERVER_SECRET_KEY_FILE = \"server.key\"\nCURVE_AUTHORISED_KEYS_DIR = \"authorised\"\n";
    let refused = |config: &str, commands: &[&str], expected: &str| {
        fs::write(sandbox.path("config.toml"), format!("{plain}{config}")).unwrap();
        for line in commands {
            let said = sandbox.llts(*line);
            assert!(said.code == Some(2) && said.err.contains(expected) && said.out.is_empty(), "{line}: {said:?}");
        }
    };
    let as_client = ["up 1", "run true", "agent", "stats --controller tcp://127.0.0.1:9"];
    let chmod = |name: &str, mode| fs::set_permissions(sandbox.path(name), fs::Permissions::from_mode(mode)).unwrap();
    for (config, commands, name) in
        [(client, &as_client[..], "agent.key"), (server, &["up 1", "controller"], "server.key")]
    {
        chmod(name, 0o644);
        let expected = format!("{name} holds a secret key and others can read it (mode 644); run `chmod 600 {name}`");
        refused(config, commands, &expected);
        chmod(name, 0o600);
        fs::rename(sandbox.path(name), sandbox.path("away")).unwrap();
        refused(config, commands, &format!("there is no key file {name}; make a pair with `llts keys new {name}`"));
        fs::rename(sandbox.path("away"), sandbox.path(name)).unwrap();
    }
    fs::rename(sandbox.path("server.key.pub"), sandbox.path("away")).unwrap();
    refused(client, &as_client, "there is no key file server.key.pub; copy the public key of the controller there");
    assert_eq!(sandbox.processes(), []);
}

/// The commands of the manual that make a controller with keys by hand. A tool that starts `llts` is admitted with the keys of its
/// agent; without keys no client is.
#[test]
fn a_service_with_keys_serves_its_tools_and_no_stranger() {
    let sandbox = Sandbox::new();
    sandbox.ok("keys new server.key agent.key");
    fs::create_dir(sandbox.path("authorised")).unwrap();
    fs::copy(sandbox.path("agent.key.pub"), sandbox.path("authorised/agent")).unwrap();
    let plain = fs::read_to_string(sandbox.path("config.toml")).unwrap();
    let keys = "CURVE_SERVER_SECRET_KEY_FILE = \"server.key\"\nCURVE_AUTHORISED_KEYS_DIR = \"authorised\"\n\
                CURVE_SECRET_KEY_FILE = \"agent.key\"\nCURVE_SERVER_PUBLIC_KEY_FILE = \"server.key.pub\"\n";
    fs::write(sandbox.path("config.toml"), plain.clone() + keys).unwrap();
    sandbox.tool("child", "echo \"I am a child\" > report.log");
    sandbox.tool("parent", &format!("{} run child > report.log", env!("CARGO_BIN_EXE_llts")));
    sandbox.ok("up 2");
    let said = sandbox.ok("run parent");
    assert_eq!(said.out, "I am a child\n", "{said:?}");
    fs::write(sandbox.path("plain.toml"), plain).unwrap();
    let mut stranger = sandbox.command("stats --config plain.toml");
    stranger.env("LLTS_ZMQ_RECV_TIMEOUT", "60000").said().failed(4, "CURVE_SECRET_KEY_FILE");
    // The key of a receiver comes from a file, and goes with an address only.
    sandbox.ok("keys new receiver.key");
    let address = "--address tcp://127.0.0.1:9 --address-key-file";
    sandbox.ok(&format!("submit child {address} receiver.key.pub"));
    let task = sandbox.ok("query last --output wire").json();
    let key = fs::read_to_string(sandbox.path("receiver.key.pub")).unwrap();
    assert_eq!(task.as_array().map_or(&task, |tasks| &tasks[0])["__ADDRESS_KEY__"], key.trim_end(), "{task}");
    sandbox.llts(&format!("submit child {address} config.toml")).failed(2, "config.toml does not hold a CURVE key");
    sandbox.llts("submit child --address-key-file receiver.key.pub").failed(2, "--address");
    // A key that is put into the folder opens without a restart, and one that is taken away does not any more.
    sandbox.ok("keys new guest.key");
    let guest = fs::read_to_string(sandbox.path("config.toml")).unwrap().replace("agent.key", "guest.key");
    fs::write(sandbox.path("guest.toml"), guest).unwrap();
    for is_there in [false, true, false] {
        if is_there {
            fs::copy(sandbox.path("guest.key.pub"), sandbox.path("authorised/guest")).unwrap();
        }
        let mut guest = sandbox.command("stats --config guest.toml");
        guest.env("LLTS_ZMQ_RECV_TIMEOUT", "60000").said().ended(if is_there { 0 } else { 4 });
        let _ = fs::remove_file(sandbox.path("authorised/guest"));
    }
    // Neither is an agent; and the log says whom the controller has turned away.
    let service: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(sandbox.path("state/service.json")).unwrap()).unwrap();
    let port = |name: &str| service[name].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let mut agent = sandbox.command("agent --config guest.toml --name guest");
    agent.env("LLTS_CONTROLLER_REP_PORT", port("controller")).env("LLTS_CONTROLLER_PUB_PORT", port("publisher"));
    let said = agent.said();
    let key = fs::read_to_string(sandbox.path("guest.key.pub")).unwrap();
    [key.trim_end(), "CURVE_AUTHORISED_KEYS_DIR"].iter().for_each(|part| said.failed(4, part));
    let log = fs::read_to_string(sandbox.path("log/controller.log")).unwrap();
    let line = log.lines().find(|line| line.contains(key.trim_end()) && line.contains("is refused")).expect("a line");
    assert!(line.contains("WARN") && line.contains("this machine's socket"), "{line}");
    sandbox.ok("down");
}
