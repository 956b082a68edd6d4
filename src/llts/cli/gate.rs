//! `llts gate`: limits on the starts of all tasks that name a gate.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use api::wire::requests::gate;
use api::wire::requests::gate::{GateChange, GateRow};
use base::{Pace, UNTIL_OPENED, Wall};
use llts_client::Client;
use proc::clock;
use term::exit::Failure;
use term::output::{note, to_value};
use term::session::Session;
use term::table::{Column, Give, Omit, Table};
use term::when::Moment;
use term::{times, when};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct GateArgs {
    #[command(subcommand)]
    command: Option<GateCommand>,
}

#[derive(Debug, Subcommand)]
enum GateCommand {
    /// List all gates that are set or named by a task [default]
    List,
    /// Show one gate
    Show(Name),
    /// Set the limits of a gate; limits that are not given stay unchanged
    Set(SetArgs),
    /// Open a closed gate
    #[command(hide = true)]
    Open(Name),
    /// Close a gate for all tasks, until a moment or until it is opened
    #[command(after_help = when::HELP, hide = true)]
    Close(CloseArgs),
}

#[derive(Args, Debug)]
struct Name {
    /// The gate
    #[arg(id = "gate", value_name = "NAME")]
    name: String,
}

#[derive(Args, Debug)]
#[command(after_help = when::HELP)]
#[group(id = "limits", required = true, multiple = true)]
struct SetArgs {
    #[command(flatten)]
    name: Name,
    /// Maximum number of running tasks that have passed the gate; `none` removes the limit
    #[arg(long, value_name = "N|none", value_parser = limit::<u32>, group = "limits")]
    max_running: Option<Limit<u32>>,
    /// Maximum number of starts within --interval; `none` removes the limit
    #[arg(long, value_name = "N|none", value_parser = limit::<NonZeroU32>, group = "limits")]
    max_starts: Option<Limit<NonZeroU32>>,
    /// Length of the time in which at most --max-starts tasks start
    #[arg(long, value_name = "DURATION", value_parser = when::duration, requires = "max_starts")]
    interval: Option<Duration>,
}

#[derive(Args, Debug)]
pub(super) struct CloseArgs {
    #[command(flatten)]
    name: Name,
    /// Duration for which the gate is closed
    #[arg(long = "for", id = "span", value_name = "DURATION", value_parser = when::duration, conflicts_with = "until")]
    span: Option<Duration>,
    /// Moment until which the gate is closed
    #[arg(long, value_name = "MOMENT", value_parser = when::moment)]
    until: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit<T> {
    None,
    At(T),
}

impl CloseArgs {
    pub(super) const fn new(name: String, span: Option<Duration>, until: Option<Moment>) -> Self {
        Self { name: Name { name }, span, until }
    }
}

impl<T> Limit<T> {
    fn at(self) -> Option<T> {
        match self {
            Self::None => None,
            Self::At(limit) => Some(limit),
        }
    }
}

fn limit<T: std::str::FromStr>(text: &str) -> Result<Limit<T>, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    text.parse().map(Limit::At).map_err(|_| "it is not a number; write a whole number, or none".to_owned())
}

pub(super) fn run(session: &mut Session, args: &GateArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    let name = match args.command.as_ref().unwrap_or(&GateCommand::List) {
        GateCommand::List => return list(session, &client),
        GateCommand::Show(Name { name }) => name,
        GateCommand::Set(args) => {
            client.ask(&gate::set(&args.name.name, &limits(args)?))?;
            &args.name.name
        }
        GateCommand::Open(Name { name }) => return open(session, name),
        GateCommand::Close(args) => return close(session, args),
    };
    show(session, &client, name)
}

/// Opens a gate.
pub(super) fn open(session: &mut Session, name: &str) -> Result<u8, Failure> {
    let client = session.client()?;
    warn_of_new(&client, name)?;
    set_open(&client, name)?;
    show(session, &client, name)
}

