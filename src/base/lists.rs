//! Task lists (TDF2): the ids of tasks and the names of lists, as they appear in file and folder names.

use std::fmt;
use std::str::FromStr;

use super::tdf::WorkerName;

/// The id of a task: the moment of its creation, and how often it has failed. Ordered by both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListTaskId {
    /// Nanoseconds since 1970; assumed to be unique.
    pub nanos: u64,
    /// Number of times that the task has failed.
    pub fails: u32,
}

/// The name of a running list: `${timestamp}_${worker}_${started}`. The name of an open list is its `second` alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningName {
    /// Seconds since 1970: the smallest `created` of its tasks, or the next second that no other list uses.
    pub second: u64,
    /// The worker that has claimed it.
    pub worker: WorkerName,
    /// Seconds since 1970: when it was claimed.
    pub started: u64,
}

/// The name of a closed list: `${timestamp}_${worker}_${started}_${finished}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClosedName {
    /// Its name while it ran.
    pub running: RunningName,
    /// Seconds since 1970: when its last task had ended.
    pub finished: u64,
}

/// A text that is neither the id of a task nor the name of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidListName {
    /// Not an id of a task.
    #[error("not NANOSECONDS_FAILS, such as 1448978609795035000_0")]
    Task,
    /// Not the name of a list in this state.
    #[error("not the name of a list")]
    List,
}

impl ListTaskId {
    /// The id of the next attempt at this task.
    #[must_use]
    pub const fn again(self) -> Self {
        Self { fails: self.fails.saturating_add(1), ..self }
    }
}

/// Parses a whole number in its only valid form. A second form would be a second name for the same thing.
fn number<T: FromStr>(text: &str) -> Option<T> {
    let is_canonical = text == "0" || !text.starts_with('0');
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_canonical && is_plain)
}

/// Parses the name of an open list.
#[must_use]
pub fn open_list(name: &str) -> Option<u64> {
    number(name)
}

impl FromStr for ListTaskId {
    type Err = InvalidListName;

    fn from_str(text: &str) -> Result<Self, InvalidListName> {
        let parts = text.split_once('_').and_then(|(nanos, fails)| Some((number(nanos)?, number(fails)?)));
        parts.map(|(nanos, fails)| Self { nanos, fails }).ok_or(InvalidListName::Task)
    }
}

impl FromStr for RunningName {
    type Err = InvalidListName;

    /// Only the name of the worker may contain `_`.
    fn from_str(text: &str) -> Result<Self, InvalidListName> {
        let parse = || {
            let (second, rest) = text.split_once('_')?;
            let (worker, started) = rest.rsplit_once('_')?;
            Some(Self { second: number(second)?, worker: WorkerName::new(worker).ok()?, started: number(started)? })
        };
        parse().ok_or(InvalidListName::List)
    }
}

impl FromStr for ClosedName {
    type Err = InvalidListName;

    fn from_str(text: &str) -> Result<Self, InvalidListName> {
        let (running, finished) = text.rsplit_once('_').ok_or(InvalidListName::List)?;
        Ok(Self { running: running.parse()?, finished: number(finished).ok_or(InvalidListName::List)? })
    }
}

impl fmt::Display for ListTaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.nanos, self.fails)
    }
}

impl fmt::Display for RunningName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}_{}", self.second, self.worker, self.started)
    }
}

impl fmt::Display for ClosedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.running, self.finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_form() {
        let id: ListTaskId = "1448978609795035000_0".parse().unwrap();
        assert_eq!(
            (id.nanos, id.fails, id.again().to_string()),
            (1448978609795035000, 0, "1448978609795035000_1".into())
        );
        for text in
            ["", "_", "1", "1_", "_0", "01_0", "1_00", "1_0_0", "+1_0", "1_-1", "x_0", "1 _0", "99999999999999999999_0"]
        {
            assert_eq!(text.parse::<ListTaskId>(), Err(InvalidListName::Task), "{text}");
        }
    }

    #[test]
    fn a_worker_may_have_any_underscores() {
        for worker in ["w", "worker_123", "_", "__", "7", "7_8", "a.b-c d"] {
            let text = format!("1448978609_{worker}_1448978619_1448978622");
            let name: ClosedName = text.parse().unwrap();
            assert_eq!((name.running.worker.as_str(), name.to_string()), (worker, text));
            assert_eq!(
                (name.running.second, name.running.started, name.finished),
                (1448978609, 1448978619, 1448978622)
            );
        }
        for text in ["", "1", "1_2", "1__2", "x_w_2", "1_w_x", "01_w_2"] {
            assert_eq!(text.parse::<RunningName>(), Err(InvalidListName::List), "{text}");
        }
        assert_eq!("1_w_2_x".parse::<ClosedName>(), Err(InvalidListName::List));
        assert_eq!([open_list("1448978609"), open_list("x"), open_list("")], [Some(1448978609), None, None]);
    }
}
