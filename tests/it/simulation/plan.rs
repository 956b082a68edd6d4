//! The decisions of a seed before anything happens: agents, tasks, and the faults that will hit them.

use std::time::Duration;

use base::lease;

use crate::simulation::cuts::{self, Directions};
use crate::simulation::dice::{Dice, MILLI, Nanos, SECOND};
use crate::simulation::faults::Weather;
use crate::simulation::graphs::{self, GraphPlan};
use crate::simulation::leaders;
use crate::simulation::lists;
use crate::simulation::policy_fields::{Deed, Fashion, PolicyFields};
use crate::simulation::relations::{self, RelationsPlan};
use crate::simulation::tools::ToolsPlan;

/// Between the heartbeats of an agent; everything else is measured against it.
pub(crate) const HEARTBEAT: Nanos = SECOND;
pub(crate) const KILL_INTERVAL: Nanos = 300 * MILLI;
pub(crate) const STRAGGLER_GRACE: Nanos = 100 * MILLI;
pub(crate) const STOP_TIMEOUT: Nanos = 500 * MILLI;
pub(crate) const KILL_COUNT: u32 = 3;

/// The times that an agent needs to end a run.
pub(crate) fn kill_budget() -> Duration {
    let [interval, grace] = [KILL_INTERVAL, STRAGGLER_GRACE].map(Duration::from_nanos);
    lease::kill_budget(interval, KILL_COUNT, grace)
}

pub(crate) struct Plan {
    pub(crate) agents: usize,
    pub(crate) tasks: Vec<TaskPlan>,
    /// The step graphs. The plans of their tasks are the last of `tasks`.
    pub(crate) graphs: Vec<GraphPlan>,
    pub(crate) weather: Weather,
    pub(crate) faults: Vec<(Nanos, Fault)>,
    /// The actions of operators.
    pub(crate) deeds: Vec<(Nanos, Deed)>,
    /// Which agents special tasks can run on.
    pub(crate) special: Vec<bool>,
    /// Which agents have which tools, and what becomes of those.
    pub(crate) tools: ToolsPlan,
    /// Whether agents get into trouble just when they have an exclusive task.
    pub(crate) ambush: bool,
    /// Which agents are simple ones: their heartbeats say that they are busy, and not with what.
    pub(crate) plain: Vec<bool>,
    /// Which agents are simple ones, which cannot hold a lease. The plain ones are.
    pub(crate) simple: Vec<bool>,
    /// Whether agents are told of their connections and send nothing without one, as by our own transport; those of libzmq are not
    /// told, and keep what they send.
    pub(crate) told: bool,
    /// How many pushes, and confirmations of them, are lost, per mille.
    pub(crate) push_loss: u64,
    /// From here on nothing goes wrong any more, and everything must come to its end.
    pub(crate) calm: Nanos,
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// kill -9 of the controller after so many of its next operations.
    ControllerCrash {
        operations: u64,
    },
    ControllerStop,
    /// Another controller leads the queue, and the present one does not know it for some time.
    TakeOver {
        is_frozen: bool,
        length: Nanos,
    },
    ControllerClock {
        seconds: i64,
    },
    /// The disk of the controller is slow for some time.
    SlowDisk {
        length: Nanos,
    },
    /// It takes nothing for some time.
    FullDisk {
        length: Nanos,
    },
    /// Its next commit ends in a way that the controller cannot know.
    BrokenDisk,
    AgentCrash {
        agent: usize,
        operations: u64,
    },
    AgentPause {
        agent: usize,
        length: Nanos,
    },
    AgentStop {
        agent: usize,
    },
    AgentClock {
        agent: usize,
        seconds: i64,
    },
    /// The connection of an agent breaks.
    Cut {
        agent: usize,
    },
    /// The same, and there is none for some time.
    Isolation {
        agent: usize,
        length: Nanos,
    },
    /// Nothing passes between the controller and an agent, or any agent, for some time, and no connection breaks by that.
    NetworkCut {
        agent: Option<usize>,
        directions: Directions,
        length: Nanos,
    },
}

