//! Stories of maps against a service that is a list of tasks.

use std::time::Duration;

use super::*;
use api::wire::requests::job::results::TaskEnd;
use api::wire::requests::submit::Submission;
use base::{Fields, Wall};

const NOW: Mono = Mono::from_nanos(1_000_000_000);

/// A map with a service that accepts everything.
struct Story {
    map: Map,
    /// The lines with a query that was not answered.
    watched: BTreeMap<u64, TaskId>,
    /// Frames without an answer.
    submitted: Vec<(u64, Vec<Submission>)>,
    retried: Vec<u64>,
    released: Vec<TaskId>,
    printed: Vec<u64>,
    orders: Vec<Effect>,
    /// The tasks of the lines, in the order in which they were accepted.
    accepted: Vec<TaskId>,
    last_id: u64,
}

fn item(number: u64) -> Item {
    Item { number, submission: Submission::new("t").with("n", number), values: "values".to_owned() }
}

fn ended(id: TaskId, outcome: &str, code: i32) -> TaskView {
    let fields = Fields::new().with(words::TASK_ID, id.to_string()).with(words::STATUS, "FINISHED");
    fields.with(words::OUTCOME, outcome).with(words::EXIT_CODE, code).into()
}

impl Story {
    fn new(plan: Plan) -> Self {
        Self {
            map: Map::new(plan),
            watched: BTreeMap::new(),
            submitted: Vec::new(),
            retried: Vec::new(),
            released: Vec::new(),
            printed: Vec::new(),
            orders: Vec::new(),
            accepted: Vec::new(),
            last_id: 0,
        }
    }

    /// A map with these lines, all of which were accepted.
    fn accepted(plan: Plan, lines: u64) -> Self {
        let mut story = Self::new(plan);
        (1..=lines).for_each(|number| story.map.handle_item(item(number)));
        story.map.handle_input_end();
        story.go_on();
        story.accept_all();
        story
    }

    fn go_on(&mut self) {
        self.go_on_at(NOW);
    }

    fn go_on_at(&mut self, now: Mono) {
        while let Some(effect) = self.map.poll_effect(now) {
            match effect {
                Effect::Submit { frame, tasks } => self.submitted.push((frame, tasks)),
                Effect::Watch { number, id } | Effect::Look { number, id } => {
                    self.watched.insert(number, id);
                }
                Effect::Retry { number, .. } => self.retried.push(number),
                Effect::Release { id } => self.released.push(id),
                Effect::Print(printed) => self.printed.push(printed.number),
                order @ (Effect::Follow | Effect::Hold | Effect::CountRunning | Effect::Kill) => {
                    self.orders.push(order);
                }
            }
        }
        assert!(self.map.window.results() <= WINDOW_MAX && self.map.window.len() <= 2 * WINDOW_MAX);
        assert!(self.map.lines.len() <= self.map.ahead.len() + self.map.window.len());
        assert!(self.map.submits.unanswered() <= FRAMES_MAX);
    }

    fn accept(&mut self, duplicates: &[usize]) {
        let (frame, tasks) = self.submitted.remove(0);
        let ids: Vec<TaskId> = tasks
            .iter()
            .map(|_| {
                self.last_id += 1;
                TaskId::new(Wall::from_micros(self.last_id), [0; 5])
            })
            .collect();
        self.accepted.extend(&ids);
        self.map.handle_accepted(frame, &ids, duplicates);
        self.go_on();
    }

    /// The end of the task that was accepted at this place is told, among the ends of the job.
    fn tell(&mut self, place: usize) -> Option<u64> {
        let id = self.accepted[place - 1];
        let lost = self.map.handle_end(id, TaskEnd::Known(Box::new(ended(id, "SUCCEEDED", 0))));
        self.go_on();
        lost
    }

    fn following(plan: Plan, lines: u64) -> Self {
        let mut story = Self::new(plan);
        story.map.handle_following();
        (1..=lines).for_each(|number| story.map.handle_item(item(number)));
        story.map.handle_input_end();
        story.go_on();
        story.accept_all();
        story
    }

