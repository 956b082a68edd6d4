//! `llts run` and `llts submit` of plain commands.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use crate::cli::sandbox::{Said, Sandbox, Start as _, eventually};

/// Runs `llts` with these words, as they are.
fn llts(sandbox: &Sandbox, words: &[&str]) -> Said {
    let mut command = sandbox.command("");
    command.args(words).env("GREETING", "hello there").env("OTHER", "unsent");
    command.said()
}

/// Runs a line of sh in which $LLTS is the program.
pub(crate) fn shell(sandbox: &Sandbox, line: &str) -> Said {
    let mut command = sandbox.program("/bin/sh");
    command.args(["-c", line]).env("LLTS", env!("CARGO_BIN_EXE_llts"));
    command.said()
}

/// As SIGPIPE ends a program of the shell, without a word; the command leaves no process.
#[test]
fn a_closed_reader_ends_the_command() {
    let sandbox = Sandbox::up(1);
    for command in ["yes", "sh -c 'while echo y; do sleep 0.01; done'"] {
        let said = shell(&sandbox, &format!("{{ $LLTS run -- {command}; echo $? > code; }} | head -1"));
        assert_eq!((said.out.as_str(), said.err.as_str()), ("y\n", ""), "{command}");
        assert_eq!(fs::read_to_string(sandbox.path("code")).unwrap(), "141\n", "{command}");
    }
    assert_eq!(llts(&sandbox, &["list", "--status", "RUNNING", "--output", "wire"]).json()["total"], 0);
}

#[test]
fn an_output_that_cannot_be_written_is_no_success() {
    let sandbox = Sandbox::up(1);
    for (command, code) in [("run --output json -- true", 1), ("map --output json -- true", 255)] {
        let said = shell(&sandbox, &format!("$LLTS {command} < /dev/null > /dev/full"));
        assert_eq!(said.code, Some(code), "{command}: {said:?}");
        assert!(said.err.contains("cannot write to stdout"), "{command}: {said:?}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut closed = sandbox.command(command);
        let said = closed.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).start().said();
        assert_eq!((said.code, said.err.as_str()), (Some(141), ""), "{command}: {said:?}");
    }
    let said = shell(&sandbox, "$LLTS submit -- true > /dev/full");
    let listed = llts(&sandbox, &["list", "--limit", "1", "--output", "wire"]).json();
    let id = listed["tasks"][0]["__TASK_ID__"].as_str().unwrap().to_owned();
    assert!(said.code == Some(1) && said.err.contains(&id), "the task is accepted: {said:?}");
    let said = shell(&sandbox, "$LLTS map --output json -- sleep 0.1 ::: 1 2 3 > /dev/full");
    assert!(said.code == Some(255) && said.err.contains("cannot write to stdout"), "{said:?}");
    for command in ["seq 3", "sh -c 'seq 3; sleep 0.2; seq 3'"] {
        let said = shell(&sandbox, &format!("$LLTS run -- {command} > /dev/full"));
        assert_eq!(said.code, Some(1), "{command}: {said:?}");
        assert!(said.err.contains("cannot write the output"), "{command}: {said:?}");
    }
    for help in ["--version", "help", "list --help"] {
        let said = shell(&sandbox, &format!("$LLTS {help} > /dev/full"));
        assert_eq!(said.code, Some(1), "{help}: {said:?}");
        assert!(said.err.contains("cannot write to stdout"), "{help}: {said:?}");
    }
}

#[test]
fn a_mistyped_command_is_told_the_nearest_one() {
    let sandbox = Sandbox::new();
    llts(&sandbox, &["lst"]).failed(2, "a similar subcommand exists: 'list'");
}

#[test]
fn a_command_runs_where_it_was_called_and_exits_as_itself() {
    let sandbox = Sandbox::up(1);
    let said =
        llts(&sandbox, &["run", "--", "sh", "-c", "pwd; echo \"$1\"; echo oh >&2; exit 3", "sh", "a  b"]).ended(3);
    assert_eq!(said.out, format!("{}\na  b\n", sandbox.path("").canonicalize().unwrap().display()));
    assert!(said.err.starts_with("oh\n"), "{said:?}");

    let said =
        llts(&sandbox, &["run", "--cwd", "tools", "--env", "GREETING", "--env", "A=b=c", "--sh", "pwd; env"]).ok();
    let lines: Vec<_> = said.out.lines().collect();
    assert!(lines[0].ends_with("/tools"), "{said:?}");
    assert!(lines.contains(&"GREETING=hello there") && lines.contains(&"A=b=c"), "{said:?}");
    assert!(!said.out.contains("unsent"), "{said:?}");
    assert!(llts(&sandbox, &["run", "--env-all", "--sh", "echo $OTHER"]).out.contains("unsent"));
    llts(&sandbox, &["run", "--env", "UNSET_HERE", "--", "true"])
        .failed(0, "--env UNSET_HERE: this environment has no such");

    // The umask is that of the caller, not that of the service.
    assert_eq!(shell(&sandbox, "umask 057; $LLTS run -- touch made").code, Some(0));
    assert_eq!(fs::metadata(sandbox.path("made")).unwrap().permissions().mode() & 0o777, 0o620);

    llts(&sandbox, &["run", "--", "no-such-program"]).failed(127, "no-such-program");
    let id = llts(&sandbox, &["submit", "--given-id", "mine", "--", "true"]);
    assert!(id.out.starts_with("TASK_"), "{id:?}");
    assert_eq!(llts(&sandbox, &["wait", "--given-id", "mine"]).code, Some(0));
    assert!(llts(&sandbox, &["list"]).out.contains("no-such-program"), "a list shows commands");
}

