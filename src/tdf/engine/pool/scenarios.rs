//! Scenarios of a pool, with a Redis and a controller that answer as the scenario says.

#![cfg(test)]

use super::*;
use crate::wire::agents;
use api::guest::task::{End, Snapshot, Stage};
use base::tdf::{TaskId as TdfTask, WorkerName};
use base::{ExitCode, Outcome, OutputBytes, Wall};

const SILENCE_MAX: Duration = Duration::from_secs(6);

struct Story {
    pool: Pool,
    now: Now,
}

fn claimed(number: u64) -> Assignment {
    let worker = WorkerName::new("w").unwrap();
    let fence = Fence { task: TdfTask(number), round: 0, worker, started: format!("{number}.5") };
    Assignment { program: "p".to_owned(), source: "http://x/run.sh".to_owned(), ..Assignment::of(fence) }
}

fn task(number: u64) -> TaskId {
    format!("TASK_1480000000.{number:06}_abcde").parse().unwrap()
}

fn end(outcome: Outcome, reason: Option<&str>) -> Stage {
    let started = (outcome != Outcome::Killed).then(|| Wall::from_micros(1));
    Stage::Finished(Box::new(End {
        round: 0,
        started,
        ended: started,
        exit: Some(ExitCode(0)),
        outcome,
        reason: reason.map(str::to_owned),
        tails: ["out".to_owned(), String::new()],
        written: Some(OutputBytes { report: 0, stdout: 3, stderr: 0 }),
    }))
}

fn away<T>() -> Result<T, Unanswered> {
    Err(Unanswered::Away("gone".to_owned()))
}

impl Story {
    fn new() -> Self {
        let now = Now { mono: Mono::from_nanos(1_000_000_000_000), wall: Wall::from_micros(1) };
        Self { pool: Pool::new(now, 4096, SILENCE_MAX, Vec::new()), now }
    }

    /// It has joined, and asks for free agents.
    fn joined() -> Self {
        let mut story = Self::new();
        assert_eq!(story.effects(), [Effect::Join]);
        story.pool.handle_joined(story.now, Ok(Vec::new()));
        story
    }

    /// It has claimed a task, whose task at the controller waits.
    fn waiting() -> Self {
        let mut story = Self::joined();
        story.free(2);
        assert_eq!(story.effects(), [Effect::Claim(1, 2)]);
        story.pool.handle_claimed(story.now, Ok(vec![claimed(1)]));
        story.answers(Answer::Submitted(task(1), false));
        story
    }

    fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.pool.poll_effect()).collect()
    }

    /// Answers the only question.
    #[track_caller]
    fn answers(&mut self, answer: Answer) -> Question {
        let mut effects = self.effects();
        let Some(Effect::Ask(number, question)) = effects.pop() else { panic!("{effects:?}") };
        assert_eq!(effects, []);
        self.pool.handle_answer(self.now, number, answer);
        question
    }

    #[track_caller]
    fn free(&mut self, count: usize) {
        assert_eq!(self.answers(Answer::Agents { free: count, busy: 0 }), Question::Free);
    }

    fn sees(&mut self, stage: Stage) {
        let key = agents::key(&claimed(1).fence);
        self.pool.handle_change(self.now, Snapshot { task: task(1), is_held: false, stage }, &key);
    }

    /// The next deadline.
    fn passes(&mut self) {
        let mono = self.pool.poll_timeout().expect("a deadline");
        self.now = Now { mono, ..self.now };
        self.pool.handle_timeout(self.now);
    }
}

#[test]
fn a_claim_is_for_the_agents_that_no_run_waits_for() {
    let mut story = Story::waiting();
    story.pool.handle_woken();
    story.free(1);
    assert_eq!(story.effects(), [], "the only free agent is for the run that waits");
    assert!(story.pool.wants_agents());
    story.sees(Stage::Started);
    story.pool.handle_freed();
    story.free(1);
    assert_eq!(story.effects(), [Effect::Claim(2, 1)]);
}

