//! `llts keys invite`: wait for one other machine, and let its key in.

use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::change::is_yes;
use api::config::Config;
use api::wire::join::{Admission, Newcomer};
use base::{AgentId, Caller, CallerKey, CallerPlace, CurveServerFiles, Mono, Right};
use proc::clock;
use proc::own_addresses::own_addresses;
use proc::signals::{STOP, Signals};
use service::join::{Desk, KeysInWait, Verdict, Visit, WaitError, let_in};
use service::supervisor;
use service::supervisor::Service;
use term::exit::Failure;
use term::output::{ask, note};
use term::session::Session;
use term::{exit, when};
use zmtp::curve_keys::AuthorisedKey;

/// The maximum validity of an invitation.
const VALID_MAX: Duration = Duration::from_secs(24 * 3600);

#[derive(Args, Debug)]
#[command(after_help = "\
Prints the `llts join` command for the other machine, with a token that is good for once and until it expires, and waits here for \
that machine. Its key waits until it is accepted: at the question on this terminal, or with `llts keys accept`. The token proves the controller to the other machine and the other machine here; give it to no third party. The \
connection is encrypted, and the controller need not be restarted.")]
pub(super) struct InviteArgs {
    /// The address at which to wait for the other machine [default: CONTROLLER_IP]
    #[arg(long, value_name = "IP")]
    listen: Option<IpAddr>,
    /// TCP port; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Validity of the token: a day at most
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = valid)]
    valid: Duration,
    /// Let it in without asking
    #[arg(long, short)]
    yes: bool,
    /// A right besides running tasks and submitting tools: to send commands, and to push and remove tools
    #[arg(long)]
    may: Option<May>,
}

/// A right that a key does not have by itself.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum May {
    /// To send commands, and to push and remove tools.
    Commands,
}

fn valid(text: &str) -> Result<Duration, String> {
    let time = when::duration(text)?;
    if time.is_zero() || time > VALID_MAX { Err("it is not between 0 and 24h".to_owned()) } else { Ok(time) }
}

pub(super) fn run(session: &mut Session, args: &InviteArgs) -> Result<u8, Failure> {
    let files = server_files(session)?;
    let config = &session.config;
    let (requests, broadcasts) = ports(config)?;
    let configured = config.controller.requests.map(|address| address.ip());
    let Some(ip) = args.listen.or(configured) else {
        return Err(Failure::usage("CONTROLLER_IP is \"\"; name the address for the other machine with --listen IP"));
    };
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    let mut desk = Desk::open(config, &files, SocketAddr::new(ip, args.port)).map_err(Failure::failed)?;
    let may_command = may_command(config, args.may.is_some());
    tell(session, &desk, ip, may_command);
    let until = clock::now().mono + args.valid;
    match desk.wait(until, &mut signals) {
        Visit::Newcomer(newcomer, to) => {
            let keys = KeysInWait::of(&files);
            let may = args.may.is_some();
            let decided = if args.yes {
                let key = AuthorisedKey { key: newcomer.key, may_command: may };
                let_in(&files.authorised_keys, &newcomer.name, key).map_err(|error| Failure::failed(error).into())
            } else {
                decide(&mut desk, &keys, (&newcomer, &to, may), until, &mut signals)
            };
            let admission = match &decided {
                Ok(()) => {
                    // `llts keys accept` may have given it more.
                    let may = keys.authorised_key(&newcomer.name).is_ok_and(|key| key.may_command);
                    let may_command = self::may_command(&session.config, may);
                    let hosts = session.config.controller.hosts.clone();
                    Admission::Accepted { requests, broadcasts, may_command, hosts }
                }
                Err(Undecided::Taken(error)) => Admission::Refused(error.to_string()),
                Err(Undecided::Failed(_)) => Admission::Refused("it was not accepted there".to_owned()),
            };
            desk.answer(&newcomer, to, &admission);
            decided?;
            if !session.out.is_json() {
                let may = if let Admission::Accepted { may_command: true, .. } = admission { MAY } else { MAY_NOT };
                session.out.line(format_args!("{} is let in with the key {}{may}", newcomer.name, newcomer.key));
            }
            Ok(0)
        }
        Visit::Nonsense => {
            Err(Failure::failed("the token was used for a message other than a join; no machine was let in"))
        }
        Visit::Expired => Err(Failure::new(exit::TIMED_OUT, "no machine has come while the token was valid")),
        Visit::Interrupted => Err(Failure::new(exit::INTERRUPTED, "the invitation was taken back")),
    }
}

