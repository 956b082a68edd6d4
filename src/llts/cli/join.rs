//! `llts join`: hand the key of this machine over to a controller that has invited it, and make a home for its agents.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::Session;
use super::init::{make_folder, write_new};
use api::tools;
use api::wire::join::{Admission, Newcomer};
use base::{AgentId, path_text, quoted_path, split_tcp};
use llts_client::configured;
use proc::signals::{STOP, Signals};
use service::join::{JoinError, Token, ask};
use service::supervisor;
use term::exit;
use term::exit::Failure;
use term::output::note;
use zmtp::curve_keys;
use zmtp::engine::KeyPair;

/// How long to wait for the answer: an invitation is valid for at most a day.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

#[derive(Args, Debug)]
#[command(after_help = "\
`llts keys invite` on the machine of the controller prints the address and the token. The home gets a key pair of its own, whose \
secret key never leaves this machine, and a configuration that names the controller: then `llts up --agents-only N` starts agents, \
and `llts list` and all others talk to that controller.")]
pub(super) struct JoinArgs {
    /// Where the invitation is: IP:PORT or NAME:PORT
    #[arg(value_parser = address)]
    address: String,
    /// One-time token from the invitation
    #[arg(long, allow_hyphen_values = true)]
    token: String,
    /// What this machine is called there [default: its host name]
    #[arg(long, value_parser = |text: &str| AgentId::new(text))]
    name: Option<AgentId>,
}

fn address(text: &str) -> Result<String, String> {
    let parsed = split_tcp(&format!("tcp://{text}"));
    parsed
        .map(|_| text.to_owned())
        // The advice is left out, because better advice follows.
        .map_err(|why| format!("it {}", why.to_string().split("; ").next().unwrap_or_default()))
        .map_err(|why| format!("{why}; write IP:PORT or NAME:PORT, as the invitation does"))
}

pub(super) fn run(session: &mut Session, args: &JoinArgs) -> Result<u8, Failure> {
    let token = Token::parse(&args.token).map_err(|error| Failure::usage(error.to_string()))?;
    let host = supervisor::host_name();
    let name = args.name.clone().map_or_else(|| AgentId::new(&host), Ok);
    let name = name.map_err(|error| Failure::usage(format!("{error}; name this machine with --name")))?;
    let config = session.home.folder().join("config.toml");
    if config.symlink_metadata().is_ok() {
        let sentence = format!(
            "{} is there already, so this home belongs to a service; name another one with --home DIR",
            config.display()
        );
        return Err(Failure::failed(sentence));
    }
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    let address = format!("tcp://{}", args.address);
    if configured::is_refused(&address, session.config.client.reply_timeout) {
        let sentence = format!(
            "nothing listens at {address}: the invitation was used, or has expired; ask there for a new one with `llts keys invite`"
        );
        return Err(Failure::new(exit::NO_CONTROLLER, sentence));
    }
    // The home is created first: an accepted key must not be lost because a folder cannot be created.
    let is_new = session.home.mark()?;
    let pair = KeyPair::from_bytes(rand::random());
    let newcomer = Newcomer { name, key: pair.public() };
    note(&format!(
        "handing over the key {} of {}; waiting until it is accepted there (`llts keys accept {}`)",
        newcomer.key, newcomer.name, newcomer.name
    ));
    let admission = ask(&session.config, &address, &token, &newcomer, PATIENCE, &mut signals);
    if is_new && admission.is_err() {
        session.home.unmark();
    }
    let admission = admission.map_err(|error| refusal(&error))?;
    let Admission::Accepted { requests, broadcasts, may_command, mut hosts } = admission else {
        return Err(Failure::failed("the answer is none"));
    };
    furnish(session, &token, &pair)?;
    let host = args.address.rsplit_once(':').map_or(&*args.address, |(host, _)| host).trim_matches(['[', ']']);
    if !hosts.iter().any(|one| one.trim_matches(['[', ']']) == host) {
        hosts.insert(0, host.to_owned());
    }
    let hosts: Vec<String> = hosts.iter().map(|host| format!("{host:?}")).collect();
    let hosts = if let [host] = &hosts[..] { host.clone() } else { format!("[{}]", hosts.join(", ")) };
    let publisher = broadcasts.map_or_else(|| "\"off\"".to_owned(), |port| port.to_string());
    let text = format!(
        "\
# Agents and clients of the controller at {host}. `llts config` shows every key with its default and the reason for it.
CONTROLLER_IP = {hosts}
CONTROLLER_REP_PORT = {requests}
CONTROLLER_PUB_PORT = {publisher}
LOG_DIR = \"log\"
CURVE_SECRET_KEY_FILE = \"keys/own.key\"
CURVE_SERVER_PUBLIC_KEY_FILE = \"keys/server.key.pub\"
"
    );
    write_new(&config, &text)?;
    tell(session, &newcomer, may_command);
    Ok(0)
}

fn tell(session: &mut Session, newcomer: &Newcomer, may_command: bool) {
    let Session { home, out, .. } = session;
    let home = home.folder();
    if out.is_json() {
        return out.value(&json!({
            "home": path_text(home),
            "name": newcomer.name.as_str(),
            "key": newcomer.key.to_string(),
            "may_command": may_command,
        }));
    }
    let (folder, named) = (home.display(), quoted_path(home));
    out.line(format_args!("{folder} has joined; start agents with `llts --home {named} up --agents-only N`"));
    out.line(rights(&newcomer.name, may_command));
}

/// A sentence about the rights of this machine, and its name at the controller.
fn rights(name: &AgentId, may_command: bool) -> String {
    if may_command {
        return "the controller takes commands and pushes of tools from this machine".to_owned();
    }
    format!(
        "the controller takes tools from this machine, but no commands and no pushes of tools; there, \
         `llts keys accept {name} --may commands` allows them"
    )
}

/// Keys, logs and a tool for the new home.
fn furnish(session: &Session, token: &Token, pair: &KeyPair) -> Result<(), Failure> {
    let folder = session.home.folder();
    let keys = folder.join("keys");
    make_folder(&keys, 0o700)?;
    make_folder(&folder.join("log"), 0o700)?;
    curve_keys::keep(&keys.join("own.key"), pair).map_err(Failure::failed)?;
    curve_keys::write_public(&keys.join("server.key.pub"), token.server()).map_err(Failure::failed)?;
    tools::unpack_samples(&folder.join("tools"), Some(tools::FIRST_SAMPLE)).map_err(Failure::failed)?;
    Ok(())
}

fn refusal(error: &JoinError) -> Failure {
    let exit = match error {
        JoinError::Denied { .. } | JoinError::Refused { .. } | JoinError::Lost { .. } => exit::REFUSED,
        JoinError::Silence { .. } => exit::NO_CONTROLLER,
        JoinError::Interrupted => exit::INTERRUPTED,
        JoinError::BadToken(_) | JoinError::Key(_) | JoinError::Socket(_) => exit::FAILED,
    };
    Failure::new(exit, error.to_string())
}
