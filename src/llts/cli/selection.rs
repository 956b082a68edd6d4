//! The selection of tasks: ids, `last`, `all`, or fields. Shared by every command that takes tasks.

pub(super) mod ids;
mod pages;
mod past;
mod rows;

use std::collections::BTreeSet;

use clap::Args;

use pages::{find, merged};

use super::parameter::{self, Parameter};
use api::wire::client::{Listing, Selector, TaskView};
use api::wire::requests::list::{tasks, tasks_before};
use base::{Fields, GraphId, Outcome, Phase, Wall};
use llts_client::{Client, ClientError};
use term::exit;
use term::exit::Failure;
use term::states::{outcome, phase};

/// A text in clap's message about a missing selection.
pub(super) const IDS: &str = "--given-id";

/// The number of tasks per request.
const PAGE: u64 = 1000;

#[derive(Args, Clone, Debug, Default)]
#[group(id = "selection", multiple = true)]
pub(super) struct Selection {
    /// Tasks: ids, or the five letters at their end; `last`, the newest, or `last:5`, the five newest; `all`
    #[arg(value_name = "TASK", value_parser = which)]
    tasks: Vec<Which>,
    /// Only those with this id, chosen at their submit
    #[arg(long, value_name = "ID", help_heading = "Selection")]
    given_id: Option<String>,
    /// Only those that have this field with this value; may be repeated. As for submit: key=value or key:=JSON
    #[arg(long = "where", id = "filter", value_name = "KEY=VALUE", value_parser = parameter::parser(), help_heading = "Selection")]
    filter: Vec<Parameter>,
    /// Only those of this job
    #[arg(long, value_name = "NAME", help_heading = "Selection")]
    job: Option<String>,
    /// Only those that ended as FAILED, TIMED_OUT or LOST
    #[arg(long, conflicts_with_all = ["tasks", "outcome"], help_heading = "Selection")]
    failed: bool,
    /// Only those in this phase; several words with commas between them
    #[arg(long, value_delimiter = ',', value_parser = phase(), ignore_case = true, help_heading = "Selection")]
    status: Vec<Phase>,
    /// Only those that ended like this; several words with commas between them
    #[arg(long, value_delimiter = ',', value_parser = outcome(), ignore_case = true, help_heading = "Selection")]
    outcome: Vec<Outcome>,
}

/// The bad ends that another round may repair. A missed deadline cannot be repaired.
pub(super) const FAILED: &[Outcome] = &[Outcome::Failed, Outcome::TimedOut, Outcome::Lost];

/// One word that stands for tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    Id(String),
    /// This number of the newest tasks.
    Newest(u64),
    All,
}

/// The tasks that a selection without ids means: a kill, for example, ignores finished tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All matching tasks.
    Every,
    /// Matching tasks that have not finished.
    Unfinished,
    /// Matching tasks with one of these outcomes.
    Ended(&'static [Outcome]),
}

impl Scope {
    const fn of_which(self) -> &'static str {
        match self {
            Self::Every => "",
            Self::Unfinished => "unfinished ",
            Self::Ended(_) => "finished ",
        }
    }
}

/// A selected task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Its id, or the text that was given as one.
    pub(super) id: String,
    /// Its state, or the failure to find it.
    pub(super) state: Result<State, Failure>,
}

/// The facts about a task that decide what a command does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) finished: bool,
    pub(super) held: bool,
    /// Moment of its end, if it has finished.
    pub(super) finished_at: Option<Wall>,
}

impl From<&TaskView> for Chosen {
    fn from(task: &TaskView) -> Self {
        let state =
            State { finished: task.is_finished(), held: task.held_at().is_some(), finished_at: task.finished_at() };
        Self { id: task.id().to_owned(), state: Ok(state) }
    }
}

impl Selection {
    /// Whether it selects all tasks.
    pub(super) fn is_everything(&self) -> bool {
        self.tasks.contains(&Which::All) && !self.has_filters()
    }

    /// Whether it means all failed tasks.
    pub(super) const fn is_every_failed(&self) -> bool {
        self.failed && !self.has_other_filters()
    }

    /// Whether it has a word or a field.
    pub(super) const fn is_given(&self) -> bool {
        self.has_words() || self.has_filters()
    }

    /// Whether an empty selection is no error: `all` does not claim that a task exists.
    pub(super) fn may_be_empty(&self) -> bool {
        self.tasks.contains(&Which::All)
    }

    /// Whether it names each task by its id.
    pub(super) fn is_by_ids(&self) -> bool {
        !self.tasks.is_empty() && self.tasks.iter().all(|which| matches!(which, Which::Id(_)))
    }

