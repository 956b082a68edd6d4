//! Plain commands in place of tools.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::service::sandbox::{Client, Sandbox, Start as _};

/// Runs a task to its end.
fn run(client: &Client, fields: Value) -> Value {
    let reply = client.ask("TASK/SUBMIT", fields);
    assert_eq!(reply["__CODE__"], 0, "{reply}");
    client.end(reply["__TASK_ID__"].as_str().unwrap())
}

fn argv(words: &[&str]) -> Value {
    json!({ "__COMMAND__": json!(words).to_string() })
}

#[test]
fn a_command_gets_its_words_and_the_surroundings_of_a_tool() {
    let sandbox = Sandbox::start(1, &[]);
    let client = sandbox.client();
    let script =
        "printf '[%s]' \"$@\"; pwd; echo $PARAM_size; cat ../task.json; env | grep -c -e __COMMAND__ -e __STDIN__";
    let mut fields = argv(&["sh", "-c", script, "sh", "a b", "", "$HOME;#"]);
    fields["size"] = json!(3);
    fields["__STDIN__"] = json!("unread");
    let task = run(&client, fields);
    let stdout = task["__STDOUT__"].as_str().unwrap();
    assert!(stdout.starts_with("[a b][][$HOME;#]/"), "{task}");
    let lines: Vec<_> = stdout.lines().collect();
    let id = task["__TASK_ID__"].as_str().unwrap();
    assert!(lines[0].ends_with(&format!("/work/{id}/command")), "{task}");
    assert_eq!((lines[1], lines[3]), ("3", "0"), "what may be long is not in the environment");
    let file: Value = serde_json::from_str(lines[2]).unwrap();
    assert_eq!((&file["__COMMAND__"], &file["__STDIN__"]), (&task["__COMMAND__"], &json!("unread")));
    // grep found nothing.
    assert_eq!((&task["__OUTCOME__"], &task["__EXIT_CODE__"]), (&json!("FAILED"), &json!(1)));
}

#[test]
fn a_line_for_the_shell_has_its_own_folder_input_umask_and_variables() {
    let sandbox = Sandbox::start(1, &[]);
    let folder = sandbox.path("here");
    fs::create_dir(&folder).unwrap();
    let fields = json!({
        "__SHELL__": "pwd; cat; echo $PWD $A; touch made; exit 5",
        "__CWD__": folder, "__STDIN__": "in\nput\n", "__UMASK__": "027", "__ENV__": "{\"A\":\"1 2\"}",
    });
    let task = run(&sandbox.client(), fields);
    let here = folder.display();
    assert_eq!(task["__STDOUT__"], format!("{here}\nin\nput\n{here} 1 2\n"), "{task}");
    assert_eq!(task["__EXIT_CODE__"], 5, "{task}");
    assert_eq!(fs::metadata(folder.join("made")).unwrap().permissions().mode() & 0o777, 0o640);
}

