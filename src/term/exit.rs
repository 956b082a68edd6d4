//! Exit codes of failures and of finished tasks, for the calling shell.

use api::home::HomeError;
use api::wire::client::{ReplyError, TaskView};
use base::{ExitCode, Outcome, in_quotes, words};
use llts_client::{ClientError, NamedError};

use crate::times;

/// The command has failed.
pub const FAILED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// No controller answers.
pub const NO_CONTROLLER: u8 = 3;
/// The controller has refused the request.
pub const REFUSED: u8 = 4;
/// There is no such task.
pub const NO_SUCH_TASK: u8 = 5;
/// A limit was reached: `EX_TEMPFAIL` of sysexits.h.
pub const LIMITED: u8 = 75;
/// A time limit has passed, as in timeout(1).
pub const TIMED_OUT: u8 = 124;
/// The output pipe was closed, as shells report a program ended by SIGPIPE.
pub const BROKEN_PIPE: u8 = 141;
/// Interrupted, as shells report a program ended by SIGINT.
pub const INTERRUPTED: u8 = 130;

/// The failure of a command: one sentence, and the exit code of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: u8,
    /// The problem with its value, and the remedy.
    pub sentence: String,
}

impl Failure {
    /// A failure with this exit code.
    pub fn new(exit: u8, sentence: impl Into<String>) -> Self {
        Self { exit, sentence: sentence.into() }
    }

    /// A failure with [`FAILED`].
    #[expect(clippy::needless_pass_by_value, reason = "map_err hands the error over")]
    pub fn failed(sentence: impl ToString) -> Self {
        Self::new(FAILED, sentence.to_string())
    }

    /// A failure with [`USAGE`].
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self::new(USAGE, sentence)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = match &error {
            ClientError::BadEndpoint { .. } => USAGE,
            ClientError::Transport(error) if error.is_about_keys() => USAGE,
            ClientError::NoController { .. } | ClientError::Unresolved { .. } => NO_CONTROLLER,
            ClientError::Reply(reply) if reply.is_no_such_task() => NO_SUCH_TASK,
            ClientError::Reply(ReplyError::Refused { .. }) | ClientError::Denied { .. } => REFUSED,
            // Whatever answers like this is not a controller.
            ClientError::Reply(ReplyError::Malformed(_)) => NO_CONTROLLER,
            ClientError::Transport(_) => FAILED,
            ClientError::Named(error) => of_named(error),
        };
        Self::new(exit, error.to_string())
    }
}

impl From<NamedError> for Failure {
    fn from(error: NamedError) -> Self {
        Self::new(of_named(&error), error.to_string())
    }
}

impl From<HomeError> for Failure {
    fn from(error: HomeError) -> Self {
        Self::new(of_home(&error), error.to_string())
    }
}

fn of_named(error: &NamedError) -> u8 {
    match error {
        NamedError::Home(error) => of_home(error),
        NamedError::NoService { .. } => NO_CONTROLLER,
        NamedError::BadAddress { .. } | NamedError::Config(_) | NamedError::Context(_) => USAGE,
    }
}

/// A wrong name is a usage error, but a failure of the system is not.
const fn of_home(error: &HomeError) -> u8 {
    if let HomeError::Make { .. } = error { FAILED } else { USAGE }
}

/// The exit code of a finished task, and a sentence where the code alone does not say enough.
pub fn of_task(task: &TaskView) -> (u8, Option<String>) {
    let out_of_time = [Outcome::TimedOut, Outcome::Expired].map(words::outcome);
    if let Some(outcome) = task.outcome().filter(|outcome| out_of_time.contains(outcome)) {
        // This comes first, however run.sh reacted to the signals that ended it, and whether or not it ran at all.
        let reason = reason(task).unwrap_or_else(|| "its time limit has passed".to_owned());
        return (TIMED_OUT, Some(format!("{}: {outcome}: {reason}", task.id())));
    }
    let Some(ExitCode(code)) = task.exit_code() else {
        let outcome = task.outcome().unwrap_or("FINISHED");
        let reason = reason(task).unwrap_or_else(|| "it never ran".to_owned());
        return (FAILED, Some(format!("{}: {outcome}: {reason}", task.id())));
    };
    if let Ok(code) = u8::try_from(code) {
        return of_exit(task, code);
    }
    if let Some(signal) = code.checked_neg().and_then(|signal| u8::try_from(signal).ok()).filter(|n| *n <= 64) {
        let by = reason(task).map(|reason| format!(": {reason}")).unwrap_or_default();
        return (128 + signal, Some(format!("{}: ended by signal {signal}{by}", task.id())));
    }
    let usual = match ExitCode(code) {
        ExitCode::KILLED_PREPARING => "killed during its preparation",
        ExitCode::TOOL_MISSING => "there is no such tool",
        ExitCode::UNPACK_FAILED => "the tool cannot be unpacked",
        ExitCode::PREPARE_FAILED => "it could not be prepared",
        _ => "it ended with an exit code that no process can have",
    };
    let reason = reason(task).unwrap_or_else(|| usual.to_owned());
    (FAILED, Some(format!("{}: {reason} ({code})", task.id())))
}

fn reason(task: &TaskView) -> Option<String> {
    task.reason().map(times::readable)
}