#[test]
fn a_command_reads_the_standard_input_of_its_caller() {
    let sandbox = Sandbox::up(1);
    // Any bytes, and more than a message takes.
    shell(&sandbox, "head -c 300000 /dev/urandom >in; $LLTS run -- cat <in >out; cmp in out").ok();
    // As they come: the writer has not ended.
    shell(&sandbox, "mkfifo way; $LLTS run -- head -1 <way & exec 3>way; echo first >&3; wait $!").prints("first\n");
    // What a command leaves is there for the next one.
    shell(&sandbox, "printf '1\\n2\\n3\\n' | while read line; do $LLTS run -- head -c 2; done").prints("2\n");
    shell(&sandbox, "$LLTS run -- cat </dev/null; $LLTS run -- cat <&-").prints("");
    // Without a service, one is there for the time of the run.
    sandbox.ok("down");
    let said = shell(&sandbox, "printf '\\377' | $LLTS run -- wc -c");
    assert_eq!((said.code, said.out.trim()), (Some(0), "1"), "{said:?}");
}

#[test]
fn a_command_gets_the_terminal_of_its_caller_on_request() {
    let sandbox = Sandbox::up(1);
    let on_terminal = |options: &str| {
        let test = "test -t 0 && test -t 1 && test -t 2 && echo seen && exit 4";
        shell(&sandbox, &format!("script -qec \"$LLTS run {options} --sh '{test}'\" /dev/null"))
    };
    let said = on_terminal("--tty");
    // script(1) types something at the end of its own input.
    assert!(said.code == Some(4) && said.out.contains("seen\r\n"), "{said:?}");
    let said = on_terminal("");
    assert_eq!(said.code, Some(1), "a terminal is not given unasked: {said:?}");
    llts(&sandbox, &["run", "--tty", "tool"]).ended(2);
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
    sandbox.command("up 1").env("PATH", path).said().ok();
    let said = shell(&sandbox, "seq 3 | $LLTS map --keep-order -- wanderer");
    assert_eq!((said.code, said.out.as_str()), (Some(1), "second\nfirst\n"), "{said:?}");
    assert!(said.err.contains("there is no program \"wanderer\" in any folder of PATH"), "{said:?}");
}

/// An activated venv is the commonest reason for --env-all.
#[test]
fn a_program_is_found_in_the_path_of_its_task() {
    let sandbox = Sandbox::up(1);
    let program = sandbox.path("tools/uname");
    fs::write(&program, "#!/bin/sh\necho venv\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("PATH={}:/usr/bin:/bin", sandbox.path("tools").display());
    for (path, expected) in
        [("PATH=/usr/bin:/bin", "Linux\n"), (path.as_str(), "venv\n"), ("PATH=tools:/bin", "venv\n")]
    {
        let said = llts(&sandbox, &["run", "--env", path, "--", "uname"]);
        assert_eq!((said.code, said.out.as_str()), (Some(0), expected), "{path}: {said:?}");
    }
    llts(&sandbox, &["run", "--env", "PATH=/nonexistent", "--", "uname"]).ended(127);
}

#[test]
fn a_service_keeps_no_descriptor_of_its_caller() {
    let sandbox = Sandbox::new();
    let line = "( exec 9>lock; flock -n 9; $LLTS up 1 >up.out ); flock -n lock echo free; \
                { $LLTS run -- true; } 3>&1 | cat; ls /proc/$$/fd >/dev/null; \
                for pid in $(cat /proc/[0-9]*/task/*/children 2>/dev/null); do ls -l /proc/$pid/fd 2>/dev/null | grep -F $PWD/lock; done; :";
    shell(&sandbox, line).prints("free\n");
}

#[test]
fn a_command_has_the_limit_of_descriptors_that_the_service_was_started_with() {
    let sandbox = Sandbox::new();
    let line = "ulimit -Sn 512; $LLTS up 1 >up.out; $LLTS run --sh 'ulimit -Sn; ulimit -Hn'; ulimit -Hn; $LLTS down >down.out; \
                $LLTS run --sh 'ulimit -Sn'";
    let said = shell(&sandbox, line);
    let lines: Vec<_> = said.out.lines().collect();
    assert!(matches!(lines[..], ["512", hard, ours, "512"] if hard == ours), "{said:?}");
}

#[test]
fn the_end_signal_is_chosen_by_the_submitter_or_by_the_tool() {
    let sandbox = Sandbox::new();
    let script =
        "trap 'echo int; exit 3' INT; trap 'echo term; exit 4' TERM; : > $PLACE/here; while :; do sleep 0.05; done";
    sandbox.tool("patient", script);
    fs::write(sandbox.path("tools/patient/tool.toml"), "end_signal = \"INT\"\n").unwrap();
    // It has as long as it needs.
    sandbox.command("up 1").env("LLTS_AGENT_KILL_INTERVAL", "60000").said().ok();
    let ended = |words: &[&str]| {
        let run = sandbox.command("run").args(words).start();
        eventually("it runs", || sandbox.path("here").exists());
        fs::remove_file(sandbox.path("here")).unwrap();
        sandbox.ok("kill all --yes");
        run.said().out
    };
    for (options, expected) in
        [(&[][..], "term\n"), (&["--signal", "INT"], "int\n"), (&["--end-signal", "SIGINT"], "int\n")]
    {
        assert_eq!(ended(&[options, &["--sh", script]].concat()), expected, "{options:?}");
    }
    sandbox.ok("tool pack tools/patient");
    assert_eq!([ended(&["patient"]), ended(&["--end-signal", "TERM", "patient"])], ["int\n", "term\n"]);
    llts(&sandbox, &["submit", "--end-signal", "STOP", "--", "true"]).failed(2, "TERM, INT, HUP, QUIT, USR1 or USR2");
}

#[test]
fn merged_outputs_keep_their_order() {
    let sandbox = Sandbox::up(1);
    let script = "for i in 1 2 3; do echo out $i; echo err $i >&2; done";
    let said = llts(&sandbox, &["run", "--merge", "--sh", script]);
    let expected = "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n";
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (Some(0), expected, ""), "{said:?}");
    llts(&sandbox, &["submit", "--merge", "--fail-on-stderr", "--", "true"]).failed(4, "exclude one another");
}

