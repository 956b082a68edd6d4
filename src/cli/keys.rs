//! `llts keys`: make key pairs of CURVE.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Session;
use super::exit::Failure;
use super::invite::{self, InviteArgs};
use crate::shell::curve_keys;

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
}

pub(super) fn run(session: &mut Session, args: &KeysArgs) -> Result<u8, Failure> {
    match &args.command {
        KeysCommand::New { files } => new(session, files),
        KeysCommand::Invite(args) => invite::run(session, args),
    }
}

fn new(session: &mut Session, files: &[PathBuf]) -> Result<u8, Failure> {
    let mut values = Vec::new();
    for file in files {
        let (key, public_file) = curve_keys::create(file).map_err(Failure::failed)?;
        if session.out.is_json() {
            values.push(json!({ "public_key": key.to_string(), "public_file": public_file, "secret_file": file }));
        } else {
            session.out.line(format_args!("{key}  {}", public_file.display()));
        }
    }
    if session.out.is_json() {
        session.out.value(&Value::Array(values));
    }
    Ok(0)
}