/// The keys of the controller of this home.
pub(super) fn server_files(session: &Session) -> Result<CurveServerFiles, Failure> {
    session.config.network.curve_server.clone().ok_or_else(|| {
        let sentence = "this home has no keys of a controller (CURVE_SERVER_SECRET_KEY_FILE); `llts init DIR --listen IP` makes \
                        another home, with keys. To add them to this one, run in it: mkdir -p keys/authorised && llts keys new \
                        keys/server.key keys/own.key && cp keys/own.key.pub keys/authorised/this-machine; then set in its \
                        config.toml CONTROLLER_IP = \"IP\", CURVE_SERVER_SECRET_KEY_FILE = \"keys/server.key\", \
                        CURVE_AUTHORISED_KEYS_DIR = \"keys/authorised\", CURVE_SECRET_KEY_FILE = \"keys/own.key\" and \
                        CURVE_SERVER_PUBLIC_KEY_FILE = \"keys/server.key.pub\", and start its service again";
        Failure::usage(sentence)
    })
}

const MAY: &str = "; it may send commands and push tools";
const MAY_NOT: &str = "; it may not send commands or push tools, which `llts keys accept NAME --may commands` allows";

/// Whether the controller takes commands from a key, which the key's file may allow.
fn may_command(config: &Config, may: bool) -> bool {
    let key = if may { CallerKey::Commands } else { CallerKey::Authorised };
    config.controller.allow_commands.admits(Caller { key, ..Caller::at(CallerPlace::Elsewhere) }, Right::Command)
}

/// Why a machine was not let in.
enum Undecided {
    /// Another machine waits under the same name.
    Taken(WaitError),
    /// Anything else.
    Failed(Failure),
}