/// The properties of a task and the behaviour of its tool in each run.
#[derive(Clone, Debug)]
pub(crate) struct TaskPlan {
    pub(crate) start: Start,
    pub(crate) duration: Nanos,
    pub(crate) exit_code: i32,
    pub(crate) ignores_term: bool,
    /// Whether its end is that of its agent too (docs/design/hazards.md, A9).
    pub(crate) poison: bool,
    /// The processes that run.sh leaves behind; whether each ignores SIGTERM.
    pub(crate) stragglers: Vec<bool>,
    pub(crate) prepare: Prepare,
    pub(crate) spawn: Spawn,
    pub(crate) losses_max: Option<u32>,
    pub(crate) pushed: bool,
    /// How long after its submit was acknowledged it is killed.
    pub(crate) kill_after: Option<Nanos>,
    /// Whether a client parks a query for its end.
    pub(crate) awaited: bool,
    pub(crate) policy_fields: PolicyFields,
    pub(crate) relations: RelationsPlan,
    pub(crate) tool: usize,
    /// Whether its submit says that its run takes a millisecond.
    pub(crate) is_expected_short: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    At(Nanos),
    /// So long after the submit of that task was acknowledged, as its child.
    AfterSubmit(usize, Nanos),
    /// So long after a run of that task has started, by its tool, as its child.
    InRun(usize, Nanos),
    /// By a step graph.
    OfGraph,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Prepare {
    Quick,
    Slow(Nanos),
    Fails,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Spawn {
    Works,
    Busy(u32),
    Fails,
}

impl Plan {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let agents = 1 + dice.index(6);
        let calm = dice.within(4..=12) * SECOND;
        let count = 5 + dice.index(36);
        let fashion = Fashion::new(dice);
        let mut tasks: Vec<_> = (0..count).map(|number| TaskPlan::new(dice, &fashion, number, calm)).collect();
        // Each seed has some kinds of trouble and not others: what hides behind one kind shows without it.
        let weather = Weather {
            drop: if dice.chance(300) { dice.within(1..=80) } else { 0 },
            duplicate: if dice.chance(300) { dice.within(1..=80) } else { 0 },
            publish_loss: if dice.chance(400) { dice.within(1..=1000) } else { 0 },
            delay_max: dice.skewed(MILLI..=100 * MILLI),
            stall: if dice.chance(250) { dice.within(1..=50) } else { 0 },
        };
        // Where nothing goes wrong, the rules can be the strictest.
        let peaceful = dice.chance(120);
        let weather = if peaceful { Weather { drop: 0, stall: 0, ..weather } } else { weather };
        let kinds: Vec<usize> = (0..Fault::KINDS).filter(|_| !peaceful && dice.chance(450)).collect();
        let number = if kinds.is_empty() { 0 } else { dice.within(1..=14) };
        let faults = (0..number).map(|_| {
            let kind = kinds[dice.index(kinds.len())];
            (dice.within(0..=calm), Fault::new(dice, kind, agents))
        });
        let mut faults: Vec<_> = faults.collect();
        let (deeds, special) = (fashion.deeds(dice, agents, calm), fashion.special_agents(dice, agents));
        let push_loss = if dice.chance(500) { dice.within(1..=700) } else { 0 };
        let ambush = !peaceful && tasks.iter().any(|task| task.policy_fields.exclusive) && dice.chance(300);
        let tools = ToolsPlan::new(dice, &special, calm);
        for task in &mut tasks {
            task.tool = ToolsPlan::tool(dice);
        }
        let lengths = tasks.iter().fold(calm, |sum, task| sum.wrapping_mul(31).wrapping_add(task.duration));
        faults.extend(cuts::plan(lengths, peaceful, agents, calm));
        let take_overs = leaders::plan(lengths, calm);
        let is_shared = !take_overs.is_empty() && !peaceful;
        faults.extend(take_overs.into_iter().filter(|_| is_shared));
        let (relations, orders) = relations::plan(lengths, tasks.len(), calm);
        for (task, relations) in tasks.iter_mut().zip(relations) {
            task.relations = relations;
        }
        let deeds: Vec<_> = deeds.into_iter().chain(orders).collect();
        let plain: Vec<bool> = (0..agents).map(|_| dice.chance(250)).collect();
        let simple: Vec<_> = plain.iter().map(|plain| dice.chance(150) || *plain).collect();
        // Simple agents know no epochs, and obey whom they find.
        let [plain, simple] = [plain, simple].map(|kind| kind.iter().map(|is| *is && !is_shared).collect());
        let told = dice.chance(700);
        lists::plan(lengths, &mut tasks, calm);
        let graphs = graphs::plan(lengths, &mut tasks, calm);
        Self {
            agents,
            tasks,
            graphs,
            weather,
            faults,
            deeds,
            special,
            plain,
            simple,
            tools,
            ambush,
            told,
            push_loss,
            calm,
        }
    }

    /// Whether several controllers may lead the queue.
    pub(crate) fn is_shared(&self) -> bool {
        self.faults.iter().any(|(_, fault)| matches!(fault, Fault::TakeOver { .. }))
    }

    /// Whether nothing goes wrong.
    pub(crate) fn is_peaceful(&self) -> bool {
        self.faults.is_empty() && self.is_gentle()
    }

    /// Whether the clock of the controller never jumps.
    pub(crate) fn is_steady(&self) -> bool {
        !self.faults.iter().any(|(_, fault)| matches!(fault, Fault::ControllerClock { .. }))
    }

    /// Whether what must end is told so at once, or with the next heartbeat.
    pub(crate) fn is_prompt(&self) -> bool {
        let clocks = self.faults.iter().any(|(_, fault)| matches!(fault, Fault::AgentClock { .. }));
        self.is_gentle() && self.spares_the_controller() && self.is_steady() && !clocks
    }

    /// Whether only the controller and the clocks have trouble: then every run that has started is the only one of its task.
    pub(crate) fn is_gentle(&self) -> bool {
        let cuts = self.faults.iter().any(|(_, fault)| matches!(fault, Fault::NetworkCut { .. }));
        self.is_gentle_but_for_cuts() && !cuts
    }

    pub(crate) fn is_gentle_but_for_cuts(&self) -> bool {
        use Fault::{AgentCrash, AgentPause, AgentStop, Cut, Isolation, TakeOver};
        let hits = |fault: &Fault| {
            matches!(
                fault,
                AgentCrash { .. }
                    | AgentPause { .. }
                    | AgentStop { .. }
                    | Cut { .. }
                    | Isolation { .. }
                    | TakeOver { .. }
            )
        };
        let poison = self.tasks.iter().any(|task| task.poison);
        let calm = self.weather.drop == 0 && self.weather.stall == 0;
        calm && !poison && !self.ambush && !self.faults.iter().any(|(_, fault)| hits(fault))
    }

    /// Whether the controller lives for ever: then it counts every loss.
    pub(crate) fn spares_the_controller(&self) -> bool {
        !self.faults.iter().any(|(_, fault)| {
            matches!(
                fault,
                Fault::ControllerCrash { .. } | Fault::ControllerStop | Fault::BrokenDisk | Fault::TakeOver { .. }
            )
        })
    }

    /// A bound for what is left to do once nothing goes wrong: all runs one after the other, and the detection of losses.
    pub(crate) fn patience(&self) -> Nanos {
        let run = |task: &TaskPlan| {
            let prepare = if let Prepare::Slow(length) = task.prepare { length } else { 0 };
            let (rounds, pauses) = task.policy_fields.patience();
            rounds * (prepare + task.duration + 2 * KILL_INTERVAL + STRAGGLER_GRACE) + pauses
        };
        // A task may be submitted twice when its first answer was lost, and in each run of its father.
        let is_retry = |deed: &&(Nanos, Deed)| matches!(deed.1, Deed::Order(order) if order.kind == "RETRY");
        let lives = 1 + self.deeds.iter().filter(is_retry).count() as u64;
        // A step has several tasks with the same plan.
        let graphs = 30 * HEARTBEAT * self.graphs.len() as u64;
        30 * HEARTBEAT + graphs + lives * 4 * self.tasks.iter().map(run).sum::<Nanos>()
    }
}

impl Fault {
    const KINDS: usize = 12;

