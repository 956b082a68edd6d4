//! The right that each message needs. The decision is [`AllowCommands::admits`], for every door.

use super::requests::job::JobOrder;
use super::requests::submit::Submit;
use super::requests::{Message, Request};
use super::{Code, Refusal, command, source};
use base::{AllowCommands, Caller, JobName, Right, TaskId};

/// The tasks that a request would repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated<'a> {
    /// One task.
    Task(TaskId),
    /// Tasks of a job.
    Job(&'a JobName),
}

/// The right that a message needs. `has_command` tells whether there is a command among the repeated tasks.
#[must_use]
pub fn right_of(message: &Message, has_command: impl Fn(Repeated<'_>) -> bool) -> Right {
    match message {
        Message::Agent(..) => Right::Serve,
        Message::Client(request) => right_of_request(request, has_command),
    }
}

fn right_of_request(request: &Request, has_command: impl Fn(Repeated<'_>) -> bool) -> Right {
    let submit = |has_command, is_unchecked| match (has_command, is_unchecked) {
        (has_command, true) => Right::Unchecked { has_command },
        (true, false) => Right::Command,
        (false, false) => Right::Change,
    };
    let repeat = |what| if has_command(what) { Right::Command } else { Right::Change };
    match request {
        Request::Submit(one) => submit(one.has_command(), one.is_unchecked()),
        Request::SubmitMany(many) => {
            let any = |is: fn(&Submit) -> bool| many.tasks.iter().any(is);
            submit(any(Submit::has_command), any(Submit::is_unchecked))
        }
        Request::GraphSubmit(graph) => submit(graph.graph.has_command(), graph.graph.has_unchecked_source()),
        Request::ToolPut(_) | Request::ToolRemove(..) => Right::Command,
        Request::Retry(task) => repeat(Repeated::Task(*task)),
        Request::JobOrder(name, JobOrder::Retry) => repeat(Repeated::Job(name)),
        Request::Pause(_) => Right::Pause,
        Request::GateSet(gate, _) if gate.is_of_service() => Right::Pause,
        Request::Query(..)
        | Request::AgentQuery
        | Request::TaskStatistic
        | Request::TaskRows(..)
        | Request::Status(_)
        | Request::TaskDetails(..)
        | Request::AgentDetails(_)
        | Request::Explain(_)
        | Request::Output(_)
        | Request::History(_)
        | Request::GateQuery(_)
        | Request::JobQuery(..)
        | Request::JobResults(_)
        | Request::JobDetails(_)
        | Request::GraphQuery(..)
        | Request::GraphDetails(..)
        | Request::ToolList(_)
        | Request::ToolShow(_)
        | Request::ToolLog(_)
        | Request::FileGet(_) => Right::Ask,
        Request::Kill(..)
        | Request::Forget(_)
        | Request::Hold(..)
        | Request::AgentDrain(..)
        | Request::GateSet(..)
        | Request::GraphKill(..)
        | Request::JobOrder(..)
        | Request::FilePut(_)
        | Request::StepProviding(_)
        | Request::StepComplete(..) => Right::Change,
    }
}

/// The refusal of a message whose sender does not have the right.
#[must_use]
pub fn refusal(allow: AllowCommands, caller: Caller, right: Right) -> Refusal {
    match right {
        _ if !caller.may_change => Refusal::new(Code::NotAllowed, "a token is needed for this"),
        Right::Unchecked { .. } if !allow.admits(caller, Right::Unchecked { has_command: false }) => {
            source::not_yours()
        }
        Right::Pause => command::not_allowed(allow, caller, "pauses of the service"),
        Right::Ask
        | Right::Change
        | Right::Serve
        | Right::Commands
        | Right::RunCommands
        | Right::Command
        | Right::Unchecked { .. } => command::not_allowed(allow, caller, "commands and changes of tools"),
    }
}

/// The right of a sender to send commands decides what its messages with files may do.
impl Message {
    /// Notes that its sender may see commands.
    pub fn reveal(&mut self) {
        match self {
            Self::Client(Request::TaskRows(_, wanted, _)) => wanted.0.sees_commands = true,
            Self::Client(Request::History(question)) => question.filter.sees_commands = true,
            Self::Client(_) | Self::Agent(..) => {}
        }
    }

    /// Notes that its sender may send commands.
    pub fn trust(&mut self) {
        match self {
            Self::Client(Request::FilePut(put)) => put.is_trusted = true,
            Self::Client(Request::Submit(submit)) => submit.is_trusted = true,
            Self::Client(Request::SubmitMany(many)) => {
                many.tasks.iter_mut().for_each(|submit| submit.is_trusted = true);
            }
            Self::Client(_) | Self::Agent(..) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::requests::tests::samples;
    use crate::wire::requests::{FromAgent, only_asks, parse};
    use crate::wire::rules::Rules;
    use base::{CallerKey, CallerPlace};

    /// Every sender, with its door and its key: a hosted master, the unix socket, the TCP port by the same user, by another one, from
    /// elsewhere, with a key, with one that may send commands; the HTTP door with its token, without it by the same user, by another.
    fn callers() -> [Caller; 10] {
        use CallerPlace::{Elsewhere, Loopback, Own, SameUser, Socket};
        let with_key = |key| Caller { key, ..Caller::at(Elsewhere) };
        let without_token = |place| Caller { may_change: false, ..Caller::at(place) };
        let [own, socket, same, other, elsewhere] = [Own, Socket, SameUser, Loopback, Elsewhere].map(Caller::at);
        let keys = [CallerKey::Authorised, CallerKey::Commands].map(with_key);
        let http = [Caller::at(Socket), without_token(SameUser), without_token(Loopback)];
        [own, socket, same, other, elsewhere, keys[0], keys[1], http[0], http[1], http[2]]
    }

    /// For each `ALLOW_COMMANDS` ("same-user", "loopback", "keys", "no"), the callers that have a right.
    const fn table(right: Right) -> [&'static str; 4] {
        match right {
            Right::Ask => ["1111111111"; 4],
            Right::Change | Right::Serve => ["1111111100"; 4],
            Right::Commands => ["1110001110", "1111001111", "1110011110", "1110000110"],
            Right::RunCommands => ["1110111110", "1111111111", "1110111110", "1110111110"],
            Right::Pause => ["1110001100", "1111001100", "1110011100", "1110000100"],
            Right::Command => ["1110001100", "1111001100", "1100011100", "0000000000"],
            Right::Unchecked { has_command: false } => ["1000000000"; 4],
            Right::Unchecked { has_command: true } => ["1000000000", "1000000000", "1000000000", "0000000000"],
        }
    }

    /// The right that a request needs, as a reader of the manual expects it. A new request needs a line.
    const fn expected(message: &Message, has_command: bool) -> Right {
        use Request as R;
        let with_command = if has_command { Right::Command } else { Right::Change };
        match message {
            Message::Agent(
                _,
                FromAgent::Heartbeat(_)
                | FromAgent::Exit
                | FromAgent::Apply(_)
                | FromAgent::Report(_)
                | FromAgent::Serve(_)
                | FromAgent::ToolGet(_),
            ) => Right::Serve,
            Message::Client(R::ToolPut(_) | R::ToolRemove(..)) => Right::Command,
            Message::Client(R::Retry(_) | R::JobOrder(_, JobOrder::Retry)) => with_command,
            Message::Client(R::Pause(_)) => Right::Pause,
            Message::Client(
                R::Query(..)
                | R::AgentQuery
                | R::TaskStatistic
                | R::TaskRows(..)
                | R::Status(_)
                | R::TaskDetails(..)
                | R::AgentDetails(_)
                | R::Explain(_)
                | R::Output(_)
                | R::History(_)
                | R::GateQuery(_)
                | R::JobQuery(..)
                | R::JobResults(_)
                | R::JobDetails(_)
                | R::GraphQuery(..)
                | R::GraphDetails(..)
                | R::ToolList(_)
                | R::ToolShow(_)
                | R::ToolLog(_)
                | R::FileGet(_),
            ) => Right::Ask,
            Message::Client(
                // Those of the samples have no command.
                R::Submit(_)
                | R::SubmitMany(_)
                | R::GraphSubmit(_)
                | R::Kill(..)
                | R::Forget(_)
                | R::Hold(..)
                | R::AgentDrain(..)
                | R::GateSet(..)
                | R::GraphKill(..)
                | R::JobOrder(_, JobOrder::Kill(_) | JobOrder::Hold(_))
                | R::FilePut(_)
                | R::StepProviding(_)
                | R::StepComplete(..),
            ) => Right::Change,
        }
    }

    fn read(body: &str) -> Message {
        parse(body.as_bytes(), &Rules::of_history()).unwrap_or_else(|refused| panic!("{body}: {refused:?}")).1
    }

    fn check(message: &Message, has_command: bool, right: Right) {
        assert_eq!(right_of(message, |_| has_command), right, "{message:?}");
        check_senders(right);
    }

    fn check_senders(right: Right) {
        let policies = [AllowCommands::SameUser, AllowCommands::Loopback, AllowCommands::Keys, AllowCommands::No];
        for (allow, row) in policies.into_iter().zip(table(right)) {
            let admitted = callers().map(|caller| if allow.admits(caller, right) { '1' } else { '0' });
            assert_eq!(admitted.iter().collect::<String>(), row, "{allow:?} {right:?}");
        }
    }

    #[test]
    fn every_request_needs_its_right_at_every_door_of_every_sender() {
        for body in samples::all() {
            let message = read(&body);
            for has_command in [false, true] {
                check(&message, has_command, expected(&message, has_command));
            }
        }
    }

    /// What a sender sees, and what its agents get, is no matter of one request.
    #[test]
    fn seeing_a_command_and_running_it_are_two_rights() {
        [Right::Commands, Right::RunCommands].into_iter().for_each(check_senders);
    }

    #[test]
    fn what_runs_as_a_command_needs_the_right_to_send_one() {
        for work in [r#""__SHELL__":"true""#, r#""__COMMAND__":"[\"true\"]""#] {
            for body in [
                format!(r#"{{"__TYPE__":"TASK/SUBMIT",{work}}}"#),
                format!(r#"{{"__TYPE__":"TASK/SUBMIT_MANY","__TASKS__":[{{"__OPERATION__":"a"}},{{{work}}}]}}"#),
            ] {
                check(&read(&body), false, Right::Command);
            }
        }
        let graph = r#"{"__TYPE__":"GRAPH/SUBMIT","__GRAPH__":"{\"steps\":{\"s\":{\"command\":[\"true\"]}}}"}"#;
        check(&read(graph), false, Right::Command);
    }

    #[test]
    fn the_gate_of_the_service_needs_the_right_to_pause_it() {
        check(&read(r#"{"__TYPE__":"GATE/SET","__GATE__":"*","__CLOSED_UNTIL__":9}"#), false, Right::Pause);
    }

    /// The HTTP door takes a message without its token by this.
    #[test]
    fn what_only_asks_is_told_from_the_same_parse() {
        let rules = Rules::of_history();
        for body in samples::all() {
            assert_eq!(only_asks(body.as_bytes(), &rules), expected(&read(&body), false) == Right::Ask, "{body}");
        }
        for unreadable in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"__TYPE__":7}"#,
            r#"{"__TYPE__":"TASK/QUERY","a":{}}"#,
            r#"{"__TYPE__":"TASK/QUERY","__TYPE__":"TASK/SUBMIT"}"#,
            r#"{"__TYPE__":"TASK/UNKNOWN"}"#,
            r#"{"__TASKS__":[{"__SHELL__":"id"}],"__TYPE__":"TASK/SUBMIT_MANY"}"#,
        ] {
            assert!(!only_asks(unreadable.as_bytes(), &rules), "{unreadable}");
        }
    }
}
