//! The agent's reports of its tools: a list with its first heartbeat and after each change; in between, only the number of
//! the list.
//!
//! | event | report |
//! |---|---|
//! | the agent starts | the list, with the first heartbeat |
//! | the list has changed | the list: at once, or after the answer to the pending heartbeat |
//! | an answer has the number of the list | only the number from here on |
//! | the first answer of another controller lacks the number | the list, at once |
//! | a run has not found its tool | the list under a new number, once the report of that run is confirmed |
//!
//! The last row holds even if the list is the same: the controller takes the tool for missing here until the next report of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Slot, Timer};
use api::wire::requests::heartbeat::{OwnVersions, ToldTools};
use base::{Now, ToolName, ToolSet};

#[derive(Debug, Default)]
pub(super) struct ToolReports {
    /// The agent's tools; `None` if it does not report any.
    set: Option<ToolSet>,
    generation: u64,
    /// Number of the list that was sent last to the present controller.
    sent: Option<u64>,
    /// The life of that controller.
    controller: Option<u64>,
    /// Number of the list that it has confirmed.
    confirmed: Option<u64>,
    /// Whether the list must be reported again.
    is_doubted: bool,
    /// The last known identity of the controller's own tools folder.
    controller_folder: Option<Arc<str>>,
}

impl ToolReports {
    pub(super) fn new(set: Option<ToolSet>) -> Self {
        Self { set, generation: 1, ..Self::default() }
    }

    /// An answer has the identity of the controller's own tools folder; returned if it has changed.
    pub(super) fn handle_folder(&mut self, folder: Option<Arc<str>>) -> Option<Arc<str>> {
        let folder = folder.filter(|folder| self.controller_folder.as_ref() != Some(folder))?;
        self.controller_folder = Some(Arc::clone(&folder));
        Some(folder)
    }

    /// The agent has scanned its tools folder.
    pub(super) fn update(&mut self, set: ToolSet) {
        if self.set.as_ref() != Some(&set) {
            self.set = Some(set);
            self.generation += 1;
        }
    }

    /// A run has not found its tool.
    pub(super) const fn doubt(&mut self) {
        self.is_doubted = true;
    }

    /// The reports of all runs are confirmed: tools that were missing may be reported again.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.is_doubted) {
            self.generation += 1;
        }
    }

    /// The report for the next heartbeat.
    pub(super) fn poll_report(&mut self) -> Option<ToldTools> {
        let set = self.set.as_ref()?;
        let set = (self.confirmed != Some(self.generation)).then(|| set.clone());
        if set.is_some() {
            self.sent = Some(self.generation);
        }
        Some(ToldTools { generation: Some(self.generation), set })
    }

    /// A heartbeat has been answered.
    pub(super) fn handle_answer(&mut self, controller: u64, known: Option<u64>) {
        let is_new = self.controller.replace(controller) != Some(controller);
        self.confirmed = known;
        if is_new && known != Some(self.generation) {
            self.sent = None;
        }
    }

    /// Whether there is a change that no heartbeat has reported.
    pub(super) fn has_unsent(&self) -> bool {
        let has_changed = self.sent != Some(self.generation) && self.confirmed != Some(self.generation);
        self.set.is_some() && has_changed
    }
}

impl Slot {
    /// The tools folder has been checked, with these tools found. True if they must be reported at once.
    pub fn handle_tools(&mut self, now: Now, tools: ToolSet) -> bool {
        self.tools.update(tools);
        self.report_tools(now)
    }

    /// These tools stay here now, with a task or without one. The controller learns of a new one with the result of its task, and of one
    /// that has gone with the next heartbeat.
    pub fn handle_warm(&mut self, warm: BTreeSet<ToolName>) {
        self.link.set_warm(warm);
    }

    /// Runs have used tools of the agent's own folder in place of the versions of the controller.
    pub fn handle_own_versions(&mut self, versions: OwnVersions) {
        self.link.set_own_versions(versions);
    }

    /// Reports a change of the tools in an extra heartbeat. Only one heartbeat is outstanding at a time, because an
    /// unanswered heartbeat is a sign of a broken connection.
    pub(super) fn report_tools(&mut self, now: Now) -> bool {
        if self.run.is_free() && self.link.is_settled() {
            self.tools.settle();
        }
        let is_due = self.tools.has_unsent() && self.link.is_up() && self.link.is_answered();
        let reports = is_due && !self.timers.is_set(&Timer::Farewell);
        if reports {
            self.heartbeat(now);
        }
        reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> ToolSet {
        ToolSet::parse(text).unwrap()
    }

    fn report(reports: &mut ToolReports) -> (Option<u64>, Option<String>) {
        let report = reports.poll_report().unwrap();
        (report.generation, report.set.map(|set| set.to_string()))
    }

    #[test]
    fn a_list_is_told_until_it_is_confirmed_and_then_only_its_number() {
        let mut reports = ToolReports::new(Some(list("a")));
        let hello = (Some(1), Some("a".to_owned()));
        assert_eq!([report(&mut reports), report(&mut reports)], [hello.clone(), hello]);
        reports.handle_answer(7, Some(1));
        assert_eq!(report(&mut reports), (Some(1), None));
        reports.update(list("a"));
        assert!(!reports.has_unsent(), "nothing has changed");
        reports.update(list("a,b"));
        assert!(reports.has_unsent());
        assert_eq!(report(&mut reports), (Some(2), Some("a,b".to_owned())));
        assert!(!reports.has_unsent(), "it is on its way");
    }

    #[test]
    fn another_controller_is_told_at_once() {
        let mut reports = ToolReports::new(Some(list("a")));
        report(&mut reports);
        reports.handle_answer(7, Some(1));
        reports.handle_answer(8, None);
        assert!(reports.has_unsent());
        assert_eq!(report(&mut reports), (Some(1), Some("a".to_owned())));
        reports.handle_answer(8, None);
        assert!(!reports.has_unsent(), "one that takes no lists is not pressed");
    }

    #[test]
    fn a_list_that_was_wrong_is_told_anew_even_if_it_is_the_same() {
        let mut reports = ToolReports::new(Some(list("a")));
        report(&mut reports);
        reports.handle_answer(7, Some(1));
        reports.doubt();
        assert!(!reports.has_unsent(), "the controller has to hear of the run first");
        reports.settle();
        assert_eq!(report(&mut reports), (Some(2), Some("a".to_owned())));
    }

    #[test]
    fn an_agent_that_does_not_tell_says_nothing() {
        let mut reports = ToolReports::new(None);
        reports.doubt();
        reports.settle();
        assert!(!reports.has_unsent() && reports.poll_report().is_none());
    }
}
