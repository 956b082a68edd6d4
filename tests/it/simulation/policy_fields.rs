//! The policies that a seed gives to tasks, and the actions of operators meanwhile.

use std::fmt::Write as _;

use base::{Now, Wall};

use crate::simulation::dice::{Dice, MILLI, Nanos, SECOND};
use crate::simulation::relations::JobDeed;

/// The gates that tasks may name.
pub(crate) const GATES: usize = 3;

/// The policy of a task, as its submitter sends it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicyFields {
    timeout: Option<Nanos>,
    fails_max: u32,
    timeouts_max: u32,
    defers_max: u32,
    retry_delay: Nanos,
    /// From the submit on.
    start_after: Option<Nanos>,
    end_before: Option<Nanos>,
    priority: i64,
    gates: Vec<usize>,
    special: bool,
    pub(crate) exclusive: bool,
    pub(crate) push_ack: bool,
    /// Whether the submit is idempotent.
    pub(crate) keyed: bool,
    /// Whether an impatient client sends it twice at once.
    pub(crate) doubled: bool,
    /// How long after its submit was acknowledged it is held, and for how long.
    pub(crate) held: Option<(Nanos, Nanos)>,
    /// How long after that it is retried, each time.
    pub(crate) retries: Vec<Nanos>,
    /// The exit codes of run.sh in the rounds after the first one.
    pub(crate) later_exits: Vec<i32>,
    /// The request of a run that defers: how long to wait, and whether its gates shall be closed.
    pub(crate) defer: Option<(Nanos, bool)>,
}

/// Which of them a seed has at all: what hides behind one kind shows without it.
pub(crate) struct Fashion {
    rounds: bool,
    times: bool,
    priorities: bool,
    gates: bool,
    special: bool,
    keys: bool,
    acknowledgements: bool,
    holds: bool,
    retries: bool,
    exclusive: bool,
}

impl Fashion {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let mut has = || dice.chance(400);
        Self {
            rounds: has(),
            times: has(),
            priorities: has(),
            gates: has(),
            special: has(),
            keys: has(),
            acknowledgements: has(),
            holds: has(),
            retries: has(),
            exclusive: has(),
        }
    }

    /// Which agents have the tag that special tasks require.
    pub(crate) fn special_agents(&self, dice: &mut Dice, agents: usize) -> Vec<bool> {
        let mut special: Vec<bool> = (0..agents).map(|_| self.special && dice.chance(400)).collect();
        // There must be agents for the special tasks.
        let one = dice.index(agents);
        special[one] |= self.special;
        special
    }

    /// The actions of operators, with their times.
    pub(crate) fn deeds(&self, dice: &mut Dice, agents: usize, calm: Nanos) -> Vec<(Nanos, Deed)> {
        let mut deeds = Vec::new();
        if self.gates {
            for _ in 0..dice.within(1..=8) {
                let deed = Deed::SetGate(dice.index(GATES), GatePlan::new(dice));
                deeds.push((dice.within(0..=calm), deed));
            }
        }
        if self.holds {
            for _ in 0..dice.within(0..=4) {
                deeds.push((dice.within(0..=calm), Deed::Drain(dice.index(agents), dice.chance(600))));
            }
        }
        deeds
    }

    pub(crate) fn policy_fields(&self, dice: &mut Dice) -> PolicyFields {
        let small = |dice: &mut Dice| u32::try_from(dice.index(4)).unwrap_or_default();
        let mut policy_fields = PolicyFields::default();
        if self.rounds {
            policy_fields.timeout = dice.chance(400).then(|| dice.skewed(5 * MILLI..=2 * SECOND));
            policy_fields.fails_max = small(dice);
            policy_fields.timeouts_max = small(dice);
            policy_fields.defers_max = small(dice);
            policy_fields.retry_delay = if dice.chance(500) { 0 } else { dice.skewed(MILLI..=SECOND) };
            let exit = |dice: &mut Dice| if dice.chance(400) { 0 } else { [1, 75, 75][dice.index(3)] };
            policy_fields.later_exits = (0..dice.index(4)).map(|_| exit(dice)).collect();
            policy_fields.defer = dice.chance(600).then(|| (dice.skewed(0..=SECOND), self.gates && dice.chance(300)));
        }
        if self.times {
            policy_fields.start_after = dice.chance(300).then(|| dice.skewed(0..=2 * SECOND));
            let end = policy_fields.start_after.unwrap_or_default() + 50 * MILLI;
            policy_fields.end_before = dice.chance(300).then(|| end + dice.skewed(0..=4 * SECOND));
        }
        if self.priorities {
            policy_fields.priority = [-100, -1, 0, 0, 1, 100][dice.index(6)];
        }
        if self.gates {
            policy_fields.gates = (0..GATES).filter(|_| dice.chance(300)).collect();
        }
        policy_fields.special = self.special && dice.chance(300);
        policy_fields.exclusive = self.exclusive && dice.chance(500);
        policy_fields.push_ack = self.acknowledgements && dice.chance(500);
        policy_fields.keyed = self.keys && dice.chance(600);
        policy_fields.doubled = policy_fields.keyed && dice.chance(300);
        if self.holds {
            policy_fields.held = dice.chance(200).then(|| (dice.skewed(0..=SECOND), dice.skewed(0..=2 * SECOND)));
        }
        if self.retries {
            policy_fields.retries = (0..dice.index(3)).map(|_| dice.skewed(0..=4 * SECOND)).collect();
        }
        policy_fields
    }
}