/// As a shell has it: 127 if there is no such program, 126 for everything else.
#[test]
fn a_command_that_cannot_be_started_ends_with_the_code_of_a_shell() {
    let sandbox = Sandbox::start(1, &[]);
    let client = sandbox.client();
    let file = |name: &str, content: &str, mode| {
        let path = sandbox.path(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let long = "x".repeat(140_000);
    for (words, code, sentence) in [
        (vec!["no-such-program"], 127, "no-such-program"),
        (vec!["./no-such-program"], 127, "no-such-program"),
        (vec!["/"], 126, "/"),
        (vec!["/etc/passwd/x"], 126, "/etc/passwd/x"),
        (vec![file("text", "#!/bin/sh\n", 0o644).as_str()], 126, "text"),
        (vec![file("bare", "exit 0\n", 0o755).as_str()], 126, "#!"),
        (vec![file("lost", "#!/no/interpreter\n", 0o755).as_str()], 126, "interpreter"),
        (vec!["true", &long], 126, "true"),
    ] {
        let task = run(&client, argv(&words));
        assert_eq!((&task["__EXIT_CODE__"], &task["__OUTCOME__"]), (&json!(code), &json!("FAILED")), "{task}");
        let stderr = task["__STDERR__"].as_str().unwrap();
        assert!(stderr.starts_with("llts: ") && stderr.contains(sentence), "{stderr:?}");
    }
    let mut nowhere = argv(&["true"]);
    nowhere["__CWD__"] = json!("/no/such/folder");
    let task = run(&client, nowhere);
    assert_eq!(task["__EXIT_CODE__"], 126, "{task}");
    let reason = task["__REASON__"].as_str().unwrap();
    assert!(["/no/such/folder", "--cwd", "--in"].iter().all(|part| reason.contains(part)), "{task}");
    // A program of the working directory is found there, and only there.
    fs::write(sandbox.path("own"), "#!/bin/sh\necho mine\n").unwrap();
    fs::set_permissions(sandbox.path("own"), Permissions::from_mode(0o755)).unwrap();
    let mut own = argv(&["./own"]);
    own["__CWD__"] = json!(sandbox.path(""));
    assert_eq!(run(&client, own)["__STDOUT__"], "mine\n");
}

#[test]
fn a_submit_names_exactly_one_kind_of_work_and_a_valid_one() {
    let sandbox = Sandbox::start(0, &[]);
    let client = sandbox.client();
    for (fields, code) in [
        (json!({}), -1006),
        (json!({ "__OPERATION__": "a", "__SHELL__": "b" }), -1006),
        (json!({ "__COMMAND__": "[\"a\"]", "__SHELL__": "b" }), -1006),
        (json!({ "__OPERATION__": ":command" }), -1006),
        (json!({ "__OPERATION__": "a", "__CWD__": "/" }), -1007),
        (json!({ "__COMMAND__": "[]" }), -1007),
        (json!({ "__COMMAND__": "[\"\"]" }), -1007),
        (json!({ "__COMMAND__": "echo" }), -1007),
        (json!({ "__COMMAND__": "[\"a\\u0000\"]" }), -1007),
        (json!({ "__COMMAND__": ["a"] }), -1007),
        (json!({ "__SHELL__": "" }), -1007),
        (json!({ "__SHELL__": "a", "__CWD__": "b" }), -1007),
        (json!({ "__SHELL__": "a", "__STDIN__": 7 }), -1007),
        (json!({ "__SHELL__": "a", "__STREAMS__": "/tmp/x" }), -1007),
        (json!({ "__SHELL__": "a", "__STDIN__": "b", "__STREAMS__": "c" }), -1007),
        (json!({ "__SHELL__": "a", "__EXPECTED_DURATION__": -1 }), -1007),
        (json!({ "__SHELL__": "a", "__STDIN__": "x".repeat(64 * 1024 + 1) }), -1008),
        (json!({ "__SHELL__": "a".repeat(100_000) }), 0),
        (json!({ "__SHELL__": "a", "__STDIN__": "x".repeat(64 * 1024), "__EXPECTED_DURATION__": 0.5 }), 0),
    ] {
        let reply = client.ask("TASK/SUBMIT", fields.clone());
        assert_eq!(reply["__CODE__"], code, "{reply} {}", fields.to_string().chars().take(200).collect::<String>());
        assert!(reply.get("__WARNING__").is_none(), "{reply}");
    }
}

/// A client that has gone can give nothing, and its command must not run without its input.
#[test]
fn a_command_without_its_promised_input_is_not_started() {
    let sandbox = Sandbox::start(1, &[]);
    let task = run(&sandbox.client(), json!({ "__SHELL__": "echo started", "__STREAMS__": "llts-of-nobody" }));
    assert_eq!((&task["__EXIT_CODE__"], &task["__STDOUT__"]), (&json!(126), &json!("")), "{task}");
    assert!(task["__REASON__"].as_str().unwrap().contains("`llts run` has ended, or is on another machine"), "{task}");
}

/// Exit code 75 means something else to programs that have never heard of llts.
#[test]
fn a_command_defers_only_if_its_submit_says_so() {
    let sandbox = Sandbox::start_with(1, &[], &[("LLTS_DEFER_DELAY", "0".to_owned())]);
    let client = sandbox.client();
    let task = run(&client, json!({ "__SHELL__": "exit 75" }));
    assert_eq!((&task["__ROUND__"], &task["__EXIT_CODE__"]), (&json!(0), &json!(75)), "{task}");
    assert!(task.get("__DEFERS__").is_none(), "{task}");
    let task = run(&client, json!({ "__SHELL__": "exit 75", "__MAX_DEFERS__": 1 }));
    assert_eq!((&task["__ROUND__"], &task["__DEFERS__"]), (&json!(1), &json!(1)), "{task}");
}

#[test]
fn a_killed_command_leaves_no_process_and_an_accepted_one_survives_the_controller() {
    let mut sandbox = Sandbox::start(1, &[]);
    let client = sandbox.client();
    let pid = sandbox.path("pid");
    let script = format!("trap '' TERM; setsid sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", pid.display());
    let running = client.ask("TASK/SUBMIT", json!({ "__SHELL__": script }));
    let waiting = client.ask("TASK/SUBMIT", json!({ "__SHELL__": "echo later" }));
    crate::service::sandbox::eventually("the command runs", || pid.exists());
    let running_is = json!({ "__TASK_ID__": running["__TASK_ID__"] });
    client.until("TASK/QUERY", &running_is, |task| task["__STATUS__"] == "RUNNING");
    sandbox.restart_controller(&[]);
    let client = sandbox.client();
    assert_eq!(client.code("TASK/KILL", json!({ "__TASK_ID__": running["__TASK_ID__"] })), 0);
    assert_eq!(client.end(running["__TASK_ID__"].as_str().unwrap())["__OUTCOME__"], "KILLED");
    let left = fs::read_to_string(&pid).unwrap();
    // One that has ended has no command line, also if nothing has reaped it yet.
    let line = fs::read(format!("/proc/{}/cmdline", left.trim())).unwrap_or_default();
    assert!(line.is_empty(), "{}", String::from_utf8_lossy(&line));
    assert_eq!(client.end(waiting["__TASK_ID__"].as_str().unwrap())["__STDOUT__"], "later\n");
}

/// `llts submit`, by TCP, as whatever user.
fn submit(sandbox: &Sandbox, words: &[&str], user: Option<u32>) -> (Option<i32>, String) {
    let mut command = sandbox.command(&[&["submit", "--controller", sandbox.endpoint()], words].concat());
    command.current_dir("/");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let said = command.said();
    (said.code, said.err)
}

#[test]
fn a_command_of_a_stranger_is_refused_and_the_key_is_named() {
    let command = json!({ "__SHELL__": "true" });
    for (value, code) in [("same-user", 0), ("loopback", 0), ("keys", -1011), ("no", -1011)] {
        let sandbox = Sandbox::start_with(0, &[], &[("LLTS_ALLOW_COMMANDS", value.to_owned())]);
        let reply = sandbox.client().ask("TASK/SUBMIT", command.clone());
        assert_eq!(reply["__CODE__"], code, "{value}: {reply}");
        if code != 0 {
            let message = reply["__ERROR_MSG__"].as_str().unwrap();
            assert!(message.contains("ALLOW_COMMANDS") && message.contains(value), "{message}");
            let tool = sandbox.client().ask("TASK/SUBMIT", json!({ "__OPERATION__": "any" }));
            assert_eq!(tool["__CODE__"], 0, "tools stay open: {tool}");
        }
    }
}

/// Another user of the machine reaches the port, but not the socket; with `LOOPBACK = "open"` it is served, but for commands.
#[test]
fn another_user_is_refused_or_served_without_commands() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let stranger = Some(65_534);
    let sandbox = Sandbox::start(0, &[]);
    fs::set_permissions(sandbox.path(""), Permissions::from_mode(0o755)).unwrap();
    for words in [&["any"][..], &["--sh", "true"]] {
        let (code, said) = submit(&sandbox, words, stranger);
        assert!(code == Some(4) && said.contains("LOOPBACK") && said.contains("user 65534"), "{code:?} {said}");
    }
    let (code, said) = submit(&sandbox, &["--", "true"], None);
    assert_eq!(code, Some(0), "{said}");

    let sandbox = Sandbox::start_with(0, &[], &[("LLTS_LOOPBACK", "open".to_owned())]);
    fs::set_permissions(sandbox.path(""), Permissions::from_mode(0o755)).unwrap();
    let (code, said) = submit(&sandbox, &["--sh", "true"], stranger);
    assert!(code != Some(0) && said.contains("ALLOW_COMMANDS is \"same-user\""), "{code:?} {said}");
    let (code, said) = submit(&sandbox, &["any"], stranger);
    assert_eq!(code, Some(0), "{said}");
}

/// A hundred connections send an order and close at once, while the controller is stopped: it meets them when their owner has gone, and
/// the kernel then names root.
#[test]
fn a_connection_that_is_closed_at_once_is_not_one_of_root() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let sandbox = Sandbox::start_with(1, &[], &[("LLTS_LOOPBACK", "open".to_owned())]);
    let made = sandbox.path("made");
    let port = sandbox.endpoint().rsplit(':').next().unwrap().to_owned();
    let code = format!(
        "import encodings.idna, json, os, socket, sys
def frame(flags, body):
    return bytes([flags | 2]) + len(body).to_bytes(8, 'big') + body
greeting = b'\\xff' + bytes(8) + b'\\x7f\\x03\\x00NULL' + bytes(48)
ready = b'\\x05READY\\x0bSocket-Type\\x00\\x00\\x00\\x06DEALER'
order = json.dumps({{'__TYPE__': 'TASK/SUBMIT', '__SHELL__': 'touch {}'}}).encode()
question = json.dumps({{'__TYPE__': 'TASK/STATISTIC'}}).encode()
os.setuid(65534)
def send(held):
    wire = socket.create_connection(('127.0.0.1', {port}))
    wire.sendall(greeting + bytes([4, len(ready)]) + ready)
    if held:
        return wire
    wire.sendall(frame(1, b'') + frame(0, order) + (frame(1, b'') + frame(0, question)) * 600)
    wire.close()
opened = [send(True) for _ in range(20)]
print('opened', flush=True)
sys.stdin.readline()
for _ in range(20):
    send(False)
for wire in opened:
    wire.sendall(frame(1, b'') + frame(0, order) + (frame(1, b'') + frame(0, question)) * 600)
    wire.close()
",
        made.display()
    );
    let mut attacker = Command::new("python3");
    attacker.args(["-c", &code]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut attacker = attacker.current_dir("/").start();
    assert_eq!(attacker.next_line(), "opened\n");
    let client = sandbox.client();
    assert_eq!(client.code("TASK/STATISTIC", json!({})), 0, "those that are open are accepted");
    sandbox.signal(0, Signal::STOP);
    drop(attacker.stdin.take());
    assert!(attacker.wait().unwrap().success());
    sandbox.signal(0, Signal::CONT);
    let counts = client.ask("TASK/DETAILS", json!({}));
    assert_eq!(counts["__TOTAL__"], 0, "{counts}");
    assert!(!made.exists());
}

/// Many commands in one frame, beside a shared tool, which the task without a command gets.
#[test]
fn a_task_of_many_has_its_own_work_or_the_shared_one() {
    let sandbox = Sandbox::start(1, &[("greet", "echo hello $PARAM_name")]);
    let client = sandbox.client();
    let tasks = json!([{ "__SHELL__": "echo $PARAM_name" }, { "name": "b" }, { "__COMMAND__": "[\"true\"]" }]);
    let reply = client.ask("TASK/SUBMIT_MANY", json!({ "__OPERATION__": "greet", "name": "a", "__TASKS__": tasks }));
    assert_eq!(reply["__CODE__"], 0, "{reply}");
    let ids = reply["__TASK_IDS__"].as_array().unwrap();
    let said: Vec<_> = ids.iter().map(|id| client.end(id.as_str().unwrap())["__STDOUT__"].clone()).collect();
    assert_eq!(said, ["a\n", "hello b\n", ""]);
    let wrong = json!({ "__TASKS__": [{ "__SHELL__": "true" }, { "__COMMAND__": "[]" }] });
    let reply = client.ask("TASK/SUBMIT_MANY", wrong);
    assert_eq!((&reply["__CODE__"], &reply["__INDEX__"]), (&json!(-1007), &json!(1)), "{reply}");

    let strict = Sandbox::start_with(0, &[], &[("LLTS_ALLOW_COMMANDS", "no".to_owned())]);
    let many = json!({ "__TASKS__": [{ "__OPERATION__": "t" }, { "__SHELL__": "true" }] });
    assert_eq!(strict.client().code("TASK/SUBMIT_MANY", many), -1011, "a frame is no way around the key");
}