    fn accept_all(&mut self) {
        while !self.submitted.is_empty() {
            self.accept(&[]);
        }
    }

    fn end(&mut self, number: u64, outcome: &str, code: i32) {
        let id = self.watched.remove(&number).unwrap_or_else(|| panic!("line {number} is not watched"));
        self.map.handle_task(number, ended(id, outcome, code));
        self.go_on();
    }

    fn succeed(&mut self, number: u64) {
        self.end(number, "SUCCEEDED", 0);
    }

    fn is_done(&self) -> bool {
        self.map.is_done()
    }
}

#[test]
fn outputs_leave_in_the_order_of_lines_or_of_ends() {
    for (keeps_order, expected) in [(false, [3, 1, 2]), (true, [1, 2, 3])] {
        let mut story = Story::accepted(Plan { keeps_order, ..Plan::default() }, 3);
        [3, 1, 2].into_iter().for_each(|number| story.succeed(number));
        assert_eq!(story.printed, expected);
        assert!(story.is_done());
        assert_eq!(story.map.tally().exit_code(false), 0);
    }
}

#[test]
fn a_line_that_trickles_in_is_submitted_at_once() {
    let mut story = Story::new(Plan::default());
    for number in 1..=2 {
        story.map.handle_item(item(number));
        story.go_on();
        assert_eq!(story.submitted.len(), 1, "line {number} waits for no other");
        story.accept(&[]);
        story.succeed(number);
        assert_eq!(story.printed.last(), Some(&number));
        assert!(!story.is_done(), "the input goes on");
    }
    story.map.handle_input_end();
    assert!(story.is_done());
}

#[test]
fn a_long_input_is_taken_in_bounded_steps() {
    const LINES: u64 = 250_000;
    let mut story = Story::new(Plan { keeps_order: true, ..Plan::default() });
    let mut next = 1;
    while !story.is_done() {
        while story.map.wants_items() {
            if next > LINES {
                story.map.handle_input_end();
                break;
            }
            story.map.handle_item(item(next));
            next += 1;
        }
        story.go_on();
        assert!(story.map.submits.waiting() <= FRAME_TASKS_MAX && story.map.open() <= AHEAD_MAX + FRAME_TASKS_MAX);
        if story.submitted.is_empty() {
            // The service ends the tasks from the back of the window.
            while let Some((number, _)) = story.watched.last_key_value() {
                story.succeed(*number);
            }
        } else {
            story.accept(&[]);
        }
    }
    assert!(story.printed.iter().copied().eq(1..=LINES));
    assert_eq!(story.map.value_bytes, 0);
}

#[test]
fn a_refused_frame_is_sent_again_in_parts_and_keeps_the_order() {
    let mut story = Story::new(Plan { keeps_order: true, ..Plan::default() });
    (1..=500).for_each(|number| story.map.handle_item(item(number)));
    story.go_on();
    (501..=700).for_each(|number| story.map.handle_item(item(number)));
    story.map.handle_input_end();
    story.go_on();
    let first = story.submitted.remove(0);
    assert_eq!((first.1.len(), story.submitted[0].1.len()), (500, 200));
    story.map.handle_refused(NOW, first.0, Refused::NoRoom);
    story.accept(&[]);
    assert_eq!(story.submitted, [], "it rests");
    assert_eq!(story.watched.len(), 200);
    for number in 501..=700 {
        story.watched.remove(&number).unwrap();
        story.map.handle_task(number, ended(TaskId::MIN, "SUCCEEDED", 0));
    }
    story.go_on();
    assert_eq!(story.printed, [0; 0], "earlier lines are not there yet");
    assert_eq!(story.submitted[0].1.len(), 500, "an end makes room, and the accepted frame has doubled the size");
    let again = story.submitted.remove(0);
    story.map.handle_refused(NOW, again.0, Refused::NoRoom);
    story.go_on();
    assert_eq!(story.map.poll_timeout(), Some(NOW + ROOM_PAUSE));
    story.go_on_at(NOW + ROOM_PAUSE);
    assert_eq!(story.submitted[0].1.len(), 250);
    story.accept_all();
    (1..=500).for_each(|number| story.succeed(number));
    assert!(story.printed.iter().copied().eq(1..=700));
    assert!(story.is_done());
}

