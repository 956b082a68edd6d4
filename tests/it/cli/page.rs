//! The page of a service: where it is, whom it lets do what, and how it hears of changes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use testkit::pass;

use crate::cli::sandbox::{Sandbox, Start as _, eventually, signal};

/// The end of an address that `llts open` prints.
const TICKET: &str = "#token=";

/// The HTTP door of a service.
struct Door(String);

/// An answer of the door.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

/// A stream of events that stays open.
struct Stream(BufReader<TcpStream>);

/// The halves of a session, as headers.
struct Session {
    cookie: String,
    key: String,
    may_change: bool,
}

impl Answer {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

impl Door {
    fn of(sandbox: &Sandbox) -> Self {
        let service: Value = serde_json::from_str(&sandbox.text("state/service.json")).expect("JSON");
        Self(service["http"].as_str().expect("a door").trim_start_matches("http://").to_owned())
    }

    fn send(&self, request: &str, headers: &[(&str, &str)], body: &str) -> BufReader<TcpStream> {
        let mut connection = TcpStream::connect(&self.0).expect("it listens");
        connection.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head = format!("{request} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{lines}{length}\r\n", self.0);
        connection.write_all(format!("{head}{body}").as_bytes()).expect("sent");
        BufReader::new(connection)
    }

    #[track_caller]
    fn ask(&self, request: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut connection = self.send(request, headers, body);
        let (status, headers) = head(&mut connection);
        let mut body = String::new();
        connection.read_to_string(&mut body).expect("a text");
        Answer { status, headers, body }
    }

    #[track_caller]
    fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), &[], "")
    }

    #[track_caller]
    fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let headers = [&[("Content-Type", "application/json")], headers].concat();
        self.ask(&format!("POST {path}"), &headers, &body.to_string())
    }

    #[track_caller]
    fn session(&self, token: &str) -> Session {
        let answer = self.post("/session", &[], &json!({ "token": token }));
        assert_eq!(answer.status, 200, "{answer:?}");
        let set = answer.header("set-cookie");
        assert!(set.contains("; HttpOnly; SameSite=Strict; Path=/") && !set.contains("Secure"), "{set}");
        let (port, body) = (self.0.rsplit(':').next().expect("a port"), answer.json());
        assert!(set.starts_with(&format!("llts-{port}=")), "{set}");
        Session {
            cookie: set.split(';').next().expect("a cookie").to_owned(),
            key: body["key"].as_str().expect("a key").to_owned(),
            may_change: body["may_change"].as_bool().expect("a word"),
        }
    }

    /// What a sender with these headers may do: ask, change.
    #[track_caller]
    fn rights(&self, headers: &[(&str, &str)]) -> [bool; 2] {
        let answer = self.ask("GET /session", headers, "").json();
        assert_eq!(answer["__CODE__"], 0);
        ["may_ask", "may_change"].map(|right| answer[right].as_bool().expect("a word"))
    }

    #[track_caller]
    fn submit(&self, headers: &[(&str, &str)]) -> u16 {
        self.post("/api", headers, &json!({ "__TYPE__": "TASK/SUBMIT", "__SHELL__": "true" })).status
    }

    #[track_caller]
    fn stream(&self, path: &str, headers: &[(&str, &str)]) -> Result<Stream, u16> {
        let mut connection = self.send(&format!("GET {path}"), headers, "");
        let (status, headers) = head(&mut connection);
        if status != 200 {
            assert!(headers.contains_key("retry-after"), "{headers:?}");
            return Err(status);
        }
        assert_eq!(headers["content-type"], "text/event-stream");
        Ok(Stream(connection))
    }
}

impl Session {
    fn headers(&self) -> [(&str, &str); 2] {
        [("Cookie", &self.cookie), ("LLTS-Key", &self.key)]
    }
}

impl Stream {
    /// The next event of this name, with its id; `None` at the end.
    fn next(&mut self, name: &str) -> Option<(Option<String>, Value)> {
        let (mut id, mut event) = (None, String::new());
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap_or_default() == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", found)) => id = Some(found.to_owned()),
                Some(("event", found)) => event = found.to_owned(),
                Some(("data", data)) => {
                    assert_eq!(event, name, "{data}");
                    return Some((id, serde_json::from_str(data).expect("JSON")));
                }
                _ => {}
            }
        }
    }
}

