//! A task of a list as a task of a controller: its submit.

use super::{ListTaskId, Order, RunningName};
use api::wire::client::{Ask, Selector};
use api::wire::requests::submit::{JobOf, Submission, Submitted};
use api::wire::task::LIST_KEY;
use base::words;

/// The job of all tasks of lists.
pub const JOB: &str = "lists";

/// Submits a task of a list, for the shell in this folder. The same task of the same list is submitted only once: its key is made of
/// both names, so that a restarted controller finds the task that it has.
#[must_use]
pub fn submit(list: &RunningName, order: &Order, folder: &str) -> Ask<Submitted> {
    let submission = Submission {
        given_id: Some(order.id.to_string()),
        submit_key: Some(key(list, order.id)),
        job: Some(JobOf { name: JOB.to_owned(), ..JobOf::default() }),
        ..Submission::shell(order.cmd.as_str())
    };
    let submission = submission.with(words::CWD, folder.to_owned()).with("__FAIL_ON_STDERR__", true);
    // The list decides about repetitions, and a command has no file for a deferral.
    let budgets = ["__MAX_FAILS__", "__MAX_TIMEOUTS__", "__MAX_DEFERS__"];
    budgets.into_iter().fold(submission, |submission, budget| submission.with(budget, 0u32)).request()
}

/// The task that [`submit`] has made, if it has.
#[must_use]
pub fn submitted(list: &RunningName, id: ListTaskId) -> Selector {
    Selector::all().and_given_id(&id.to_string()).and(words::SUBMIT_KEY, key(list, id))
}

fn key(list: &RunningName, id: ListTaskId) -> String {
    format!("{LIST_KEY}{list} {id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submit_has_a_key_of_its_list_and_runs_once() {
        let order = Order { id: "7_2".parse().unwrap(), until: 1, cmd: "echo 'é'".to_owned() };
        let ask = submit(&"1_controller_2".parse().unwrap(), &order, "/home");
        let text = |name: &str| ask.fields().text(name).map(str::to_owned);
        assert_eq!(text("__SUBMIT_KEY__").as_deref(), Some("lists 1_controller_2 7_2"));
        assert_eq!(text("__SHELL__").as_deref(), Some("echo 'é'"));
        assert_eq!([text("__CWD__").as_deref(), text("__JOB__").as_deref()], [Some("/home"), Some(JOB)]);
        assert_eq!(text("__GIVEN_ID__").as_deref(), Some("7_2"));
        for budget in ["__MAX_FAILS__", "__MAX_TIMEOUTS__", "__MAX_DEFERS__"] {
            assert_eq!(ask.fields().count(budget), Some(0), "{budget}");
        }
    }
}
