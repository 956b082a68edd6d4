//! `llts config`; what the environment may say; which commands obey `--controller`, and which refuse it.

use std::fs;
use std::time::Duration;

use crate::cli::sandbox::{Sandbox, Start as _, eventually};

#[test]
fn what_is_configured_is_shown_with_where_it_was_said() {
    let sandbox = Sandbox::new();
    let shown = sandbox.ok("config").out;
    for line in [
        "CONTROLLER_REP_PORT = 0  # config.toml:1; the default is 15555",
        "LOG_DIR = \"log\"  # config.toml:6; the default is \".\"",
        "AGENT_KILL_COUNT = 3",
    ] {
        assert!(shown.lines().any(|found| found == line), "{line} is not in\n{shown}");
    }
    assert!(
        sandbox.ok("config --defaults").out == api::config::DEFAULTS,
        "the defaults are printed as they were built in"
    );
    let differences = sandbox.ok("config --diff").out;
    assert_eq!(differences.lines().count(), 7, "{differences}");
    let words = |line: &str| differences.lines().any(|found| found.split_whitespace().eq(line.split(' ')));
    assert!(words("KEY VALUE DEFAULT FROM") && words("AGENT_KILL_INTERVAL 1000 3000 config.toml:5"), "{differences}");
    let value = sandbox.command("config --diff --output wire").env("LLTS_PROMPT_PORT", "7").said().json();
    assert_eq!(value["file"], "config.toml");
    let keys = value["keys"].as_array().unwrap();
    let port = keys.iter().find(|key| key["key"] == "prompt.PORT").unwrap();
    assert_eq!((port["value"].as_i64(), port["default"].as_i64()), (Some(7), Some(34567)));
    assert_eq!(port["from"], "environment variable LLTS_PROMPT_PORT");
    // The defaults are to be had also where the configuration is refused.
    fs::write(sandbox.path("bad.toml"), "CONTROLLER_IP = 5").unwrap();
    assert_eq!(sandbox.llts("config --config bad.toml").code, Some(2));
    assert_eq!(sandbox.ok("config --defaults --config bad.toml").out, sandbox.ok("config --defaults").out);
    // The output is a valid configuration with the same values.
    fs::write(sandbox.path("shown.toml"), shown).unwrap();
    let again = sandbox.ok("config --diff --config shown.toml --output wire").json();
    let pairs = |value: &serde_json::Value| {
        let keys = value["keys"].as_array().unwrap();
        keys.iter().map(|key| (key["key"].clone(), key["value"].clone())).collect::<Vec<_>>()
    };
    let defaults = pairs(&sandbox.ok("config --defaults --output wire").json());
    let changed = pairs(&again).into_iter().filter(|pair| !defaults.contains(pair));
    let expected = pairs(&sandbox.ok("config --diff --output wire").json());
    assert_eq!(changed.collect::<Vec<_>>(), expected);
}

#[test]
fn a_foreign_variable_is_told_once_and_stops_nothing() {
    let sandbox = Sandbox::new();
    let said = sandbox.command("up 1").env("LLTS_CONTROLER_IP", "x").said().ok();
    let sentence = "llts: the environment variable LLTS_CONTROLER_IP is not a key and is ignored; the nearest is LLTS_CONTROLLER_IP";
    assert_eq!(said.err.lines().filter(|line| *line == sentence).count(), 1, "{said:?}");
    for log in crate::cli::sandbox::names(&sandbox.path("log")) {
        let text = fs::read_to_string(sandbox.path("log").join(&log)).unwrap();
        assert!(!text.contains("LLTS_CONTROLER_IP"), "{log}: {text}");
    }
    let said = sandbox.command("stats --output wire").env("LLTS_X", "1").said();
    assert!(said.code == Some(0) && said.json().is_object(), "{said:?}");
}

