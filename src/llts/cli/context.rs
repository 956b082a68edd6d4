//! `llts context`: names for controllers of other machines.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use api::contexts::{Context, Contexts, check_name};
use term::connect;
use term::exit::Failure;
use term::session::Session;
use term::table::Table;

#[derive(Args, Debug)]
pub(super) struct ContextArgs {
    #[command(subcommand)]
    command: ContextCommand,
}

#[derive(Debug, Subcommand)]
enum ContextCommand {
    /// List the names and what they stand for
    List,
    /// Add a context, or point one at another controller
    Add {
        /// The name, for --context and LLTS_CONTEXT
        #[arg(value_parser = check_name)]
        name: String,
        /// tcp://IP:PORT, tcp://NAME:PORT or ipc://PATH
        #[arg(value_parser = connect::argument)]
        address: String,
        /// The file with the public key of the controller
        #[arg(long, value_name = "FILE", requires = "secret_key")]
        server_key: Option<PathBuf>,
        /// The file with your secret key
        #[arg(long, value_name = "FILE", requires = "server_key")]
        secret_key: Option<PathBuf>,
    },
    /// Forget a name
    Rm {
        /// The name
        name: String,
    },
}

pub(super) fn run(session: &mut Session, args: ContextArgs) -> Result<u8, Failure> {
    let mut contexts = Contexts::read().map_err(|error| Failure::usage(error.to_string()))?;
    match args.command {
        ContextCommand::List => list(session, &contexts),
        ContextCommand::Add { name, address, server_key, secret_key } => {
            // The context must work from every folder.
            let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
            let [server_key_file, secret_key_file] = [server_key, secret_key].map(|file| file.map(absolute));
            contexts.add(&name, Context { address, server_key_file, secret_key_file }).map_err(Failure::failed)?;
        }
        ContextCommand::Rm { name } => contexts.remove(&name).map_err(Failure::failed)?,
    }
    Ok(0)
}

fn list(session: &mut Session, contexts: &Contexts) {
    if session.out.is_json() {
        let value = |(name, context): (&String, &Context)| (name.clone(), json!(context));
        return session.out.value(&Value::Object(contexts.all().iter().map(value).collect()));
    }
    let shown = |file: Option<&Path>| file.map(|file| file.display().to_string()).unwrap_or_default();
    let mut table = Table::new(&["NAME", "ADDRESS", "SERVER KEY", "SECRET KEY"]);
    for (name, Context { address, server_key_file, secret_key_file }) in contexts.all() {
        table.row([name, address, &shown(server_key_file.as_deref()), &shown(secret_key_file.as_deref())]);
    }
    session.out.table(&table);
}
