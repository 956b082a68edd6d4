//! The same exchanges with other implementations: zeromq.js (libzmq as Node has it) and JeroMQ (Java from the ground up, ZMTP
//! 3.0).
//!
//! What they need is fetched into `target/peers` once, by versions and hashes that stand in `peers/`. Where the registry, or the
//! language, is out of reach, the test says so in a loud line and passes; anything else that goes wrong is a failure.
//!
//! What is a loss by the rules of ZeroMQ is none of the test: a message that is sent while a connection breaks, or to a socket that has
//! been refused. JeroMQ forgets to watch some of the connections that it has just made (its pull request 1022 tells how), and
//! makes another when its handshake timer comes.
//!
//! A peer is a program that does what its standard input says, a line for each step, and answers each with a line; a part of a
//! message is a point and its bytes in hex.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use zmtp::engine::{KeyPair, Security, ServerKeys};
use zmtp::sockets::PortSettings;

use crate::endpoint::echo::{Echo, PATIENCE_MILLIS, settings};
use testkit::eventually;

/// Seconds for what is fetched, and for a whole conversation. `timeout` of coreutils ends what takes longer.
const FETCH_SECONDS: &str = "100";
const TALK_SECONDS: &str = "150";

/// Long enough for an answer that should not come.
const SILENCE_MILLIS: i32 = 500;

#[test]
fn zeromq_js_talks_with_us() {
    let Some(modules) = fetch_node() else { return };
    let mut command = program("node");
    command.arg(source("peer.js")).env("NODE_PATH", modules);
    talk(&command);
}

#[test]
fn jeromq_talks_with_us() {
    let Some(jar) = fetch_java() else { return };
    let mut command = program("java");
    command.args(["-XX:TieredStopAtLevel=1", "-cp"]).arg(jar).arg(source("Peer.java"));
    talk(&command);
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/endpoint/peers").join(name)
}

/// A folder for what one of them needs, and whether that was fetched before, as the copy of the file that names it says.
fn place(language: &str, wanted: &str) -> (PathBuf, bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/peers").join(language);
    fs::create_dir_all(&folder).unwrap();
    let is_there = fs::read(folder.join("fetched")).is_ok_and(|fetched| fetched == fs::read(source(wanted)).unwrap());
    (folder, is_there)
}

fn program(name: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", TALK_SECONDS, name]);
    command
}

fn fetch_node() -> Option<PathBuf> {
    const LOCK: &str = "package-lock.json";
    if !["node", "npm"].iter().all(|name| is_installed("zeromq.js", name)) {
        return None;
    }
    let (folder, is_there) = place("node", LOCK);
    if !is_there {
        for name in ["package.json", LOCK] {
            fs::copy(source(name), folder.join(name)).unwrap();
        }
        // The package brings its library built; nothing of it has to run for that.
        let arguments =
            ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0", "--fetch-timeout=30000"];
        let mut npm = Command::new("npm");
        npm.args(arguments).current_dir(&folder);
        fetch("zeromq.js", &npm)?;
        fs::copy(source(LOCK), folder.join("fetched")).unwrap();
    }
    Some(folder.join("node_modules"))
}

fn fetch_java() -> Option<PathBuf> {
    const WANTED: &str = "requirements.txt";
    if !["java", "javac", "python3"].iter().all(|name| is_installed("JeroMQ", name)) {
        return None;
    }
    let (folder, is_there) = place("java", WANTED);
    let jar = folder.join("peer.jar");
    if !is_there {
        let venv = folder.join("venv");
        let made = Command::new("python3").args(["-m", "venv"]).arg(&venv).status();
        assert!(made.unwrap().success(), "python3 -m venv fails");
        let mut pip = Command::new(venv.join("bin/python"));
        pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries=0", "--timeout=30"]);
        pip.args(["--no-deps", "--no-binary=:all:", "--require-hashes", "--dest"]).arg(&folder);
        pip.arg("--requirement").arg(source(WANTED));
        fetch("JeroMQ", &pip)?;
        let archives = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let archive = archives.into_iter().find(|path| path.extension().is_some_and(|it| it == "gz")).unwrap();
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--to-stdout", "--wildcards", "*/toree-assembly-*.jar", "--file"]).arg(&archive);
        assert!(tar.stdout(fs::File::create(&jar).unwrap()).status().unwrap().success(), "no jar in {archive:?}");
        fs::remove_file(archive).unwrap();
        fs::remove_dir_all(venv).unwrap();
        fs::copy(source(WANTED), folder.join("fetched")).unwrap();
    }
    Some(jar)
}

fn is_installed(peer: &str, name: &str) -> bool {
    let found = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        skip(peer, &format!("{name} is not installed"));
    }
    found
}