#[test]
fn a_claim_without_an_answer_is_repeated_with_its_token() {
    let mut story = Story::joined();
    story.free(2);
    assert_eq!(story.effects(), [Effect::Claim(1, 2)]);
    story.pool.handle_claimed(story.now, away());
    story.passes();
    assert_eq!(story.effects(), [Effect::Claim(1, 2)]);
    story.pool.handle_claimed(story.now, away());
    story.passes();
    assert_eq!(story.effects(), [Effect::Claim(1, 2)]);
    story.pool.handle_claimed(story.now, Ok(Vec::new()));
    let said: Vec<String> = story.pool.take_log().into_iter().map(|line| line.text).collect();
    assert_eq!(said, ["gone; the work in progress goes on, and its results wait", "Redis answers again"]);
}

#[test]
fn a_claim_that_redis_refuses_alone_is_said_once() {
    let mut story = Story::joined();
    story.free(2);
    assert_eq!(story.effects(), [Effect::Claim(1, 2)]);
    story.pool.handle_claimed(story.now, away());
    let end = story.now.mono + RENEWAL_INTERVAL * 10;
    let mut renewals = 0;
    while story.now.mono < end {
        story.passes();
        for effect in story.effects() {
            match effect {
                Effect::Claim(..) => story.pool.handle_claimed(story.now, away()),
                Effect::Renew(_) => {
                    renewals += 1;
                    story.pool.handle_renewed(story.now, Ok(Vec::new()));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let said: Vec<String> = story.pool.take_log().into_iter().map(|line| line.text).collect();
    assert_eq!(said, ["gone; the work in progress goes on, and its results wait"]);
    assert!(renewals >= 9, "{renewals}");
}

#[test]
fn a_result_waits_on_the_disk_while_redis_is_away() {
    let mut story = Story::waiting();
    story.sees(Stage::Started);
    story.sees(end(Outcome::Succeeded, None));
    let effects = story.effects();
    let [Effect::Collect(run, ended), Effect::Report(_)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((&ended.output[..], &ended.error[..], ended.timed_out), (&b"out"[..], &b""[..], None));
    assert_eq!(ended.log[0].text, "executing task: cd ./p/; ./run.sh ");
    story.pool.handle_reported(story.now, *run, away());
    let mut seen = Vec::new();
    while !seen.contains(&Effect::Keep(*run)) {
        story.passes();
        for effect in story.effects() {
            match effect {
                Effect::Report(run) => story.pool.handle_reported(story.now, run, away()),
                Effect::Keep(_) => seen.push(effect),
                other => panic!("{other:?}"),
            }
        }
    }
    story.pool.handle_renewed(story.now, Ok(Vec::new()));
    story.passes();
    assert!(story.effects().contains(&Effect::Report(*run)), "at once when Redis is back");
    story.pool.handle_reported(story.now, *run, Ok(None));
    assert!(story.effects().contains(&Effect::Forget(*run)));
}

#[test]
fn a_run_that_no_agent_takes_is_given_back_without_ending_a_program() {
    let mut story = Story::waiting();
    // The poll, and the deadline of the pull.
    while story.pool.timers.is_set(&Timer::Pull(2)) || story.effects().is_empty() {
        story.passes();
        if story.pool.claims.is_counting() {
            story.free(0);
        }
        if matches!(
            story.pool.runs.values().next().unwrap().state,
            State::AtController(Life::Waiting { pull: Some(_), .. })
        ) {
            break;
        }
    }
    let look = |is_held| Answer::Seen(Snapshot { task: task(1), is_held, stage: Stage::Waiting });
    assert_eq!(story.answers(Answer::Done), Question::Hold(task(1), true));
    assert_eq!(story.answers(look(true)), Question::Look(task(1)));
    assert_eq!(story.answers(Answer::Done), Question::Kill(task(1), TAKEN_BACK));
    story.sees(end(Outcome::Killed, Some(TAKEN_BACK)));
    let effects = story.effects();
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Return(_, fence, false) if *fence == claimed(1).fence)),
        "{effects:?}"
    );
}

#[test]
fn a_task_whose_agents_were_lost_is_a_loss_of_its_run() {
    let mut story = Story::waiting();
    story.sees(Stage::Started);
    story.sees(end(Outcome::Lost, None));
    let effects = story.effects();
    assert!(matches!(effects[..], [Effect::Return(_, _, true)]), "{effects:?}");
}

#[test]
fn a_run_that_is_not_ours_any_more_and_a_task_of_another_time_are_ended() {
    let mut story = Story::waiting();
    story.sees(Stage::Started);
    story.pool.handle_renewed(story.now, Ok(vec![(claimed(1).fence, "expired".to_owned())]));
    let effects = story.effects();
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Ask(_, Question::Kill(of, _)) if *of == task(1))));
    let old = Snapshot { task: task(9), is_held: false, stage: Stage::Started };
    story.pool.handle_change(story.now, old, "9 0 9.5");
    assert_eq!(story.answers(Answer::Done), Question::Kill(task(9), TAKEN_BACK));
}

