//! `llts keys invite`: wait for one other machine, and let its key in.

use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::Session;
use super::change::confirm;
use super::exit::{self, Failure};
use super::output::note;
use super::when;
use crate::config::{Config, CurveServerFiles};
use crate::protocol::join::{Admission, Newcomer};
use crate::shell::clock;
use crate::shell::join::{Desk, Visit, let_in};
use crate::shell::signals::{STOP, Signals};
use crate::shell::supervisor::{self, Service};

/// The maximum validity of an invitation.
const VALID_MAX: Duration = Duration::from_secs(24 * 3600);

#[derive(Args, Debug)]
#[command(after_help = "\
Prints the `llts join` command for the other machine, with a token that is good for once and until it expires, and waits here for \
that machine. The token proves the controller to the other machine and the other machine here; give it to no third party. The \
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
}

fn valid(text: &str) -> Result<Duration, String> {
    let time = when::duration(text)?;
    if time.is_zero() || time > VALID_MAX { Err("it is not between 0 and 24h".to_owned()) } else { Ok(time) }
}

pub(super) fn run(session: &mut Session, args: &InviteArgs) -> Result<u8, Failure> {
    let config = &session.config;
    let Some(files) = config.network.curve_server.clone() else {
        let sentence = "this home has no keys of a controller (CURVE_SERVER_SECRET_KEY_FILE); `llts init DIR --listen IP` makes \
                        one that has";
        return Err(Failure::usage(sentence));
    };
    if !args.yes && !io::stdin().is_terminal() {
        return Err(Failure::usage("there is no terminal to ask on whether a machine is let in; say --yes"));
    }
    let (requests, broadcasts) = ports(config)?;
    let configured = config.controller.requests.map(|address| address.ip());
    let Some(ip) = args.listen.or(configured) else {
        return Err(Failure::usage("CONTROLLER_IP is \"\"; name the address for the other machine with --listen IP"));
    };
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    let mut desk = Desk::open(config, &files, SocketAddr::new(ip, args.port)).map_err(Failure::failed)?;
    tell(session, &desk, ip);
    match desk.wait(clock::now().mono + args.valid, &mut signals) {
        Visit::Newcomer(newcomer, to) => {
            // From here on, Ctrl-C ends this process at its question.
            drop(signals);
            let outcome = decide(&files, &newcomer, args.yes);
            let admission = match &outcome {
                Ok(()) => Admission::Accepted { requests, broadcasts },
                Err(_) => Admission::Refused("it was not accepted there".to_owned()),
            };
            desk.answer(to, &admission);
            outcome?;
            if !session.out.is_json() {
                session.out.line(format_args!("{} is let in with the key {}", newcomer.name, newcomer.key));
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

fn decide(files: &CurveServerFiles, newcomer: &Newcomer, yes: bool) -> Result<(), Failure> {
    confirm(&format!("let in {} with the key {}", newcomer.name, newcomer.key), yes)?;
    let_in(&files.authorised_keys, newcomer).map_err(Failure::failed)
}

/// The ports of the controller, which were chosen at its start if the configuration leaves them open.
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

fn tell(session: &mut Session, desk: &Desk, ip: IpAddr) {
    let address = desk.address().trim_start_matches("tcp://").to_owned();
    let port = address.rsplit(':').next().unwrap_or_default();
    let address = if ip.is_unspecified() { format!("ADDRESS-OF-THIS-MACHINE:{port}") } else { address.clone() };
    let token = desk.token().text();
    if session.out.is_json() {
        return session.out.value(&json!({ "address": address, "token": token }));
    }
    session.out.line(format_args!("llts join {address} --token='{token}'"));
    note("waiting for the other machine; run this command there");
}