#[test]
fn a_full_window_waits_for_no_line_behind_it() {
    // The first frame is refused while a window of later lines has finished.
    let mut story = Story::new(Plan { keeps_order: true, ..Plan::default() });
    story.map.handle_item(item(1));
    story.go_on();
    (2..=600).for_each(|number| story.map.handle_item(item(number)));
    story.map.handle_input_end();
    story.go_on();
    let first = story.submitted.remove(0);
    story.accept_all();
    while let Some((number, _)) = story.watched.first_key_value() {
        story.succeed(*number);
    }
    assert_eq!((story.map.window.len(), story.printed.len()), (WINDOW_MAX, 0));
    story.map.handle_refused(NOW, first.0, Refused::NoRoom);
    story.go_on_at(NOW + ROOM_PAUSE);
    story.accept_all();
    while let Some((number, _)) = story.watched.first_key_value() {
        story.succeed(*number);
    }
    assert!(story.printed.iter().copied().eq(1..=600));
}

#[test]
fn an_earlier_run_is_continued_and_a_repeated_frame_is_not() {
    let newest_before = Some(TaskId::new(Wall::from_micros(4), [0; 5]));
    let mut story = Story::new(Plan { newest_before, ..Plan::default() });
    (1..=5).for_each(|number| story.map.handle_item(item(number)));
    story.map.handle_input_end();
    story.go_on();
    // The fifth is a duplicate because the answer to the first request was lost.
    story.accept(&[0, 1, 2, 3, 4]);
    story.succeed(1);
    story.end(2, "FAILED", 3);
    let held = story.watched.remove(&3).unwrap();
    let held_view = Fields::new().with(words::STATUS, "FINISHED").with(words::OUTCOME, "KILLED");
    story.map.handle_task(3, held_view.with(words::HELD_TIME, 1_480_000_000.0).into());
    story.go_on();
    assert_eq!(story.released, [held], "an interrupted map has held it");
    let running = story.watched.remove(&4).unwrap();
    let running_view = Fields::new().with(words::STATUS, "RUNNING").with(words::TASK_ID, running.to_string());
    story.map.handle_task(4, running_view.into());
    story.go_on();
    story.succeed(5);
    assert_eq!((story.retried.as_slice(), story.printed.as_slice()), (&[2, 3][..], &[5][..]));
    for number in [2, 3] {
        story.map.handle_retried(number);
    }
    story.go_on();
    story.end(2, "FAILED", 3);
    story.succeed(3);
    story.succeed(4);
    assert_eq!(story.printed, [5, 2, 3, 4]);
    let tally = story.map.tally();
    assert_eq!((tally.before, tally.succeeded, tally.failed), (1, 3, 1));
    assert!(story.is_done());
}

#[test]
fn an_interrupt_lets_running_tasks_end_and_a_second_one_ends_them() {
    let mut story = Story::accepted(Plan::default(), 4);
    assert!(story.map.handle_interrupt());
    story.go_on();
    assert_eq!(story.orders, [Effect::Hold, Effect::CountRunning]);
    story.map.handle_running(NOW, 2);
    story.go_on();
    assert!(story.orders.len() == 2 && story.map.poll_timeout() == Some(NOW + LOOK));
    story.succeed(1);
    assert_eq!(story.orders.last(), Some(&Effect::CountRunning), "an end is a reason to look");
    story.map.handle_running(NOW, 1);
    story.go_on_at(NOW + LOOK);
    assert_eq!(story.orders.len(), 4, "another round may wait without an end");
    story.map.handle_running(NOW, 0);
    story.go_on();
    assert_eq!(story.orders.last(), Some(&Effect::Kill));
    assert!(story.map.handle_interrupt(), "the outputs of the tasks that have ended are still to be printed");
    (2..=4).for_each(|number| story.end(number, "KILLED", -15));
    assert!(story.is_done());
    let tally = story.map.tally();
    assert_eq!((tally.succeeded, tally.left, tally.failed, tally.exit_code(true)), (1, 3, 0, 130));

    let mut story = Story::accepted(Plan::default(), 2);
    assert!(story.map.handle_interrupt() && story.map.handle_interrupt());
    assert!(!story.map.handle_interrupt(), "nothing is left to try");
    story.go_on();
    assert_eq!(story.orders, [Effect::Kill]);
}

