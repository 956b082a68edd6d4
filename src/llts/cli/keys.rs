//! `llts keys`: make key pairs of CURVE, and decide which keys the controller of this home lets in.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::invite::{self, InviteArgs, May};
use base::{AgentId, path_text};
use service::join::{KeysInWait, WaitError};
use term::exit::{Failure, about_it};
use term::session::Session;
use term::table::Table;
use zmtp::curve_keys;
use zmtp::curve_keys::AuthorisedKey;

#[derive(Args, Debug)]
pub(super) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Make key pairs: the secret key in FILE, which only you can read, the public one in FILE.pub
    #[command(after_help = "\
A controller needs a pair (CURVE_SERVER_SECRET_KEY_FILE), and a folder with the public keys of the permitted peers \
(CURVE_AUTHORISED_KEYS_DIR). An agent or a client needs a pair (CURVE_SECRET_KEY_FILE), and the public key of the controller \
(CURVE_SERVER_PUBLIC_KEY_FILE). A file that exists is never overwritten.")]
    New {
        /// Path of the secret key of each pair
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Let another machine in: print what to say there, and wait for it
    Invite(InviteArgs),
    /// The keys that are let in, and those that wait for it
    List,
    /// Admit waiting machines; first compare the key with the one `llts join` shows there. With --may, also give more to machines
    /// that are let in
    Accept {
        /// A right besides running tasks and submitting tools: to send commands, and to push and remove tools
        #[arg(long)]
        may: Option<May>,
        /// Their names in `llts keys list`
        #[arg(required = true, value_parser = name)]
        names: Vec<AgentId>,
    },
    /// Reject waiting machines
    Refuse {
        /// Their names in `llts keys list`
        #[arg(required = true, value_parser = name)]
        names: Vec<AgentId>,
    },
}

pub(super) fn run(session: &mut Session, args: &KeysArgs) -> Result<u8, Failure> {
    match &args.command {
        KeysCommand::New { files } => new(session, files),
        KeysCommand::Invite(args) => invite::run(session, args),
        KeysCommand::List => list(session),
        KeysCommand::Accept { may, names } => {
            decide(session, names, true, |keys, name| keys.accept(name, may.is_some()))
        }
        KeysCommand::Refuse { names } => decide(session, names, false, KeysInWait::refuse),
    }
}

fn name(text: &str) -> Result<AgentId, String> {
    AgentId::new(text).map_err(|error| about_it(text, &error))
}

fn list(session: &mut Session) -> Result<u8, Failure> {
    let keys = KeysInWait::of(&invite::server_files(session)?);
    let authorised = keys.authorised().map_err(Failure::failed)?;
    let waiting = keys.list().map_err(Failure::failed)?;
    let all = authorised.iter().map(|key| (key, "let in")).chain(waiting.iter().map(|key| (key, "waits")));
    if session.out.is_json() {
        let value = |((name, key), state): (&(AgentId, AuthorisedKey), &str)| {
            let (waits, may_command) = (state == "waits", key.may_command);
            json!({ "name": name.as_str(), "key": key.key.to_string(), "waits": waits, "may_command": may_command })
        };
        session.out.value(&Value::Array(all.map(value).collect()));
        return Ok(0);
    }
    let mut table = Table::new(&["NAME", "KEY", "STATE", "MAY"]);
    for ((name, key), state) in all {
        let may = if key.may_command { "commands" } else { "-" };
        table.row([name.as_str(), &key.key.to_string(), state, may]);
    }
    session.out.table(&table);
    Ok(0)
}

fn decide(
    session: &mut Session,
    names: &[AgentId],
    lets_in: bool,
    decide: impl Fn(&KeysInWait, &AgentId) -> Result<AuthorisedKey, WaitError>,
) -> Result<u8, Failure> {
    let keys = KeysInWait::of(&invite::server_files(session)?);
    let mut values = Vec::new();
    for name in names {
        let key = decide(&keys, name).map_err(Failure::failed)?;
        if session.out.is_json() {
            values.push(
                json!({ "name": name.as_str(), "key": key.key.to_string(), "may_command": key.may_command, "let_in": lets_in }),
            );
        } else {
            let verdict = if lets_in { "is let in" } else { "is not let in" };
            let may = if key.may_command { ", and may send commands and push tools" } else { "" };
            session.out.line(format_args!("{name} with the key {} {verdict}{may}", key.key));
        }
    }
    if session.out.is_json() {
        session.out.value(&Value::Array(values));
    }
    Ok(0)
}

fn new(session: &mut Session, files: &[PathBuf]) -> Result<u8, Failure> {
    let mut values = Vec::new();
    for file in files {
        let (key, public_file) = curve_keys::create(file).map_err(Failure::failed)?;
        if session.out.is_json() {
            values.push(json!({ "public_key": key.to_string(), "public_file": path_text(&public_file), "secret_file": path_text(file) }));
        } else {
            session.out.line(format_args!("{key}  {}", public_file.display()));
        }
    }
    if session.out.is_json() {
        session.out.value(&Value::Array(values));
    }
    Ok(0)
}