/// The status and the headers of an answer.
#[track_caller]
fn head(connection: &mut BufReader<TcpStream>) -> (u16, BTreeMap<String, String>) {
    let mut lines = connection.lines().map(|line| line.expect("a line"));
    let first = lines.next().expect("an answer");
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let headers = lines.take_while(|line| !line.is_empty());
    let pair = |line: String| {
        let (name, value) = line.split_once(": ").expect("a header");
        (name.to_lowercase(), value.to_owned())
    };
    (status, headers.map(pair).collect())
}

/// The ticket of the address that `llts open` prints.
#[track_caller]
fn ticket(sandbox: &Sandbox, options: &str) -> String {
    let said = sandbox.ok(&format!("open --print {options}"));
    said.line().split_once(TICKET).unwrap_or_else(|| panic!("{said:?}")).1.to_owned()
}

fn token(sandbox: &Sandbox, name: &str) -> String {
    sandbox.text(&format!("state/{name}")).trim().to_owned()
}

/// A service at a port that no other home takes while its controller is away, as they do with the usual one.
fn with_own_port(agents: u32) -> Sandbox {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
    let sandbox = Sandbox::new();
    sandbox.append("config.toml", &format!("[http]\nPORT = {}", free.port()));
    sandbox.ok(&format!("up {agents}"));
    sandbox
}

/// Kills the controller, and waits until the next one answers.
#[track_caller]
fn kill_controller(sandbox: &Sandbox, door: &Door) {
    let killed = sandbox.process(" controller");
    signal(killed, Signal::KILL);
    eventually("it has ended", || !sandbox.processes().iter().any(|(pid, line)| *pid == killed && !line.is_empty()));
    eventually("the next controller answers", || sandbox.llts("stats").code == Some(0));
    eventually("it listens", || TcpStream::connect(&door.0).is_ok());
}

#[test]
fn a_home_has_a_page_that_says_the_numbers_without_scripts() {
    let sandbox = Sandbox::new();
    let said = sandbox.ok("up 2");
    let door = Door::of(&sandbox);
    for (line, said) in [("up", said), ("info", sandbox.ok("info"))] {
        assert!(said.out.contains(&format!("http://{}\n", door.0)), "{line}: {said:?}");
    }
    sandbox.ok("run -- true");
    sandbox.llts("run -- false");
    let page = door.get("/");
    assert_eq!(page.status, 200);
    for row in [("free agents", 2), ("failed tasks", 1), ("ok tasks", 1)] {
        let row = format!("<th scope=\"row\">{}</th><td>{}</td>", row.0, row.1);
        assert!(page.body.contains(&row), "{row}: {}", page.body);
    }
    assert!(!page.body.contains("<!--counts-->") && !page.body.contains("running tasks"));
    let asset = door.get("/page/icon.svg");
    assert_eq!((asset.status, asset.header("content-type")), (200, "image/svg+xml"));
    for answer in [&page, &asset] {
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; ") && policy.ends_with("; frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("cache-control", "no-cache"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), value);
        }
    }
    for (path, tag) in [("/", page.header("etag")), ("/page/icon.svg", asset.header("etag"))] {
        let again = door.ask(&format!("GET {path}"), &[("If-None-Match", tag)], "");
        assert_eq!((again.status, again.body.as_str(), again.header("etag")), (304, "", tag), "{path}");
    }
    sandbox.ok("run -- true");
    assert_eq!(door.ask("GET /", &[("If-None-Match", page.header("etag"))], "").status, 200, "it has other numbers");
    for path in ["/page/none.js", "/page/", "/page/../access.rs", "/page/%2e%2e/access.rs", "/page/index.html"] {
        assert_eq!(door.get(path).status, 404, "{path}");
    }
    let link = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")];
    let followed = door.ask("GET /", &link, "");
    assert!(followed.status == 200 && !followed.body.contains("<table"), "{followed:?}");
    for path in ["/view", "/session", "/metrics", "/page/icon.svg"] {
        assert_eq!(door.ask(&format!("GET {path}"), &link, "").status, 403, "{path}");
    }
    sandbox.ends_clean();
}

