//! Tests of the whole configuration; parts have theirs beside them.

use proptest::prelude::*;

use super::layers::BUILT_IN;
use super::*;

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
    assert_eq!(config.controller.rep_endpoint(), "tcp://127.0.0.1:15555");
    assert_eq!(config.controller.pub_endpoint(), "tcp://127.0.0.1:15556");
    assert_eq!(config.client.reply_timeout.as_millis(), 3000);
    assert_eq!(config.agent.heartbeat_interval.as_millis(), 3000);
    assert_eq!(config.agent.kill_interval.as_millis(), 3000);
    assert_eq!(config.agent.kill_count, 3);
    assert_eq!(config.agent.report_keep_bytes, 10_000);
    assert_eq!(config.controller.task_keep.as_secs(), 24 * 3600);
    assert_eq!(config.paths.work_dir, Path::new("work"));
    assert_eq!(config.paths.tools_dir, Path::new("testTools"));
    assert_eq!(config.log.controller_file(), Path::new("./controller.log"));
    let agent = crate::types::AgentId::new("a1").expect("an id");
    assert_eq!(config.log.agent_file(&agent), Path::new("./agent.log.a1"));
    assert_eq!(config.log.parts, LogParts { time: true, level: true, place: true });
}

#[test]
fn every_key_of_the_built_in_file_is_read() {
    // A key that no section asks for trips the assertion in `from_parts`; one that is missing there, the reader's.
    let _ = Config::default();
}

#[test]
fn the_built_in_file_read_as_a_user_file_changes_nothing() {
    let mut copied = from_file(BUILT_IN).expect("valid");
    // But that its keys were set, which decides where the one agent logs that has no name.
    assert!(std::mem::take(&mut copied.log.agent_name_is_set) && !Config::default().log.agent_name_is_set);
    assert_eq!(copied, Config::default());
}

#[test]
fn the_environment_lies_over_the_file_and_the_file_over_the_defaults() {
    let file = "CONTROLLER_REP_PORT = 1\nCONTROLLER_PUB_PORT = 2\n[task_defaults]\nMAX_LOSSES = 7\n";
    let env = [("LLTS_CONTROLLER_REP_PORT", "3"), ("PATH", "/bin"), ("LLTS_RUN_TASK_ID", "x")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = Config::from_parts(Some((Path::new("my.toml"), file)), env).expect("valid");
    assert_eq!((config.controller.rep_port, config.controller.pub_port), (3, 2));
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
    assert_eq!(config.controller.rep_endpoint(), "tcp://[::]:15555");
    assert_eq!(config.paths.tool_sources_dir, None);
    assert_eq!(config.agent.processes_max, None);
    assert_eq!(config.paths.state_dir, Path::new("12"));
    assert!(from_env(&[("LLTS_PUSH_ALLOW", "")]).expect("valid").push.allow.is_empty());
}

#[test]
fn an_unknown_key_is_refused_with_its_place_and_the_nearest_known_one() {
    for (text, expected) in [
        ("\n\nAGENT_KIL_COUNT = 1", "my.toml:3: AGENT_KIL_COUNT is no known key; the nearest is AGENT_KILL_COUNT"),
        (
            "[task_defaults]\nMAX_LOSES = 1",
            "my.toml:2: task_defaults.MAX_LOSES is no known key; the nearest is task_defaults.MAX_LOSSES",
        ),
        (
            "MAX_LOSSES = 1",
            "my.toml:1: MAX_LOSSES is no known key; the nearest is task_defaults.MAX_LOSSES (it belongs below the line \
             [task_defaults])",
        ),
        (
            "[task_defaults]\nSTATE_DIR = \"x\"",
            "my.toml:2: task_defaults.STATE_DIR is no known key; the nearest is STATE_DIR (it belongs above the first line \
             in [brackets])",
        ),
        ("[STATE_DIR]\nx = 1", "my.toml:2: STATE_DIR.x is no known key; the nearest is STATE_DIR"),
        ("\"a\\u001b\" = 1", "my.toml:1: a\\u{1b} is no known key; the nearest is prompt.BIND"),
    ] {
        assert_eq!(from_file(text).expect_err(text), expected);
    }
    assert_eq!(
        from_env(&[("LLTS_TASK_DEFAULT_MAX_LOSSES", "1")]).expect_err("unknown"),
        "environment variable LLTS_TASK_DEFAULT_MAX_LOSSES: TASK_DEFAULT_MAX_LOSSES is no known key; the nearest is \
         LLTS_TASK_DEFAULTS_MAX_LOSSES"
    );
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
            "my.toml:1: CONTROLLER_REP_PORT is 70000; allowed is a whole number from 0 to 65535 (TCP port)",
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
            "CONTROLLER_IP = \"localhost\"",
            "my.toml:1: CONTROLLER_IP is \"localhost\"; allowed is an IPv4 or IPv6 address",
        ),
        (
            "CONTROLLER_IP = \"\u{202e}\"",
            "my.toml:1: CONTROLLER_IP is \"\\u{202e}\"; allowed is an IPv4 or IPv6 address",
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
    // Deep nesting ends in an error, not in a stack overflow.
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
        ("MESSAGE_BYTES_MAX = 65536", ["STDERR_KEEP_BYTES", "MESSAGE_BYTES_MAX"]),
        ("AGENT_WORK_DIR = \"./state/\"", ["AGENT_WORK_DIR", "STATE_DIR"]),
        ("TOOL_SOURCES_DIR = \"testTools\"", ["TOOL_SOURCES_DIR", "AGENT_TOOLS_DIR"]),
    ] {
        let error = from_file(text).expect_err(text);
        assert!(keys.iter().all(|key| error.contains(key)), "{error}");
    }
    assert!(from_file("CONTROLLER_PUB_PORT = 0\nCONTROLLER_REP_PORT = 0").is_ok());
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_only_when_it_was_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("none.toml");
    let error = Config::load(Some(&missing)).expect_err("missing").to_string();
    assert!(error.contains("none.toml"), "{error}");
    let long = folder.path().join("long.toml");
    std::fs::write(&long, vec![b'#'; 1 << 21]).expect("written");
    assert!(Config::load(Some(&long)).expect_err("long").to_string().contains("longer than"));
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
        let keys = layers::overlay(None, []).expect("valid");
        let key = keys.keys().nth(index.index(keys.len())).expect("a key");
        let _ = from_file(&format!("{key} = {value}"));
        let _ = from_file(&format!("{key} = \"{value}\""));
        let _ = from_env(&[(&format!("LLTS_{}", key.replace('.', "_")), &value)]);
    }
}
