//! Scenarios of outputs: what is known without the agent, what it is asked for, and what becomes of requests when anything
//! on the way is gone.
#![cfg(test)]

use super::*;
use api::wire::requests::logs::{ABSENT, OutputAsk, OutputPart};
use api::wire::requests::serve::{Part, Served, Wanted};
use base::{OutputBytes, OutputId, Stream};

impl World {
    fn serve(&mut self, agent: &str, served: Served) -> Ticket {
        let (ticket, answer) = self.say(agent, FromAgent::Serve(served));
        assert_eq!(answer, Answer::Later);
        ticket
    }

    fn wants(&mut self, task: TaskId, offset: u64, wait: Option<Duration>) -> (Ticket, Answer) {
        self.wants_of(task, None, offset, wait)
    }

    fn wants_of(&mut self, task: TaskId, round: Option<u32>, offset: u64, wait: Option<Duration>) -> (Ticket, Answer) {
        let filter = filter(words::TASK_ID, &task.to_string());
        let (round, stream) = (round.map(Round), Stream::Stdout);
        self.ask_later(Request::Output(Box::new(OutputAsk { filter, round, stream, offset, limit: None, wait })))
    }

    /// The parts that agents were asked for, with the offers that they answer.
    fn asked(&mut self) -> Vec<(Ticket, Wanted)> {
        let (asked, others) =
            std::mem::take(&mut self.replies).into_iter().partition(|(_, reply)| matches!(reply, Reply::Wanted(_)));
        self.replies = others;
        let asked: Vec<(Ticket, Reply)> = asked;
        asked
            .into_iter()
            .map(|(ticket, reply)| match reply {
                Reply::Wanted(wanted) => (ticket, wanted),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    fn asked_once(&mut self) -> (Ticket, Wanted) {
        let mut asked = self.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked.remove(0)
    }

    /// The only answer to a client, which has this ticket.
    fn got(&mut self, ticket: Ticket) -> OutputPart {
        let (at, reply) = self.replies.remove(0);
        assert_eq!((at, &self.replies[..]), (ticket, &[][..]), "{reply:?}");
        part(reply)
    }
}

fn part(reply: Reply) -> OutputPart {
    match reply {
        Reply::Output(part) => *part,
        other => panic!("{other:?}"),
    }
}

fn now(answer: Answer) -> OutputPart {
    match answer {
        Answer::Now(reply) => part(reply),
        other => panic!("{other:?}"),
    }
}

fn printed(tail: &str, bytes: u64) -> RunResult {
    RunResult {
        stdout_tail: tail.to_owned(),
        output_bytes: Some(OutputBytes { stdout: bytes, ..OutputBytes::default() }),
        ..result(0)
    }
}

fn live(data: &[u8], size: u64) -> Part {
    Part::Live { data: data.to_vec(), size, gap: None, written: None }
}

fn kept(data: &[u8], kept: u64) -> Part {
    Part::Kept { data: data.to_vec(), kept, cut: None }
}

#[test]
fn behind_the_end_of_bytes_that_are_not_utf_8_nothing_is_told_twice() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    world.ends("a", task, Round(0), printed("a\u{fffd}\nlater\n", 9));
    let behind = now(world.wants(task, 9, None).1);
    assert_eq!((behind.data.len(), behind.offset, behind.end, behind.total), (0, 9, true, Some(9)));
}

/// What costs an agent nothing: a short output is in the record, and needs no agent at all.
#[test]
fn a_short_output_is_answered_from_the_record() {
    let mut world = World::new();
    let task = world.task();
    let empty = now(world.wants(task, 0, None).1);
    assert_eq!((empty.data.len(), empty.end, empty.phase), (0, false, Phase::Waiting));
    world.runs("a", task, Round(0));
    world.ends("a", task, Round(0), printed("hello\n", 6));
    let whole = now(world.wants(task, 0, None).1);
    assert_eq!((&whole.data[..], whole.end, whole.total, whole.missing), (&b"hello\n"[..], true, Some(6), None));
    let rest = now(world.wants(task, 2, Some(INTERVAL)).1);
    assert_eq!((&rest.data[..], rest.offset, rest.end), (&b"llo\n"[..], 2, true));
    let behind = now(world.wants(task, 6, Some(INTERVAL)).1);
    assert_eq!((behind.data.len(), behind.end), (0, true), "the end is told at once");
}

#[test]
fn an_answer_has_no_more_bytes_than_an_agent_could_send() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    world.ends("a", task, Round(0), printed("0123456789abc", 13));
    let first = now(world.wants(task, 0, None).1);
    assert_eq!((&first.data[..], first.end), (&b"0123456789"[..], false));
    let second = now(world.wants(task, 10, None).1);
    assert_eq!((&second.data[..], second.end), (&b"abc"[..], true));
}

#[test]
fn a_run_is_read_while_it_writes() {
    let mut world = World::new();
    let task = world.task();
    let (early, answer) = world.wants(task, 0, Some(INTERVAL * 100));
    assert_eq!(answer, Answer::Later, "the task has not started");
    let offer = world.serve("a", Served::Offer);
    world.runs("a", task, Round(0));
    let (ticket, wanted) = world.asked_once();
    let output = OutputId { task, round: Round(0), stream: Stream::Stdout };
    assert_eq!(ticket, offer);
    assert_eq!(wanted, Wanted { ask: 1, output, offset: 0, limit: 10, watch: true });
    world.serve("a", Served::Part(1, live(b"", 0)));
    assert_eq!(world.asked(), [], "it is watched");
    world.serve("a", Served::Grown(output));
    assert_eq!(world.asked_once().1.ask, 2);
    world.serve("a", Served::Part(2, live(b"one\n", 4)));
    let first = world.replies.iter().position(|(ticket, _)| *ticket == early).unwrap();
    let first = part(world.replies.remove(first).1);
    assert_eq!((&first.data[..], first.end, first.total), (&b"one\n"[..], false, Some(4)));
}

/// The end of a run is an answer by itself, without the agent.
#[test]
fn a_watched_output_ends_with_its_run() {
    let mut world = World::new();
    let task = world.task();
    world.serve("a", Served::Offer);
    world.runs("a", task, Round(0));
    let (ticket, _) = world.wants(task, 4, Some(INTERVAL));
    let wanted = world.asked_once().1;
    world.serve("a", Served::Part(wanted.ask, live(b"", 4)));
    world.replies.clear();
    world.ends("a", task, Round(0), printed("one\ntwo\n", 8));
    let last = world.got(ticket);
    assert_eq!((&last.data[..], last.end, last.phase), (&b"two\n"[..], true, Phase::Finished));
}

#[test]
fn a_request_over_in_time_is_answered_without_bytes() {
    let mut world = World::new();
    let task = world.task();
    world.serve("a", Served::Offer);
    world.runs("a", task, Round(0));
    let (ticket, _) = world.wants(task, 0, Some(seconds(1.0)));
    let wanted = world.asked_once().1;
    world.serve("a", Served::Part(wanted.ask, live(b"", 0)));
    world.replies.clear();
    world.pass(seconds(0.9));
    assert_eq!(world.replies, []);
    world.pass(seconds(0.1));
    let empty = world.got(ticket);
    assert_eq!((empty.data.len(), empty.end, empty.missing), (0, false, None));
}

#[test]
fn an_agent_is_asked_for_one_part_at_a_time() {
    let mut world = World::with(|settings| settings.parked_max = 100);
    let task = world.task();
    world.runs("a", task, Round(0));
    world.serve("a", Served::Offer);
    world.ends("a", task, Round(0), printed("tail", 100));
    let tickets: Vec<_> = (0..3).map(|n| world.wants(task, n * 10, None).0).collect();
    for (n, ticket) in tickets.into_iter().enumerate() {
        let (_, wanted) = world.asked_once();
        assert_eq!(wanted.offset, n as u64 * 10);
        world.serve("a", Served::Part(wanted.ask, kept(b"0123456789", 100)));
        let at = world.replies.iter().position(|(of, _)| *of == ticket).unwrap();
        let got = part(world.replies.remove(at).1);
        assert_eq!((got.offset, got.data.len(), got.end, got.total), (wanted.offset, 10, false, Some(100)));
    }
}

/// A straggler may write after run.sh has ended: FINISHED has counted without it.
#[test]
fn no_more_is_sent_than_the_result_has_counted() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    world.serve("a", Served::Offer);
    world.ends("a", task, Round(0), printed("\u{fffd}", 5));
    let (ticket, _) = world.wants(task, 0, None);
    let wanted = world.asked_once().1;
    world.serve("a", Served::Part(wanted.ask, kept(b"0123456789", 10)));
    let got = world.got(ticket);
    assert_eq!((&got.data[..], got.end, got.total, got.missing), (&b"01234"[..], true, Some(5), None));
}