#[test]
fn a_home_keeps_the_port_that_it_has_found() {
    // The usual port is in use to the end of this test: by itself, because another test that has it now gives it up soon, or by a
    // service of this machine, which stays.
    let _taken = (0..100).find_map(|_| {
        let taken = TcpListener::bind("127.0.0.1:15557").ok();
        if taken.is_none() {
            pass(Duration::from_millis(50));
        }
        taken
    });
    let sandbox = with_own_port(0);
    let door = Door::of(&sandbox);
    assert!(!door.0.ends_with(":15557"), "{}", door.0);
    kill_controller(&sandbox, &door);
    sandbox.ok("restart --wait");
    assert_eq!(Door::of(&sandbox).0, door.0);
    sandbox.ok("down");
    sandbox.ok("up 0");
    assert_eq!(Door::of(&sandbox).0, door.0);
    sandbox.ends_clean();
}

#[test]
fn a_door_of_the_default_keeps_no_service_from_starting() {
    let sandbox = Sandbox::new();
    sandbox.write("state/http.token", "a token that others can read\n");
    fs::set_permissions(sandbox.path("state"), fs::Permissions::from_mode(0o700)).expect("its own folder");
    sandbox.ok("up 0");
    assert!(!sandbox.ok("info").out.contains("http://"));
    assert!(sandbox.text("log/controller.log").contains("run `chmod 600`"));
    sandbox.llts("open").refused(1, "could not open its HTTP door");
    sandbox.ok("down");
    sandbox.append("config.toml", "[http]\nENABLED = true");
    sandbox.llts("up 0").refused(1, "run `chmod 600`");
}

#[test]
fn a_page_changes_something_with_both_halves_of_a_session_and_not_otherwise() {
    let sandbox = with_own_port(1);
    let door = Door::of(&sandbox);
    assert_eq!(door.rights(&[]), [true, false]);
    assert_eq!(door.submit(&[]), 401);
    let session = door.session(&ticket(&sandbox, ""));
    assert!(session.may_change);
    let [cookie, key] = session.headers();
    assert_eq!(door.rights(&[cookie, key]), [true, true]);
    assert_eq!(door.submit(&[cookie, key]), 200);
    for half in [&[cookie][..], &[key], &[cookie, ("LLTS-Key", "0")], &[("Cookie", "llts-1=0"), key]] {
        assert_eq!(door.rights(half), [true, false], "{half:?}");
        assert_eq!(door.submit(half), 401, "{half:?}");
    }
    let of_a_token = door.session(&token(&sandbox, "http.token"));
    assert_eq!(door.rights(&[cookie, of_a_token.headers()[1]]), [true, false], "halves of two sessions");

    kill_controller(&sandbox, &door);
    assert_eq!(door.rights(&[cookie, key]), [true, true], "it outlasts the controller");

    let ended = door.ask("DELETE /session", &[cookie, key], "");
    assert!(ended.header("set-cookie").contains("=; ") && ended.header("set-cookie").contains("Max-Age=0"));

    fs::remove_file(sandbox.path("state/http.token")).expect("its own file");
    sandbox.ok("restart --wait");
    assert_eq!(door.rights(&[cookie, key]), [true, false], "its token has been replaced");
    sandbox.ends_clean();
}