    /// The step graph whose id was given instead of a task's.
    pub(super) fn graph(&self) -> Option<GraphId> {
        match self.tasks.as_slice() {
            [Which::Id(id)] => id.parse().ok(),
            _ => None,
        }
    }

    /// Whether it can select only one task, so that the answer is not a list.
    pub(super) fn is_single(&self) -> bool {
        match self.tasks.as_slice() {
            [] => true,
            [Which::Id(_) | Which::Newest(1)] => true,
            [_, ..] => false,
        }
    }

    /// Whether it has words, not only fields.
    pub(super) const fn has_words(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Whether any of its words is an id.
    pub(super) fn has_ids(&self) -> bool {
        self.tasks.iter().any(|which| matches!(which, Which::Id(_)))
    }

    /// The same selection; without words, it gets `all`.
    pub(super) fn or_all(mut self) -> Self {
        if self.tasks.is_empty() {
            self.tasks.push(Which::All);
        }
        self
    }

    /// Whether it selects failed tasks only.
    pub(super) const fn is_of_failed(&self) -> bool {
        self.failed
    }

    /// The job, if it selects all tasks of one, or all failed ones.
    pub(super) fn whole_job(&self) -> Option<&str> {
        let narrowed =
            self.given_id.is_some() || !self.filter.is_empty() || !self.status.is_empty() || !self.outcome.is_empty();
        self.job.as_deref().filter(|_| !narrowed && self.tasks.is_empty())
    }

    /// The id, if it selects one task and nothing else.
    pub(super) fn only_task(&self) -> Option<&str> {
        let [Which::Id(id)] = &self.tasks[..] else { return None };
        Some(id.as_str()).filter(|_| !self.has_filters())
    }

    const fn has_filters(&self) -> bool {
        self.failed || self.has_other_filters()
    }

    const fn has_other_filters(&self) -> bool {
        let is_narrow = self.given_id.is_some() || !self.filter.is_empty() || self.job.is_some();
        is_narrow || !self.status.is_empty() || !self.outcome.is_empty()
    }

    /// The outcomes that a selected task may have; empty if any state will do.
    fn outcomes(&self) -> &[Outcome] {
        if self.failed { FAILED } else { &self.outcome }
    }

    /// The sets of fields that match: a selected task matches exactly one of them.
    fn selectors(&self) -> Result<Vec<Selector>, Failure> {
        let fields: Fields = parameter::filter(&self.filter)?;
        let mut selector = fields.iter().fold(Selector::all(), |all, (name, value)| all.and(name, value.clone()));
        if let Some(id) = &self.given_id {
            selector = selector.and_given_id(id);
        }
        if let Some(name) = &self.job {
            selector = selector.and_job(name);
        }
        let phases: Vec<Phase> = Phase::ALL.into_iter().filter(|phase| self.status.contains(phase)).collect();
        let selectors = match phases.as_slice() {
            [] => vec![selector],
            _ => phases.into_iter().map(|phase| selector.clone().and_phase(phase)).collect(),
        };
        if self.outcomes().is_empty() {
            return Ok(selectors);
        }
        let wanted = Outcome::ALL.into_iter().filter(|outcome| self.outcomes().contains(outcome));
        Ok(wanted
            .flat_map(|outcome| selectors.iter().map(move |selector| selector.clone().and_outcome(outcome)))
            .collect())
    }

    /// A selector for the newest of the selected tasks.
    pub(super) fn newest(&self, client: &Client) -> Result<Selector, Failure> {
        let mut selectors = self.selectors()?;
        if selectors.len() == 1 {
            return Ok(selectors.remove(0));
        }
        let newest = merged(client, &selectors, 0, 1)?.rows;
        let none = || Failure::new(exit::NO_SUCH_TASK, "no task matches");
        newest.first().map(|task| Selector::task(task.id())).ok_or_else(none)
    }

    /// The selected tasks, each once. `all`, or fields without words, mean the tasks of the scope.
    pub(super) fn resolve(&self, client: &Client, scope: Scope) -> Result<Vec<Chosen>, Failure> {
        let selectors = self.selectors()?;
        let mut found = Found::default();
        if self.tasks.is_empty() {
            self.sweep(client, &selectors, scope, &mut found)?;
        }
        for which in &self.tasks {
            match which {
                Which::Id(id) => found.take(look_up(client, &selectors, id)?),
                Which::Newest(count) => {
                    merged(client, &selectors, 0, *count)?.rows.iter().for_each(|task| found.add(task));
                }
                Which::All => self.sweep(client, &selectors, scope, &mut found)?,
            }
        }
        if found.tasks.is_empty() && !self.may_be_empty() {
            return Err(Failure::new(exit::NO_SUCH_TASK, format!("no {}task matches", scope.of_which())));
        }
        Ok(found.tasks)
    }

    /// A page of the selected tasks, newest first.
    pub(super) fn list(&self, client: &Client, offset: u64, limit: u64) -> Result<Listing<TaskView>, Failure> {
        let selectors = self.selectors()?;
        if self.tasks.is_empty() || self.tasks.contains(&Which::All) {
            return Ok(merged(client, &selectors, offset, limit)?);
        }
        let mut tasks: Vec<TaskView> = Vec::new();
        for which in &self.tasks {
            match which {
                Which::Id(id) => tasks.push(find(client, &selectors, &ids::whole(client, id)?)?),
                Which::Newest(count) => tasks.extend(merged(client, &selectors, 0, *count)?.rows),
                Which::All => {}
            }
        }
        tasks.sort_by(|one, other| other.id().cmp(one.id()));
        tasks.dedup_by(|one, other| one.id() == other.id());
        let (total, size) = (tasks.len() as u64, |count| usize::try_from(count).unwrap_or(usize::MAX));
        Ok(Listing { total, rows: tasks.into_iter().skip(size(offset)).take(size(limit)).collect() })
    }

    /// Adds all tasks of the scope that match.
    fn sweep(&self, client: &Client, wanted: &[Selector], scope: Scope, found: &mut Found) -> Result<(), ClientError> {
        let all = || wanted.iter().cloned();
        let selectors: Vec<Selector> = match if self.failed { Scope::Every } else { scope } {
            // Waiting tasks come first: the end of a running one would start a waiting one.
            Scope::Unfinished if self.status.is_empty() => {
                let phases = Phase::ALL.into_iter().filter(|phase| *phase != Phase::Finished);
                phases.flat_map(|phase| all().map(move |selector| selector.and_phase(phase))).collect()
            }
            Scope::Ended(outcomes) if self.outcome.is_empty() => {
                outcomes.iter().flat_map(|outcome| all().map(|selector| selector.and_outcome(*outcome))).collect()
            }
            Scope::Every | Scope::Unfinished | Scope::Ended(_) => wanted.to_vec(),
        };
        selectors.iter().try_for_each(|selector| {
            let page = |before: Option<&str>| {
                let ask = before.map_or_else(|| tasks(selector, 0, PAGE), |id| tasks_before(selector, id, PAGE));
                client.ask(&ask)
            };
            sweep(page, found)
        })
    }
}

/// The tasks found up to now, each once.
#[derive(Debug, Default)]
struct Found {
    tasks: Vec<Chosen>,
    ids: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, task: &TaskView) {
        self.take(task.into());
    }

