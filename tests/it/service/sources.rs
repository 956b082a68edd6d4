//! Programs that the agents fetch: `__SOURCE__`, `__SOURCE_SHA256__` and `__INPUT__` (docs/design/hazards.md, X8, X10, X11).

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::service::sandbox::{Client, Sandbox, eventually};

/// A server whose answer to every request the test sets. It keeps a connection open when it has none.
pub(crate) struct Server {
    port: u16,
    asked: Arc<AtomicUsize>,
    says: Arc<Mutex<Option<Vec<u8>>>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, says) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None)));
        let (its_count, its_answer) = (Arc::clone(&asked), Arc::clone(&says));
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().flatten() {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                its_count.fetch_add(1, Ordering::Relaxed);
                let answer: Option<Vec<u8>> = its_answer.lock().unwrap().clone();
                match answer {
                    Some(answer) => drop((&stream).write_all(&answer)),
                    None => silent.push(stream as TcpStream),
                }
            }
        });
        Self { port, asked, says }
    }

    pub(crate) fn says(&self, head: &str, body: &[u8]) {
        let head = format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        *self.says.lock().unwrap() = Some([head.as_bytes(), body].concat());
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

const SCRIPT: &str = "#!/bin/sh\necho \"<$#:$1:$2>\"; grep -c __TASK_ID__ ../task.info; echo $PARAM_x >report.log\n";

/// A service that fetches from this machine.
pub(crate) fn start(agents: usize, recheck: &str) -> Sandbox {
    let lists = |name: &'static str, value: &str| (name, value.to_owned());
    let config = [lists("LLTS_SOURCE_ALLOW_SCHEMES", "http,rsync"), lists("LLTS_SOURCE_ALLOW_HOSTS", "127.0.0.1")];
    let mut sandbox = Sandbox::start_with(0, &[("installed", "echo installed")], &config);
    for number in 0..agents {
        sandbox.agent(&format!("a{number}"), &[("LLTS_SOURCE_RECHECK_INTERVAL", recheck.to_owned())]);
    }
    sandbox
}

fn submit(client: &Client, source: &str, fields: &Value) -> Value {
    let mut all = json!({ "__OPERATION__": "p", "__SOURCE__": source });
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    client.ask("TASK/SUBMIT", all)
}

fn run(client: &Client, source: &str, fields: &Value) -> Value {
    let reply = submit(client, source, fields);
    assert_eq!(reply["__CODE__"], 0, "{reply}");
    client.end(reply["__TASK_ID__"].as_str().unwrap())
}

pub(crate) fn digits(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_source_is_refused_until_the_configuration_lists_it() {
    let off = Sandbox::start(0, &[]);
    let reply = submit(&off.client(), "https://example.org/p.zip", &json!({}));
    assert_eq!(reply["__CODE__"], -1011, "{reply}");
    let sentence = reply["__ERROR_MSG__"].as_str().unwrap();
    assert!(sentence.contains("source.ALLOW_SCHEMES") & sentence.contains("source.ALLOW_HOSTS"), "{sentence}");
    let sandbox = start(0, "0");
    let client = sandbox.client();
    for (source, code) in [
        ("http://127.0.0.1:1/p.zip", 0),
        ("http://127.0.0.2:1/p.zip", -1011),
        ("https://127.0.0.1:1/p.zip", -1011),
        ("rsync:/etc/p.zip", -1011),
        ("ftp://127.0.0.1/p.zip", -1007),
        ("http://127.0.0.1:1/p.rar", -1007),
    ] {
        assert_eq!(submit(&client, source, &json!({}))["__CODE__"], code, "{source}");
    }
    for (name, value) in [
        ("__SOURCE_UNCHECKED__", json!(true)),
        ("__SOURCE_SHA256__", json!("x")),
        ("__INPUT__", json!("a\0b")),
        ("__COMMAND__", json!("[\"true\"]")),
    ] {
        let mut fields = serde_json::Map::new();
        fields.insert(name.to_owned(), value);
        let reply = submit(&client, "http://127.0.0.1:1/p.zip", &Value::from(fields));
        assert_ne!(reply["__CODE__"], 0, "{name}: {reply}");
    }
    let no_commands = Sandbox::start_with(
        0,
        &[],
        &[
            ("LLTS_SOURCE_ALLOW_SCHEMES", "http".to_owned()),
            ("LLTS_SOURCE_ALLOW_HOSTS", "127.0.0.1".to_owned()),
            ("LLTS_ALLOW_COMMANDS", "no".to_owned()),
        ],
    );
    let alone = no_commands.client();
    assert_eq!(submit(&alone, "http://127.0.0.1:1/p.zip", &json!({}))["__CODE__"], 0);
    let reply = submit(&alone, "http://127.0.0.1:1/p.zip", &json!({ "__INPUT__": "; id" }));
    assert_eq!(reply["__CODE__"], -1011, "it is text for a shell: {reply}");
    let many = json!({ "__OPERATION__": "p", "__TASKS__": [{ "__SOURCE__": "http://127.0.0.2/p.zip" }] });
    assert_eq!(client.code("TASK/SUBMIT_MANY", many), -1011);
    let stray = client.ask("TASK/SUBMIT", json!({ "__OPERATION__": "p", "__INPUT__": "x" }));
    assert_eq!(stray["__CODE__"], -1007, "{stray}");
}

#[test]
fn a_program_runs_as_a_tool_does_and_is_fetched_once_per_machine() {
    let (sandbox, server) = (start(2, "600000"), Server::start());
    let client = sandbox.client();
    server.says("200 OK", SCRIPT.as_bytes());
    let tasks: Vec<String> = (0..8)
        .map(|number| {
            let fields = json!({ "__INPUT__": "'a b' \"$((1 + 1))\"; echo more #x", "x": number });
            let reply = submit(&client, &server.url("run.sh"), &fields);
            reply["__TASK_ID__"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
        })
        .collect();
    for (number, task) in tasks.iter().enumerate() {
        let task = client.end(task);
        assert_eq!(
            (&task["__OUTCOME__"], &task["__STDOUT__"]),
            (&json!("SUCCEEDED"), &json!("<2:a b:2>\n1\nmore\n")),
            "{task}"
        );
        assert_eq!(task["__REPORT_LOG__"], format!("{number}\n"));
        assert_eq!(task["__OPERATION__"], "p");
    }
    let plain = run(&client, &server.url("run.sh"), &json!({}));
    assert_eq!(plain["__STDOUT__"], "<0::>\n1\n", "{plain}");
    // Each agent may have asked whether it has changed when it began.
    assert!(server.asked() <= 2, "{}", server.asked());
}

#[test]
fn a_source_that_has_changed_is_fetched_anew() {
    let (sandbox, server) = (start(1, "0"), Server::start());
    let client = sandbox.client();
    for text in ["one", "two"] {
        server.says("200 OK", format!("#!/bin/sh\necho {text}\n").as_bytes());
        assert_eq!(run(&client, &server.url("run.sh"), &json!({}))["__STDOUT__"], format!("{text}\n"));
    }
    // It is away: what is there is used.
    server.says("500 Broken", b"");
    assert_eq!(run(&client, &server.url("run.sh"), &json!({}))["__STDOUT__"], "two\n");
}

#[test]
fn a_source_with_a_checksum_is_what_it_says_and_is_not_asked_again() {
    let (sandbox, server) = (start(1, "0"), Server::start());
    let client = sandbox.client();
    server.says("200 OK", SCRIPT.as_bytes());
    let wrong = run(&client, &server.url("run.sh"), &json!({ "__SOURCE_SHA256__": "0".repeat(64) }));
    assert_eq!((&wrong["__OUTCOME__"], &wrong["__EXIT_CODE__"]), (&json!("FAILED"), &json!(-130)), "{wrong}");
    let sentence = wrong["__REASON__"].as_str().unwrap();
    assert!(sentence.contains(&digits(SCRIPT.as_bytes())) & sentence.contains(&server.url("run.sh")), "{sentence}");
    assert!(sentence.contains("./p/run.sh") & sentence.contains("__SOURCE_SHA256__"), "{sentence}");
    let asked = server.asked();
    for _ in 0..3 {
        let right = run(&client, &server.url("run.sh"), &json!({ "__SOURCE_SHA256__": digits(SCRIPT.as_bytes()) }));
        assert_eq!(right["__OUTCOME__"], "SUCCEEDED", "{right}");
    }
    assert_eq!(server.asked(), asked + 1);
    // An installed tool may not be what was wanted.
    let fields = |sha256: Option<String>| json!({ "__OPERATION__": "installed", "__SOURCE_SHA256__": sha256 });
    let pinned = run(&client, &server.url("run.sh"), &fields(Some(digits(SCRIPT.as_bytes()))));
    assert!(pinned["__STDOUT__"].as_str().unwrap().starts_with("<0::>"), "{pinned}");
    let mut unpinned = fields(None);
    unpinned.as_object_mut().unwrap().remove("__SOURCE_SHA256__");
    assert_eq!(run(&client, &server.url("run.sh"), &unpinned)["__STDOUT__"], "installed\n");
}

#[test]
fn a_program_that_cannot_be_had_says_why_and_leaves_nothing() {
    let (sandbox, server) = (start(1, "0"), Server::start());
    let client = sandbox.client();
    for (head, body, path, code, why) in [
        ("404 Not Found", "", "run.sh", -131, "404"),
        (
            "302 Found\r\nLocation: http://127.0.0.2:1/run.sh",
            "",
            "run.sh",
            -131,
            "\"127.0.0.2\" is not in source.ALLOW_HOSTS",
        ),
        ("302 Found\r\nLocation: file:///etc/passwd", "", "run.sh", -131, "neither http nor https"),
        ("302 Found\r\nLocation: run.sh", "", "run.sh", -131, "more than 5 times"),
        ("200 OK", "<html>", "p.tar.gz", -130, "cannot unpack"),
        ("200 OK", "<html>", "p.zip", -130, "cannot unpack"),
    ] {
        server.says(head, body.as_bytes());
        let url = server.url(path);
        let task = run(&client, &url, &json!({}));
        assert_eq!((&task["__OUTCOME__"], &task["__EXIT_CODE__"]), (&json!("FAILED"), &json!(code)), "{head}: {task}");
        let sentence = task["__REASON__"].as_str().unwrap();
        assert!(sentence.contains(why) & sentence.contains(&url) & sentence.contains("./p/run.sh"), "{sentence}");
    }
    let left = |name: &str| fs::read_dir(sandbox.path("state/sources").join(name)).unwrap().count();
    eventually("nothing is left", || (left("fetching"), left("programs")) == (0, 0));
}

/// A silent server holds neither the kill nor the next task.
#[test]
fn a_task_that_fetches_is_killed_at_once() {
    let (sandbox, server) = (start(1, "0"), Server::start());
    let client = sandbox.client();
    let reply = submit(&client, &server.url("run.sh"), &json!({}));
    let task = reply["__TASK_ID__"].as_str().unwrap();
    eventually("a request", || server.asked() == 1);
    client.until("TASK/QUERY", &json!({ "__TASK_ID__": task }), |task| task["__STATUS__"] == "PREPARING");
    assert_eq!(client.code("TASK/KILL", json!({ "__TASK_ID__": task })), 0);
    let task = client.end(task);
    assert_eq!((&task["__OUTCOME__"], &task["__EXIT_CODE__"]), (&json!("KILLED"), &json!(-128)), "{task}");
    let next = client.submit("installed", json!({}));
    assert_eq!(client.end(&next)["__STDOUT__"], "installed\n");
}

/// Such as an agent in another language.
#[test]
fn a_simple_agent_gets_no_program_to_fetch() {
    let sandbox = start(0, "0");
    let client = sandbox.client();
    let agent = json!({ "__AGENT_ID__": "simple", "__AGENT_STATUS__": 0, "__TOOLS__": "p" });
    assert_eq!(client.code("AGENT/HEARTBEAT", agent), 0);
    let reply = submit(&client, "http://127.0.0.1:1/run.sh", &json!({}));
    let task = reply["__TASK_ID__"].as_str().unwrap();
    assert_ne!(client.code("TASK/INTERNAL/APPLY", json!({ "__AGENT_ID__": "simple" })), 0);
    let why = client.ask("TASK/EXPLAIN", json!({ "__TASK_ID__": task }));
    let sentence = why["__WHY__"].as_str().unwrap();
    assert!(sentence.contains("fetched by its agent") & sentence.contains("__WIRE_VERSION__"), "{sentence}");
}
