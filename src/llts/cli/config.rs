//! `llts config`: the configuration in force, and the source of each value.

use clap::Args;
use serde_json::{Value, json};

use api::config::{DEFAULTS, InForce};
use base::path_text;
use term::exit::Failure;
use term::output::note;
use term::session::Session;
use term::table::Table;

#[derive(Args, Debug)]
#[command(after_help = "\
Prints every key with its explanation and the value in force; a value that is not the default has a comment with its source \
and the default. The output is itself a valid configuration file.")]
pub(super) struct ConfigArgs {
    /// Only the keys that differ from the defaults, as a table
    #[arg(long)]
    diff: bool,
    /// The defaults that are built into the program
    #[arg(long, conflicts_with = "diff")]
    defaults: bool,
}

impl ConfigArgs {
    /// Whether only the defaults are requested, which are available even with an invalid configuration.
    pub(super) const fn is_about_defaults(&self) -> bool {
        self.defaults
    }
}

pub(super) fn run(session: &mut Session, args: &ConfigArgs) -> Result<u8, Failure> {
    let Session { sources, out, .. } = session;
    let mut keys = sources.in_force();
    if args.diff {
        keys.retain(|key| key.origin.is_some());
    }
    if out.is_json() {
        let file = sources.file().map(path_text);
        out.value(&json!({ "file": file, "keys": keys.iter().map(value).collect::<Vec<_>>() }));
    } else if args.defaults {
        out.text(DEFAULTS);
    } else if !args.diff {
        out.text(&sources.annotated());
    } else if keys.is_empty() {
        note("all keys have their default values");
    } else {
        out.table(&table(&keys));
    }
    Ok(0)
}

fn value(key: &InForce<'_>) -> Value {
    json!({
        "key": key.key,
        "value": key.value,
        "default": key.default,
        "from": key.origin.map(ToString::to_string),
    })
}

fn table(keys: &[InForce<'_>]) -> Table {
    let mut table = Table::new(&["KEY", "VALUE", "DEFAULT", "FROM"]);
    for InForce { key, value, default, origin } in keys {
        let origin = origin.map(ToString::to_string).unwrap_or_default();
        table.row([*key, &value.to_string(), &default.to_string(), &origin]);
    }
    table
}
