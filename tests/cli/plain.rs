//! `llts run` and `llts submit` of plain commands.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::sandbox::{Said, Sandbox};

/// Runs `llts` with these words, as they are.
fn llts(sandbox: &Sandbox, words: &[&str]) -> Said {
    let mut command = sandbox.command("");
    command.args(words).env("GREETING", "hello there").env("OTHER", "unsent");
    sandbox.said(sandbox.spawn(&mut command))
}

/// Runs a line of sh in which $LLTS is the program.
fn shell(sandbox: &Sandbox, line: &str) -> Said {
    let mut command = sandbox.program("/bin/sh");
    command.args(["-c", line]).env("LLTS", env!("CARGO_BIN_EXE_llts"));
    sandbox.said(sandbox.spawn(&mut command))
}

/// As SIGPIPE ends a program of the shell, without a word; the command leaves no process.
#[test]
fn a_closed_reader_ends_the_command() {
    let sandbox = Sandbox::new();
    sandbox.ok("up 1");
    for command in ["yes", "sh -c 'while echo y; do sleep 0.01; done'"] {
        let said = shell(&sandbox, &format!("{{ $LLTS run -- {command}; echo $? > code; }} | head -1"));
        assert_eq!((said.out.as_str(), said.err.as_str()), ("y\n", ""), "{command}");
        assert_eq!(fs::read_to_string(sandbox.path("code")).unwrap(), "141\n", "{command}");
    }
    assert_eq!(llts(&sandbox, &["list", "--status", "RUNNING", "--output", "json"]).json()["total"], 0);
}

#[test]
fn an_output_that_cannot_be_written_is_no_success() {
    let sandbox = Sandbox::new();
    sandbox.ok("up 1");
    for command in ["seq 3", "sh -c 'seq 3; sleep 0.2; seq 3'"] {
        let said = shell(&sandbox, &format!("$LLTS run -- {command} > /dev/full"));
        assert_eq!(said.code, Some(1), "{command}: {said:?}");
        assert!(said.err.contains("cannot write the output"), "{command}: {said:?}");
    }
}