    fn take(&mut self, task: Chosen) {
        if self.ids.insert(task.id.clone()) {
            self.tasks.push(task);
        }
    }
}

fn look_up(client: &Client, wanted: &[Selector], id: &str) -> Result<Chosen, Failure> {
    let refused = |id: &str, failure| Ok(Chosen { id: id.to_owned(), state: Err(failure) });
    let whole = match ids::whole(client, id) {
        Ok(whole) => whole,
        // An absent controller says nothing about this id.
        Err(failure) if failure.exit == exit::NO_CONTROLLER => return Err(failure),
        Err(failure) => return refused(id, failure),
    };
    match find(client, wanted, &whole) {
        Ok(task) => Ok(Chosen::from(&task)),
        Err(error @ ClientError::Reply(_)) => refused(&whole, error.into()),
        Err(error) => Err(error.into()),
    }
}

/// All matching tasks that existed at the beginning, page by page. Each page begins after the last task of the previous one. So a task
/// that leaves the selection meanwhile does not push another one out of its page.
fn sweep(
    mut page: impl FnMut(Option<&str>) -> Result<Listing<TaskView>, ClientError>,
    found: &mut Found,
) -> Result<(), ClientError> {
    let Listing { total, mut rows } = page(None)?;
    let mut seen = 0;
    while let Some(last) = rows.last() {
        rows.iter().for_each(|task| found.add(task));
        seen += rows.len() as u64;
        if seen >= total {
            break;
        }
        rows = page(Some(last.id()))?.rows;
    }
    Ok(())
}