#[test]
fn a_killed_controller_goes_on_with_its_runs() {
    let mut story = Story::new();
    story.effects();
    story.pool.handle_joined(story.now, Ok(vec![claimed(1)]));
    let effects = story.effects();
    let [Effect::Ask(number, Question::Submit(_)), Effect::Ask(_, Question::Free)] = effects[..] else {
        panic!("{effects:?}")
    };
    story.sees(Stage::Started);
    assert_eq!(story.effects(), [], "its task is not that of another time");
    story.pool.handle_answer(story.now, number, Answer::Submitted(task(1), true));
    let finished = Snapshot { task: task(1), is_held: false, stage: end(Outcome::Succeeded, None) };
    assert_eq!(story.answers(Answer::Seen(finished)), Question::Look(task(1)));
    assert!(matches!(story.effects()[..], [Effect::Collect(..), Effect::Report(_)]));
}

#[test]
fn a_name_that_another_process_has_ends_the_runs() {
    let mut story = Story::waiting();
    story.sees(Stage::Started);
    story.pool.handle_renewed(story.now, Err(Unanswered::Displaced("taken".to_owned())));
    let effects = story.effects();
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Ask(_, Question::Kill(..)))), "{effects:?}");
    // The poll comes to nothing.
    story.passes();
    assert_eq!(story.effects(), []);
    story.passes();
    assert_eq!(story.effects(), [Effect::Join]);
}

/// Redis and the commit of a submit take longer than a short program: agents would wait for the next one.
#[test]
fn short_programs_are_claimed_before_an_agent_is_free() {
    let mut story = Story::joined();
    story.free(2);
    for number in 1..=16 {
        let effects = story.effects();
        let [Effect::Claim(_, count)] = effects[..] else { panic!("{effects:?}") };
        assert!(count <= 2, "no program is known to be short");
        story.pool.handle_claimed(story.now, Ok(vec![claimed(number)]));
        story.answers(Answer::Submitted(task(number), false));
        let sight = Snapshot { task: task(number), is_held: false, stage: end(Outcome::Succeeded, None) };
        story.pool.handle_change(story.now, sight, &agents::key(&claimed(number).fence));
        story.effects();
        story.pool.handle_woken();
        let effects = story.effects();
        let [Effect::Ask(question, Question::Free)] = effects[..] else { panic!("{effects:?}") };
        story.pool.handle_answer(story.now, question, Answer::Agents { free: 0, busy: 2 });
        if number < 16 {
            assert_eq!(story.effects(), [], "no agent is free");
            story.pool.handle_freed();
            story.free(2);
        }
    }
    let effects = story.effects();
    let [Effect::Claim(_, count)] = effects[..] else { panic!("{effects:?}") };
    assert!(count > 2, "they take no time: {count}");
}

/// The agent that becomes free behind the answer is not in it.
#[test]
fn an_agent_that_becomes_free_while_agents_are_counted_is_not_missed() {
    let mut story = Story::joined();
    assert!(story.pool.wants_agents());
    story.pool.handle_freed();
    story.free(0);
    story.free(1);
    assert_eq!(story.effects(), [Effect::Claim(1, 1)]);
    assert!(!story.pool.wants_agents(), "nothing is asked of the controller");
}

