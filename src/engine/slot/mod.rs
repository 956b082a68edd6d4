//! The agent: one slot, and its conversation with the controller.
//!
//! | event | enters by |
//! |---|---|
//! | an answer of the controller | [`Slot::handle_answer`] |
//! | something published | [`Slot::handle_published`] |
//! | there is a connection, the first one or another one | [`Slot::handle_connected`] |
//! | an effect has come out, well or badly | [`Slot::handle_prepared`], [`Slot::handle_spawned`], [`Slot::handle_tree`], [`Slot::handle_refused`], [`Slot::handle_unended`], [`Slot::handle_removed`] |
//! | run.sh has ended | [`Slot::handle_exited`] |
//! | the tools folder was looked at | [`Slot::handle_tools`], [`Slot::handle_looked`] |
//! | the agent is told to stop | [`Slot::handle_stop`] |
//! | a deadline | [`Slot::handle_timeout`] |
//!
//! Who owns what: [`run`] the phases of the task and its kill ladder, [`link`] what has been said to the controller and what it
//! has confirmed, [`hold`] how long a run may go on while the controller is not heard, [`foreign`] what of a run may not
//! be ended, [`tools`] what it knows of the tools, [`stop`] the way out. They meet here.
//!
//! Reports are states, not changes: each holds all that is known of the run, and is made only when nothing else is left to
//! do. So the phases that a short task goes through in one turn cost one message, and a report that is lost is made good by
//! the next one. A run may have slack, for which a report waits for more to tell; the last one never does.

mod foreign;
mod hold;
mod link;
mod outcome;
mod run;
mod stop;
mod tools;

#[cfg(test)]
mod scenarios;

use std::collections::VecDeque;
use std::time::Duration;

pub use crate::engine::run::Signal;
use crate::protocol::agent::{Job, ToAgent};
use crate::protocol::publish::Published;
use crate::protocol::reply::Wanted;
use crate::protocol::request::{FromAgent, Report};
use crate::types::{AgentId, Labels, Mono, Now, Round, Session, TaskId, ToolSet, lease};

use hold::BeyondLease;
use link::Link;
pub use outcome::{Ending, Exited, Failure, Hold, SpawnFailure};
use run::Run;
use tools::Telling;

/// What the engine must know of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The id under which the agent is known.
    pub agent: AgentId,
    /// This life of it.
    pub session: Session,
    /// The life before this one, whose process is known to be gone.
    pub replaces: Option<Session>,
    /// Where the agent is, for people.
    pub ip: String,
    /// `AGENT_TAGS`
    pub tags: Labels,
    /// The tools that it has at its start; `None` for an agent that does not tell.
    pub tools: Option<ToolSet>,
    /// `AGENT_HEARTBEAT_INTERVAL`
    pub heartbeat_interval: Duration,
    /// `AGENT_KILL_INTERVAL`
    pub kill_interval: Duration,
    /// `AGENT_KILL_COUNT`
    pub kill_count: u32,
    /// `AGENT_STRAGGLER_GRACE`
    pub straggler_grace: Duration,
    /// `AGENT_FOREIGN_PROCESS_TIMEOUT`
    pub foreign_process_timeout: Duration,
    /// `AGENT_STOP_TIMEOUT`
    pub stop_timeout: Duration,
}

impl Settings {
    /// From the first signal to a run to the last SIGKILL to anything that it has started.
    fn kill_time(&self) -> Duration {
        lease::kill_time(self.kill_interval, self.kill_count, self.straggler_grace)
    }

    /// From the first signal to a run to the end of its last process.
    fn kill_budget(&self) -> Duration {
        lease::kill_budget(self.kill_interval, self.kill_count, self.straggler_grace)
    }
}

/// What the shell must do, in order. What can fail comes back as an event.
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Say this to the controller.
    Send(FromAgent),
    /// Give the connection up and make a new one.
    Reconnect,
    /// Make the work folder and put the tool there; then [`Slot::handle_prepared`].
    Prepare(Box<Job>),
    /// Stop preparing as soon as possible; [`Slot::handle_prepared`] still comes.
    AbortPrepare,
    /// Start run.sh; then [`Slot::handle_spawned`].
    Spawn,
    /// Signal everything that the run has started.
    Signal(Signal),
    /// Read what run.sh, which may not be ended, has written so far; then [`Slot::handle_unended`].
    Unended,
    /// Look whether run.sh has left processes behind; then [`Slot::handle_tree`].
    CheckTree,
    /// Remove the work folder; then [`Slot::handle_removed`].
    Remove,
    /// The run is held by a lease until then, or by none any more. Whoever guards the agent must know before the run starts.
    Lease(Option<Hold>),
    /// Look at the tools folder, for the sake of the look of this number; then [`Slot::handle_looked`].
    Look(u64),
    /// The agent is registered with its controller.
    Ready,
    /// The agent is done.
    Exit(Ending),
}