#[test]
fn a_command_runs_where_it_was_called_and_exits_as_itself() {
    let sandbox = Sandbox::new();
    sandbox.ok("up 1");
    let said = llts(&sandbox, &["run", "--", "sh", "-c", "pwd; echo \"$1\"; echo oh >&2; exit 3", "sh", "a  b"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert_eq!(said.out, format!("{}\na  b\n", sandbox.path("").canonicalize().unwrap().display()));
    assert!(said.err.starts_with("oh\n"), "{said:?}");

    let said = llts(&sandbox, &["run", "--cwd", "tools", "--env", "GREETING", "--env", "A=b=c", "--sh", "pwd; env"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let lines: Vec<_> = said.out.lines().collect();
    assert!(lines[0].ends_with("/tools"), "{said:?}");
    assert!(lines.contains(&"GREETING=hello there") && lines.contains(&"A=b=c"), "{said:?}");
    assert!(!said.out.contains("unsent"), "{said:?}");
    assert!(llts(&sandbox, &["run", "--env-all", "--sh", "echo $OTHER"]).out.contains("unsent"));

    // The umask is that of the caller, not that of the service.
    assert_eq!(shell(&sandbox, "umask 057; $LLTS run -- touch made").code, Some(0));
    assert_eq!(fs::metadata(sandbox.path("made")).unwrap().permissions().mode() & 0o777, 0o620);

    let said = llts(&sandbox, &["run", "--", "no-such-program"]);
    assert_eq!(said.code, Some(127), "{said:?}");
    assert!(said.err.contains("no-such-program"), "{said:?}");
    let id = llts(&sandbox, &["submit", "--given-id", "mine", "--", "true"]);
    assert!(id.out.starts_with("TASK_"), "{id:?}");
    assert_eq!(llts(&sandbox, &["wait", "--given-id", "mine"]).code, Some(0));
    assert!(llts(&sandbox, &["list"]).out.contains("no-such-program"), "a list shows commands");
}

#[test]
fn a_command_reads_the_standard_input_of_its_caller() {
    let sandbox = Sandbox::new();
    sandbox.ok("up 1");
    // Any bytes, and more than a message takes.
    let said = shell(&sandbox, "head -c 300000 /dev/urandom >in; $LLTS run -- cat <in >out; cmp in out");
    assert_eq!(said.code, Some(0), "{said:?}");
    // As they come: the writer has not ended.
    let said = shell(&sandbox, "mkfifo way; $LLTS run -- head -1 <way & exec 3>way; echo first >&3; wait $!");
    assert_eq!((said.code, said.out.as_str()), (Some(0), "first\n"), "{said:?}");
    // What a command leaves is there for the next one.
    let said = shell(&sandbox, "printf '1\\n2\\n3\\n' | while read line; do $LLTS run -- head -c 2; done");
    assert_eq!((said.code, said.out.as_str()), (Some(0), "2\n"), "{said:?}");
    let said = shell(&sandbox, "$LLTS run -- cat </dev/null; $LLTS run -- cat <&-");
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "{said:?}");
    // Without a service, one is there for the time of the run.
    sandbox.ok("down");
    let said = shell(&sandbox, "printf '\\377' | $LLTS run -- wc -c");
    assert_eq!((said.code, said.out.trim()), (Some(0), "1"), "{said:?}");
}

#[test]
fn a_command_gets_the_terminal_of_its_caller_on_request() {
    let sandbox = Sandbox::new();
    sandbox.ok("up 1");
    let on_terminal = |options: &str| {
        let test = "test -t 0 && test -t 1 && test -t 2 && echo seen && exit 4";
        shell(&sandbox, &format!("script -qec \"$LLTS run {options} --sh '{test}'\" /dev/null"))
    };
    let said = on_terminal("--tty");
    assert_eq!((said.code, said.out.as_str()), (Some(4), "seen\r\n"), "{said:?}");
    let said = on_terminal("");
    assert_eq!(said.code, Some(1), "a terminal is not given unasked: {said:?}");
    let said = llts(&sandbox, &["run", "--tty", "tool"]);
    assert_eq!(said.code, Some(2), "{said:?}");
}

#[test]
fn a_command_line_names_one_kind_of_work() {
    let sandbox = Sandbox::new();
    for words in [
        &["run"][..],
        &["run", "tool", "--", "true"],
        &["run", "--sh", "true", "--", "true"],
        &["run", "tool", "--cwd", "/"],
        &["run", "--env", "=x", "--", "true"],
        &["submit", "--sh", "true", "tool"],
    ] {
        let said = llts(&sandbox, words);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{words:?}: {said:?}");
    }
}

/// The agent remembers where the last program was, and each of these runs makes that wrong for the next one.
#[test]
fn a_program_that_moves_is_found_where_it_is() {
    let sandbox = Sandbox::new();
    let [first, second] = ["first", "second"].map(|name| sandbox.path(name));
    for folder in [&first, &second] {
        fs::create_dir(folder).unwrap();
    }
    let program = second.join("wanderer");
    let script =
        "#!/bin/sh\ncase \"$0\" in */second/*) mv \"$0\" FIRST/; echo second;; *) rm \"$0\"; echo first;; esac\n";
    fs::write(&program, script.replace("FIRST", &first.to_string_lossy())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}:{}", first.display(), second.display(), std::env::var("PATH").unwrap());
    let up = sandbox.said(sandbox.spawn(sandbox.command("up 1").env("PATH", path)));
    assert_eq!(up.code, Some(0), "{up:?}");
    let said = shell(&sandbox, "seq 3 | $LLTS map --keep-order -- wanderer");
    assert_eq!((said.code, said.out.as_str()), (Some(1), "second\nfirst\n"), "{said:?}");
    assert!(said.err.contains("there is no program \"wanderer\" in any folder of PATH"), "{said:?}");
}
