//! A worker: its list, its commands, and the way of its results.

use super::*;
use crate::engine::Signal;
use crate::engine::worker::{Effect, End, Output, Settings, StartFailure, Worker};
use crate::wire::Order;
use base::ExitCode;
use base::tdf::WorkerName;

struct Bench {
    worker: Worker,
    now: Now,
    effects: VecDeque<Effect>,
}

impl Bench {
    fn new() -> Self {
        let settings = Settings {
            name: WorkerName::new("w").unwrap(),
            secret: None,
            patience: 30 * SECOND,
            reconnect_interval_max: 3 * SECOND,
            kill_interval: 2 * SECOND,
            straggler_grace: SECOND / 2,
        };
        let worker = Worker::new(settings, now());
        let mut bench = Self { worker, now: now(), effects: VecDeque::new() };
        bench.does(|_, _| {});
        bench
    }

    /// A worker that has joined.
    fn joined() -> Self {
        let mut bench = Self::new();
        assert_eq!(bench.next(), Effect::Connect);
        bench.connects(&[], &[]);
        assert_eq!(bench.next(), Effect::Send(FromWorker::Claim {}));
        bench
    }

    fn does(&mut self, act: impl FnOnce(&mut Worker, Now)) {
        act(&mut self.worker, self.now);
        self.effects.extend(std::iter::from_fn(|| self.worker.poll_effect()));
        self.worker.sanity_check();
    }

    fn next(&mut self) -> Effect {
        self.effects.pop_front().expect("an effect")
    }

    fn passes(&mut self, time: Duration) {
        self.now = later(self.now, time);
        self.does(Worker::handle_timeout);
    }

    fn hears(&mut self, message: FromServer) {
        self.does(|worker, now| worker.handle_message(now, message));
    }

    /// The connection is made, the worker names these lists, and these are void.
    fn connects(&mut self, lists: &[&RunningName], void: &[&RunningName]) {
        self.does(Worker::handle_connected);
        let named = |lists: &[&RunningName]| lists.iter().map(|list| Name((*list).clone())).collect::<Vec<_>>();
        let hello = FromWorker::Hello { worker: "w".into(), secret: None, lists: named(lists) };
        assert_eq!(self.next(), Effect::Send(hello));
        self.hears(FromServer::Welcome { lost_after: 9000, output_bytes_max: 1000, void: named(void) });
    }

    fn gets(&mut self, tasks: &[u64]) -> RunningName {
        let list: RunningName = format!("{BEGIN}_w_{BEGIN}").parse().unwrap();
        let order = |number: &u64| Order { id: id(*number), until: BEGIN + 100, cmd: format!("echo {number}") };
        self.hears(FromServer::List { list: Name(list.clone()), tasks: tasks.iter().map(order).collect() });
        list
    }

    #[track_caller]
    fn starts(&mut self, number: u64) {
        let effect = self.next();
        assert!(matches!(&effect, Effect::Start(order) if order.id == id(number)), "{effect:?}");
        self.does(|worker, now| worker.handle_started(now, Ok(())));
    }

    #[track_caller]
    fn ends(&mut self, code: i32, err: &str) {
        self.does(|worker, now| worker.handle_exited(now, ExitCode(code)));
        assert_eq!(self.next(), Effect::CheckTree);
        self.does(|worker, now| worker.handle_tree(now, false));
        assert!(matches!(self.next(), Effect::Collect(..)));
        let output = |text: &str| Output { bytes: text.into(), length: text.len() as u64 };
        let outputs = (output("out\n"), output(err));
        self.does(|worker, now| worker.handle_collected(now, Ok(outputs)));
    }

