//! One whole simulation: trouble, calm, and what must be true in the end.

use std::collections::BTreeMap;

use base::json::FieldLimits;
use base::{Fields, Phase, Round, Scalar, TaskState, json};

use crate::simulation::dice::SECOND;
use crate::simulation::event::Defect;
use crate::simulation::plan::HEARTBEAT;
use crate::simulation::world::{World, note};

/// The result of a simulation.
#[derive(Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) hash: u64,
    pub(crate) tasks: usize,
    /// Tasks by what became of them, and those that needed more than one round.
    pub(crate) outcomes: BTreeMap<&'static str, usize>,
    pub(crate) repeated_rounds: u32,
}

/// Runs one seed.
///
/// # Panics
/// When a promise is broken.
pub(crate) fn run(seed: u64, shown: bool, defect: Option<Defect>) -> Summary {
    let mut world = World::new(seed, shown, defect);
    world.pass_until(world.now + world.plan.calm);
    world.calm_down();
    world.wait_for_the_end();
    world.check_quiet();
    world.check_end();
    let mut outcomes = BTreeMap::new();
    for record in world.server.disk.values() {
        if let TaskState::Finished { outcome, .. } = record.state {
            *outcomes.entry(base::words::outcome(outcome)).or_default() += 1;
        }
        for met in crate::simulation::tools::met(record) {
            *outcomes.entry(met).or_default() += 1;
        }
        if record.round > Round::default() {
            *outcomes.entry("later rounds").or_default() += 1;
        }
    }
    let (tasks, repeated_rounds) = (world.server.disk.len(), world.model.repeated_rounds);
    Summary { hash: world.trace.hash(), tasks, outcomes, repeated_rounds }
}

impl World {
    fn wait_for_the_end(&mut self) {
        let calm = self.now;
        let deadline = calm + self.plan.patience();
        let mut turns = 0;
        while !self.is_done() {
            assert!(self.now < deadline, "not done in time: {}", self.unfinished());
            turns += 1;
            if turns % 20 == 0 {
                self.clean_up();
                self.end_what_is_far();
            }
            self.pass_until(self.now + SECOND / 2);
            // The detection of losses and the start of dead processes take their time.
            if self.now > calm + 12 * HEARTBEAT {
                self.model.calm_since.get_or_insert(self.now);
            }
        }
        note!(self, "everything is done");
    }

    fn is_done(&mut self) -> bool {
        self.server.is_up()
            && self.clients.are_done()
            && self.hosts.iter().all(|host| host.slot.is_some() && host.run.is_none())
            && self.server.disk.values().all(|record| record.phase() == Phase::Finished && !Self::awaits(record))
            && self.graphs_are_done()
    }

    fn unfinished(&self) -> String {
        let tasks = self.server.disk.values().filter(|record| record.phase() != Phase::Finished);
        let tasks: Vec<_> =
            tasks.map(|record| format!("{} round {}: {:?}", record.id, record.round, record.state)).collect();
        let agents: Vec<_> = self.hosts.iter().map(|host| (host.slot.is_some(), host.run.is_some())).collect();
        format!("tasks {tasks:?}; agents alive, busy: {agents:?}; clients done: {}", self.clients.are_done())
    }

    /// Nothing to do means next to nothing said: a heartbeat per interval, and an APPLY now and then.
    fn check_quiet(&mut self) {
        // An agent that is gone for good is lost by then.
        self.pass_until(self.now + 5 * HEARTBEAT);
        let before = self.network.sent_up;
        self.pass_until(self.now + 6 * HEARTBEAT);
        let sent = self.network.sent_up - before;
        let most = 14 * u64::try_from(self.hosts.len()).expect("few");
        assert!(sent <= most, "{sent} messages of {} agents that have nothing to do", self.hosts.len());
    }

    fn check_end(&mut self) {
        assert_eq!(self.model.active_runs(), 0, "processes are left");
        let every_loss_counts = self.plan.spares_the_controller();
        for record in self.server.disk.values() {
            self.model.check_end(record, every_loss_counts);
        }
        self.check_cuts();
        self.model.check_keys(&self.server.disk);
        if self.plan.is_steady() {
            self.model.rules.relations.check_end(&self.server.disk);
        }
        for task in &self.model.accepted {
            assert!(self.server.disk.contains_key(task), "the accepted task {task} is lost");
        }
        self.check_acknowledgements();
        self.check_graphs();
        self.check_counts();
        for (id, record) in self.server.disk.clone() {
            let answer = self.question(&format!(r#"{{"__TYPE__":"TASK/QUERY","__TASK_ID__":"{id}"}}"#));
            assert_eq!(number(&answer, "__ROUND__"), i64::from(record.round.0), "the disk and the answer differ: {id}");
            assert_eq!(answer.get("__STATUS__").and_then(Scalar::as_text), Some("FINISHED"));
        }
        let (routes, agents) = (self.server.routes(), self.hosts.len());
        // Each agent may have an APPLY and an AGENT/SERVE parked.
        assert!(routes <= 2 * agents, "{routes} answers are owed to {agents} agents");
    }

    fn check_counts(&mut self) {
        let agents = self.question(r#"{"__TYPE__":"AGENT/QUERY"}"#);
        let free = i64::try_from(self.hosts.len()).expect("few");
        assert_eq!((number(&agents, "__FREE__"), number(&agents, "__BUSY__")), (free, 0), "{agents:?}");
        let abandoned: usize = self.hosts.iter().map(|host| host.abandoned).sum();
        let lost = number(&agents, "__LOST__");
        assert!(lost <= i64::try_from(abandoned).expect("few"), "{lost} lost, {abandoned} names are not used any more");
        let statistic = self.question(r#"{"__TYPE__":"TASK/STATISTIC"}"#);
        let tasks = i64::try_from(self.server.disk.len()).expect("few");
        for phase in Phase::ALL {
            let word = base::words::phase(phase);
            let expected = if phase == Phase::Finished { tasks } else { 0 };
            assert_eq!(number(&statistic, word), expected, "{word}: {statistic:?}");
        }
    }

    fn question(&mut self, body: &str) -> Fields {
        let answer = self.ask_directly(body.as_bytes());
        json::parse(&answer, &FieldLimits::TRUSTED).expect("a flat answer")
    }
}

fn number(answer: &Fields, name: &str) -> i64 {
    answer.get(name).and_then(Scalar::as_i64).unwrap_or_else(|| panic!("{answer:?} has no {name}"))
}