/// Why the engine wants to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A heartbeat is due.
    Heartbeat,
    /// The next signal to a run that is to end, or to what it has left, is due.
    Signal,
    /// A process that may not be signalled holds up the end of the run, or its result, for long enough.
    Hold,
    /// run.sh was busy and may be free by now.
    Respawn,
    /// The batch delay of a report is over.
    BatchDelay,
    /// The lease of the run is over.
    Lease,
    /// The controller does not confirm the last result of a stopping agent.
    Patience,
    /// The controller does not confirm the exit.
    Farewell,
}

/// Kills of runs that have not come yet: the answer to an APPLY and a kill travel on different connections.
const EARLY_KILLS_MAX: usize = 64;

/// The state of an agent. See the module for what it does.
#[derive(Debug)]
pub struct Slot {
    settings: Settings,
    run: Run,
    link: Link,
    tools: Telling,
    timers: crate::engine::timers::Timers<Timer>,
    effects: VecDeque<Effect>,
    /// Whether the controller has not been told how the run stands, and by when it is.
    report_by: Option<Mono>,
    early_kills: VecDeque<(TaskId, Round)>,
    stopping: bool,
}

impl Slot {
    /// An agent with a free slot, which says hello at once.
    #[must_use]
    pub fn new(settings: Settings, now: Now) -> Self {
        let mut slot = Self {
            tools: Telling::new(settings.tools.clone()),
            settings,
            run: Run::default(),
            link: Link::default(),
            timers: crate::engine::timers::Timers::default(),
            effects: VecDeque::new(),
            report_by: None,
            early_kills: VecDeque::new(),
            stopping: false,
        };
        slot.heartbeat(now);
        slot
    }

    /// The next thing to do. When there is none, the turn is over.
    pub fn poll_effect(&mut self, now: Now) -> Option<Effect> {
        while let Some(effect) = self.effects.pop_front() {
            // An agent may have been stopped for any time since this was decided.
            if effect != Effect::Spawn || !self.is_beyond_lease(now) {
                return Some(effect);
            }
        }
        let by = self.report_by?;
        if now.mono < by && !self.run.is_finished() {
            self.timers.set(Timer::BatchDelay, by);
            return None;
        }
        self.timers.clear(&Timer::BatchDelay);
        self.report_by = None;
        if self.link.is_up() { self.report(now).map(Effect::Send) } else { None }
    }

