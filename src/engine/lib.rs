//! The engine of the controller: it accepts tasks, hands them to agents, and has the state of each. It has no clock, no file and no
//! socket: time, ids and randomness come in, and effects go out.
//!
//! | event | enters by | what it may cause |
//! |---|---|---|
//! | a client's request | [`Controller::handle_request`] | a task waits, is handed out or is killed; or only an answer |
//! | an agent's message | [`Controller::handle_agent`] | a phase changes; a slot becomes free and takes the next task |
//! | an answer without a peer | [`Controller::handle_undelivered`] | the task waits again |
//! | a connection is gone | [`Controller::handle_disconnected`] | answers owed to it are dropped |
//! | a deadline | [`Controller::handle_timeout`] | an agent is lost; a wait ends; old tasks are forgotten |
//!
//! The answer is an [`Answer`], the instructions are [`Effect`]s. The [`Sequencer`] around a controller decides when each message
//! leaves: its [`Claim`] says whether it promises stored data.
//!
//! # States
//!
//! A task is in a [`base::Phase`], from Waiting to Finished; one table in `src/engine/tasks/transition.rs` has every pair of phase and
//! event. `tasks/change.rs` alone applies it, and moves the task in the queue and in every index.
//!
//! A [`Controller`] has ten parts. Each owns its fields; the files of its folder hold what changes them.
//!
//! | part | owns |
//! |---|---|
//! | [`Settings`] | the configuration |
//! | [`mode`] | whether tasks are accepted and handed out: a stop, a pause, a store that cannot be written, a store that is older than what agents know |
//! | [`tasks`] | the records with their indexes, families and ids. [`tasks::change`] is the one way to change a record; [`tasks::transition`] has the phases, [`tasks::verdict`] decides on another round |
//! | [`queue`] | the order of the waiting tasks, the gates, and the sets of tools |
//! | [`fleet`] | the agents and their slots: [`fleet::assign`], [`fleet::adopt`] after a restart of the controller, [`fleet::contact`] for silent agents and their return, [`fleet::lists`], [`fleet::leases`], and for tools that stay `fleet/warm.rs` |
//! | [`relations`] | jobs, the tasks that wait for others, and the consequences of ends |
//! | [`graphs`] | the step graphs; [`graphs::steps`] makes tasks of their steps |
//! | [`archives`] | the tools and files that the controller holds |
//! | [`readers`] | the requests that are answered later: parked queries, searches, outputs |
//! | [`turn`] | the consequences of the present event: effects, deadlines, log lines, incidents |
//!
//! The parts meet in [`requests`], which has a file for each request, and in [`Controller::handle_timeout`]. [`mod@graph`] is an
//! engine of its own. It decides when the tasks of each step start, and is rebuilt after a restart from its document and its
//! [`base::GraphEntry`]s.
//!
//! # Callers
//!
//! `controller::process` feeds it all input and carries out its effects. The simulation of `tests/it/simulation` does the same on
//! virtual time. `src/controller/lib.rs` follows a submit through both.
//!
//! # Cost
//!
//! A submit, a dispatch, a report and a timer are O(log n) in tasks and agents. They are also linear in the number of different tag
//! sets of idle agents if tasks require tags, and in the number of different tool sets of all agents if agents differ in tools. A
//! request that looks at many tasks or agents is a search: it does one slice of work per turn, and connections take turns
//! ([`readers::scan`]).

mod archives;
mod fleet;
pub mod graph;
mod graphs;
mod invariants;
mod mode;
mod queue;
mod readers;
mod relations;
mod requests;
mod tasks;
mod turn;

#[cfg(test)]
mod scenarios;

use std::collections::VecDeque;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;

pub use archives::tool_order::{
    FileRoom, FileWritten, ReadFailure, ToolOrder, ToolOutcome, ToolSettings, Uploader, Written,
};
pub use fleet::contact::silence_of_cut;
pub use tasks::restore::{Stored, StoredTools};
pub use turn::departure::{Departure, Route};
pub use turn::effect::{Answer, Claim, ConnectionId, Effect, Record, Ticket, Timer};
pub use turn::sequencer::Sequencer;

use api::wire::reply::Reply;
use api::wire::rights::Repeated;
use api::wire::task;
use archives::Archives;
use base::journal::LogLine;
use base::{IncidentKind, KillCause, Mono, Now, Phase, TaskId, TaskRecord};
use fleet::Fleet;
use graphs::Graphs;
use mode::Mode;
use queue::Queue;
use readers::Readers;
use readers::waits::Subject;
use relations::Relations;
use relations::jobs::Job;
use tasks::Tasks;
use turn::Turn;
use turn::batch_delay;