#[test]
fn where_bytes_are_missing_the_end_follows_with_the_reason() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    world.ends("a", task, Round(0), printed("the end", 100));
    let without = now(world.wants(task, 0, None).1);
    assert_eq!((&without.data[..], without.offset, without.end), (&b"the end"[..], 93, true));
    assert!(without.missing.unwrap().contains("agent a"));

    world.serve("a", Served::Offer);
    let asks = |world: &mut World, offset, answer: fn(u64) -> Served| {
        let (ticket, _) = world.wants(task, offset, None);
        let wanted = world.asked_once().1;
        world.serve("a", answer(wanted.ask));
        world.got(ticket)
    };
    let cut = |ask| Served::Part(ask, Part::Kept { data: b"first".to_vec(), kept: 5, cut: Some("cut".to_owned()) });
    let first = asks(&mut world, 0, cut);
    assert_eq!((&first.data[..], first.end, first.kept), (&b"first"[..], false, Some(5)));
    let behind = |ask| Served::Part(ask, Part::Kept { data: Vec::new(), kept: 5, cut: Some("cut".to_owned()) });
    let last = asks(&mut world, 5, behind);
    assert_eq!(
        (&last.data[..], last.offset, last.end, last.missing.as_deref()),
        (&b"the end"[..], 93, true, Some("cut"))
    );
    let gone = asks(&mut world, 0, |ask| Served::Part(ask, Part::Missing("gone".to_owned())));
    assert_eq!((gone.offset, gone.end, gone.missing.as_deref()), (93, true, Some("gone")));
}

