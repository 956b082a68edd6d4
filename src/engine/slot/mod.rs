//! The agent: one slot, and its conversation with the controller.
//!
//! | event | enters by |
//! |---|---|
//! | an answer of the controller | [`Slot::handle_answer`] |
//! | something published | [`Slot::handle_published`] |
//! | an effect has come out, well or badly | [`Slot::handle_prepared`], [`Slot::handle_spawned`], [`Slot::handle_tree`], [`Slot::handle_removed`] |
//! | run.sh has ended | [`Slot::handle_exited`] |
//! | the agent is told to stop | [`Slot::handle_stop`] |
//! | a deadline | [`Slot::handle_timeout`] |
//!
//! Who owns what: [`run`] the phases of the task and its kill ladder, [`link`] what has been said to the controller and what it
//! has confirmed, [`stop`] the way out. They meet here.
//!
//! Reports are states, not changes: each holds all that is known of the run, and is made only when nothing else is left to
//! do. So the phases that a short task goes through in one turn cost one message, and a report that is lost is made good by
//! the next one. A run may have slack, for which a report waits for more to tell; the last one never does.

mod link;
mod run;
mod stop;

#[cfg(test)]
mod scenarios;

use std::collections::VecDeque;
use std::time::Duration;

use crate::protocol::agent::{Job, ToAgent};
use crate::protocol::publish::Published;
use crate::protocol::reply::Wanted;
use crate::protocol::request::{FromAgent, Report};
use crate::types::{AgentId, Defer, ExitCode, Labels, Mono, Now, Round, Session, TaskId};

use link::Link;
use run::Run;

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
    /// `AGENT_HEARTBEAT_INTERVAL`
    pub heartbeat_interval: Duration,
    /// `AGENT_KILL_INTERVAL`
    pub kill_interval: Duration,
    /// `AGENT_KILL_COUNT`
    pub kill_count: u32,
    /// `AGENT_STRAGGLER_GRACE`
    pub straggler_grace: Duration,
    /// `AGENT_STOP_TIMEOUT`
    pub stop_timeout: Duration,
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
    /// Look whether run.sh has left processes behind; then [`Slot::handle_tree`].
    CheckTree,
    /// Remove the work folder; then [`Slot::handle_removed`].
    Remove,
    /// The agent is registered with its controller.
    Ready,
    /// The agent is done.
    Exit(Ending),
}

/// How an agent parts from its controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As it was told to, and the controller has heard its good-bye.
    Left,
    /// As it was told to, but the controller does not answer: the next agent of the name has to replace it.
    Unheard,
    /// The controller does not want it, for this reason.
    Rejected(String),
}

/// A step of the kill ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, and SIGCONT so that a stopped process can obey.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// Why a run never started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// -128 to -131.
    pub exit_code: ExitCode,
    /// One sentence.
    pub error: String,
}

/// Why run.sh did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpawnFailure {
    /// Somebody still has run.sh open for writing (ETXTBSY); worth another try.
    Busy,
    /// It will never start.
    Failed(Failure),
}

/// How run.sh ended, and what it left to read.
#[derive(Clone, Debug, PartialEq)]
pub struct Exited {
    /// Its code.
    pub exit_code: ExitCode,
    /// Processor time, in seconds.
    pub cpu_seconds: f64,
    /// Peak resident memory, in KiB.
    pub max_rss_kib: u64,
    /// The end of report.log.
    pub report_tail: String,
    /// The end of stdout.
    pub stdout_tail: String,
    /// The end of stderr.
    pub stderr_tail: String,
    /// What defer.info asks for, if run.sh deferred.
    pub defer: Option<Box<Defer>>,
}

/// Why the engine wants to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A heartbeat is due.
    Heartbeat,
    /// The next signal of the kill ladder is due.
    Ladder,
    /// What is left of the tree gets its next signal.
    Sweep,
    /// run.sh was busy and may be free by now.
    Respawn,
    /// The slack of a report is over.
    Slack,
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
        if let Some(effect) = self.effects.pop_front() {
            return Some(effect);
        }
        let by = self.report_by?;
        if now.mono < by && !self.run.is_finished() {
            self.timers.set(Timer::Slack, by);
            return None;
        }
        self.timers.clear(&Timer::Slack);
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
                Timer::Ladder | Timer::Sweep | Timer::Respawn => self.run_timer(now, timer),
                // The report is the next effect.
                Timer::Slack => {}
                Timer::Patience => self.give_up_results(now),
                Timer::Farewell => self.effects.push_back(Effect::Exit(Ending::Unheard)),
            }
        }
    }

    /// Takes an answer of the controller.
    pub fn handle_answer(&mut self, now: Now, answer: ToAgent) {
        match answer {
            ToAgent::Heard { controller, wanted, parked } => self.heard(now, controller, wanted, parked),
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
            Published::Kill(task, round) if self.run.id() == Some((task, round)) => self.kill(now),
            Published::Kill(task, round) => {
                self.early_kills.push_back((task, round));
                if self.early_kills.len() > EARLY_KILLS_MAX {
                    self.early_kills.pop_front();
                }
            }
            Published::Stop(agent) => {
                if agent.is_none_or(|agent| agent == self.settings.agent.as_str()) {
                    self.handle_stop(now);
                }
            }
        }
    }

    fn heartbeat(&mut self, now: Now) {
        if self.link.heartbeat() {
            log::warn!("the controller does not answer; connecting again");
            self.effects.push_back(Effect::Reconnect);
        }
        let heartbeat = self.link.sign_of_life(&self.settings, self.run.id());
        self.effects.push_back(Effect::Send(FromAgent::Heartbeat(heartbeat)));
        self.timers.set(Timer::Heartbeat, now.mono + self.settings.heartbeat_interval);
    }

    fn heard(&mut self, now: Now, controller: u64, wanted: Option<(TaskId, Round, Wanted)>, parked: bool) {
        let news = self.link.heard(controller, parked);
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
        self.run.start(now, job.clone());
        self.effects.push_back(Effect::Prepare(Box::new(job)));
        self.report_soon(now);
        if let Some(at) = self.early_kills.iter().position(|early| *early == run) {
            self.early_kills.remove(at);
            self.kill(now);
        }
    }

    /// Nobody wants the result of this run any more.
    fn drop_run(&mut self, now: Now, task: TaskId, round: Round) {
        if self.run.id() == Some((task, round)) {
            log::warn!("round {round} of task {task} is not wanted any more; ending it");
            self.run.unwanted();
            self.kill(now);
            if self.run.is_finished() {
                // Its report has waited for the controller; no other event will come.
                self.release(now);
            }
        }
    }

    /// There is something to tell of the run, if there is one.
    fn report_soon(&mut self, now: Now) {
        if let Some(slack) = self.run.slack() {
            self.report_by.get_or_insert(now.mono + slack);
        }
    }

    /// How the run stands; with the last report of a run, the agent asks for its next task.
    fn report(&mut self, now: Now) -> Option<FromAgent> {
        let mut report: Report = self.run.report(now)?;
        if !self.run.is_finished() {
            return Some(FromAgent::Report(Box::new(report)));
        }
        self.run.clear();
        self.link.keep(report.clone());
        if self.stopping {
            self.leave_if_done(now);
        } else if !self.link.has_applied() {
            self.link.apply(now.mono);
            report.wait = Some(self.apply_wait());
        }
        Some(FromAgent::Report(Box::new(report)))
    }
}