#[test]
fn a_controller_may_be_named_by_its_host() {
    let sandbox = Sandbox::new();
    sandbox.tool("true", "exit 0");
    let controller = sandbox.ok("up 1 --output wire").json()["controller"].as_str().unwrap().to_owned();
    let (_, port) = controller.rsplit_once(':').unwrap();
    let elsewhere = Sandbox::new();
    for line in ["stats", "run true"] {
        let said = elsewhere.llts(&format!("--controller tcp://localhost:{port} {line}"));
        assert_eq!(said.code, Some(0), "{line}: {said:?}");
    }
    // Another program may name it in the same way.
    let client = llts_client::Client::connect(&format!("tcp://localhost:{port}"), Duration::from_secs(60)).unwrap();
    assert_eq!(client.ask(&api::wire::requests::stats::agents()).unwrap().total, 1);
    let said = elsewhere.llts("stats --controller tcp://no..name:1");
    assert!(
        said.code == Some(2) && said.err.contains("'tcp://no..name:1'") && said.err.contains("it has a bad host"),
        "{said:?}"
    );
    let said = elsewhere.llts("stats --controller localhost");
    assert!(
        said.code == Some(2) && said.err.contains("write tcp://IP:PORT, tcp://NAME:PORT or ipc://PATH"),
        "{said:?}"
    );
    sandbox.ends_clean();
}

/// A service of this machine is never mistaken for the one that was named, nor the other way round.
#[test]
fn a_controller_that_is_named_is_obeyed_or_refused() {
    let sandbox = Sandbox::new();
    let controller = sandbox.ok("up 1 --output wire").json()["controller"].as_str().unwrap().to_owned();
    for line in ["down", "up 1", "controller", "store check", "tool check x", "keys new x", "config", "prompt status"] {
        for line in [format!("{line} --controller tcp://192.0.2.1:1"), format!("--controller tcp://192.0.2.1:1 {line}")]
        {
            let said = sandbox.llts(&line);
            assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{line}: {said:?}");
            assert!(said.err.contains("--controller tcp://192.0.2.1:1 has no meaning here"), "{line}: {said:?}");
        }
    }
    assert_eq!(sandbox.ok("agents --output wire").json()["total"], 1, "the service here goes on");
    // The variable is for those who talk to a controller: a tool has it.
    let named = |line: &str| sandbox.command(line).env("CONTROLLER_ADDRESS", &controller).said();
    assert_eq!(named("config").code, Some(0));
    assert_eq!(named("stats").code, Some(0));
    // An empty flag, or an address that cannot be one, is refused before anything is asked; an empty variable names none.
    for named in ["", "tcp://127.0.0.1:99999", "tcp://127.0.0.1"] {
        let mut command = sandbox.command("stats");
        command.args(["--controller", named]);
        let by_flag = command.said();
        assert_eq!((by_flag.code, by_flag.out.as_str()), (Some(2), ""), "{named:?}: {by_flag:?}");
        let by_variable = sandbox.command("stats").env("CONTROLLER_ADDRESS", named).said();
        assert_eq!(by_variable.code, Some(if named.is_empty() { 0 } else { 2 }), "{named:?}: {by_variable:?}");
        assert!(named.is_empty() || by_variable.err.contains("CONTROLLER_ADDRESS"), "{by_variable:?}");
    }
    let elsewhere = Sandbox::new();
    let far = elsewhere.command(&format!("agent --name far --controller {controller}")).start();
    let by_variable = elsewhere.command("agent --name farther").env("CONTROLLER_ADDRESS", &controller).start();
    eventually("both agents are here", || {
        let agents = sandbox.agents();
        ["far", "farther"].iter().all(|name| agents.iter().any(|agent| agent["__AGENT_ID__"] == *name))
    });
    for mut agent in [far, by_variable] {
        rustix::process::kill_process(rustix::process::Pid::from_child(&agent), rustix::process::Signal::TERM).unwrap();
        assert!(agent.wait().unwrap().success());
    }
    elsewhere.llts("agent --controller inproc://x").failed(2, "write tcp://IP:PORT");
    // A service that a tool starts is one of its own.
    assert_eq!(elsewhere.command("up 1").env("CONTROLLER_ADDRESS", &controller).said().code, Some(0));
    assert_eq!((sandbox.agents().len(), elsewhere.agents().len()), (1, 1));
    assert_eq!(named("down").code, Some(0));
    sandbox.is_clean();
}
