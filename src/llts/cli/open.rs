//! `llts open`: the page of the service in a browser.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;

use super::up;
use crate::http::{self, Grant, token};
use api::config::{Config, Exposure, HttpOpening};
use proc::clock;
use service::supervisor::{self, Service};
use term::exit::Failure;
use term::output::note;
use term::session::Session;

/// How long a browser may take to fail at its start.
const START_SECONDS_MAX: i64 = 1;

/// The program that opens an address in the browser of a desktop.
const DESKTOP: &str = "xdg-open";

/// The place for the address in `BROWSER`.
const PLACE: &str = "%s";

#[derive(Args, Debug)]
#[command(after_help = "\
The address lets a browser of this user on this machine act for you, for five minutes; then the page has a session of thirty days. \
So the whole address is printed to a terminal only, or with --print. The browser is that of BROWSER, or that of the desktop. On another \
machine, or as another user, end the address with #token= and the token itself, a file in STATE_DIR: http.token, or http.read.token for \
reading only. A new token ends every session: remove the file, then `llts restart`.")]
pub(super) struct OpenArgs {
    /// Let the page look, but change nothing
    #[arg(long)]
    read_only: bool,
    /// Print the whole address, and open no browser
    #[arg(long)]
    print: bool,
}

pub(super) fn run(session: &mut Session, args: &OpenArgs) -> Result<u8, Failure> {
    up::refuse_joined(session, "`llts open` opens the page there")?;
    let address = address(session)?;
    let grant = if args.read_only { Grant::Read } else { Grant::Change };
    let file = http::token_file(&session.config, grant);
    let whole = if session.config.http.is_open() {
        // Only this machine can use a ticket, and the browser may be on another one.
        note(&format!(
            "other machines reach this page, so its address has no token; end it with #token= and the text of {}",
            file.display()
        ));
        address.clone()
    } else {
        with_ticket(&address, grant, &file)?
    };
    let browser = if args.print { None } else { browser() };
    let is_open = browser.as_ref().is_some_and(|browser| start(browser, &whole));
    let shown = if args.print || std::io::stdout().is_terminal() { &whole } else { &address };
    if session.out.is_json() {
        session.out.value(&json!({ "address": shown, "opened": is_open }));
        return Ok(0);
    }
    if browser.is_none() && !args.print {
        note(
            "there is no browser here (BROWSER, or xdg-open and a display); `llts open --print` prints the whole address for one",
        );
    }
    session.out.line(shown);
    Ok(0)
}

/// The address of the page of the service that runs in this home.
fn address(session: &Session) -> Result<String, Failure> {
    let state_dir = &session.config.paths.state_dir;
    let running = supervisor::holder(state_dir).and_then(|_| Service::read(state_dir));
    let Some(service) = running else {
        let home = session.home.folder().display();
        return Err(Failure::failed(format!("no service runs in the home {home}; `llts up` starts one")));
    };
    let http = service.http.ok_or_else(|| {
        let file = session.sources.file().map_or_else(|| session.home.folder().join("config.toml"), Path::to_owned);
        Failure::failed(format!("{}, so there is no page; {}", why_closed(&session.config), how_to_open(&file)))
    })?;
    // No browser can open an address that stands for all interfaces.
    Ok(format!("{}/", http.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")))
}

/// Why a service has no HTTP door.
fn why_closed(config: &Config) -> String {
    match (config.http.opening, config.exposure()) {
        (HttpOpening::Never, _) => "http.ENABLED is false".to_owned(),
        (HttpOpening::Auto, Exposure::Closed) => {
            "the service opens no port (CONTROLLER_IP, CONTROLLER_REP_PORT), and http.ENABLED is \"auto\"".to_owned()
        }
        (HttpOpening::Auto, Exposure::Keys | Exposure::Network) => {
            "the ports of the service are for other machines or need keys, and http.ENABLED is \"auto\"".to_owned()
        }
        (HttpOpening::Auto | HttpOpening::Always, _) => {
            format!(
                "the service could not open its HTTP door, or has an older configuration: see {}",
                config.log.controller_file().display()
            )
        }
    }
}

fn how_to_open(file: &Path) -> String {
    format!("set ENABLED = true in [http] of {}, then run `llts restart`", file.display())
}

/// The address with a ticket in place of the token. It is in the fragment, which no browser sends to a server.
fn with_ticket(address: &str, grant: Grant, file: &Path) -> Result<String, Failure> {
    let token = token::read(file, false).map_err(|error| {
        Failure::failed(format!(
            "{error}; run this as the user of the service, or `llts restart`, which makes a missing file"
        ))
    })?;
    let now = clock::now().wall.micros() / 1_000_000;
    Ok(format!("{address}#token={}", token.ticket(grant, now)))
}

/// The command of a browser: the first one in BROWSER that exists here, or that of the desktop.
fn browser() -> Option<Vec<OsString>> {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let named = env::var("BROWSER").unwrap_or_default();
    let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
    let mut all: Vec<Vec<OsString>> = named.split(':').map(words).collect();
    if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") {
        all.push(vec![DESKTOP.into()]);
    }
    all.into_iter().find(|command| command.first().is_some_and(|program| is_here(program)))
}

/// Whether a shell would find the program.
fn is_here(program: &OsStr) -> bool {
    let is_program = |path: PathBuf| path.is_file() && rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_ok();
    if Path::new(program).components().count() > 1 {
        return is_program(program.into());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| is_program(folder.join(program)))
}

/// Starts the browser, which outlives this command and its terminal. Returns whether it did not fail at once.
fn start(browser: &[OsString], address: &str) -> bool {
    let [program, options @ ..] = browser else { return false };
    let place = OsStr::new(PLACE);
    let mut command = Command::new(program);
    command.args(options.iter().map(|word| if word == place { OsStr::new(address) } else { word.as_os_str() }));
    if !options.iter().any(|word| word == place) {
        command.arg(address);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let why = match command.spawn().map(failed_at_once) {
        Ok(None) => return true,
        Ok(Some(ended)) => format!("did not open the page ({ended})"),
        Err(error) => format!("did not start ({error})"),
    };
    note(&format!("{} {why}; open the address yourself", program.display()));
    false
}

/// The status of a browser that failed at once; `None` if it runs, or has handed the address to another one.
fn failed_at_once(mut browser: Child) -> Option<ExitStatus> {
    let limit = Timespec { tv_sec: START_SECONDS_MAX, tv_nsec: 0 };
    if let Ok(end) = pidfd_open(Pid::from_child(&browser), PidfdFlags::empty()) {
        let _ = poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&limit));
    }
    browser.try_wait().ok().flatten().filter(|ended| !ended.success())
}