const LOOK: Duration = Duration::from_secs(1);

#[test]
fn an_interrupt_waits_for_the_answers_to_submits() {
    let mut story = Story::new(Plan::default());
    story.map.handle_item(item(1));
    story.go_on();
    story.map.handle_item(item(2));
    story.map.handle_interrupt();
    story.go_on();
    assert_eq!((story.orders.len(), story.map.tally().left), (0, 1), "the second line was not submitted");
    story.accept(&[]);
    assert_eq!(story.orders.first(), Some(&Effect::Hold));
    assert!(!story.map.wants_items() && !story.is_done());
}

#[test]
fn a_submit_without_room_is_not_sent_again_after_an_interrupt() {
    let mut story = Story::new(Plan::default());
    (1..=3).for_each(|number| story.map.handle_item(item(number)));
    story.go_on();
    story.map.handle_interrupt();
    let (frame, tasks) = story.submitted.remove(0);
    story.map.handle_refused(NOW, frame, Refused::NoRoom);
    story.go_on_at(NOW + ROOM_PAUSE);
    assert_eq!((story.submitted.len(), story.map.tally().left), (0, tasks.len() as u64));
    assert_eq!(story.orders, [Effect::Hold, Effect::CountRunning]);
}

#[test]
fn a_stopped_job_takes_no_more_lines() {
    let mut story = Story::new(Plan::default());
    story.map.handle_item(item(1));
    story.go_on();
    story.map.handle_item(item(2));
    story.go_on();
    story.map.handle_item(item(3));
    story.accept(&[]);
    for (frame, _) in std::mem::take(&mut story.submitted) {
        story.map.handle_refused(NOW, frame, Refused::ForGood);
    }
    story.end(1, "FAILED", 1);
    assert!(story.is_done() && !story.map.wants_items());
    assert_eq!((story.map.tally().failed, story.map.tally().left), (1, 2));
}

#[test]
fn after_a_hang_up_the_input_is_submitted_and_nothing_is_printed() {
    let mut story = Story::accepted(Plan::default(), 3);
    story.map.input_has_ended = false;
    story.map.handle_hang_up();
    story.map.handle_item(item(4));
    story.go_on();
    assert!(!story.is_done());
    story.accept_all();
    story.map.handle_input_end();
    assert!(story.is_done());
    assert_eq!((story.printed.len(), story.orders.len()), (0, 0));
}

#[test]
fn a_query_without_room_is_asked_again_with_fewer_beside_it() {
    let mut story = Story::accepted(Plan::default(), 10);
    story.watched.remove(&7).unwrap();
    story.map.handle_unwatched(NOW, 7);
    story.go_on();
    assert!(!story.watched.contains_key(&7));
    story.go_on_at(NOW + ROOM_PAUSE);
    assert!(story.watched.contains_key(&7));
    (1..=10).for_each(|number| story.succeed(number));
    assert!(story.is_done());
}

#[test]
fn a_task_that_is_gone_has_failed() {
    let mut story = Story::accepted(Plan { keeps_order: true, ..Plan::default() }, 2);
    story.map.handle_forgotten(1);
    story.succeed(2);
    assert_eq!((story.printed.as_slice(), story.map.tally().failed), (&[2][..], 1));
    assert!(story.is_done());
}