/// Runs a package manager; `None` when its registry cannot be reached.
fn fetch(peer: &str, manager: &Command) -> Option<()> {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", FETCH_SECONDS]).arg(manager.get_program()).args(manager.get_args());
    command.current_dir(manager.get_current_dir().unwrap_or(Path::new(".")));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // The words of npm, and of pip, for a network that is not there.
    let unreachable = [
        "ENOTFOUND",
        "EAI_AGAIN",
        "ECONNREFUSED",
        "ECONNRESET",
        "ENETUNREACH",
        "EHOSTUNREACH",
        "ETIMEDOUT",
        "ERR_SOCKET_TIMEOUT",
        "Failed to establish a new connection",
        "Name or service not known",
        "Temporary failure in name resolution",
        "Read timed out",
        "Connection broken",
        "No matching distribution found",
    ];
    if output.status.success() {
        return Some(());
    }
    let line = said.lines().find(|line| unreachable.iter().any(|word| line.contains(word)));
    let line = line.or((output.status.code() == Some(124)).then_some("no answer in time"));
    let line = line.unwrap_or_else(|| panic!("{manager:?} fails, and not for want of a network: {said}"));
    skip(peer, &format!("its registry cannot be reached: {line}"));
    None
}

#[expect(clippy::print_stderr, reason = "the reader must see that less was tested")]
fn skip(peer: &str, why: &str) {
    eprintln!("\n*** SKIPPED: nothing was tested with {peer}: {why} ***\n");
}

/// All exchanges.
fn talk(command: &Command) {
    let mut peer = Peer::start(command);
    requests_are_answered(&mut peer);
    a_dealer_has_many_under_way(&mut peer);
    a_subscriber_hears_what_it_asks_for(&mut peer, &settings(), None);
    it_comes_back_after_a_restart(&mut peer);
    known_keys_talk_and_others_do_not(&mut peer);
    peer.end();
}

fn requests_are_answered(peer: &mut Peer) {
    let echo = Echo::start(&settings());
    peer.open("req", "REQ", &echo.requests, None);
    for bytes in [0, 1, 255, 256, 16_384, 262_144] {
        let body: Vec<u8> = (0..bytes).map(|index| u8::try_from(index % 251).unwrap()).collect();
        peer.send("req", &[&body]);
        assert_eq!(peer.receive("req"), [body]);
    }
    peer.close("req");
}

fn a_dealer_has_many_under_way(peer: &mut Peer) {
    let echo = Echo::start(&settings());
    peer.open("dealer", "DEALER", &echo.requests, None);
    for number in 0..500_u32 {
        peer.send("dealer", &[b"", number.to_string().as_bytes()]);
    }
    for number in 0..500_u32 {
        assert_eq!(peer.receive("dealer"), [b"".to_vec(), number.to_string().into_bytes()]);
    }
    let parts: [&[u8]; 8] = [b"hop", b"", b"a", &[b'x'; 300], b"", b"", b"b", b"c"];
    peer.send("dealer", &parts);
    assert_eq!(peer.receive("dealer"), parts);
    peer.close("dealer");
}

fn a_subscriber_hears_what_it_asks_for(peer: &mut Peer, settings: &PortSettings, keys: Option<&Keys>) {
    let echo = Echo::start(settings);
    peer.open("sub", "SUB", &echo.broadcasts, keys);
    peer.say(&["subscribe", "sub", &encode(b"watch")]);
    wait_for_subscription(peer, &echo);
    peer.say(&["subscribe", "sub", &encode(b"w")]);
    for text in ["other", "watch one", "watch two"] {
        echo.publish(text.as_bytes());
    }
    // A subscription does not make a message come twice.
    assert_eq!(peer.receive("sub"), [b"watch one"]);
    assert_eq!(peer.receive("sub"), [b"watch two"]);
    for prefix in [b"watch".as_slice(), b"w"] {
        peer.say(&["unsubscribe", "sub", &encode(prefix)]);
    }
    eventually("it has unsubscribed", || !echo.is_watched());
    peer.close("sub");
}

/// JeroMQ asks on a new connection, also after a first one that failed, only when its owner looks for messages.
fn wait_for_subscription(peer: &mut Peer, echo: &Echo) {
    eventually("the subscription", || {
        assert_eq!(peer.say(&["receive", "sub", "5"]), "nothing");
        echo.is_watched()
    });
}

fn it_comes_back_after_a_restart(peer: &mut Peer) {
    let mut echo = Echo::start(&settings());
    peer.open("dealer", "DEALER", &echo.requests, None);
    peer.open("sub", "SUB", &echo.broadcasts, None);
    peer.say(&["subscribe", "sub", &encode(b"watch")]);
    for round in 0..3_u8 {
        ask_until_answered(peer, "dealer", &[round]);
        wait_for_subscription(peer, &echo);
        echo.publish(&[b"watch", &[round][..]].concat());
        assert_eq!(peer.receive("sub"), [[b"watch", &[round][..]].concat()]);
        let (requests, broadcasts) = (echo.requests.clone(), echo.broadcasts.clone());
        drop(echo);
        echo = Echo::start_at(&requests, &broadcasts, &settings());
    }
    peer.close("dealer");
    peer.close("sub");
}