#[test]
fn the_token_for_reading_shows_everything_and_changes_nothing() {
    let sandbox = Sandbox::with("CONTROLLER_REP_PORT = \"off\"\nCONTROLLER_PUB_PORT = \"off\"\nLOG_DIR = \"log\"\n");
    sandbox.append("config.toml", "[http]\nENABLED = true\nPORT = 0");
    sandbox.ok("up 1");
    sandbox.ok("run -- echo a secret word");
    let door = Door::of(&sandbox);
    assert_eq!(door.rights(&[]), [false, false], "a service without ports tells nothing without a token");
    assert_eq!(door.ask("GET /session", &[], "").json()["version"], "");
    let page = door.get("/").body;
    assert!(page.contains("A token is needed") && !page.contains("<table"), "{page}");
    assert_eq!(door.get("/view").status, 401);
    let read = token(&sandbox, "http.read.token");
    let mode = fs::metadata(sandbox.path("state/http.read.token")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let bearer = format!("Bearer {read}");
    let session = door.session(&read);
    let by_ticket = door.session(&ticket(&sandbox, "--read-only"));
    assert!(!session.may_change && !by_ticket.may_change);
    for headers in [&[("Authorization", bearer.as_str())][..], &session.headers(), &by_ticket.headers()] {
        assert_eq!(door.rights(headers), [true, false], "{headers:?}");
        let tasks = door.post("/api", headers, &json!({ "__TYPE__": "TASK/DETAILS" }));
        assert!(tasks.status == 200 && tasks.body.contains("a secret word"), "{tasks:?}");
        let refused = door.post("/api", headers, &json!({ "__TYPE__": "TASK/SUBMIT", "__SHELL__": "true" }));
        assert_eq!((refused.status, refused.json()["__CODE__"].as_i64()), (403, Some(-1011)), "{refused:?}");
        assert!(refused.body.contains("for reading only"), "{refused:?}");
    }
    sandbox.ends_clean();
}

#[test]
fn a_wrong_token_is_refused_noted_and_written_nowhere() {
    let sandbox = Sandbox::up(0);
    let door = Door::of(&sandbox);
    let refused = |body: &Value| door.post("/session", &[], body).status;
    let wrong = "this-is-no-token-of-this-service";
    assert_eq!(refused(&json!({ "token": wrong })), 401);
    assert_eq!(door.rights(&[("Authorization", &format!("Bearer {wrong}"))]), [false, false]);
    assert_eq!(refused(&json!({ "token": "x".repeat(5000) })), 413);
    for body in [json!({}), json!([]), json!({ "token": 7 }), json!("x")] {
        assert_eq!(refused(&body), 400, "{body}");
    }
    let by_form = [("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(door.ask("POST /session", &by_form, "token=x").status, 415);
    let of_another_site = [("Content-Type", "application/json"), ("Origin", "http://evil.example")];
    assert_eq!(door.ask("POST /session", &of_another_site, "{}").status, 403);
    let right = ticket(&sandbox, "");
    door.session(&right);
    eventually("it is an incident", || sandbox.ok("incidents").out.contains("the token is not the right one"));
    for file in ["log/controller.log", "log/supervisor.log"] {
        let log = sandbox.text(file);
        for secret in [wrong, &right, &token(&sandbox, "http.token"), &token(&sandbox, "http.read.token")] {
            assert!(!log.contains(secret), "{file}: {log}");
        }
    }
    sandbox.ends_clean();
}

#[test]
fn a_view_tells_of_changes_and_goes_on_after_a_restart() {
    let sandbox = with_own_port(1);
    let door = Door::of(&sandbox);
    let mut view = door.stream("/view", &[]).expect("a stream");
    let ok = |answer: &Value| answer["states"]["ok"].as_u64();
    let (first, whole) = view.next("view").expect("an answer");
    assert_eq!((&whole["__WHOLE__"], ok(&whole)), (&json!(true), Some(0)));
    assert_eq!(first.as_deref(), whole["__CURSOR__"].as_str(), "its id is the cursor");
    sandbox.ok("run -- true");
    let after = |view: &mut Stream, count| loop {
        let (id, answer) = view.next("view").expect("an answer");
        assert_eq!(answer["__WHOLE__"], false, "only what has changed");
        if ok(&answer) == Some(count) {
            return id.expect("a cursor");
        }
    };
    let last = after(&mut view, 1);
    drop(view);
    sandbox.ok("run -- true");
    let mut again = door.stream("/view", &[("Last-Event-ID", &last)]).expect("a stream");
    let last = after(&mut again, 2);

    kill_controller(&sandbox, &door);
    while again.next("view").is_some() {}
    for last in [last.as_str(), "no cursor", "7:7", &"x".repeat(5000)] {
        let mut again = door.stream("/view", &[("Last-Event-ID", last)]).expect("a stream");
        let (_, answer) = again.next("view").expect("an answer");
        assert_eq!((&answer["__WHOLE__"], ok(&answer)), (&json!(true), Some(2)), "{last}");
    }
    let mut view = door.stream("/view", &[]).expect("a stream");
    let stopping = sandbox.start("down");
    while view.next("view").is_some() {}
    stopping.said().ok();
    sandbox.is_clean();
}

#[test]
fn pages_beyond_the_places_of_streams_are_told_so() {
    let sandbox = Sandbox::new();
    sandbox.append("config.toml", "[http]\nCONNECTIONS_MAX = 4");
    sandbox.ok("up 0");
    let door = Door::of(&sandbox);
    let mut views: Vec<_> = (0..2).map(|_| door.stream("/view", &[]).expect("a place")).collect();
    views.iter_mut().for_each(|view| assert!(view.next("view").is_some()));
    assert_eq!(door.stream("/view", &[]).err(), Some(503));
    let refused = door.get("/view");
    assert!(refused.json()["__ERROR_MSG__"].as_str().expect("a sentence").contains("http.CONNECTIONS_MAX"));
    assert_eq!(door.get("/").status, 200, "the page itself has a place");
    views.pop();
    eventually("its place is free", || door.stream("/view", &[]).is_ok());
    drop(views);
    sandbox.ends_clean();
}

#[test]
fn the_browser_gets_the_whole_address_and_a_log_does_not() {
    let sandbox = Sandbox::up(0);
    let door = Door::of(&sandbox);
    let opened = |browser: &str| sandbox.command("open").env("BROWSER", browser).env_remove("DISPLAY").said();
    sandbox.script("browser", "printf %s \"$*\" > opened");
    let browser = sandbox.path("browser").display().to_string();
    opened(&format!("no-such-browser-0:{browser} --new %s --last")).prints(&format!("http://{}/\n", door.0));
    let words = sandbox.text("opened");
    let address = words.strip_prefix("--new ").and_then(|words| words.strip_suffix(" --last")).expect("its place");
    let ticket = address.strip_prefix(&format!("http://{}/{TICKET}", door.0)).expect("an address");
    assert!(door.session(ticket).may_change);
    opened(&browser);
    assert!(sandbox.text("opened").starts_with(&format!("http://{}/{TICKET}", door.0)));
    sandbox.script("broken", "exit 3");
    let said = opened(&sandbox.path("broken").display().to_string());
    assert!(said.code == Some(0) && said.err.contains("open the address yourself"), "{said:?}");
    let said = sandbox.command("open").env_remove("BROWSER").env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").said();
    assert!(said.err.contains("no browser here") && !said.out.contains(TICKET), "{said:?}");
    let shown = sandbox.ok("open --print --output json").json();
    assert!(shown["address"].as_str().expect("a text").contains(TICKET) && shown["opened"] == false, "{shown}");
    sandbox.ends_clean();
}

#[test]
fn a_page_that_cannot_be_opened_is_said_to_be_so_with_what_to_do() {
    let sandbox = Sandbox::new();
    sandbox.llts("open").refused(1, "`llts up` starts one");
    sandbox
        .llts("open --controller tcp://127.0.0.1:1")
        .refused(2, "`llts open` opens the page of a service of this machine");
    sandbox.ok("up 0");
    fs::rename(sandbox.path("state/http.token"), sandbox.path("elsewhere")).expect("its own file");
    sandbox.llts("open").refused(1, "state/http.token");
    sandbox.ok("open --read-only --print");
    sandbox.ok("down");
    for (lines, why) in [
        ("[http]\nENABLED = false\n", "http.ENABLED is false"),
        ("CONTROLLER_IP = \"\"\n", "the service opens no port"),
    ] {
        sandbox.configure(lines);
        sandbox.ok("up 0");
        let said = sandbox.llts("open");
        said.refused(1, why);
        assert!(
            said.err.contains("set ENABLED = true in [http] of") && said.err.contains("`llts restart`"),
            "{said:?}"
        );
        sandbox.ok("down");
    }
}