/// A misspelt name makes a gate that keeps nothing.
fn warn_of_new(client: &Client, name: &str) -> Result<(), Failure> {
    if !client.ask(&gate::gates())?.rows.iter().any(|gate| gate.name() == name) {
        note(&format!("{name:?} is a new gate: no task has named it yet"));
    }
    Ok(())
}

pub(super) fn set_open(client: &Client, name: &str) -> Result<(), Failure> {
    Ok(client.ask(&gate::set(name, &GateChange { closed_until: Some(None), ..GateChange::default() }))?)
}

/// Closes a gate.
pub(super) fn close(session: &mut Session, args: &CloseArgs) -> Result<u8, Failure> {
    warn_of_new(&session.client()?, &args.name.name)?;
    let client = set_closed(session, args)?;
    show(session, &client, &args.name.name)
}

pub(super) fn set_closed(session: &Session, args: &CloseArgs) -> Result<Client, Failure> {
    let client = session.client()?;
    client.ask(&gate::set(&args.name.name, &closing(args, clock::now().wall)))?;
    Ok(client)
}

fn show(session: &mut Session, client: &Client, name: &str) -> Result<u8, Failure> {
    let gate = client.ask(&gate::gate(name))?;
    if session.out.is_json() {
        session.out.fields(gate.fields());
    } else {
        session.out.table(&table(&[gate]));
    }
    Ok(0)
}

fn list(session: &mut Session, client: &Client) -> Result<u8, Failure> {
    let gates = client.ask(&gate::gates())?.rows;
    if session.out.is_json() {
        let values: Vec<Value> = gates.iter().map(|gate| to_value(gate.fields())).collect();
        session.out.value(&json!({ "total": values.len(), "gates": values }));
    } else {
        session.out.table(&table(&gates));
    }
    Ok(0)
}

fn limits(args: &SetArgs) -> Result<GateChange, Failure> {
    let pace = match (args.max_starts, args.interval) {
        (None, _) => None,
        (Some(Limit::None), None) => Some(None),
        (Some(Limit::None), Some(_)) => return Err(Failure::usage("--max-starts none does not take --interval")),
        (Some(Limit::At(starts)), Some(interval)) => Some(Some(Pace { starts: starts.get(), interval })),
        (Some(Limit::At(starts)), None) => {
            return Err(Failure::usage(format!("--max-starts {starts} needs --interval, such as --interval 60")));
        }
    };
    Ok(GateChange { running_max: args.max_running.map(Limit::at), pace, closed_until: None, closed_for: None })
}

/// The change for a closed gate. A relative time counts by the clock of the controller.
fn closing(args: &CloseArgs, now: Wall) -> GateChange {
    let (closed_for, until) = match (args.span, args.until) {
        (Some(span), _) | (None, Some(Moment::In(span))) => (Some(span), None),
        (None, Some(until)) => (None, Some(until.wall(now))),
        (None, None) => (None, Some(UNTIL_OPENED)),
    };
    GateChange { closed_for, closed_until: until.map(Some), ..GateChange::default() }
}

/// The table of gates.
pub(super) fn table(gates: &[GateRow]) -> Table {
    let mut table = Table::of([
        Column::new("GATE").gives(Give::Middle(12)),
        Column::new("STATUS"),
        Column::new("RUNNING"),
        Column::new("STARTS").omitted_if(Omit::Empty).rank(1),
        Column::new("WAITING"),
        Column::new("CLOSED UNTIL").omitted_if(Omit::Empty),
    ]);
    for gate in gates {
        let running = match gate.running_max() {
            Some(max) => format!("{} of {max}", gate.running()),
            None => gate.running().to_string(),
        };
        let starts = gate.pace().map(|(starts, interval)| format!("{starts} in {}", times::duration(interval)));
        let until = gate.closed_until().filter(|_| gate.is_closed()).map(|until| match until {
            until if until >= UNTIL_OPENED => "opened by hand".to_owned(),
            until => times::local(until),
        });
        let waiting = gate.waiting().to_string();
        let cells = [gate.name(), gate.status(), &running, &starts.unwrap_or_default(), &waiting];
        table.row(cells.into_iter().chain([until.unwrap_or_default().as_str()]));
    }
    table
}