/// An end with replaced bytes may be longer than what it stands for, and is not mistaken for the whole.
#[test]
fn bytes_that_are_no_text_are_asked_for() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    world.ends("a", task, Round(0), printed("\u{fffd}", 3));
    world.serve("a", Served::Offer);
    let (ticket, answer) = world.wants(task, 0, None);
    assert_eq!(answer, Answer::Later);
    let wanted = world.asked_once().1;
    world.serve("a", Served::Part(wanted.ask, kept(b"\xf0\x9f\x98", 3)));
    let got = world.got(ticket);
    assert_eq!((&got.data[..], got.end), (&b"\xf0\x9f\x98"[..], true));
}

#[test]
fn a_controller_that_has_just_started_calls_no_agent_gone() {
    let mut world = World::with(|settings| settings.parked_max = 100);
    let task = world.task();
    world.runs("a", task, Round(0));
    world.ends("a", task, Round(0), printed("end", 100));
    world.restart();
    world.replies.clear();
    let missing = |world: &mut World| match world.wants(task, 0, None).1 {
        Answer::Now(reply) => part(reply).missing.unwrap(),
        other => panic!("{other:?}"),
    };
    assert!(missing(&mut world).ends_with(ABSENT), "a reader waits for it");
    world.pass(Duration::from_secs(5));
    assert!(missing(&mut world).ends_with("is gone"));
}

#[test]
fn an_agent_that_is_gone_answers_nothing_and_keeps_no_client_waiting() {
    for gone in [
        (|world: &mut World| {
            let _ = world.controller.handle_disconnected(ConnectionId { door: 0, number: 0 });
        }) as fn(&mut World),
        |world| drop(world.say("a", FromAgent::Exit)),
        |world| world.pass(INTERVAL * 3),
    ] {
        let mut world = World::with(|settings| settings.parked_max = 100);
        let task = world.task();
        world.runs("a", task, Round(0));
        world.serve("a", Served::Offer);
        world.ends("a", task, Round(0), printed("end", 100));
        let ask = OutputAsk {
            filter: filter(words::TASK_ID, &task.to_string()),
            round: None,
            stream: Stream::Stdout,
            offset: 0,
            limit: None,
            wait: None,
        };
        let (first, _) = world.ask_by(7, Request::Output(Box::new(ask.clone())));
        let (second, _) = world.ask_by(7, Request::Output(Box::new(ask)));
        gone(&mut world);
        world.settle();
        let answered: Vec<_> = world.replies.iter().map(|(ticket, _)| *ticket).collect();
        assert!(answered.contains(&first) && answered.contains(&second), "{:?}", world.replies);
        for (ticket, reply) in &world.replies {
            if [first, second].contains(ticket) {
                let is_right = match reply {
                    Reply::Output(part) => part.end && part.missing.is_some(),
                    Reply::Refused(refusal) => refusal.code == Code::LimitReached,
                    _ => false,
                };
                assert!(is_right, "{reply:?}");
            }
        }
    }
}