/// The longest wait for a moment on the wall clock before that clock is read again, because it may jump.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// The engine's part of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Interval of an agent's heartbeats: `AGENT_HEARTBEAT_INTERVAL`.
    pub heartbeat_interval: Duration,
    /// The silence after which an agent is lost: [`silence_of_cut`] of `AGENT_LOST_AFTER`.
    pub lost_after: Duration,
    /// The time that an agent needs to end a run, unless it reports its own: [`base::lease::kill_budget`].
    pub kill_budget: Duration,
    /// Maximum number of waiting tasks: `WAITING_TASKS_MAX`.
    pub waiting_max: usize,
    /// Maximum bytes of the waiting tasks: `WAITING_BYTES_MAX`.
    pub waiting_bytes_max: usize,
    /// Maximum number of combinations of gates, tags and exclusiveness among waiting tasks: `WAITING_NEEDS_MAX`.
    pub needs_max: usize,
    /// Maximum number of known gates: `GATES_MAX`.
    pub gates_max: usize,
    /// Pause after a defer that names no time: `DEFER_DELAY`.
    pub defer_delay: Duration,
    /// The longest pause between two rounds: `RETRY_DELAY_MAX`.
    pub retry_delay_max: Duration,
    /// The first pause before the end of a task is pushed again: `PUSH_ACK_INTERVAL`.
    pub push_again_interval: Duration,
    /// The longest such pause: `PUSH_ACK_INTERVAL_MAX`.
    pub push_again_interval_max: Duration,
    /// How long an unconfirmed end is pushed: `PUSH_ACK_TIMEOUT`.
    pub push_again_max: Duration,
    /// How long a finished family is kept: `TASK_KEEP_HOURS`.
    pub keep: Duration,
    /// Maximum bytes of finished tasks that are kept: `TASK_KEEP_BYTES_MAX`.
    pub keep_bytes_max: usize,
    /// Whether ended rounds go to the history.
    pub keeps_history: bool,
    /// Maximum number of tasks or agents in one reply: `DETAILS_LIMIT_MAX`.
    pub page_max: usize,
    /// Maximum number of known agents: `AGENTS_MAX`.
    pub agents_max: usize,
    /// Maximum number of parked queries; one connection may have a tenth of them: `PARKED_MAX`.
    pub parked_max: usize,
    /// Maximum number of addresses that the state of one job is pushed to: `JOB_RECEIVERS_MAX`.
    pub job_receivers_max: usize,
    /// Whether a run is stored before its agent gets it, because another machine may take the queue over: `STORE`.
    pub stores_first: bool,
    /// Maximum number of waiting searches; one connection may have a tenth of them: `SEARCHES_MAX`.
    pub scans_max: usize,
    /// Maximum bytes of an output in one message, so that an agent can send them.
    pub part_bytes_max: u64,
    /// The time that a run gets to finish when its step ends early: `STEP_GRACE`.
    pub step_grace: Duration,
    /// The time within which an agent may start the tasks of a list, and the maximum sum of their expected runs: `LIST_TIME_MAX`.
    pub list_time_max: Duration,
    /// Maximum number of tasks in a list: `LIST_TASKS_MAX`.
    pub list_tasks_max: usize,
    /// How long an idle agent leaves a task to a busy one that has its tool warm: `STAY_WAIT_MAX`.
    pub stay_wait_max: Duration,
    /// The limits of the archives of tools.
    pub tools: ToolSettings,
}

/// The state of a controller. See the [module](self).
#[derive(Debug)]
pub struct Controller {
    settings: Settings,
    mode: Mode,
    tasks: Tasks,
    queue: Queue,
    fleet: Fleet,
    relations: Relations,
    graphs: Graphs,
    archives: Archives,
    readers: Readers,
    turn: Turn,
}