#[test]
fn a_map_that_follows_its_job_asks_for_no_task() {
    for (keeps_order, expected) in [(false, [3, 1, 2]), (true, [1, 2, 3])] {
        let mut story = Story::following(Plan { keeps_order, ..Plan::default() }, 3);
        [3, 1, 1, 2].into_iter().for_each(|place| assert_eq!(story.tell(place), None));
        assert_eq!(story.printed, expected);
        assert!(story.watched.is_empty() && story.is_done());
        assert_eq!((story.map.tally().succeeded, story.map.lines.len()), (3, 0));
    }
}

#[test]
fn ends_far_ahead_are_printed_or_left_with_the_service_until_their_turn_comes() {
    const LINES: usize = 2_000;
    for keeps_order in [false, true] {
        let mut story = Story::following(Plan { keeps_order, ..Plan::default() }, LINES as u64);
        (2..=LINES).for_each(|place| assert_eq!(story.tell(place), None));
        assert_eq!(story.printed.len(), if keeps_order { 0 } else { LINES - 1 });
        story.tell(1);
        while let Some((number, _)) = story.watched.first_key_value() {
            assert!(keeps_order, "line {number} is asked for");
            story.succeed(*number);
        }
        assert_eq!(story.printed.len(), LINES);
        assert!(!keeps_order || story.printed.is_sorted());
        assert!(story.is_done());
    }
}

#[test]
fn an_end_that_was_told_before_its_task_was_known_is_asked_for() {
    let mut story =
        Story::new(Plan { newest_before: Some(TaskId::new(Wall::from_micros(2), [0; 5])), ..Plan::default() });
    story.map.handle_following();
    // The first was running when this run of the map began, and ends before its line is there.
    let early = TaskId::new(Wall::from_micros(1), [0; 5]);
    assert_eq!(story.map.handle_end(early, TaskEnd::Known(Box::new(ended(early, "SUCCEEDED", 0)))), None);
    (1..=4).for_each(|number| story.map.handle_item(item(number)));
    story.map.handle_input_end();
    story.go_on();
    // The third is a duplicate because the answer to the first request was lost.
    story.accept(&[0, 1, 2]);
    assert_eq!(story.watched.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    story.succeed(1);
    story.succeed(2);
    story.succeed(3);
    story.tell(4);
    assert!(story.is_done());
    let tally = story.map.tally();
    assert_eq!((tally.before, tally.succeeded), (1, 3), "only the second had succeeded before");
}

#[test]
fn a_map_whose_service_has_lost_track_asks_for_its_tasks() {
    let mut story = Story::following(Plan { keeps_order: true, ..Plan::default() }, 600);
    story.tell(1);
    story.map.handle_lost_track();
    story.go_on();
    assert_eq!(story.orders, [Effect::Follow]);
    assert_eq!(story.watched.len(), WINDOW_MAX, "those of the window at once");
    // A request on its way may have been carried out before the ends are followed again.
    story.map.input_has_ended = false;
    (601..=602).for_each(|number| {
        story.map.handle_item(item(number));
        story.go_on();
    });
    story.map.handle_following();
    story.map.handle_item(item(603));
    story.map.handle_input_end();
    story.accept_all();
    story.tell(2);
    while let Some((number, _)) = story.watched.first_key_value() {
        story.succeed(*number);
    }
    assert_eq!(story.printed.len(), 602);
    story.tell(603);
    assert!(story.printed.iter().copied().eq(1..=603) && story.is_done());
}

#[test]
fn a_task_whose_result_the_service_has_forgotten_has_failed() {
    let mut story = Story::following(Plan { keeps_order: true, ..Plan::default() }, 2);
    assert_eq!(story.map.handle_end(story.accepted[0], TaskEnd::Forgotten), Some(1));
    story.tell(2);
    assert_eq!((story.printed.as_slice(), story.map.tally().failed), (&[2][..], 1));
    assert!(story.is_done());
}