impl From<Failure> for Undecided {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Undecided> for Failure {
    fn from(undecided: Undecided) -> Self {
        match undecided {
            Undecided::Taken(error) => Self::failed(error),
            Undecided::Failed(failure) => failure,
        }
    }
}

/// The key waits until a user accepts or refuses it, here or with `llts keys`.
fn decide(
    desk: &mut Desk,
    keys: &KeysInWait,
    (newcomer, from, may): (&Newcomer, &[Vec<u8>], bool),
    until: Mono,
    signals: &mut Signals,
) -> Result<(), Undecided> {
    let Newcomer { name, key } = newcomer;
    let _waiting = keys.add(newcomer, may).map_err(|error| match error {
        WaitError::Taken(_) => Undecided::Taken(error),
        error => Undecided::Failed(Failure::failed(error)),
    })?;
    let stdin = io::stdin();
    let terminal = stdin.is_terminal().then(|| stdin.as_fd());
    note(&format!(
        "{name} waits with the key {key}; `llts keys accept {name}` lets it in, `llts keys refuse {name}` does not"
    ));
    if terminal.is_some() {
        ask(&format!("Let {name} in? [y/N] "));
    }
    let verdict = loop {
        match desk.wait_for_verdict((keys, newcomer), from, until, (&mut *signals, terminal)) {
            Ok(Verdict::Another(other)) => note(&format!(
                "another machine came with the same token and was refused: {} with the key {}; make sure that the key of {name} is \
                 the right one",
                other.name, other.key
            )),
            Ok(Verdict::Typed) if is_yes()? => {
                break keys.accept(name, may).map(|_| Verdict::Accepted).map_err(Failure::failed)?;
            }
            Ok(Verdict::Typed) => break Verdict::Refused,
            verdict => break verdict.map_err(Failure::failed)?,
        }
    };
    // It still waits, unless it was accepted by `llts keys` or here.
    keys.remove(name).map_err(Failure::failed)?;
    ended(name, &verdict).map_err(Undecided::Failed)
}

/// The result of the command for this decision.
fn ended(name: &AgentId, verdict: &Verdict) -> Result<(), Failure> {
    match verdict {
        Verdict::Accepted => Ok(()),
        Verdict::Refused | Verdict::Typed | Verdict::Another(_) => {
            Err(Failure::failed(format!("{name} was refused; no machine was let in")))
        }
        Verdict::Left => Err(Failure::failed(format!("{name} has left before it was accepted; no machine was let in"))),
        Verdict::Expired => {
            let sentence = format!("{name} was not accepted while the token was valid; no machine was let in");
            Err(Failure::new(exit::TIMED_OUT, sentence))
        }
        Verdict::Interrupted => Err(Failure::new(exit::INTERRUPTED, "the invitation was taken back")),
    }
}

/// The ports of the controller. Those that the configuration leaves open were chosen at its start.
fn ports(config: &Config) -> Result<(u16, Option<u16>), Failure> {
    let state_dir = &config.paths.state_dir;
    let service = supervisor::holder(state_dir).and_then(|_| Service::read(state_dir));
    let port_of = |endpoint: &str| endpoint.strip_prefix("tcp://")?.rsplit(':').next()?.parse::<u16>().ok();
    let configured = |address: Option<SocketAddr>| address.map(|address| address.port()).filter(|port| *port != 0);
    let running = |endpoint: fn(&Service) -> &String| service.as_ref().and_then(|service| port_of(endpoint(service)));
    let requests = configured(config.controller.requests).or_else(|| running(|service| &service.controller));
    let broadcasts = configured(config.controller.broadcasts).or_else(|| running(|service| &service.publisher));
    let missing =
        "the controller has no TCP port yet for other machines; start it with `llts up` (CONTROLLER_REP_PORT)";
    Ok((requests.ok_or_else(|| Failure::failed(missing))?, broadcasts))
}

fn tell(session: &mut Session, desk: &Desk, ip: IpAddr, may_command: bool) {
    let address = desk.address().trim_start_matches("tcp://").to_owned();
    let port = address.rsplit(':').next().unwrap_or_default();
    let at = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => format!("{ip}:{port}"),
        IpAddr::V6(ip) => format!("[{ip}]:{port}"),
    };
    let own = if ip.is_unspecified() { own_addresses(ip) } else { vec![ip] };
    let mut addresses: Vec<String> = own.into_iter().map(at).collect();
    if addresses.is_empty() {
        // Without an address, other machines cannot reach it; it may get one while the invitation is valid.
        addresses.push(format!("ADDRESS-OF-THIS-MACHINE:{port}"));
    }
    let token = desk.token().text();
    if session.out.is_json() {
        return session.out.value(&json!({
            "address": addresses[0],
            "addresses": addresses,
            "token": token,
            "may_command": may_command,
        }));
    }
    session.out.line(format_args!("llts join {} --token='{token}'", addresses[0]));
    if let Some(others) = addresses.get(1..).filter(|others| !others.is_empty()) {
        note(&format!("this machine has other addresses, too, for machines in other networks: {}", others.join(", ")));
    }
    if ip.is_loopback() {
        note(&format!("only this machine reaches {ip}: for another one, give its way to here with --listen IP"));
    }
    let may = if may_command {
        "it may send commands and push tools"
    } else {
        "it may submit tools and run agents, but not send commands or push tools, which --may commands allows"
    };
    note(&format!("waiting for the other machine; run this command there. With this invitation, {may}"));
}
