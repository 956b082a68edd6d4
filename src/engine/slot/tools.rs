//! What the agent tells of its tools: a list with its first heartbeat and after each change; in between, only its number.
//!
//! | event | what is told |
//! |---|---|
//! | the agent starts | the list, with the first heartbeat |
//! | the list has changed | the list: at once, or after the answer to the heartbeat that is on its way |
//! | an answer has the number of the list | only the number from here on |
//! | the first answer of another controller has not | the list, at once |
//! | a run has not found its tool | the list under a new number, when the report of that run is confirmed |
//! | the controller asks for a look | that the agent has looked, with the list if that has changed |
//!
//! The last row holds even if the list is the same: for the controller the tool is missing here until it is told of it again.

use super::{Effect, Slot, Timer};
use crate::protocol::request::ToldTools;
use crate::types::{Now, ToolSet};

#[derive(Debug, Default)]
pub(super) struct Telling {
    /// What the agent has; `None` if it does not tell.
    set: Option<ToolSet>,
    generation: u64,
    /// The list that was sent last to the controller that answers.
    sent: Option<u64>,
    /// Which life of the controller that is.
    controller: Option<u64>,
    /// The list that it has confirmed.
    confirmed: Option<u64>,
    /// Whether the list has to be told anew.
    is_doubted: bool,
    /// The last look that the controller has asked for, and the last one that a heartbeat has told of.
    looked: u64,
    told_look: u64,
}

impl Telling {
    pub(super) fn new(set: Option<ToolSet>) -> Self {
        Self { set, generation: 1, ..Self::default() }
    }

    /// The agent has looked.
    pub(super) fn update(&mut self, set: ToolSet) {
        if self.set.as_ref() != Some(&set) {
            self.set = Some(set);
            self.generation += 1;
        }
    }

    /// Whether an agent that tells has not looked yet for the sake of this look.
    fn is_to_look(&self, number: u64) -> bool {
        self.set.is_some() && self.looked != number
    }

    /// The agent has looked when it was asked to.
    const fn looked(&mut self, number: u64) {
        self.looked = number;
    }

    /// A run has not found its tool.
    pub(super) const fn doubt(&mut self) {
        self.is_doubted = true;
    }

    /// The controller has heard of the runs that have ended: from here on it may be told of tools that they had not.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.is_doubted) {
            self.generation += 1;
        }
    }

    /// What the next heartbeat says.
    pub(super) fn poll_told(&mut self) -> Option<ToldTools> {
        let set = self.set.as_ref()?;
        let set = (self.confirmed != Some(self.generation)).then(|| set.clone());
        if set.is_some() {
            self.sent = Some(self.generation);
        }
        self.told_look = self.looked;
        Some(ToldTools { generation: Some(self.generation), set, looked: Some(self.looked) })
    }

    /// A heartbeat is answered.
    pub(super) fn handle_answer(&mut self, controller: u64, known: Option<u64>) {
        let is_new = self.controller.replace(controller) != Some(controller);
        self.confirmed = known;
        if is_new && known != Some(self.generation) {
            self.sent = None;
        }
    }

    /// Whether there is news that no heartbeat has told.
    pub(super) fn is_news(&self) -> bool {
        let has_changed = self.sent != Some(self.generation) && self.confirmed != Some(self.generation);
        self.set.is_some() && (has_changed || self.told_look != self.looked)
    }
}

impl Slot {
    /// The tools folder was looked at, and this is what the agent has. True when that is to be told at once.
    pub fn handle_tools(&mut self, now: Now, tools: ToolSet) -> bool {
        self.tools.update(tools);
        self.tell_tools(now)
    }

    /// The controller wants to know what is in the tools folder: no agent has the tool of a task.
    pub(super) fn look_for_tools(&mut self, number: u64) {
        if self.tools.is_to_look(number) {
            self.effects.push_back(Effect::Look(number));
        }
    }

    /// The tools folder was looked at, for the sake of this look, and this is what the agent has.
    pub fn handle_looked(&mut self, now: Now, number: u64, tools: ToolSet) {
        self.tools.looked(number);
        self.handle_tools(now, tools);
    }

    /// Tells what has changed of the tools, in a heartbeat out of turn; but one at a time, because a heartbeat without an answer
    /// is a sign that the connection is broken.
    pub(super) fn tell_tools(&mut self, now: Now) -> bool {
        if self.run.is_free() && self.link.is_settled() {
            self.tools.settle();
        }
        let is_due = self.tools.is_news() && self.link.is_up() && self.link.is_answered();
        let tells = is_due && !self.timers.is_set(&Timer::Farewell);
        if tells {
            self.heartbeat(now);
        }
        tells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> ToolSet {
        ToolSet::parse(text).unwrap()
    }

    fn told(telling: &mut Telling) -> (Option<u64>, Option<String>) {
        let told = telling.poll_told().unwrap();
        (told.generation, told.set.map(|set| set.to_string()))
    }

    #[test]
    fn a_list_is_told_until_it_is_confirmed_and_then_only_its_number() {
        let mut telling = Telling::new(Some(list("a")));
        let hello = (Some(1), Some("a".to_owned()));
        assert_eq!([told(&mut telling), told(&mut telling)], [hello.clone(), hello]);
        telling.handle_answer(7, Some(1));
        assert_eq!(told(&mut telling), (Some(1), None));
        telling.update(list("a"));
        assert!(!telling.is_news(), "nothing has changed");
        telling.update(list("a,b"));
        assert!(telling.is_news());
        assert_eq!(told(&mut telling), (Some(2), Some("a,b".to_owned())));
        assert!(!telling.is_news(), "it is on its way");
    }

    #[test]
    fn another_controller_is_told_at_once() {
        let mut telling = Telling::new(Some(list("a")));
        told(&mut telling);
        telling.handle_answer(7, Some(1));
        telling.handle_answer(8, None);
        assert!(telling.is_news());
        assert_eq!(told(&mut telling), (Some(1), Some("a".to_owned())));
        telling.handle_answer(8, None);
        assert!(!telling.is_news(), "one that takes no lists is not pressed");
    }

    #[test]
    fn a_list_that_was_wrong_is_told_anew_even_if_it_is_the_same() {
        let mut telling = Telling::new(Some(list("a")));
        told(&mut telling);
        telling.handle_answer(7, Some(1));
        telling.doubt();
        assert!(!telling.is_news(), "the controller has to hear of the run first");
        telling.settle();
        assert_eq!(told(&mut telling), (Some(2), Some("a".to_owned())));
    }

    #[test]
    fn an_agent_that_does_not_tell_says_nothing() {
        let mut telling = Telling::new(None);
        telling.doubt();
        telling.settle();
        assert!(!telling.is_news() && telling.poll_told().is_none());
    }
}
