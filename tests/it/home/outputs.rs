//! The files that come back: only what a run has made or changed, as it was, and a sentence about the rest.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::home::travel::Machines;
use crate::home::user::Start as _;

/// The task has succeeded, whatever its files are called; the user learns which ones are not there.
#[test]
fn a_file_whose_name_cannot_be_written_down_is_named_with_the_reason() {
    let machines = Machines::new();
    machines.agents(1);
    let script = r"touch good.out $(printf 'a\001b.out') $(printf 'a\001\377b.out') $(printf 'c\377d.other')";
    let task = machines.submit_sh("--out *.out", script);
    let said = machines.user.ok("a", &format!("wait {task} --timeout 60"));
    let got = machines.user.llts("a", &format!("get {task} -o back"));
    assert!(got.code == Some(1) && got.out == "back/good.out 0 bytes\n", "{got:?}");
    let why = machines.user.ok("a", &format!("explain {task}")).out;
    for note in [
        r#""a\u{1}b.out" was not kept: its name has a control character"#,
        r#""a\u{1}\xffb.out" was not kept: its name has a control character"#,
    ] {
        for told in [&said.err, &got.err, &why, &machines.agent_logs()] {
            assert!(told.contains(note), "{told}");
        }
    }
    assert!(!said.err.contains("other"), "{said:?}");
}

#[test]
fn an_executable_output_stays_executable() {
    let machines = Machines::new();
    machines.agents(1);
    let task = machines
        .submit_sh("--out *", "echo x > plain; echo x > script; chmod 755 script; cp script also; chmod 711 also");
    machines.ended(&task);
    machines.user.ok("a", &format!("get {task} -o back"));
    let mode = |name: &str| fs::metadata(machines.in_a("back").join(name)).unwrap().permissions().mode() & 0o777;
    let umask = 0o777 & !mode("script");
    assert_eq!(["also", "plain", "script"].map(mode), [0o777 & !umask, 0o666 & !umask, 0o777 & !umask]);
    assert!(mode("script") & 0o100 != 0);
    // Also where no store is on this machine.
    fs::remove_dir_all(machines.in_a("back")).unwrap();
    machines.user.llts("elsewhere", &format!("get {task} -o back --controller {}", machines.controller)).ok();
    let mode = fs::metadata(machines.user.path("elsewhere/back/script")).unwrap().permissions().mode();
    assert!(mode & 0o100 != 0, "{mode:o}");
}

/// A tool starts in its own folder, with its inputs; a pattern for all of it brings what is new.
#[test]
fn files_of_the_tool_and_inputs_come_back_only_if_the_run_has_changed_them() {
    let machines = Machines::new();
    let folder = machines.user.path("elsewhere/greet");
    fs::create_dir_all(folder.join("lib")).unwrap();
    let script =
        "#!/bin/sh\necho new > made; echo more >> changed; echo x > lib/made; chmod +x run.sh.txt; cat in >> in2\n";
    for (name, text) in [("run.sh", script), ("changed", "a\n"), ("kept", "a\n"), ("lib/a", "a\n"), ("run.sh.txt", "")]
    {
        fs::write(folder.join(name), text).unwrap();
    }
    fs::set_permissions(folder.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("kept", folder.join("link")).unwrap();
    machines.user.ok("a", "tool push ../elsewhere/greet");
    machines.agents(1);
    machines.write("in", b"in\n");
    machines.write("in2", b"in2\n");
    let task = machines.user.ok("a", "submit greet --in in --in in2 --out **").out.trim().to_owned();
    let fields = machines.ended(&task);
    assert_eq!(
        (&fields["__OUTCOME__"], &fields["__OUT_NOTE__"]),
        (&"SUCCEEDED".into(), &serde_json::Value::Null),
        "{fields}"
    );
    let got = machines.user.ok("a", &format!("get {task} -o back --output wire")).json();
    let names: Vec<_> = got.as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["changed", "in2", "lib/made", "made", "run.sh.txt"]);
    assert_eq!(fs::read(machines.in_a("back/changed")).unwrap(), b"a\nmore\n");
}

/// Nothing is wrong with the task, but its submitter may have mistyped the pattern.
#[test]
fn a_pattern_that_brings_nothing_is_named() {
    let machines = Machines::new();
    machines.agents(1);
    machines.write("in", b"in\n");
    let sentence = "the run has made or changed no file that matches --out 'in', '*.mp4'";
    let task = machines.submit_sh(
        "--in in --out in --out *.mp4 --out *.txt --out b*",
        "echo a > a.txt; ln -s a.txt b; echo x > c.mp3",
    );
    for command in ["wait", "get", "explain"] {
        let said = machines.user.llts("a", &format!("{command} {task}"));
        let text = if command == "explain" { &said.out } else { &said.err };
        assert!(text.contains(sentence) && !text.contains("'*.txt'") && !text.contains("'b*'"), "{command}: {said:?}");
        assert_eq!(said.code, Some(i32::from(command == "get")), "because of the link: {said:?}");
    }
    let mut command = machines.user.command("a", "run --out *.mp4");
    command.args(["--sh", "true"]).said().failed(0, "no file that matches --out '*.mp4'");
    let said = machines.user.ok("a", &format!("query {task} --output wire")).json();
    assert_eq!(said["__OUT_IDLE__"], sentence);
}
