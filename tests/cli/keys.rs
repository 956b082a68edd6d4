//! `llts keys`, and a service that is secured with what it makes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::place::Place;

#[test]
fn a_pair_is_made_once_and_its_secret_is_for_its_owner() {
    let place = Place::new();
    let said = place.ok("keys new one.key two.key");
    let lines: Vec<&str> = said.out.lines().collect();
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    for (line, name) in lines.iter().zip(["one.key", "two.key"]) {
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(place.path(name)), 0o600);
        assert_eq!(line.split("  ").next().unwrap(), read(&format!("{name}.pub")).trim_end());
        assert!(!said.out.contains(read(name).trim_end()), "a secret is shown");
    }
    assert_eq!(lines.len(), 2);
    let before = (read("one.key"), read("one.key.pub"));
    let said = place.llts("keys new one.key");
    assert!(said.code == Some(1) && said.err.contains("one.key.pub exists already"), "{said:?}");
    fs::remove_file(place.path("one.key.pub")).unwrap();
    let said = place.llts("keys new one.key");
    assert!(said.code == Some(1) && said.err.contains("one.key exists already"), "{said:?}");
    assert!(read("one.key") == before.0 && !place.path("one.key.pub").exists());
    let said = place.llts("keys new nowhere/x.key");
    assert!(said.code == Some(1) && said.err.contains("cannot write the key file nowhere/x.key"), "{said:?}");
    let made = place.ok("keys new three.key --output json").json();
    assert_eq!(made[0]["public_key"], read("three.key.pub").trim_end());
}

/// A mistake in the configuration is told as one, by every command that needs the keys.
#[test]
fn a_key_file_that_is_missing_or_open_to_others_is_a_mistake_of_the_configuration() {
    let place = Place::new();
    place.tool("true", "exit 0");
    place.ok("keys new server.key agent.key");
    fs::create_dir(place.path("authorised")).unwrap();
    fs::copy(place.path("agent.key.pub"), place.path("authorised/agent")).unwrap();
    let plain = fs::read_to_string(place.path("config.toml")).unwrap();
    let client = "CURVE_SECRET_KEY_FILE = \"agent.key\"\nCURVE_SERVER_PUBLIC_KEY_FILE = \"server.key.pub\"\n";
    let server = "CURVE_SERVER_SECRET_KEY_FILE = \"server.key\"\nCURVE_AUTHORISED_KEYS_DIR = \"authorised\"\n";
    let refused = |config: &str, commands: &[&str], expected: &str| {
        fs::write(place.path("config.toml"), format!("{plain}{config}")).unwrap();
        for line in commands {
            let said = place.llts(line);
            assert!(said.code == Some(2) && said.err.contains(expected) && said.out.is_empty(), "{line}: {said:?}");
        }
    };
    let as_client = ["up 1", "run true", "agent", "stats --controller tcp://127.0.0.1:9"];
    let chmod = |name: &str, mode| fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    for (config, commands, name) in
        [(client, &as_client[..], "agent.key"), (server, &["up 1", "controller"], "server.key")]
    {
        chmod(name, 0o644);
        let expected = format!("{name} holds a secret key and others may read it (mode 644); say `chmod 600 {name}`");
        refused(config, commands, &expected);
        chmod(name, 0o600);
        fs::rename(place.path(name), place.path("away")).unwrap();
        refused(config, commands, &format!("there is no key file {name}; make a pair with `llts keys new {name}`"));
        fs::rename(place.path("away"), place.path(name)).unwrap();
    }
    fs::rename(place.path("server.key.pub"), place.path("away")).unwrap();
    refused(client, &as_client, "there is no key file server.key.pub; copy the public key of the controller there");
    assert_eq!(place.processes(), []);
}