impl Controller {
    /// A controller without tasks and agents. The seed determines all ids that it will make.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        use rand::RngExt as _;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        // Agents read it from JSON, where whole numbers are exact up to 2^53.
        let id = random.random::<u64>() >> 11;
        Self {
            settings,
            mode: Mode::of_start(id),
            tasks: Tasks::new(random),
            queue: Queue::default(),
            // Different for each start, with high probability. So the list numbers that an agent remembers from an earlier
            // controller match none here.
            fleet: Fleet::with_lists_behind(id / 2),
            relations: Relations::numbered_from(id),
            graphs: Graphs::default(),
            archives: Archives::default(),
            readers: Readers::of_start(id),
            turn: Turn::default(),
        }
    }

    /// The store cannot be written, or can be written again. Meanwhile submits are refused and everything else continues.
    pub fn handle_store(&mut self, trouble: Option<String>) {
        self.mode.store_trouble = trouble;
    }

    /// Why another controller may lead the queue by now: this one cannot reach the store that names the leader.
    pub(crate) fn doubt(&self) -> Option<&str> {
        self.mode.store_trouble.as_deref().filter(|_| self.settings.stores_first)
    }

    /// Whether this task, or any task of this job, has a command; `None` if the task or job is not known.
    #[must_use]
    pub fn has_command(&self, repeated: Repeated<'_>) -> Option<bool> {
        match repeated {
            Repeated::Task(task) => self.tasks.get(task).map(task::has_command),
            Repeated::Job(name) => self.relations.job(name).map(Job::has_command),
        }
    }

    /// A commit is stored, including the submits of all tasks up to this one.
    pub fn handle_committed(&mut self, now: Now, newest: Option<TaskId>) {
        self.tasks.note_stored(newest);
        self.limits_are_stored(now);
    }

    /// Whether the run that this record assigns is still the present one of its task, and not void.
    #[must_use]
    pub fn is_present(&self, assigned: &TaskRecord) -> bool {
        let run = |record: &TaskRecord| Some((record.round, record.assignment()?.agent.clone()));
        let is_of_it = |record: &TaskRecord| record.phase() < Phase::Ended && run(record) == run(assigned);
        // A lease that runs out covers no start: its term began when the agent was heard last.
        !self.fleet.is_expiring(assigned.id) && self.tasks.get(assigned.id).is_some_and(is_of_it)
    }

    /// How long the confirmation of an agent's last report may wait for a commit.
    #[must_use]
    pub fn confirmation_delay(&self, confirmation: &Reply) -> Duration {
        match confirmation {
            Reply::Reported { task, .. } => self.tasks.get(*task).map(batch_delay::of_many).unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }

    /// Ends every event: starts every task that can start, and sets the deadline for the next change that time alone brings.
    fn settle(&mut self, now: Now) {
        loop {
            self.settle_graphs(now);
            self.settle_relations(now);
            self.dispatch(now);
            // A task may have run out of time right before it would have been handed out.
            if !self.relations.backlog.has_work() && !self.graphs.has_work() {
                break;
            }
        }
        self.plan_graphs(now);
        self.plan_relations(now);
        self.publish_jobs(now);
        self.look_at_changes(now);
        self.plan_discards(now);
        self.write_end_lines(now);
        self.plan(now);
        self.plan_look(now);
    }

    /// The log lines since the last call; see [`base::journal`].
    pub fn take_log(&mut self) -> VecDeque<LogLine> {
        self.turn.take_log()
    }

    /// The incidents since the last call, for the history: each as a sentence.
    pub fn take_incidents(&mut self) -> Vec<(IncidentKind, String)> {
        self.turn.take_incidents()
    }

    /// The next effect. The turn ends when there is none.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        let effect = self.turn.poll_effect();
        if effect.is_none() {
            self.readers.begin_turn();
            self.relations.begin_turn();
            self.graphs.begin_turn();
        }
        effect
    }

    /// The next deadline, and its reason.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Mono, &Timer)> {
        self.turn.next_timer()
    }

    /// Handles everything that is due.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.turn.next_timer().is_some_and(|(at, _)| at <= now.mono) {
            self.do_what_is_due(now);
            self.settle(now);
        }
    }

    fn do_what_is_due(&mut self, now: Now) {
        // A search sets its next deadline at once, so each reason is handled once per call only.
        let (mut scanned, mut looks) = (false, false);
        while let Some(timer) = self.turn.pop_due(now.mono) {
            match timer {
                Timer::Scan if std::mem::replace(&mut scanned, true) => {
                    self.turn.set_timer(Timer::Scan, now.mono);
                    break;
                }
                Timer::Scan => self.continue_scans(now),
                // The end of every event continues them.
                Timer::Relations | Timer::Graphs => {}
                Timer::JobStatus(name) => self.publish_job(now, name),
                Timer::Ends(name) => self.answer_waiters(&Subject::Ends(name)),
                Timer::EndLog(name) => self.drop_unread_log(now, name),
                Timer::Silence(agent) => self.silence(now, agent),
                Timer::Suspicion => self.end_suspicion(now),
                Timer::Lease(task) => self.end_lease(now, task),
                Timer::Pause => self.end_pause(now),
                Timer::EndLines => self.sum_up_ends(),
                Timer::Slots => self.look_at_slots(now),
                Timer::ApplyWait(agent) => self.unpark(&agent),
                Timer::QueryWait(ticket) => self.end_query_wait(now, ticket),
                // Done last, so that the look sees the changes of the other timers.
                Timer::Look => looks = true,
                Timer::OutputWait(ticket) => self.end_output_wait(ticket),
                Timer::ToolDiscard(digest) => self.discard_tool(digest),
                Timer::RunTime(task) => self.kill(now, task, &KillCause::TimedOut),
                Timer::Calendar => self.look_at_calendar(now),
                Timer::Young => self.end_youth(now),
                Timer::PushAgain(task) => self.push_again(now, task),
                Timer::Retention => {
                    self.retain(now);
                    if self.turn.next_timer().is_some_and(|(at, timer)| at <= now.mono && *timer == Timer::Retention) {
                        break;
                    }
                }
            }
        }
        if looks {
            self.look(now);
        }
    }
}