    /// The results of the next message: ids, and what is in their `.err`.
    #[track_caller]
    fn delivers(&mut self, number: u64) -> Vec<(u64, String)> {
        match self.next() {
            Effect::Send(FromWorker::Results { number: sent, results, .. }) => {
                assert_eq!(sent, number);
                let text = |result: &TaskResult| String::from_utf8_lossy(&result.err).into_owned();
                results.iter().map(|result| (result.id.nanos, text(result))).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

fn quiet(ids: &[u64]) -> Vec<(u64, String)> {
    ids.iter().map(|id| (*id, String::new())).collect()
}

#[test]
fn tasks_run_one_after_the_other_and_results_that_wait_share_a_message() {
    let mut bench = Bench::joined();
    bench.gets(&[1, 2, 3, 4, 5, 6, 7]);
    for number in 1..=4 {
        bench.starts(number);
        bench.ends(1, "");
        assert_eq!(bench.delivers(number), quiet(&[number]), "an exit status is not looked at");
    }
    for number in 5..=6 {
        bench.starts(number);
        bench.ends(0, "");
    }
    bench.starts(7);
    assert!(bench.effects.is_empty(), "four messages are on their way");
    bench.hears(FromServer::Ack { number: 1 });
    assert_eq!(bench.delivers(5), quiet(&[5, 6]));
    bench.ends(0, "");
    assert_eq!(bench.next(), Effect::Send(FromWorker::Claim {}), "while results are on their way");
}

#[test]
fn what_a_command_cannot_say_itself_is_added_to_its_err() {
    let mut bench = Bench::joined();
    bench.gets(&[1, 2, 3, 4]);
    bench.starts(1);
    bench.ends(-9, "half a line");
    assert_eq!(bench.delivers(1), [(1, "half a line\nended by signal 9\n".to_owned())]);
    assert!(matches!(bench.next(), Effect::Start(_)));
    bench.does(|worker, now| worker.handle_started(now, Err(StartFailure::Task("too long".into()))));
    assert_eq!(bench.delivers(2), [(2, "could not be started: too long\n".to_owned())]);
    bench.starts(3);
    bench.does(|worker, now| worker.handle_exited(now, ExitCode(0)));
    bench.does(|worker, now| worker.handle_tree(now, false));
    let outputs = (Output { bytes: vec![b'x'; 1000], length: 1001 }, Output::default());
    bench.does(|worker, now| worker.handle_collected(now, Ok(outputs)));
    bench.effects.drain(..2);
    assert_eq!(bench.delivers(3)[0].1, "stdout has 1001 bytes; those after the first 1000 are left out\n");
}

/// The document has no arrow for it: the task goes through its list like the others.
#[test]
fn a_task_whose_until_has_passed_is_not_started() {
    let mut bench = Bench::joined();
    bench.now = later(bench.now, 101 * SECOND);
    bench.gets(&[1]);
    assert_eq!(bench.delivers(1), [(1, format!("not started before {}\n", BEGIN + 100))]);
}

#[test]
fn processes_that_a_command_leaves_behind_are_ended_before_the_next_one() {
    let mut bench = Bench::joined();
    bench.gets(&[1, 2]);
    bench.starts(1);
    bench.does(|worker, now| worker.handle_exited(now, ExitCode(0)));
    assert_eq!(bench.next(), Effect::CheckTree);
    bench.does(|worker, now| worker.handle_tree(now, true));
    assert_eq!(bench.next(), Effect::Signal(Signal::Terminate));
    bench.passes(SECOND / 2);
    assert_eq!([bench.next(), bench.next()], [Effect::Signal(Signal::Kill), Effect::CheckTree]);
    bench.does(|worker, now| worker.handle_tree(now, false));
    assert!(matches!(bench.next(), Effect::Collect(..)));
}

#[test]
fn a_list_goes_on_while_the_server_is_away_and_is_delivered_when_it_is_back() {
    let mut bench = Bench::joined();
    let list = bench.gets(&[1, 2, 3]);
    bench.starts(1);
    bench.ends(0, "");
    assert_eq!(bench.delivers(1), quiet(&[1]));
    bench.does(|worker, now| worker.handle_closed(now, "it was closed"));
    bench.starts(2);
    bench.ends(0, "");
    bench.starts(3);
    bench.passes(SECOND / 10);
    assert_eq!(bench.next(), Effect::Connect);
    bench.does(|worker, now| worker.handle_unreachable(now, "no"));
    bench.passes(1000 * SECOND);
    assert_eq!(bench.next(), Effect::Connect, "however long that takes");
    bench.connects(&[&list], &[]);
    assert_eq!(bench.delivers(2), quiet(&[1, 2]), "the first one was not acknowledged");
}

#[test]
fn a_list_that_was_opened_again_is_dropped_with_its_command_and_its_results() {
    let mut bench = Bench::joined();
    let list = bench.gets(&[1, 2, 3]);
    bench.starts(1);
    bench.ends(0, "");
    bench.delivers(1);
    bench.starts(2);
    bench.does(|worker, now| worker.handle_closed(now, "it was closed"));
    bench.passes(SECOND / 10);
    assert_eq!(bench.next(), Effect::Connect);
    bench.connects(&[&list], &[&list]);
    assert_eq!(bench.next(), Effect::Signal(Signal::Terminate));
    assert_eq!(bench.delivers(2), quiet(&[1]), "the server counts what it refuses");
    bench.hears(FromServer::Void { list: Name(list) });
    bench.does(|worker, now| worker.handle_exited(now, ExitCode(-15)));
    bench.does(|worker, now| worker.handle_tree(now, false));
    assert_eq!(bench.effects, [Effect::CheckTree, Effect::Send(FromWorker::Claim {})]);
}

#[test]
fn a_worker_that_stops_ends_its_command_delivers_the_rest_and_leaves() {
    let mut bench = Bench::joined();
    bench.gets(&[1, 2, 3]);
    bench.starts(1);
    bench.ends(0, "");
    bench.delivers(1);
    bench.starts(2);
    bench.does(Worker::handle_stop);
    assert_eq!(bench.next(), Effect::Signal(Signal::Terminate));
    bench.passes(2 * SECOND);
    assert_eq!(bench.next(), Effect::Signal(Signal::Kill));
    bench.does(|worker, now| worker.handle_exited(now, ExitCode(-9)));
    bench.does(|worker, now| worker.handle_tree(now, false));
    assert_eq!(bench.next(), Effect::CheckTree);
    assert!(bench.effects.is_empty(), "its result is on its way");
    bench.hears(FromServer::Ack { number: 1 });
    let last = [Effect::Send(FromWorker::Leave {}), Effect::Close, Effect::Exit(End::Stopped)];
    assert_eq!(bench.effects, last);
}

#[test]
fn a_worker_that_cannot_deliver_ends_all_the_same_and_says_so() {
    let mut bench = Bench::joined();
    bench.gets(&[1]);
    bench.starts(1);
    bench.ends(0, "");
    bench.does(Worker::handle_stop);
    bench.passes(5 * SECOND);
    assert_eq!(bench.effects.pop_back(), Some(Effect::Exit(End::Undelivered(1))));
}

#[test]
fn a_worker_without_a_first_server_gives_up_and_a_name_in_use_is_waited_for() {
    let mut bench = Bench::new();
    let mut tries = 0;
    let end = loop {
        match bench.next() {
            Effect::Connect => {
                tries += 1;
                bench.does(Worker::handle_connected);
                let reason = "another worker w is connected".to_owned();
                bench.hears(FromServer::Refused { reason, is_passing: true });
                bench.passes(3 * SECOND);
            }
            Effect::Exit(end) => break end,
            _ => {}
        }
    };
    assert_eq!(end, End::NoServer("another worker w is connected".into()));
    assert!(tries > 8, "{tries}");
    let mut bench = Bench::new();
    bench.does(Worker::handle_connected);
    bench.hears(FromServer::Refused { reason: "no".into(), is_passing: false });
    assert_eq!(bench.effects.pop_back(), Some(Effect::Exit(End::Refused("no".into()))));
}

#[test]
fn a_worker_that_can_start_nothing_gives_its_list_back() {
    let mut bench = Bench::joined();
    bench.gets(&[1, 2]);
    assert!(matches!(bench.next(), Effect::Start(_)));
    bench.does(|worker, now| worker.handle_started(now, Err(StartFailure::Worker("no processes".into()))));
    let last = [Effect::Send(FromWorker::Leave {}), Effect::Close, Effect::Exit(End::CannotRun("no processes".into()))];
    assert_eq!(bench.effects, last);
}
