//! Tests of the whole configuration; parts have theirs beside them.

use proptest::prelude::*;

use super::*;
use base::LogLayout;

fn from_file(text: &str) -> Result<Config, String> {
    Config::from_parts(Some((Path::new("my.toml"), text)), []).map_err(|error| error.to_string())
}

fn from_env(variables: &[(&str, &str)]) -> Result<Config, String> {
    let env = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::from_parts(None, env).map_err(|error| error.to_string())
}

#[test]
fn the_defaults_are_those_of_the_document() {
    let config = Config::default();
    assert_eq!(config.controller.rep_endpoint().as_deref(), Some("tcp://127.0.0.1:15555"));
    assert_eq!(config.controller.pub_endpoint().as_deref(), Some("tcp://127.0.0.1:15556"));
    assert_eq!(config.client.reply_timeout.as_millis(), 3000);
    assert_eq!(config.agent.heartbeat_interval.as_millis(), 3000);
    assert_eq!(config.agent.lost_after.as_millis(), 6000);
    assert_eq!(config.agent.kill_interval.as_millis(), 3000);
    assert_eq!(config.agent.kill_count, 3);
    assert_eq!(config.agent.report_keep_bytes, 10_000);
    assert_eq!(config.controller.task_keep.as_secs(), 24 * 3600);
    assert_eq!(config.paths.work_dir, Path::new("work"));
    assert_eq!(config.paths.tools_dir, Path::new("testTools"));
    assert_eq!(config.log.layout, LogLayout::Words);
    assert_eq!(config.log.controller_file(), Path::new("./controller.log"));
    let agent = base::AgentId::new("a1").expect("an id");
    assert_eq!(config.log.agent_file(&agent), Path::new("./agent.log.a1"));
}

/// The check that the build makes of the built-in file.
fn built_in(text: &str) -> Result<Config, String> {
    layers::overlay(text, None, []).and_then(|found| Config::read(found.settings)).map_err(|error| error.to_string())
}

#[test]
fn a_built_in_file_without_a_key_or_with_one_too_many_or_with_a_bad_value_is_refused() {
    assert_eq!(built_in(DEFAULTS), Ok(Config::default()));
    let entries = layers::entries(DEFAULTS, None).expect("valid");
    assert!(entries.len() > 100, "{}", entries.len());
    for (key, _, at) in entries {
        let line = layers::line_at(DEFAULTS, at);
        let lines = DEFAULTS.lines().enumerate().filter(|(index, _)| index + 1 != line);
        let without: Vec<&str> = lines.map(|(_, text)| text).collect();
        let expected = format!("the built-in configuration lacks {key}, or two sections read it");
        assert_eq!(built_in(&without.join("\n")), Err(expected));
    }
    let refused = built_in(&format!("NO_KEY = 1\n{DEFAULTS}"));
    assert_eq!(refused, Err("the built-in configuration has NO_KEY, which no section reads".to_owned()));
    let refused =
        built_in(&DEFAULTS.replace("AGENT_KILL_COUNT = 3", "AGENT_KILL_COUNT = 0")).expect_err("out of range");
    assert!(refused.starts_with("the built-in configuration: AGENT_KILL_COUNT is 0; allowed is"), "{refused}");
}