#[test]
fn a_reader_that_is_gone_costs_nothing_more() {
    let mut world = World::new();
    let task = world.task();
    world.serve("a", Served::Offer);
    world.runs("a", task, Round(0));
    let (ticket, _) = world.wants(task, 0, Some(INTERVAL * 100));
    world.asked_once();
    let forgotten = world.controller.handle_disconnected(ticket.connection);
    assert!(forgotten.contains(&ticket));
    world.settle();
    let offer = world.serve("a", Served::Offer);
    let (other, _) = world.wants(task, 0, Some(INTERVAL * 100));
    assert_eq!(world.asked_once().0, offer, "the agent serves the next one");
    assert_ne!(other, ticket);
}

#[test]
fn the_next_round_is_followed_before_it_begins() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_FAILS, 1u32));
    world.serve("a", Served::Offer);
    world.runs("a", task, Round(0));
    world.ends("a", task, Round(0), RunResult { exit_code: ExitCode(1), ..printed("one", 3) });
    let first = now(world.wants_of(task, Some(0), 0, None).1);
    assert_eq!((&first.data[..], first.end), (&b"one"[..], true), "a past round stays readable");
    let (_, answer) = world.wants_of(task, Some(1), 0, Some(INTERVAL * 100));
    assert_eq!(answer, Answer::Later);
    world.runs("a", task, Round(1));
    assert_eq!(world.asked_once().1.output.round, Round(1));
    world.replies.clear();
    world.ends("a", task, Round(1), printed("two", 3));
    let wanted_again = world.wants_of(task, Some(1), 0, None).1;
    assert_eq!(&now(wanted_again).data[..], b"two");
    let (_, none) = world.wants_of(task, Some(2), 0, Some(INTERVAL));
    assert!(matches!(none, Answer::Now(reply) if refused(&reply) == Code::BadField));
}

#[test]
fn parked_requests_are_bounded_by_connection() {
    let mut world = World::new();
    let task = world.task();
    let (_, first) = world.wants(task, 0, Some(INTERVAL));
    assert_eq!(first, Answer::Later);
    let (_, second) = world.wants(task, 0, Some(INTERVAL));
    assert!(matches!(second, Answer::Now(reply) if refused(&reply) == Code::LimitReached));
}

#[test]
fn a_stop_answers_every_request() {
    let mut world = World::new();
    let task = world.task();
    let (ticket, _) = world.wants(task, 0, Some(INTERVAL));
    world.controller.handle_stop();
    world.settle();
    assert_eq!(world.got(ticket).data.len(), 0);
}

#[test]
fn an_unknown_task_and_bad_fields_are_refused() {
    use api::wire::requests::logs::TASK_OUTPUT;
    let mut world = World::new();
    let task = world.task().to_string();
    for (fields, code) in [
        (Fields::new(), Code::InvalidTaskId),
        (Fields::new().with(words::TASK_ID, "TASK_1.1_AAAAA"), Code::InvalidTaskId),
        (Fields::new().with(words::GIVEN_ID, "none"), Code::InvalidTaskId),
        (Fields::new().with(words::TASK_ID, &*task).with(words::STREAM, "STDIN"), Code::BadField),
        (Fields::new().with(words::TASK_ID, &*task).with(words::OFFSET, -1), Code::BadField),
        (Fields::new().with(words::TASK_ID, &*task).with(words::ROUND, "x"), Code::BadField),
    ] {
        let reply = world.send(TASK_OUTPUT, &fields);
        assert_eq!(refused(&reply), code, "{fields:?}");
    }
}

#[test]
fn bytes_are_told_as_text_or_in_base_64() {
    use api::wire::requests::logs::{OutputView, TASK_OUTPUT};
    let output = OutputId { task: TaskId::MIN, round: Round(0), stream: Stream::Stderr };
    for (data, name) in [(&b"a\n\x00\xc3\xa9"[..], words::TEXT), (b"\xff", words::BASE64), (b"", words::TEXT)] {
        let part = OutputPart {
            output,
            phase: Phase::Running,
            offset: 7,
            data: data.to_vec(),
            end: true,
            total: Some(9),
            kept: None,
            missing: None,
            written: Some(Wall::from_micros(1_480_000_000_000_000)),
        };
        let fields = fields_of(TASK_OUTPUT, &Reply::Output(Box::new(part)));
        assert!(fields.get(name).is_some(), "{fields:?}");
        let view = OutputView::from(fields);
        assert_eq!((&view.data()[..], view.offset(), view.is_end(), view.total()), (data, 7, true, Some(9)));
        assert_eq!(view.written_at(), Some(Wall::from_micros(1_480_000_000_000_000)));
    }
}