/// The exit code of a task whose run.sh exited. A run.sh that was ended, or wrote to stderr against the policy, may
/// exit with 0 although the task has failed.
fn of_exit(task: &TaskView, code: u8) -> (u8, Option<String>) {
    let (outcome, succeeded) = (task.outcome().unwrap_or_default(), words::outcome(Outcome::Succeeded));
    let unlike = code == 0 && !outcome.is_empty() && outcome != succeeded;
    let sentence = match reason(task) {
        Some(reason) => Some(format!("{}: {outcome}: {reason}", task.id())),
        None if unlike => Some(format!("{}: {outcome}, although run.sh exited with 0", task.id())),
        None => None,
    };
    (if unlike { FAILED } else { code }, sentence)
}

/// An error about a value, in the form for clap, which shows it after the value.
pub fn about_it(value: &str, error: &impl ToString) -> String {
    let sentence = error.to_string();
    match sentence.split_once(&in_quotes(value)) {
        Some((_, rest)) => format!("it{rest}"),
        None => sentence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Fields, Scalar};
    use std::time::Duration;

    fn task() -> Fields {
        Fields::new().with(words::TASK_ID, "T")
    }

    fn ended(code: i32) -> (u8, Option<String>) {
        of_task(&task().with(words::EXIT_CODE, code).into())
    }

    #[test]
    fn codes_of_tools_pass_as_they_are() {
        assert_eq!([ended(0), ended(75), ended(255)], [(0, None), (75, None), (255, None)]);
    }

    #[test]
    fn an_exit_with_0_is_no_success_of_a_task_that_has_failed() {
        let task = task().with(words::EXIT_CODE, 0).with(words::OUTCOME, "FAILED");
        assert_eq!(of_task(&task.clone().into()), (1, Some("T: FAILED, although run.sh exited with 0".into())));
        let task = task.with(words::REASON, "it wrote to stderr");
        assert_eq!(of_task(&task.clone().into()), (1, Some("T: FAILED: it wrote to stderr".into())));
        assert_eq!(of_task(&task.with(words::OUTCOME, "SUCCEEDED").with(words::EXIT_CODE, 7).into()).0, 7);
    }

    #[test]
    fn a_run_that_took_too_long_is_what_timeout_1_makes_of_it() {
        for (code, outcome) in [(-15, "TIMED_OUT"), (0, "TIMED_OUT"), (3, "TIMED_OUT"), (-15, "EXPIRED")] {
            let task = task().with(words::EXIT_CODE, code).with(words::OUTCOME, outcome);
            let expected = (124, Some(format!("T: {outcome}: too long")));
            assert_eq!(of_task(&task.with(words::REASON, "too long").into()), expected);
        }
        let never_ran = task().with(words::EXIT_CODE, Scalar::Null).with(words::OUTCOME, "EXPIRED");
        assert_eq!(of_task(&never_ran.into()).0, 124);
    }

    #[test]
    fn signals_are_what_a_shell_makes_of_them() {
        assert_eq!(ended(-15), (143, Some("T: ended by signal 15".into())));
        assert_eq!(ended(-64).0, 192);
        let killed = task().with(words::EXIT_CODE, -9).with(words::REASON, "killed by a client");
        assert_eq!(of_task(&killed.into()), (137, Some("T: ended by signal 9: killed by a client".into())));
    }

    #[test]
    fn a_run_that_never_was_is_a_failure_with_a_sentence() {
        assert_eq!(ended(-129), (1, Some("T: there is no such tool (-129)".into())));
        for code in [-128, -130, -131, -1000, 256, i32::MIN] {
            let (exit, sentence) = ended(code);
            assert!(exit == 1 && sentence.unwrap().ends_with(&format!("({code})")), "{code}");
        }
        let missing = task().with(words::EXIT_CODE, -129).with(words::REASON, "there is no x.tar.gz");
        assert_eq!(of_task(&missing.into()), (1, Some("T: there is no x.tar.gz (-129)".into())));
        let waiting = task().with(words::OUTCOME, "KILLED").with(words::REASON, "killed by a client");
        assert_eq!(of_task(&waiting.into()), (1, Some("T: KILLED: killed by a client".into())));
    }

    #[test]
    fn each_kind_of_failure_has_its_code() {
        let refused = |code| Failure::from(ClientError::from(ReplyError::Refused { code, message: "no".into() }));
        assert_eq!(refused(-1007), Failure::new(4, "no (-1007)"));
        assert_eq!(refused(-1004).exit, 5);
        let endpoint = "tcp://127.0.0.1:1".to_owned();
        let silent = ClientError::NoController { endpoint, waited: Duration::from_millis(5), remedy: String::new() };
        assert_eq!(Failure::from(silent).exit, 3);
        let unresolved = ClientError::Unresolved { endpoint: "tcp://nowhere:1".into(), why: "no".into() };
        let sentence = "cannot find the host of the controller tcp://nowhere:1: no";
        assert_eq!(Failure::from(unresolved), Failure::new(3, sentence));
        assert_eq!(Failure::from(ClientError::from(ReplyError::Malformed("x".into()))).exit, 3);
    }

    #[test]
    fn a_value_is_said_once() {
        let refused = base::Label::new("a%b").unwrap_err();
        assert!(about_it("a%b", &refused).starts_with("it is not a name: use"), "{refused}");
        let refused = base::AgentId::new("a/b").unwrap_err();
        assert!(about_it("a/b", &refused).starts_with("it must be 1 to 128"), "{refused}");
        assert_eq!(about_it("x", &"it is too long"), "it is too long");
    }
}
