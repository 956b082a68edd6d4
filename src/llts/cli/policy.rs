//! The options for a task's policy, shared by `submit`, `run` and `map`.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};

use base::{EndSignal, Label, Policy, PolicyField, PolicySlot, Scalar, Wall};
use proc::clock;
use term::exit::about_it;
use term::when;
use term::when::Moment;

/// The text of --help after all options.
pub(super) const HELP: &str = "\
A task ends as soon as one of its budgets is exceeded: --max-fails 2 allows three runs. A run.sh that exits with 75 defers: it \
runs again later and only uses up the budget of --max-defers. Options that are not given are taken from [task_defaults] of the \
controller's configuration.";

/// An option for each field of a policy. The budgets of failures of a map's tasks come from `--retries`: for a map, `--max-fails` is
/// about the whole job.
#[derive(Debug)]
pub(super) struct PolicyArgs<const OF_A_MAP: bool>(pub(super) Vec<(&'static PolicyField, Scalar)>);

/// The fields without an option in a map.
const NOT_OF_A_MAP: [&str; 3] = ["MAX_FAILS", "MAX_TIMEOUTS", PUSH_ACK];

/// An option that needs an address.
const PUSH_ACK: &str = "PUSH_ACK";

impl<const OF_A_MAP: bool> PolicyArgs<OF_A_MAP> {
    fn fields() -> impl Iterator<Item = &'static PolicyField> {
        Policy::FIELDS.iter().filter(|field| !(OF_A_MAP && NOT_OF_A_MAP.contains(&field.name)))
    }
}

impl<const OF_A_MAP: bool> Args for PolicyArgs<OF_A_MAP> {
    fn augment_args(command: Command) -> Command {
        Self::fields().map(flag).fold(command, Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const OF_A_MAP: bool> FromArgMatches for PolicyArgs<OF_A_MAP> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let now = clock::now().wall;
        Ok(Self(Self::fields().filter_map(|field| Some((field, demand(field, matches, now)?))).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(field: &PolicyField) -> Arg {
    let flag = Arg::new(field.name).long(field.option()).help(field.help).help_heading("Policy");
    let flag = if field.name == PUSH_ACK { flag.requires("address") } else { flag };
    match field.slot {
        PolicySlot::Priority(_) => {
            let (least, most) = Policy::PRIORITIES.into_inner();
            let priority = value_parser!(i8).range(i64::from(least)..=i64::from(most));
            flag.value_name("N").allow_negative_numbers(true).value_parser(priority)
        }
        PolicySlot::Count(_) => flag.value_name("N").value_parser(value_parser!(u32)),
        PolicySlot::Time(_) | PolicySlot::Limit(_) => flag.value_name("DURATION").value_parser(when::duration),
        PolicySlot::Moment(..) => flag.value_name("MOMENT").value_parser(when::moment),
        PolicySlot::Truth(_) => {
            let flag = flag.value_name("true|false").hide_possible_values(true).value_parser(value_parser!(bool));
            flag.num_args(0..=1).require_equals(true).default_missing_value("true")
        }
        PolicySlot::Labels(_) => {
            flag.value_name("NAME,NAME").value_delimiter(',').action(ArgAction::Append).value_parser(label)
        }
        PolicySlot::Signal(_) => flag.alias("signal").value_name("SIGNAL").value_parser(signal),
    }
}

/// The value given for a field. Moments are relative to `now`.
fn demand(field: &PolicyField, matches: &ArgMatches, now: Wall) -> Option<Scalar> {
    let name = field.name;
    Some(match field.slot {
        PolicySlot::Priority(_) => i32::from(*matches.get_one::<i8>(name)?).into(),
        PolicySlot::Count(_) => (*matches.get_one::<u32>(name)?).into(),
        PolicySlot::Time(_) | PolicySlot::Limit(_) => matches.get_one::<Duration>(name)?.as_secs_f64().into(),
        PolicySlot::Moment(..) => match *matches.get_one::<Moment>(name)? {
            // By the clock of the controller.
            Moment::In(ahead) => format!("+{}", ahead.as_secs_f64()).into(),
            moment => moment.wall(now).unix_seconds().into(),
        },
        PolicySlot::Truth(_) => (*matches.get_one::<bool>(name)?).into(),
        PolicySlot::Labels(_) => {
            let names: Vec<&str> = matches.get_many::<Label>(name)?.map(Label::as_str).collect();
            names.join(",").into()
        }
        PolicySlot::Signal(_) => matches.get_one::<EndSignal>(name)?.word().into(),
    })
}

fn signal(text: &str) -> Result<EndSignal, String> {
    EndSignal::parse(text).ok_or_else(|| format!("it is none of {}", EndSignal::WORDS))
}

fn label(text: &str) -> Result<Label, String> {
    let name = text.trim();
    Label::new(name).map_err(|error| about_it(name, &error))
}
