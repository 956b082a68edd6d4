//! Groups similar failures: those with the same kind of end and the same pattern of last lines.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::selection::ids::short;
use api::wire::client::TaskView;
use api::wire::requests::rows::RowView;
use base::pattern;
use term::table::{Column, Give, Omit, Table};

/// Maximum number of ids that a group keeps.
const IDS_MAX: usize = 1_000;

/// A failed task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed<'a> {
    pub(super) id: &'a str,
    pub(super) outcome: &'a str,
    pub(super) exit: Option<i32>,
    /// The last line of stderr; else the reason of the end.
    pub(super) line: &'a str,
    pub(super) what: &'a str,
}

/// A group of similar failures.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) count: u64,
    pub(super) outcome: String,
    pub(super) exit: Option<i32>,
    /// The line of the newest one.
    pub(super) line: String,
    /// The common pattern of all lines, if they differ.
    common: Option<String>,
    /// The newest failed task, and its command or tool.
    pub(super) example: String,
    pub(super) what: String,
    /// The ids of the newest failures.
    pub(super) ids: Vec<String>,
}

impl Group {
    pub(super) fn value(&self) -> Value {
        let Self { count, outcome, exit, line, example, .. } = self;
        json!({ "count": count, "outcome": outcome, "exit_code": exit, "last_line": line, "example": example })
    }

    /// The line, or the pattern of all lines where they differ.
    pub(super) fn shown(&self) -> &str {
        self.common.as_deref().unwrap_or(&self.line)
    }
}

/// The groups of all added failures.
#[derive(Debug, Default)]
pub(super) struct Failures {
    groups: BTreeMap<(String, Option<i32>, String), Group>,
}

impl Failures {
    /// Adds a failed task. Tasks are added newest first.
    pub(super) fn add(&mut self, failed: Failed<'_>) {
        let Failed { id, outcome, exit, line, what } = failed;
        let line = line.trim();
        let common = pattern(line);
        let group = self.groups.entry((outcome.to_owned(), exit, common.clone())).or_insert_with(|| Group {
            count: 0,
            outcome: outcome.to_owned(),
            exit,
            line: line.to_owned(),
            common: None,
            example: id.to_owned(),
            what: what.to_owned(),
            ids: Vec::new(),
        });
        group.count += 1;
        if group.ids.len() < IDS_MAX {
            group.ids.push(id.to_owned());
        }
        if group.line != line {
            group.common = Some(common);
        }
    }

    pub(super) fn add_task(&mut self, task: &TaskView) {
        let last = task.stderr().lines().rev().find(|line| !line.trim().is_empty());
        self.add(Failed {
            id: task.id(),
            outcome: task.outcome().unwrap_or_default(),
            exit: task.exit_code().map(|code| code.0),
            line: last.or_else(|| task.reason()).unwrap_or_default(),
            what: &task.work(),
        });
    }

    pub(super) fn add_row(&mut self, row: &RowView) {
        self.add(Failed {
            id: row.id(),
            outcome: row.outcome().unwrap_or_default(),
            exit: row.exit_code().map(|code| code.0),
            line: row.why(),
            what: row.what(),
        });
    }

    /// The groups, the most frequent first.
    pub(super) fn sorted(self) -> Vec<Group> {
        let mut groups: Vec<_> = self.groups.into_values().collect();
        groups.sort_by_key(|group| Reverse(group.count));
        groups
    }
}

/// The table of groups, for people with short ids.
pub(super) fn table(groups: &[Group], is_terminal: bool) -> Table {
    let mut table = Table::of([
        Column::new("COUNT").number(),
        Column::new("OUTCOME").rank(2),
        Column::new("EXIT").number().omitted_if(Omit::Empty),
        Column::new("FOR EXAMPLE"),
        Column::new("WHAT").gives(Give::Middle(16)).rank(1),
        Column::new("LAST LINE OF STDERR").gives(Give::End(20)),
    ]);
    for group in groups {
        let exit = group.exit.map(|code| code.to_string()).unwrap_or_default();
        let example = if is_terminal { short(&group.example) } else { &group.example };
        table.row([&group.count.to_string(), &group.outcome, &exit, example, &group.what, group.shown()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(failures: &[(&str, Option<i32>, &str)]) -> Vec<(u64, Option<i32>, String, String)> {
        let mut all = Failures::default();
        for (id, exit, line) in failures {
            all.add(Failed { id, outcome: "FAILED", exit: *exit, line, what: "w" });
        }
        all.sorted().into_iter().map(|g| (g.count, g.exit, g.shown().to_owned(), g.example)).collect()
    }

    #[test]
    fn failures_are_grouped_by_what_they_have_in_common() {
        let found = groups(&[
            ("a", Some(3), "corrupt header in /data/film7.mov"),
            ("b", Some(1), "no space"),
            ("c", Some(3), "corrupt header in /data/film17.mov\n"),
            ("d", Some(2), "no space"),
            ("e", Some(1), "no space"),
            ("f", None, "its agent was lost"),
        ]);
        let text = |text: &str| text.to_owned();
        assert_eq!(
            found,
            [
                (2, Some(1), text("no space"), text("b")),
                (2, Some(3), text("corrupt header in PATH.mov"), text("a")),
                (1, None, text("its agent was lost"), text("f")),
                (1, Some(2), text("no space"), text("d")),
            ]
        );
    }
}