#[test]
fn what_is_in_force_is_told_with_where_it_was_said_and_is_a_configuration_itself() {
    let file = "LOG_LEVEL = \"debug\"\nPUSH_ALLOW = [\"::1/128\"]\n[task_defaults]\nMAX_LOSSES = 7\nTIMEOUT = 1.5\n\
                [prompt]\nSECRET = \"hunter2\"\n[lists]\nSECRET = \"hunter2\"\n";
    let env = [("LLTS_CONTROLLER_REP_PORT".to_owned(), "25555".to_owned())];
    let settings = layers::overlay(DEFAULTS, Some((Path::new("my.toml"), file)), env).expect("valid").settings;
    let sources = Sources::new(Some(Path::new("my.toml")), settings.clone(), Vec::new());
    let text = sources.annotated();
    for line in [
        "CONTROLLER_REP_PORT = 25555  # environment variable LLTS_CONTROLLER_REP_PORT; the default is 15555",
        "LOG_LEVEL = \"debug\"  # my.toml:1; the default is \"info\"",
        "MAX_LOSSES = 7  # my.toml:4; the default is 3",
        "SECRET = \"…\"  # my.toml:7; the default is \"\"",
        "SECRET = \"…\"  # my.toml:9; the default is \"\"",
        "CONTROLLER_PUB_PORT = 15556",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert_eq!(text.lines().count(), DEFAULTS.lines().count());
    let shown = text.replace("SECRET = \"…\"", "SECRET = \"hunter2\"");
    let mut copied = from_file(&shown).expect("valid");
    // Only the fact that the key was set differs; it decides where an agent without a name logs.
    copied.log.agent_name_is_set = false;
    copied.http.port_is_usual = true;
    assert_eq!(copied, Config::read(settings).expect("valid"));
    let origin = |key: &str| {
        let keys = sources.in_force();
        let found = keys.iter().find(|found| found.key == key).expect("a key");
        (found.value.to_string(), found.origin.map(ToString::to_string))
    };
    assert_eq!(origin("prompt.SECRET"), ("\"…\"".to_owned(), Some("my.toml:7".to_owned())));
    assert_eq!(origin("AGENT_KILL_COUNT"), ("3".to_owned(), None));
    assert!(!format!("{:?}", sources.in_force()).contains("hunter2"));
}

#[test]
fn the_built_in_file_read_as_a_user_file_changes_nothing() {
    let mut copied = from_file(DEFAULTS).expect("valid");
    // Only the fact that the key was set differs; it decides where an agent without a name logs, and whether a service whose ports are
    // in use takes others.
    assert!(!std::mem::replace(&mut copied.http.port_is_usual, true) && Config::default().http.port_is_usual);
    assert!(std::mem::take(&mut copied.log.agent_name_is_set) && !Config::default().log.agent_name_is_set);
    assert!(!std::mem::replace(&mut copied.controller.ports_are_usual, true));
    assert!(Config::default().controller.ports_are_usual);
    assert_eq!(copied, Config::default());
}

#[test]
fn the_environment_lies_over_the_file_and_the_file_over_the_defaults() {
    let file = "CONTROLLER_REP_PORT = 1\nCONTROLLER_PUB_PORT = 2\n[task_defaults]\nMAX_LOSSES = 7\n";
    let env = [("LLTS_CONTROLLER_REP_PORT", "3"), ("PATH", "/bin"), ("LLTS_RUN_TASK_ID", "x")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = Config::from_parts(Some((Path::new("my.toml"), file)), env).expect("valid");
    let ports = [config.controller.requests, config.controller.broadcasts];
    assert_eq!(ports.map(|address| address.map(|address| address.port())), [Some(3), Some(2)]);
    assert_eq!(config.task_defaults.policy.losses_max, 7);
    assert_eq!(config.agent.kill_count, 3);
}

#[test]
fn variables_take_the_type_of_their_key() {
    let config = from_env(&[
        ("LLTS_TASK_DEFAULTS_MAX_LOSSES", " 0 "),
        ("LLTS_PUSH_ALLOW", "10.0.0.0/8, ::1/128"),
        ("LLTS_CONTROLLER_IP", "::"),
        ("LLTS_ALLOW_INSECURE", "true"),
        ("LLTS_TOOL_SOURCES_DIR", ""),
        ("LLTS_AGENT_PROCESSES_MAX", "0"),
        ("LLTS_STATE_DIR", "12"),
    ])
    .expect("valid");
    assert_eq!(config.task_defaults.policy.losses_max, 0);
    assert_eq!(config.push.allow, ["10.0.0.0/8", "::1/128"]);
    assert_eq!(config.controller.rep_endpoint().as_deref(), Some("tcp://[::]:15555"));
    assert_eq!(config.paths.tool_sources_dir, None);
    assert_eq!(config.agent.processes_max, None);
    assert_eq!(config.paths.state_dir, Path::new("12"));
    assert!(from_env(&[("LLTS_PUSH_ALLOW", "")]).expect("valid").push.allow.is_empty());
}

#[test]
fn an_unknown_key_is_refused_with_its_place_and_the_nearest_known_one() {
    for (text, expected) in [
        ("\n\nAGENT_KIL_COUNT = 1", "my.toml:3: AGENT_KIL_COUNT is not a known key; the nearest is AGENT_KILL_COUNT"),
        (
            "[task_defaults]\nMAX_LOSES = 1",
            "my.toml:2: task_defaults.MAX_LOSES is not a known key; the nearest is task_defaults.MAX_LOSSES",
        ),
        (
            "MAX_FAILS = 1",
            "my.toml:1: MAX_FAILS is not a known key; the nearest is task_defaults.MAX_FAILS (it belongs below the line \
             [task_defaults])",
        ),
        (
            "[task_defaults]\nSTATE_DIR = \"x\"",
            "my.toml:2: task_defaults.STATE_DIR is not a known key; the nearest is STATE_DIR (it belongs above the first line \
             in [brackets])",
        ),
        ("[STATE_DIR]\nx = 1", "my.toml:2: STATE_DIR.x is not a known key; the nearest is STATE_DIR"),
        ("\"a\\u001b\" = 1", "my.toml:1: a\\u{1b} is not a known key"),
    ] {
        assert_eq!(from_file(text).expect_err(text), expected);
    }
}

/// A program around this one may have such variables: they must not prevent a start.
#[test]
fn a_foreign_variable_is_a_warning_that_names_the_nearest_key() {
    let env = [("LLTS_TASK_DEFAULT_MAX_LOSSES", "1"), ("LLTS_COLOUR\n", "x"), ("LLTS_AGENT_KILL_COUNT", "5")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let overlaid = layers::overlay(DEFAULTS, None, env).expect("no error");
    assert_eq!(
        overlaid.warnings[0],
        "the environment variable LLTS_TASK_DEFAULT_MAX_LOSSES is not a key and is ignored; the nearest is \
         LLTS_TASK_DEFAULTS_MAX_LOSSES"
    );
    assert!(overlaid.warnings[1].starts_with("the environment variable LLTS_COLOUR\\n is not a key"), "{overlaid:?}");
    assert_eq!(overlaid.warnings.len(), 2);
    assert_eq!(Config::read(overlaid.settings).expect("valid").agent.kill_count, 5);
}

#[test]
fn a_bad_value_is_refused_with_what_is_allowed() {
    for (text, expected) in [
        (
            "AGENT_KILL_COUNT = 0",
            "my.toml:1: AGENT_KILL_COUNT is 0; allowed is a whole number from 1 to 1000 (signals)",
        ),
        (
            "AGENT_KILL_INTERVAL = \"3s\"",
            "my.toml:1: AGENT_KILL_INTERVAL is \"3s\"; allowed is a whole number from 1 to 3600000 (milliseconds)",
        ),
        (
            "CONTROLLER_REP_PORT = 70000",
            "my.toml:1: CONTROLLER_REP_PORT is 70000; allowed is a whole number from 0 to 65535 (TCP port), or \"off\"",
        ),
        ("FIELDS_MAX = -1", "my.toml:1: FIELDS_MAX is -1; allowed is a whole number from 32 to 65536 (fields)"),
        ("FIELDS_MAX = 1.5", "my.toml:1: FIELDS_MAX is 1.5; allowed is a whole number from 32 to 65536 (fields)"),
        (
            "[FIELDS_MAX]",
            "my.toml:1: FIELDS_MAX is an empty table; allowed is a whole number from 32 to 65536 (fields)",
        ),
        (
            "FIELDS_MAX = 99999999999999999999",
            "my.toml:1: FIELDS_MAX is 99999999999999999999; allowed is a whole number from 32 to 65536 (fields)",
        ),
        (
            "CONTROLLER_IP = \"local host\"",
            "my.toml:1: CONTROLLER_IP is \"local host\"; allowed is IPv4 or IPv6 addresses and names of hosts, or \"\"",
        ),
        (
            "CONTROLLER_IP = \"\u{202e}\"",
            "my.toml:1: CONTROLLER_IP is \"\\u{202e}\"; allowed is IPv4 or IPv6 addresses and names of hosts, or \"\"",
        ),
        ("ALLOW_INSECURE = 1", "my.toml:1: ALLOW_INSECURE is 1; allowed is true or false"),
        (
            "LOG_DIR = \"a\\nb\"",
            "my.toml:1: LOG_DIR is \"a\\nb\"; allowed is a path, not empty and without control characters",
        ),
        ("LOG_LEVEL = \"loud\"", "my.toml:1: LOG_LEVEL is \"loud\"; allowed is off, error, warn, info, debug or trace"),
        (
            "PUSH_ALLOW = [\"::/200\"]",
            "my.toml:1: PUSH_ALLOW is [::/200]; allowed is a list of networks such as [\"10.0.0.0/8\", \"fd00::/8\"]",
        ),
    ] {
        assert_eq!(from_file(text).expect_err(text), expected);
    }
    let error = from_env(&[("LLTS_AGENT_KILL_COUNT", "many")]).expect_err("not a number");
    assert!(error.starts_with("environment variable LLTS_AGENT_KILL_COUNT: AGENT_KILL_COUNT is \"many\""), "{error}");
    assert!(from_env(&[("LLTS_STATE_DIR", "\u{fffd}")]).is_err());
}

#[test]
fn text_that_is_no_toml_is_refused_with_its_line() {
    let error = from_file("FIELDS_MAX = 100\nSTATE_DIR = \n").expect_err("no value");
    assert!(error.starts_with("my.toml:2: "), "{error}");
    assert!(from_file("STATE_DIR = \"a\"\nSTATE_DIR = \"b\"").expect_err("twice").starts_with("my.toml:2: "));
    // Deep nesting results in an error, not in a stack overflow.
    assert!(from_file(&format!("PUSH_ALLOW = {}", "[".repeat(100_000))).is_err());
}

#[test]
fn an_address_that_others_reach_needs_an_explicit_word() {
    for address in ["0.0.0.0", "192.168.1.1", "::", "fe80::1"] {
        let text = format!("CONTROLLER_IP = \"{address}\"");
        let error = from_file(&text).expect_err(address);
        assert!(error.contains(address) && error.contains("ALLOW_INSECURE = true"), "{error}");
        assert!(from_file(&format!("{text}\nALLOW_INSECURE = true")).is_ok(), "{address}");
    }
    for address in ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"] {
        assert!(from_file(&format!("CONTROLLER_IP = \"{address}\"")).is_ok(), "{address}");
    }
}

#[test]
fn ports_can_be_closed_where_there_is_another_way_in() {
    let closed = |text: &str| {
        let config = from_file(text).expect(text);
        (config.exposure(), config.controller.rep_endpoint(), config.controller.pub_endpoint())
    };
    for text in ["CONTROLLER_REP_PORT = \"off\"\nCONTROLLER_PUB_PORT = \"off\"", "CONTROLLER_IP = \"\""] {
        assert_eq!(closed(text), (Exposure::Closed, None, None), "{text}");
        let setting = "CONTROLLER_IPC_FILE = \"\"";
        let error = from_file(&format!("{text}\n{setting}")).expect_err(setting);
        assert!(error.contains("CONTROLLER_REP_PORT") && error.contains("CONTROLLER_IPC_FILE"), "{error}");
    }
    let (exposure, requests, broadcasts) = closed("CONTROLLER_PUB_PORT = \"off\"");
    assert_eq!((exposure, requests.is_some(), broadcasts), (Exposure::Machine, true, None));
    let config = from_env(&[("LLTS_CONTROLLER_REP_PORT", "off"), ("LLTS_CONTROLLER_IP", "0.0.0.0")]);
    assert!(config.expect_err("the other port is open").contains("ALLOW_INSECURE"));
}

#[test]
fn a_path_has_room_for_both_sockets() {
    let path = |length: usize| format!("CONTROLLER_IPC_FILE = \"/{}\"", "x".repeat(length - 1));
    assert!(from_file(&path(4091)).is_ok());
    let error = from_file(&path(4092)).expect_err("too long");
    assert!(error.contains("CONTROLLER_IPC_FILE is /xxx") && error.contains("4096 bytes of at most 4095"), "{error}");
}

#[test]
fn who_reaches_the_ports_is_decided_once() {
    let keys = "CURVE_SERVER_SECRET_KEY_FILE = \"s\"\nCURVE_AUTHORISED_KEYS_DIR = \"d\"";
    for (text, exposure) in [
        ("", Exposure::Machine),
        ("CONTROLLER_IP = \"127.3.2.1\"", Exposure::Machine),
        ("CONTROLLER_IP = \"::1\"", Exposure::Machine),
        ("CONTROLLER_IP = \"::ffff:127.0.0.1\"", Exposure::Machine),
        ("CONTROLLER_IP = \"0.0.0.0\"\nALLOW_INSECURE = true", Exposure::Network),
        (&format!("CONTROLLER_IP = \"0.0.0.0\"\n{keys}"), Exposure::Keys),
        (keys, Exposure::Keys),
    ] {
        assert_eq!(from_file(text).expect(text).exposure(), exposure, "{text}");
    }
}

#[test]
fn an_agent_is_led_to_another_controller_by_the_rules_of_its_configuration() {
    let at = |text: &str, endpoint: &str| {
        let config = from_file(text).expect(text).at_controller(endpoint).map_err(|error| error.to_string())?;
        Ok::<_, String>((config.controller.rep_endpoint(), config.controller.pub_endpoint(), config.network.local))
    };
    let tcp = |text: &str| Some(text.to_owned());
    assert_eq!(
        at("CONTROLLER_PUB_PORT = 7", "tcp://127.0.0.2:9"),
        Ok((tcp("tcp://127.0.0.2:9"), tcp("tcp://127.0.0.2:7"), LocalSocket::None))
    );
    assert_eq!(at("", "ipc:///run/llts"), Ok((None, None, LocalSocket::At("/run/llts".into()))));
    assert!(at("", "tcp://192.0.2.1:9").expect_err("open").contains("ALLOW_INSECURE"));
    assert!(at("ALLOW_INSECURE = true", "tcp://192.0.2.1:9").is_ok());
    for endpoint in ["", "tcp://x y:1", "tcp://127.0.0.1", "tcp://127.0.0.1:0", "ipc://", "127.0.0.1:9"] {
        let error = at("", endpoint).expect_err(endpoint);
        assert!(error.contains("write tcp://IP:PORT, tcp://NAME:PORT, several of them"), "{error}");
    }
}

#[test]
fn a_prompt_master_that_others_reach_needs_a_secret_or_an_explicit_word() {
    let text = "[prompt]\nBIND = \"0.0.0.0\"";
    let error = from_file(text).expect_err("open");
    assert!(error.contains("0.0.0.0") && error.contains("prompt.SECRET"), "{error}");
    assert!(from_file(&format!("ALLOW_INSECURE = true\n{text}")).is_ok());
    let config = from_file(&format!("{text}\nSECRET = \"hunter2\"")).expect("guarded");
    assert!(!format!("{config:?}").contains("hunter2"));
    assert_eq!(config.prompt.secret.expect("a secret").reveal(), "hunter2");
}

#[test]
fn values_that_do_not_go_together_are_refused() {
    for (text, keys) in [
        ("CONTROLLER_PUB_PORT = 15555", ["CONTROLLER_REP_PORT", "CONTROLLER_PUB_PORT"]),
        ("REPORT_LOG_KEEP_BYTES = 30000", ["REPORT_LOG_KEEP_BYTES", "FIELD_VALUE_BYTES_MAX"]),
        ("AGENT_LOST_AFTER = 5999", ["AGENT_LOST_AFTER is 5999", "6000 or more, or to 0"]),
        ("MESSAGE_BYTES_MAX = 65536", ["STDERR_KEEP_BYTES", "MESSAGE_BYTES_MAX"]),
        ("AGENT_WORK_DIR = \"./state/\"", ["AGENT_WORK_DIR", "STATE_DIR"]),
        ("TOOL_SOURCES_DIR = \"testTools\"", ["TOOL_SOURCES_DIR", "AGENT_TOOLS_DIR"]),
    ] {
        let error = from_file(text).expect_err(text);
        assert!(keys.iter().all(|key| error.contains(key)), "{error}");
    }
    assert!(from_file("CONTROLLER_PUB_PORT = 0\nCONTROLLER_REP_PORT = 0").is_ok());
    // One start reports every bound that must be raised.
    let error = from_file("REPORT_LOG_KEEP_BYTES = 50000\nSTDOUT_KEEP_BYTES = 50000").expect_err("too long");
    for part in ["REPORT_LOG_KEEP_BYTES is 50000", "STDOUT_KEEP_BYTES is 50000", "MESSAGE_BYTES_MAX"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn folders_are_told_apart_by_what_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::create_dir(path.join("real")).expect("a folder");
    std::os::unix::fs::symlink("real", path.join("link")).expect("a link");
    let both = |tools: &str, sources: &str| {
        let [tools, sources] = [tools, sources].map(|name| path.join(name).display().to_string());
        from_file(&format!("AGENT_TOOLS_DIR = \"{tools}\"\nTOOL_SOURCES_DIR = \"{sources}\""))
    };
    assert!(both("real", "other").is_ok());
    for (tools, sources) in [("real", "link"), ("real", "link/../real"), ("real/new", "link/new"), ("new", "./new/")] {
        let error = both(tools, sources).expect_err(sources);
        assert!(error.contains("AGENT_TOOLS_DIR and TOOL_SOURCES_DIR are both"), "{error}");
    }
    let here = std::env::current_dir().expect("a folder").join("testTools");
    let error = from_file(&format!("TOOL_SOURCES_DIR = \"{}\"", here.display())).expect_err("the default");
    assert!(error.contains("AGENT_TOOLS_DIR and TOOL_SOURCES_DIR are both"), "{error}");
}

/// From every other folder as well: relative paths start in the home.
#[test]
fn a_folder_of_the_home_has_one_purpose_however_it_is_written() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), format!("AGENT_WORK_DIR = {:?}", home.path().join("state")))
        .unwrap();
    let error = Config::load(None, Some(home.path())).unwrap_err().to_string();
    assert!(error.contains("AGENT_WORK_DIR and STATE_DIR are both"), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_only_when_it_was_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("none.toml");
    let error = Config::load(Some(&missing), None).expect_err("missing").to_string();
    assert!(error.contains("none.toml"), "{error}");
    let long = folder.path().join("long.toml");
    std::fs::write(&long, vec![b'#'; 1 << 21]).expect("written");
    assert!(Config::load(Some(&long), None).expect_err("long").to_string().contains("longer than"));
}

proptest! {
    // Each case reads the whole built-in file several times.
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_text_panics(text in "\\PC*", key in "[A-Z_.\\[\\]\"]{0,12}", value in "\\PC{0,20}") {
        let _ = from_file(&text);
        let _ = from_file(&format!("{key} = {value}"));
        let _ = from_env(&[(&format!("LLTS_{key}"), &value), (&key, &text)]);
    }

    #[test]
    fn no_value_of_a_known_key_panics(index in any::<prop::sample::Index>(), value in "[-+0-9a-z\"\\[\\]{}.:/, =]{0,24}") {
        let keys = layers::overlay(DEFAULTS, None, []).expect("valid").settings;
        let key = keys.keys().nth(index.index(keys.len())).expect("a key");
        let _ = from_file(&format!("{key} = {value}"));
        let _ = from_file(&format!("{key} = \"{value}\""));
        let _ = from_env(&[(&format!("LLTS_{}", key.replace('.', "_")), &value)]);
    }
}

#[test]
fn agents_and_clients_find_a_controller_by_names_and_at_several_addresses() {
    let ways = |ip: &str| {
        let config = Config::from_parts(
            Some((Path::new("my.toml"), &*format!("CONTROLLER_IP = {ip}\nALLOW_INSECURE = true"))),
            [],
        );
        let controller = config.expect("valid").controller;
        (controller.ways_of_requests().expect("open"), controller.requests.expect("open").ip().to_string())
    };
    for (ip, expected, stands_for_them) in [
        ("\"10.0.0.1\"", "tcp://10.0.0.1:15555", "10.0.0.1"),
        ("[\"::1\"]", "tcp://[::1]:15555", "::1"),
        ("\"Ctl.Fleet\"", "tcp://ctl.fleet:15555", "0.0.0.0"),
        ("[\"127.0.0.1\", \"10.0.0.1\"]", "tcp://127.0.0.1:15555,10.0.0.1:15555", "10.0.0.1"),
        ("\"ctl, fd77::2\"", "tcp://ctl:15555,[fd77::2]:15555", "fd77::2"),
    ] {
        assert_eq!(ways(ip), (expected.to_owned(), stands_for_them.to_owned()), "{ip}");
    }
    let open = from_file("ALLOW_INSECURE = true").expect("valid");
    let at = |endpoint: &str| open.clone().at_controller(endpoint).map(|config| config.controller);
    let there = at("tcp://localhost:7,ctl:7").expect("valid");
    assert_eq!(there.ways_of_requests().as_deref(), Some("tcp://127.0.0.1:7,ctl:7"));
    assert_eq!(there.ways_of_broadcasts().as_deref(), Some("tcp://127.0.0.1:15556,ctl:15556"));
    for endpoint in ["tcp://a:7,b:8", "tcp://a:7,", "tcp://a", "tcp://a b:7"] {
        assert!(at(endpoint).is_err(), "{endpoint}");
    }
}