fn known_keys_talk_and_others_do_not(peer: &mut Peer) {
    let server = KeyPair::from_bytes([1; 32]);
    let keys = |seed| Keys { server: server.public().to_string(), pair: KeyPair::from_bytes([seed; 32]) };
    let (known, unknown) = (keys(2), keys(3));
    let mistaken = Keys { server: unknown.pair.public().to_string(), pair: known.pair.clone() };
    let mut settings = settings();
    let authorised = [known.pair.public()].into_iter().collect();
    settings.security =
        Security::CurveServer(Arc::new(ServerKeys { pair: server.clone(), authorised, commanders: [].into() }));
    let echo = Echo::start(&settings);
    peer.open("dealer", "DEALER", &echo.requests, Some(&known));
    for bytes in [0, 1, 1000, 100_000] {
        let body = vec![7; bytes];
        peer.send("dealer", &[b"", &body]);
        assert_eq!(peer.receive("dealer"), [vec![], body]);
    }
    peer.close("dealer");
    for (name, keys) in [("unknown", Some(&unknown)), ("mistaken", Some(&mistaken)), ("plain", None)] {
        peer.open(name, "REQ", &echo.requests, keys);
        // A socket that has been refused by now takes nothing: its library has given the connection up for good.
        if peer.say(&["offer", name, &encode(b"x")]) == "ok" {
            let answer = peer.say(&["receive", name, &SILENCE_MILLIS.to_string()]);
            assert_eq!(answer, "nothing", "{name}");
        }
        peer.close(name);
    }
    peer.open("req", "REQ", &echo.requests, Some(&known));
    peer.send("req", &[b"still there"]);
    assert_eq!(peer.receive("req"), [b"still there"]);
    peer.close("req");
    drop(echo);
    a_subscriber_hears_what_it_asks_for(peer, &settings, Some(&known));
}

/// Messages sent while the old connection breaks may go out on it, and are lost: a client that outlives a controller asks again,
/// and skips the answers to its earlier requests.
fn ask_until_answered(peer: &mut Peer, name: &str, body: &[u8]) {
    let wanted = format!("got {} {}", encode(b""), encode(body));
    eventually("an answer", || {
        peer.send(name, &[b"", body]);
        let answers = std::iter::repeat_with(|| peer.say(&["receive", name, &SILENCE_MILLIS.to_string()]));
        answers.take_while(|answer| answer != "nothing").any(|answer| answer == wanted)
    });
}

struct Keys {
    server: String,
    pair: KeyPair,
}

/// The other program. It ends with its standard input.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(command: &Command) -> Self {
        let mut ours = Command::new(command.get_program());
        ours.args(command.get_args());
        ours.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut child = ours.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn say(&mut self, words: &[&str]) -> String {
        writeln!(self.input, "{}", words.join(" ")).expect("the peer lives");
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the peer is gone after {:?}; see its own words above", &words[..2]);
        line.trim_end().to_owned()
    }

    fn open(&mut self, name: &str, kind: &str, endpoint: &str, keys: Option<&Keys>) {
        let mut words = vec!["open".to_owned(), name.to_owned(), kind.to_owned(), endpoint.to_owned()];
        if let Some(Keys { server, pair }) = keys {
            words.extend([server.clone(), pair.public().to_string(), pair.secret_text()]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(self.say(&words), "ok");
    }

    fn send(&mut self, name: &str, parts: &[&[u8]]) {
        let parts: Vec<String> = parts.iter().map(|part| encode(part)).collect();
        let words: Vec<&str> = ["send", name].into_iter().chain(parts.iter().map(String::as_str)).collect();
        assert_eq!(self.say(&words), "ok");
    }

    fn receive(&mut self, name: &str) -> Vec<Vec<u8>> {
        let answer = self.say(&["receive", name, &PATIENCE_MILLIS.to_string()]);
        let parts = answer.strip_prefix("got ").unwrap_or_else(|| panic!("{name}: {answer}"));
        parts.split(' ').map(decode).collect()
    }

    fn close(&mut self, name: &str) {
        assert_eq!(self.say(&["close", name]), "ok");
    }

    fn end(self) {
        let Self { mut child, input, output } = self;
        drop((input, output));
        assert!(child.wait().unwrap().success());
    }
}

fn encode(part: &[u8]) -> String {
    part.iter().fold(".".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

fn decode(text: &str) -> Vec<u8> {
    let digits = &text.as_bytes()[1..];
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