/// The four commands of the README. A tool that starts `llts` is let in as its agent is; without keys nobody is.
#[test]
fn a_service_with_keys_serves_its_tools_and_no_stranger() {
    let place = Place::new();
    place.ok("keys new server.key agent.key");
    fs::create_dir(place.path("authorised")).unwrap();
    fs::copy(place.path("agent.key.pub"), place.path("authorised/agent")).unwrap();
    let plain = fs::read_to_string(place.path("config.toml")).unwrap();
    let keys = "CURVE_SERVER_SECRET_KEY_FILE = \"server.key\"\nCURVE_AUTHORISED_KEYS_DIR = \"authorised\"\n\
                CURVE_SECRET_KEY_FILE = \"agent.key\"\nCURVE_SERVER_PUBLIC_KEY_FILE = \"server.key.pub\"\n";
    fs::write(place.path("config.toml"), plain.clone() + keys).unwrap();
    place.tool("child", "echo \"I am a child\" > report.log");
    place.tool("parent", &format!("{} run child > report.log", env!("CARGO_BIN_EXE_llts")));
    place.ok("up 2");
    let said = place.ok("run parent");
    assert_eq!(said.out, "I am a child\n", "{said:?}");
    fs::write(place.path("plain.toml"), plain).unwrap();
    let mut stranger = place.command("stats --config plain.toml");
    let output = stranger.env("LLTS_ZMQ_RECV_TIMEOUT", "20000").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(4) && said.contains("CURVE_SECRET_KEY_FILE"), "{output:?}");
    // The key of a receiver comes from a file, and goes with an address only.
    place.ok("keys new receiver.key");
    let address = "--address tcp://127.0.0.1:9 --address-key-file";
    place.ok(&format!("submit child {address} receiver.key.pub"));
    let task = place.ok("query last --output json").json();
    let key = fs::read_to_string(place.path("receiver.key.pub")).unwrap();
    assert_eq!(task.as_array().map_or(&task, |tasks| &tasks[0])["__ADDRESS_KEY__"], key.trim_end(), "{task}");
    let said = place.llts(&format!("submit child {address} config.toml"));
    assert!(said.code == Some(2) && said.err.contains("config.toml does not hold a CURVE key"), "{said:?}");
    let said = place.llts("submit child --address-key-file receiver.key.pub");
    assert!(said.code == Some(2) && said.err.contains("--address"), "{said:?}");
    // A key that is put into the folder opens without a restart, and one that is taken away does not any more.
    place.ok("keys new guest.key");
    let guest = fs::read_to_string(place.path("config.toml")).unwrap().replace("agent.key", "guest.key");
    fs::write(place.path("guest.toml"), guest).unwrap();
    for is_there in [false, true, false] {
        if is_there {
            fs::copy(place.path("guest.key.pub"), place.path("authorised/guest")).unwrap();
        }
        let mut guest = place.command("stats --config guest.toml");
        let output = guest.env("LLTS_ZMQ_RECV_TIMEOUT", "20000").output().unwrap();
        assert_eq!(output.status.code(), Some(if is_there { 0 } else { 4 }), "{output:?}");
        let _ = fs::remove_file(place.path("authorised/guest"));
    }
    // Neither is an agent; and the log says whom the controller has turned away.
    let service: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(place.path("state/service.json")).unwrap()).unwrap();
    let port = |name: &str| service[name].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let mut agent = place.command("agent --config guest.toml --name guest");
    agent.env("LLTS_CONTROLLER_REP_PORT", port("controller")).env("LLTS_CONTROLLER_PUB_PORT", port("publisher"));
    let output = agent.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let key = fs::read_to_string(place.path("guest.key.pub")).unwrap();
    assert!(output.status.code() == Some(4) && said.contains(key.trim_end()), "{output:?}");
    assert!(said.contains("CURVE_AUTHORISED_KEYS_DIR"), "{said}");
    let log = fs::read_to_string(place.path("log/controller.log")).unwrap();
    let line = log.lines().find(|line| line.contains(key.trim_end()) && line.contains("is refused")).expect("a line");
    assert!(line.contains("WARN") && line.contains("this machine's socket"), "{line}");
    place.ok("down");
}
