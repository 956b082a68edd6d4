//! The slots of a step's tasks: which have started and which have ended.

use super::plan::OutputId;

/// A part of the data that an output provides: the `number`-th that a main task announced there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition {
    /// The output of the step whose task announced it.
    pub output: OutputId,
    /// The number of the task.
    pub task: u32,
    /// Its number among the partitions of that task and output, from 0.
    pub number: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskState {
    Uninitialized,
    Running,
    /// Ended after a start.
    Completed,
    /// Never started.
    Dropped,
}

/// The slots of one role of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slots {
    states: Vec<TaskState>,
    /// No slot below this number is uninitialized.
    begun: u32,
    running: u32,
}

impl Slots {
    /// Adds slots whose tasks are to start. Returns whether there is a new one.
    pub(super) fn grow_to(&mut self, count: u32) -> bool {
        let before = self.states.len();
        self.states.resize(before.max(count as usize), TaskState::Uninitialized);
        self.states.len() > before
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.states.len()).unwrap_or(u32::MAX)
    }

    /// The next task starts. Returns its number.
    pub(super) fn start_next(&mut self) -> Option<u32> {
        let number = self.begun;
        let state = self.states.get_mut(number as usize)?;
        *state = TaskState::Running;
        self.begun += 1;
        self.running += 1;
        Some(number)
    }

    /// The tasks that have not started never will.
    pub(super) fn drop_rest(&mut self) {
        self.states[self.begun as usize..].fill(TaskState::Dropped);
        self.begun = self.len();
    }

    /// A task has ended. False if it was not running. A task that was removed before it ran counts as never started.
    pub(super) fn end(&mut self, number: u32, has_run: bool) -> bool {
        let Some(state @ TaskState::Running) = self.states.get_mut(number as usize) else { return false };
        *state = if has_run { TaskState::Completed } else { TaskState::Dropped };
        self.running -= 1;
        true
    }

    pub(super) fn is_running(&self, number: u32) -> bool {
        self.states.get(number as usize) == Some(&TaskState::Running)
    }

    pub(super) const fn has_running(&self) -> bool {
        self.running > 0
    }

    /// Whether all tasks have ended.
    pub(super) fn have_ended(&self) -> bool {
        self.running == 0 && self.begun == self.len()
    }

    /// The numbers of the running tasks.
    pub(super) fn running(&self) -> impl Iterator<Item = u32> {
        self.numbers(TaskState::Running)
    }

    /// The numbers of the tasks that ended after a start.
    pub(super) fn completed(&self) -> impl Iterator<Item = u32> {
        self.numbers(TaskState::Completed)
    }

    fn numbers(&self, wanted: TaskState) -> impl Iterator<Item = u32> {
        self.states.iter().zip(0..).filter(move |(state, _)| **state == wanted).map(|(_, number)| number)
    }

    pub(super) fn sanity_check(&self) {
        let running = self.numbers(TaskState::Running).count();
        assert_eq!(running, self.running as usize, "the number of running tasks");
        let begun = self.states.iter().take_while(|state| **state != TaskState::Uninitialized).count();
        assert_eq!(begun, self.begun as usize, "the number of tasks that have started");
        let waiting = self.numbers(TaskState::Uninitialized).count();
        assert_eq!(begun + waiting, self.states.len(), "tasks start in their order");
    }
}