#[test]
fn submit_sends_the_standard_input_along_or_says_that_it_does_not() {
    let sandbox = Sandbox::up(1);
    let said = shell(&sandbox, "id=$(printf hello | $LLTS submit --stdin -- cat); $LLTS wait $id; $LLTS logs $id");
    assert_eq!((said.code, said.out.contains("hello")), (Some(0), true), "{said:?}");
    let said = shell(&sandbox, "echo text > file; $LLTS submit -- cat < file");
    assert!(said.err.contains("does not get the standard input"), "{said:?}");
    let said = shell(&sandbox, "$LLTS submit -- cat < /dev/null");
    assert_eq!(said.err, "", "{said:?}");
    shell(&sandbox, "head -c 70000 /dev/zero | $LLTS submit --stdin -- cat").failed(2, "more than 65536 bytes");
}

#[test]
fn an_unpacked_tool_keeps_its_modes_and_a_renamed_folder_goes() {
    let sandbox = Sandbox::new();
    sandbox.tool("modes", "stat -c '%a %n' run.sh data; cd ../..; mv \"$__TASK_ID__\" moved");
    fs::write(sandbox.path("tools/modes/data"), "x").unwrap();
    fs::set_permissions(sandbox.path("tools/modes/data"), fs::Permissions::from_mode(0o644)).unwrap();
    sandbox.ok("tool pack tools/modes");
    sandbox.ok("up 1");
    for _ in 0..2 {
        let said = sandbox.llts("run modes");
        assert_eq!(said.out, "755 run.sh\n644 data\n", "{said:?}");
    }
    let is_gone = || !sandbox.path("work/moved").exists();
    eventually("the renamed folder is removed", is_gone);
    sandbox.ends_clean();
}

/// The home of the user has keys, and the service of the task has none.
#[test]
fn a_command_in_a_task_uses_what_its_agent_has_given() {
    let sandbox = Sandbox::up(1);
    let keyed = sandbox.path("user/llts");
    llts(&sandbox, &["init", keyed.to_str().unwrap(), "--listen", "127.0.0.1"]).ok();
    let program = env!("CARGO_BIN_EXE_llts");
    let line = format!(
        "cd /; {program} submit -- true && {program} list >/dev/null && {program} tool list >/dev/null && echo done"
    );
    let user = format!("XDG_STATE_HOME={}", sandbox.path("user").display());
    let said = llts(&sandbox, &["run", "--env", &user, "--sh", &line]).ok();
    assert!(said.out.ends_with("done\n"), "{said:?}");
    // Of another controller than that of the task, the home counts.
    let line = format!("cd /; {program} --controller tcp://127.0.0.1:9 --home {} list", keyed.display());
    assert_eq!(llts(&sandbox, &["run", "--sh", &line]).code, Some(3));
}

#[test]
fn ctrl_c_ends_run_with_the_code_of_an_interrupt() {
    let sandbox = Sandbox::up(1);
    let child = sandbox.command("run").args(["--sh", ": > here; exec sleep 100"]).start();
    eventually("it runs", || sandbox.path("here").exists());
    child.signal(rustix::process::Signal::INT);
    child.said().ended(130);
}