    fn new(dice: &mut Dice, kind: usize, agents: usize) -> Self {
        let agent = dice.index(agents);
        let operations = dice.skewed(0..=30);
        let seconds = [-86_400, -5, 3, 86_400][dice.index(4)];
        match kind {
            0 => Self::ControllerCrash { operations },
            1 => Self::ControllerStop,
            2 => Self::ControllerClock { seconds },
            3 => Self::AgentCrash { agent, operations },
            4 => Self::AgentPause { agent, length: gone_for(dice) },
            5 => Self::AgentStop { agent },
            6 => Self::AgentClock { agent, seconds },
            7 => Self::Cut { agent },
            8 => Self::SlowDisk { length: gone_for(dice) },
            9 => Self::FullDisk { length: gone_for(dice) },
            10 => Self::BrokenDisk,
            _ => Self::Isolation { agent, length: gone_for(dice) },
        }
    }
}

/// An agent gets into trouble for longer than a lease.
pub(crate) fn ambush(dice: &mut Dice, agent: usize) -> Fault {
    let length = dice.within(4 * HEARTBEAT..=9 * HEARTBEAT);
    if dice.chance(500) { Fault::AgentPause { agent, length } } else { Fault::Isolation { agent, length } }
}

/// A moment, or longer than a lease.
fn gone_for(dice: &mut Dice) -> Nanos {
    if dice.chance(500) { dice.skewed(MILLI..=5 * HEARTBEAT) } else { dice.within(3 * HEARTBEAT..=9 * HEARTBEAT) }
}

impl TaskPlan {
    fn new(dice: &mut Dice, fashion: &Fashion, number: usize, calm: Nanos) -> Self {
        let policy_fields = fashion.policy_fields(dice);
        let start = match (number, dice.within(0..=9)) {
            (1.., 0) => Start::AfterSubmit(dice.index(number), dice.skewed(0..=SECOND)),
            (1.., 1 | 2) => Start::InRun(dice.index(number), dice.skewed(0..=SECOND)),
            _ => Start::At(dice.within(0..=calm * 3 / 4)),
        };
        Self {
            start,
            // Some outlast a lease.
            duration: if (policy_fields.is_limited() || policy_fields.exclusive) && dice.chance(400) {
                dice.within(SECOND..=9 * SECOND)
            } else if dice.chance(500) {
                dice.within(1..=20 * MILLI)
            } else {
                dice.skewed(MILLI..=3 * SECOND)
            },
            exit_code: if dice.chance(700) { 0 } else { i32::from(u8::try_from(dice.index(256)).unwrap_or_default()) },
            ignores_term: dice.chance(200),
            poison: dice.chance(10),
            stragglers: if dice.chance(850) { vec![] } else { (0..=dice.index(3)).map(|_| dice.chance(500)).collect() },
            prepare: match dice.within(0..=9) {
                0 => Prepare::Fails,
                1 | 2 => Prepare::Slow(dice.skewed(MILLI..=2 * SECOND)),
                _ => Prepare::Quick,
            },
            spawn: match dice.within(0..=19) {
                0 => Spawn::Fails,
                1 => Spawn::Busy(u32::try_from(dice.index(8)).unwrap_or_default()),
                _ => Spawn::Works,
            },
            losses_max: dice.chance(200).then(|| u32::try_from(dice.index(3)).unwrap_or_default()),
            pushed: policy_fields.push_ack || dice.chance(500),
            kill_after: dice.chance(150).then(|| dice.skewed(0..=2 * SECOND)),
            awaited: dice.chance(150),
            policy_fields,
            relations: RelationsPlan::default(),
            tool: 0,
            is_expected_short: false,
        }
    }
}