impl PolicyFields {
    /// The fields of the submit, at this time of the controller's clock.
    pub(crate) fn fields(&self, now: Now, request: usize) -> String {
        let mut out = String::new();
        let mut add = |text: std::fmt::Arguments<'_>| {
            // Writing into a String cannot fail.
            let _ = write!(out, ",{text}");
        };
        let seconds = |nanos: Nanos| std::time::Duration::from_nanos(nanos).as_secs_f64();
        let moment = |after: Nanos| -> Wall { now.wall + std::time::Duration::from_nanos(after) };
        if let Some(timeout) = self.timeout {
            add(format_args!(r#""__TIMEOUT__":{}"#, seconds(timeout)));
        }
        for (name, count) in [("FAILS", self.fails_max), ("TIMEOUTS", self.timeouts_max), ("DEFERS", self.defers_max)] {
            if count > 0 {
                add(format_args!(r#""__MAX_{name}__":{count}"#));
            }
        }
        if self.retry_delay > 0 {
            add(format_args!(r#""__RETRY_DELAY__":{}"#, seconds(self.retry_delay)));
        }
        if let Some(after) = self.start_after {
            add(format_args!(r#""__START_AFTER__":{}"#, moment(after)));
        }
        if let Some(after) = self.end_before {
            add(format_args!(r#""__END_BEFORE__":{}"#, moment(after)));
        }
        if self.priority != 0 {
            add(format_args!(r#""__PRIORITY__":{}"#, self.priority));
        }
        if !self.gates.is_empty() {
            let names: Vec<_> = self.gates.iter().map(|gate| gate_name(*gate)).collect();
            add(format_args!(r#""__GATE__":"{}""#, names.join(",")));
        }
        if self.special {
            add(format_args!(r#""__TAGS__":"special""#));
        }
        if self.exclusive {
            add(format_args!(r#""__EXCLUSIVE__":true"#));
        }
        if self.push_ack {
            add(format_args!(r#""__PUSH_ACK__":true"#));
        }
        if self.keyed {
            add(format_args!(r#""__SUBMIT_KEY__":"key {request}","request":{request}"#));
            // Without the dice, so that the plans of all seeds stay as they were.
            if request.is_multiple_of(3) {
                add(format_args!(r#""__EAGER__":true"#));
            }
        }
        out
    }

    /// Whether a run that does not end by itself is ended.
    pub(crate) const fn is_limited(&self) -> bool {
        self.timeout.is_some() || self.end_before.is_some()
    }

    /// Whether the time for it may be over before it comes.
    pub(crate) const fn has_an_end(&self) -> bool {
        self.end_before.is_some()
    }

    /// The exit code of run.sh in a round after the first one.
    pub(crate) fn later_exit(&self, round: u32) -> Option<i32> {
        let index = usize::try_from(round.checked_sub(1)?).ok()?;
        Some(self.later_exits.get(index).copied().unwrap_or_default()).filter(|_| !self.later_exits.is_empty())
    }

    pub(crate) fn gate_names(&self) -> String {
        self.gates.iter().map(|gate| gate_name(*gate)).collect::<Vec<_>>().join(",")
    }

    /// The maximum number of runs, and the maximum total of the pauses between them.
    pub(crate) fn patience(&self) -> (u64, Nanos) {
        let rounds = 1 + u64::from(self.fails_max + self.timeouts_max + self.defers_max);
        let lives = 1 + u64::try_from(self.retries.len()).unwrap_or_default();
        (rounds * lives, rounds * lives * 5 * SECOND)
    }
}

pub(crate) fn gate_name(gate: usize) -> String {
    format!("gate-{gate}")
}

/// An action of an operator other than submitting and killing.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    SetGate(usize, GatePlan),
    Drain(usize, bool),
    Order(JobDeed),
}

/// The content of a GATE/SET; times in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct GatePlan {
    running_max: Option<Option<u64>>,
    pace: Option<Option<(u64, Nanos)>>,
    closed_for: Option<Nanos>,
}

impl GatePlan {
    fn new(dice: &mut Dice) -> Self {
        let running_max = dice.chance(600).then(|| dice.chance(800).then(|| dice.within(0..=3)));
        let pace =
            dice.chance(300).then(|| dice.chance(800).then(|| (dice.within(1..=3), dice.skewed(10 * MILLI..=SECOND))));
        Self { running_max, pace, closed_for: dice.chance(300).then(|| dice.skewed(0..=3 * SECOND)) }
    }

    /// Lets every task through in the end.
    pub(crate) const fn open() -> Self {
        Self { running_max: Some(Some(2)), pace: None, closed_for: Some(0) }
    }

    pub(crate) fn fields(&self, now: Now) -> String {
        let mut out = String::new();
        match self.running_max {
            None => {}
            Some(None) => out += r#","__MAX_RUNNING__":null"#,
            Some(Some(max)) => out += &format!(r#","__MAX_RUNNING__":{max}"#),
        }
        match self.pace {
            None => {}
            Some(None) => out += r#","__MAX_STARTS__":null"#,
            Some(Some((starts, interval))) => {
                let interval = std::time::Duration::from_nanos(interval).as_secs_f64();
                out += &format!(r#","__MAX_STARTS__":{starts},"__INTERVAL__":{interval}"#);
            }
        }
        match self.closed_for {
            None => {}
            Some(0) => out += r#","__CLOSED_UNTIL__":0"#,
            Some(closed) => {
                let until = now.wall + std::time::Duration::from_nanos(closed);
                out += &format!(r#","__CLOSED_UNTIL__":{until}"#);
            }
        }
        out
    }
}