/// An earlier controller may have handed it out and died: it runs, and its agent has not said so yet.
#[test]
fn a_task_of_an_earlier_controller_is_not_pulled_back_before_agents_could_name_it() {
    let mut story = Story::new();
    story.effects();
    story.pool.handle_joined(story.now, Ok(vec![claimed(1)]));
    let effects = story.effects();
    let [Effect::Ask(number, Question::Submit(_)), Effect::Ask(count, Question::Free)] = effects[..] else {
        panic!("{effects:?}")
    };
    story.pool.handle_answer(story.now, number, Answer::Submitted(task(1), true));
    let waits = Snapshot { task: task(1), is_held: false, stage: Stage::Waiting };
    assert_eq!(story.answers(Answer::Seen(waits)), Question::Look(task(1)));
    story.pool.handle_answer(story.now, count, Answer::Agents { free: 1, busy: 0 });
    assert_eq!(story.effects(), [Effect::Claim(1, 1)], "the agent is not kept free for it");
    story.pool.handle_claimed(story.now, Ok(Vec::new()));
    let began = story.now.mono;
    while story.now.mono.since(began) < SILENCE_MAX {
        assert!(!matches!(story.pool.runs[&1].state, State::AtController(Life::Waiting { .. })));
        story.passes();
    }
    assert!(
        matches!(story.pool.runs[&1].state, State::AtController(Life::Waiting { pull: None, .. })),
        "from here on as any other"
    );
}

#[test]
fn results_of_short_programs_share_a_round_trip_while_more_of_them_queue() {
    let mut story = Story::joined();
    (0..16).for_each(|_| story.pool.claims.add_time(Duration::ZERO));
    story.free(1);
    let effects = story.effects();
    let [Effect::Claim(1, count)] = effects[..] else { panic!("{effects:?}") };
    story.pool.handle_claimed(story.now, Ok((1..=count as u64).map(claimed).collect()));
    let mut answers: Vec<(u64, Answer)> = Vec::new();
    let mut number = 0;
    for effect in story.effects() {
        match effect {
            Effect::Ask(question, Question::Submit(_)) => {
                number += 1;
                answers.push((question, Answer::Submitted(task(number), false)));
            }
            Effect::Ask(question, Question::Free) => answers.push((question, Answer::Agents { free: 0, busy: 1 })),
            other => panic!("{other:?}"),
        }
    }
    answers.into_iter().for_each(|(question, answer)| story.pool.handle_answer(story.now, question, answer));
    for number in 1..=2 {
        let sight = Snapshot { task: task(number), is_held: false, stage: end(Outcome::Succeeded, None) };
        story.pool.handle_change(story.now, sight, &agents::key(&claimed(number).fence));
    }
    let reports = |effects: &[Effect]| effects.iter().filter(|effect| matches!(effect, Effect::Report(_))).count();
    assert_eq!(reports(&story.effects()), 0, "others may follow");
    let began = story.now.mono;
    story.passes();
    assert!(story.now.mono.since(began) <= REPORT_DELAY_MAX);
    assert_eq!(reports(&story.effects()), 2);
}

#[test]
fn a_kept_result_that_cannot_be_read_stays_for_the_next_process_and_its_task_waits_again() {
    let mut story = Story::new();
    let fence = claimed(1).fence;
    story.pool = Pool::new(story.now, 4096, SILENCE_MAX, vec![fence.clone()]);
    assert_eq!(story.effects(), [Effect::Join]);
    story.pool.handle_joined(story.now, Ok(Vec::new()));
    for read in 1..=READS_MAX {
        let mut effects = story.effects();
        while !effects.contains(&Effect::Report(0)) {
            story.passes();
            effects = story.effects();
        }
        story.pool.handle_unreadable(story.now, 0, "EIO");
        if read < READS_MAX {
            story.pool.call();
            assert_eq!(story.effects(), [], "other calls do not hasten it");
        }
    }
    assert_eq!(story.effects(), [Effect::Return(0, fence, true)]);
    story.pool.handle_returned(story.now, 0, Ok(()));
    assert_eq!(story.effects(), [], "the result is not removed");
}

#[test]
fn a_renewal_that_overtakes_a_return_drops_no_run() {
    let mut story = Story::waiting();
    let run = *story.pool.runs.keys().next().unwrap();
    story.pool.give_back(run, false);
    let fence = claimed(1).fence;
    assert_eq!(story.effects(), [Effect::Return(run, fence.clone(), false)]);
    story.pool.handle_renewed(story.now, Ok(vec![(fence, "open, round 0".to_owned())]));
    assert_eq!(story.effects(), []);
    assert!(story.pool.take_log().iter().all(|line| !format!("{line:?}").contains("dropped")));
    story.pool.handle_returned(story.now, run, Ok(()));
    assert_eq!(story.effects(), []);
}