fn which(text: &str) -> Result<Which, String> {
    match text.split_once(':') {
        _ if text == "all" => Ok(Which::All),
        _ if text == "last" => Ok(Which::Newest(1)),
        Some(("last", count)) => match count.parse() {
            Ok(count) if count > 0 => Ok(Which::Newest(count)),
            _ => Err(format!("{count:?} is not a number of tasks; write last:5 for the five newest")),
        },
        _ => Ok(Which::Id(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{TaskId, Wall, words};
    use clap::Parser;

    #[derive(Debug, Parser)]
    #[command(mut_group("selection", |group| group.required(true)))]
    struct Line {
        #[command(flatten)]
        selection: Selection,
    }

    fn parsed(line: &str) -> Result<Selection, clap::Error> {
        Line::try_parse_from(format!("x {line}").split_whitespace()).map(|line| line.selection)
    }

    #[test]
    fn words_and_fields_are_read() {
        let selection =
            parsed("T1 last last:3 all --where n:=5 --status running --outcome timed_out --given-id g").unwrap();
        let words = [Which::Id("T1".into()), Which::Newest(1), Which::Newest(3), Which::All];
        assert_eq!(selection.tasks, words);
        let selector = Selector::all().and("n", 5u32).and_given_id("g").and_phase(Phase::Running);
        assert_eq!(selection.selectors(), Ok(vec![selector.and_outcome(Outcome::TimedOut)]));
    }

    #[test]
    fn each_of_several_outcomes_is_asked_for_once() {
        let selection = parsed("all --outcome lost,failed,LOST").unwrap();
        let wanted = [Outcome::Failed, Outcome::Lost].map(|outcome| Selector::all().and_outcome(outcome));
        assert_eq!(selection.selectors(), Ok(wanted.to_vec()));
        let refused = parsed("all --outcome failed,x").unwrap_err().to_string();
        assert!(refused.contains("'x'") && refused.contains("SUCCEEDED, FAILED, TIMED_OUT"), "{refused}");
    }

    #[test]
    fn what_names_no_task_is_refused() {
        for line in ["", "last:0", "last:x", "--status x", "--outcome x", "--where x"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    fn task(number: u64) -> TaskView {
        let id = TaskId::new(Wall::from_micros(1_480_000_000_000_000 + number), [0; 5]);
        Fields::new().with(words::TASK_ID, id.to_string()).into()
    }

    #[test]
    fn each_of_several_phases_is_asked_for_once() {
        let selection = parsed("all --status running,WAITING,waiting").unwrap();
        let wanted = [Phase::Waiting, Phase::Running].map(|phase| Selector::all().and_phase(phase));
        assert_eq!(selection.selectors(), Ok(wanted.to_vec()));
        let selection = parsed("all --status finished,running --outcome failed,lost").unwrap();
        assert_eq!(selection.selectors().unwrap().len(), 4);
    }

    /// Two tasks per page; after each page, `change` modifies the list. Every page is requested once.
    fn swept(tasks: impl IntoIterator<Item = u64>, mut change: impl FnMut(&mut Vec<u64>)) -> Vec<u64> {
        let mut tasks: Vec<u64> = tasks.into_iter().collect();
        let mut found = Found::default();
        let mut asked = BTreeSet::new();
        let page = |before: Option<&str>| {
            assert!(asked.insert(before.map(str::to_owned)), "{before:?} is asked for twice");
            let is_older = |number: &&u64| before.is_none_or(|before| task(**number).id() < before);
            let rows = tasks.iter().filter(is_older).take(2).map(|number| task(*number)).collect();
            let page = Listing { total: tasks.len() as u64, rows };
            change(&mut tasks);
            Ok(page)
        };
        sweep(page, &mut found).unwrap();
        let number = |task: &Chosen| task.id.parse::<TaskId>().unwrap().wall().micros() - 1_480_000_000_000_000;
        found.tasks.iter().map(number).collect()
    }

    #[test]
    fn tasks_that_leave_while_pages_are_read_hide_no_others() {
        assert_eq!(swept((1..=5).rev(), |_| {}), [5, 4, 3, 2, 1]);
        let mut seen = swept((1..=7).rev(), |tasks| {
            tasks.retain(|number| *number != 7 && *number != 6);
        });
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn tasks_that_come_while_pages_are_read_are_not_meant() {
        let mut next = 5;
        let seen = swept((1..=5).rev(), |tasks| {
            next += 1;
            tasks.insert(0, next);
        });
        assert_eq!(seen, [5, 4, 3, 2, 1]);
    }

    #[test]
    fn everything_is_only_what_nothing_narrows() {
        for (line, everything, single) in [
            ("all", true, false),
            ("T1 all", true, false),
            ("all --status waiting", false, false),
            ("last", false, true),
            ("last:2", false, false),
            ("T1", false, true),
            ("--given-id g", false, true),
        ] {
            let selection = parsed(line).unwrap();
            assert_eq!((selection.is_everything(), selection.is_single()), (everything, single), "{line}");
        }
    }
}
