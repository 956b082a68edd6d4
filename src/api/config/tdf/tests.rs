//! What a configuration of TDF may say, and how a wrong one is refused.

use std::fs;

use super::*;

const REDIS: &str = "[redis]\nhost=localhost\nport=6379\npassword=None\ndb=0\n[tdf]\nnamespace=MyProgram\n";

fn in_file<T>(text: &str, load: impl FnOnce(&Path) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.cfg");
    fs::write(&path, text).unwrap();
    load(&path)
}

fn refused(text: &str) -> String {
    let error = in_file(text, |path| ManagerConfig::load(path).unwrap_err().to_string());
    error.rsplit_once("x.cfg").map_or(error.clone(), |(_, rest)| rest.to_owned())
}

#[test]
fn the_shipped_files_are_read() {
    let server = in_file(&format!("{REDIS}[server]\nround_duration=1.3\n"), |path| ServerConfig::load(path).unwrap());
    assert_eq!(server.round_duration, Duration::from_millis(1_300));
    assert_eq!((server.tdf.namespace.as_str(), server.tdf.redis.port, server.tdf.redis.db), ("MyProgram", 6379, 0));
    assert_eq!((server.tdf.redis.password, server.tdf.redis.tls), (None, None));
    assert!(server.tdf.warnings.is_empty());
    let text = format!("{REDIS}[worker]\ntask_output_filename=results/$worker.out\nsleep_after_failure=0.25\n");
    let worker = in_file(&text, |path| WorkerConfig::load(path).unwrap());
    assert_eq!(worker.task_output_filename, "results/$worker.out");
    assert_eq!(worker.task_error_filename, "$program/results/$worker-$taskId-$round.err");
    assert_eq!(worker.sleep_after_failure, Duration::from_millis(250));
    let text =
        format!("{REDIS}[manager]\n[task_defaults]\nend_before=Inf\nmax_fails=-1\nadd_random_start_offset=True\n");
    let manager = in_file(&text, |path| ManagerConfig::load(path).unwrap());
    assert_eq!(manager.task_defaults.end_before, "Inf");
    assert_eq!((manager.task_defaults.max_fails.as_str(), manager.task_defaults.start_after.as_str()), ("-1", "0"));
    assert!(manager.task_defaults.add_random_start_offset);
}

#[test]
fn an_encrypted_connection_has_its_own_keys() {
    let text = "[redis]\nhost=rediss://r.example\nusername=u\npassword=a:b#c%d e;f\ntls_ca=ca.pem\n[tdf]\nnamespace=n";
    let redis = in_file(text, |path| TdfSection::load(path).unwrap()).redis;
    assert_eq!((redis.host.as_str(), redis.username.as_deref()), ("r.example", Some("u")));
    assert_eq!(redis.password.unwrap().reveal(), "a:b#c%d e;f");
    assert_eq!(redis.tls.unwrap().ca_file, Some(PathBuf::from("ca.pem")));
}

#[test]
fn a_refusal_names_section_key_and_value() {
    let all = format!("{REDIS}[manager]\n[task_defaults]\n");
    for (text, expected) in [
        (String::new(), ": the section [redis] is missing"),
        ("[redis]\nhost=x\n".into(), ": the section [tdf] is missing"),
        (REDIS.into(), ": the section [manager] is missing"),
        (
            REDIS.replace("host=localhost\n", ""),
            ": [redis] lacks the key host; write host = a host name or an IP address",
        ),
        (REDIS.replace("6379", "x"), ":3: [redis] port is \"x\"; allowed is a TCP port from 1 to 65535"),
        (REDIS.replace("6379", "0"), ":3: [redis] port is \"0\""),
        (REDIS.replace("db=0", "db=-1"), ":5: [redis] db is \"-1\""),
        (REDIS.replace("MyProgram", ""), ":7: [tdf] namespace is \"\""),
        (format!("{REDIS}[manager]\nround_duration=x\n"), ":9: [manager] round_duration is \"x\""),
        (format!("{REDIS}[manager]\nround_duration=nan\n"), ":9: [manager] round_duration is \"nan\""),
        (format!("{REDIS}[manager]\n"), ": the section [task_defaults] is missing"),
        (format!("{all}start_after=1e400"), ":10: [task_defaults] start_after is \"1e400\""),
        (format!("{all}max_fails=1.5"), ":10: [task_defaults] max_fails is \"1.5\"; allowed is a whole number"),
        (format!("{all}add_random_start_offset=2"), ":10: [task_defaults] add_random_start_offset is \"2\""),
        ("x".into(), ":1: a key stands before the first [section]"),
    ] {
        let refusal = refused(&text);
        assert!(refusal.starts_with(expected), "{refusal}");
    }
    let missing = ServerConfig::load(Path::new("/nowhere/server.cfg")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read the configuration /nowhere/server.cfg: "), "{missing}");
}

#[test]
fn a_key_that_nothing_reads_is_told_with_the_nearest_one() {
    let text = format!("{REDIS}[server]\nround_duraton=1\n");
    let warnings = in_file(&text, |path| ServerConfig::load(path).unwrap()).tdf.warnings;
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].ends_with("x.cfg:9: [server] round_duraton is no key that is read; the nearest is round_duration")
    );
}