    /// The next deadline, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Mono, &Timer)> {
        self.timers.next()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::Heartbeat => self.heartbeat(now),
                Timer::Signal | Timer::Hold | Timer::Respawn => self.run_timer(now, timer),
                // The report is the next effect.
                Timer::BatchDelay => {}
                Timer::Lease => self.end_lease(now),
                Timer::Patience => self.give_up_results(now),
                Timer::Farewell => self.effects.push_back(Effect::Exit(Ending::Unheard)),
            }
        }
    }

    /// Takes an answer of the controller.
    pub fn handle_answer(&mut self, now: Now, answer: ToAgent) {
        match answer {
            ToAgent::Heard { controller, beat, wanted, parked, tools, look } => {
                self.tools.handle_answer(controller, tools);
                if let Some(number) = look {
                    self.look_for_tools(number);
                }
                let sent = beat.and_then(|number| self.link.beat_heard(number));
                if let (Some(sent), Some((task, round, Wanted::Run | Wanted::Kill))) = (sent, wanted) {
                    self.renew_lease(now, (task, round), sent);
                }
                self.handle_answer_facts(now, controller, wanted, parked);
            }
            ToAgent::Job(job) => self.take(now, *job),
            ToAgent::NoJob => {
                // One that comes too early answers an APPLY that a later one has replaced. To apply again would replace
                // that one in turn, without end.
                if self.link.forget_apply(now.mono, self.apply_wait()) {
                    self.apply(now);
                }
            }
            ToAgent::Reported { task, round, finished, accepted } => {
                self.link.confirmed(task, round, finished || !accepted);
                if !accepted {
                    self.drop_run(now, task, round);
                }
                self.tell_tools(now);
                self.apply(now);
                self.leave_if_done(now);
            }
            ToAgent::Rejected(reason) => {
                if self.link.rejected() {
                    self.effects.push_back(Effect::Exit(Ending::Rejected(reason)));
                }
            }
            ToAgent::Left => {
                if self.timers.is_set(&Timer::Farewell) {
                    self.timers.clear(&Timer::Farewell);
                    self.effects.push_back(Effect::Exit(Ending::Left));
                }
            }
        }
    }

    /// Takes something published.
    pub fn handle_published(&mut self, now: Now, message: Published) {
        match message {
            Published::Inform => self.apply(now),
            Published::Look(number) => self.look_for_tools(number),
            Published::Kill(task, round) if self.run.id() == Some((task, round)) => self.kill(now),
            Published::Kill(task, round) => {
                self.early_kills.push_back((task, round));
                if self.early_kills.len() > EARLY_KILLS_MAX {
                    self.early_kills.pop_front();
                }
            }
        }
    }

    /// There is a connection, the first one or another one. What was said before may be lost, and whoever answers may be another
    /// controller: it is told at once that the agent is here, and with its answer the rest is said again.
    pub fn handle_connected(&mut self, now: Now) {
        self.link.connected();
        if self.timers.is_set(&Timer::Farewell) {
            return self.effects.push_back(Effect::Send(FromAgent::Exit));
        }
        self.heartbeat(now);
    }

    fn heartbeat(&mut self, now: Now) {
        if self.link.heartbeat() {
            log::warn!("the controller does not answer; connecting again");
            self.effects.push_back(Effect::Reconnect);
        }
        let (busy, run) = (!self.run.is_free(), self.run.id());
        let heartbeat = self.link.sign_of_life(now.mono, &self.settings, busy, run, self.tools.poll_told());
        self.effects.push_back(Effect::Send(FromAgent::Heartbeat(heartbeat)));
        self.timers.set(Timer::Heartbeat, now.mono + self.settings.heartbeat_interval);
    }

    fn handle_answer_facts(&mut self, now: Now, controller: u64, wanted: Option<(TaskId, Round, Wanted)>, parked: bool) {
        let news = self.link.handle_answer(controller, parked);
        if news.joined {
            self.effects.push_back(Effect::Ready);
        }
        for report in self.link.reports_to_repeat(news.new_controller) {
            self.effects.push_back(Effect::Send(FromAgent::Report(Box::new(report))));
        }
        match wanted {
            Some((task, round, Wanted::Kill)) if self.run.id() == Some((task, round)) => self.kill(now),
            Some((task, round, Wanted::Drop)) => self.drop_run(now, task, round),
            Some((.., Wanted::Run | Wanted::Kill)) | None => {}
        }
        if news.new_controller {
            self.report_soon(now);
        }
        // Before it asks: what it gets shall be what it can run.
        self.tell_tools(now);
        // The controller lives, and has not answered in time. It mostly says earlier that it has no APPLY of ours.
        self.link.forget_apply(now.mono, self.apply_wait() + self.settings.heartbeat_interval);
        self.apply(now);
    }

    /// Asks for a task, unless that has been asked already or the slot is taken. Who asks has nothing more to say of the task
    /// before: until that is confirmed, only its report asks.
    fn apply(&mut self, now: Now) {
        let idle = self.run.is_free() && self.link.is_settled() && !self.stopping;
        if self.link.is_up() && !self.link.has_applied() && idle {
            self.link.apply(now.mono);
            self.effects.push_back(Effect::Send(FromAgent::Apply(Some(self.apply_wait()))));
        }
    }

    /// Short enough that an APPLY that was lost is soon repeated.
    fn apply_wait(&self) -> Duration {
        self.settings.heartbeat_interval * 2
    }

    fn take(&mut self, now: Now, job: Job) {
        self.link.answered();
        if !self.run.is_free() || self.stopping {
            // The controller hands it out again with the next APPLY, or to another agent after the exit.
            log::warn!("task {} comes while the slot is taken", job.task);
            return;
        }
        if let Some(report) = self.link.unconfirmed(job.task, job.round) {
            // An APPLY was answered twice, or the controller has started again: it will get the result, not another run.
            let mut report = report.clone();
            self.link.apply(now.mono);
            report.wait = Some(self.apply_wait());
            return self.effects.push_back(Effect::Send(FromAgent::Report(Box::new(report))));
        }
        let run = (job.task, job.round);
        let until = match self.grant(now, &job) {
            Ok(until) => until,
            Err(BeyondLease) => return,
        };
        self.run.start(now, job.clone());
        if let Some(until) = until {
            self.hold(until);
            // The lease goes on only when the controller has heard of the run.
            self.heartbeat(now);
        }
        self.effects.push_back(Effect::Prepare(Box::new(job)));
        self.report_soon(now);
        if let Some(at) = self.early_kills.iter().position(|early| *early == run) {
            self.early_kills.remove(at);
            self.kill(now);
        }
    }

    /// There is something to tell of the run, if there is one.
    fn report_soon(&mut self, now: Now) {
        if let Some(batch_delay) = self.run.batch_delay() {
            self.report_by.get_or_insert(now.mono + batch_delay);
        }
    }

    /// How the run stands; with the last report of a run, the agent asks for its next task.
    fn report(&mut self, now: Now) -> Option<FromAgent> {
        let mut report: Report = self.run.report(now)?;
        if !self.run.is_finished() {
            return Some(FromAgent::Report(Box::new(report)));
        }
        self.run.clear();
        self.link.keep_report(report.clone());
        if self.stopping {
            self.leave_if_done(now);
        } else if !self.link.has_applied() && self.run.is_free() {
            self.link.apply(now.mono);
            report.wait = Some(self.apply_wait());
        } else if !self.run.is_free() {
            // What the run has left keeps the slot: it is busy, without a task.
            self.heartbeat(now);
        }
        Some(FromAgent::Report(Box::new(report)))
    }
}
