//! The agent: one slot, and its conversation with the controller.
//!
//! | event | enters by |
//! |---|---|
//! | an answer of the controller | [`Slot::handle_answer`] |
//! | a publication; a new connection | [`Slot::handle_published`]; [`Slot::handle_connected`] |
//! | the result of an effect | [`Slot::handle_prepared`], [`Slot::handle_spawned`], [`Slot::handle_handed`], [`Slot::handle_tree`], [`Slot::handle_refused`], [`Slot::handle_unended`], [`Slot::handle_kept`], [`Slot::handle_removed`] |
//! | run.sh has ended, or a tool that stays has answered | [`Slot::handle_exited`] |
//! | the tools that stay have changed | [`Slot::handle_warm`] |
//! | a part of an output, or its growth | [`Slot::handle_served`] |
//! | the progress of a run, or a change of it | [`Slot::handle_progress`], [`Slot::handle_progress_change`] |
//! | a scan of the tools folder | [`Slot::handle_tools`] |
//! | a request to stop, at once or as soon as the slot is free | [`Slot::handle_stop`], [`Slot::handle_retire`] |
//! | a deadline | [`Slot::handle_timeout`] |
//!
//! | part | content |
//! |---|---|
//! | [`run`] | the phases of the task and its kill ladder |
//! | [`orders`] | the orders about a run |
//! | [`link`] | the reports to the controller and their confirmations |
//! | [`hold`] | the lease of an exclusive run |
//! | [`foreign`] | processes of a run that the agent may not signal |
//! | [`keeping`] | the files that are kept with a task |
//! | [`ahead`] | the tasks of a list |
//! | [`epochs`], [`skew`] | which controller is obeyed; how its clock differs |
//! | [`tools`], [`serve`], [`progress`] | reports of tools, of outputs, and of the progress of a run |
//! | [`stop`] | the way out |
//!
//! Reports are states, not changes: each contains everything that is known of the run, and is made only when no other
//! effect is left. So all phases of a short task in one turn cost one message, and the next report makes up for a lost one.
//! A report may be delayed for batching if the run allows it; the final one never is.

mod ahead;
mod epochs;
mod foreign;
mod hold;
mod keeping;
mod link;
mod orders;
mod outcome;
mod progress;
mod run;
mod run_order;
mod serve;
mod skew;
mod stop;
mod tools;

#[cfg(test)]
mod scenarios;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use api::wire::agent::ToAgent;
use api::wire::requests::FromAgent;
use api::wire::requests::apply::Dispatch;
use api::wire::requests::heartbeat::{Directive, Heard};
use api::wire::requests::report::Report;
use api::wire::requests::serve::Wanted;
use base::journal::{Journal, LogLine};
use base::{AgentId, Epoch, ExitCode, KnownEpoch, Labels, Mono, Now, Round, Session, TaskId, ToolSet, Wall, lease};
pub use proc::ladder::Signal;

use ahead::Ahead;
use epochs::EpochCheck;
use link::Link;
use orders::EarlyOrders;
pub use outcome::{Ending, Exited, Failure, Hold, ProvideFolder, SpawnFailure};
use run::Run;
use stop::Mode;
use tools::ToolReports;

/// The engine's part of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Id of the agent.
    pub agent: AgentId,
    /// Session of this process.
    pub session: Session,
    /// The epochs that agents of this machine have served under.
    pub epochs: Vec<KnownEpoch>,
    /// Session of the previous process, if it is known to have ended.
    pub replaces: Option<Session>,
    /// Address of the agent, for people.
    pub ip: String,
    /// `AGENT_TAGS`
    pub tags: Labels,
    /// Tools at the start; `None` for an agent that does not report tools.
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
    /// Time from the first signal to a run to the last SIGKILL to any process that it has started.
    fn kill_time(&self) -> Duration {
        lease::kill_time(self.kill_interval, self.kill_count, self.straggler_grace)
    }

    /// Time from the first signal to a run to the end of its last process.
    fn kill_budget(&self) -> Duration {
        lease::kill_budget(self.kill_interval, self.kill_count, self.straggler_grace)
    }
}

/// An instruction to the shell; the order matters. Results come back as events.
#[expect(
    clippy::large_enum_variant,
    reason = "it is carried out at once; a box would be one allocation for each message"
)]
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Send this to the controller.
    Send(FromAgent),
    /// Drop the connection and make a new one.
    Reconnect,
    /// Make the work folder and put the tool there; then [`Slot::handle_prepared`].
    Prepare(Box<Dispatch>),
    /// Stop preparing as soon as possible; [`Slot::handle_prepared`] still comes.
    AbortPrepare,
    /// Start run.sh; then [`Slot::handle_spawned`]. For a tool that stays: start it if it is not running, and hand the task over; then
    /// [`Slot::handle_handed`], or the other one if that fails.
    Spawn,
    /// Stop starting a tool that stays; the result of the start still comes.
    AbortStart,
    /// Tell a tool that stays to give its task up. It gets no further task if it is to end.
    Cancel {
        /// Whether the tool ends with the task.
        ends_tool: bool,
    },
    /// Make the file that asks the run of a step to finish early.
    TellToFinish,
    /// Signal all processes that the run has started.
    Signal(Signal),
    /// Read the outputs of a run.sh that cannot be ended; then call [`Slot::handle_unended`].
    Unended,
    /// Check whether run.sh has left processes behind; then [`Slot::handle_tree`].
    CheckTree,
    /// Read the outputs of a killed run again, because processes of it outlived its run.sh, which ended with this code; then
    /// [`Slot::handle_read_again`].
    ReadAgain(ExitCode),
    /// Keep the files of the run that match a pattern of its task; then [`Slot::handle_kept`].
    Keep,
    /// Stop keeping files as soon as possible; [`Slot::handle_kept`] still comes.
    AbortKeep,
    /// Remove the work folder; then [`Slot::handle_removed`].
    Remove,
    /// The end of the lease of the run, or no lease. The guard or supervisor must know it before the run starts.
    Lease(Option<Hold>),
    /// Remember that an agent of this machine has served under this epoch.
    Remember(KnownEpoch),
    /// The identity of the controller's own tools folder, if it takes tools from there.
    ToolsFolder(Arc<str>),
    /// Read this part of an output; then [`Slot::handle_served`].
    Read(Wanted),
    /// Read the progress of the run; then [`Slot::handle_progress`].
    LookAtProgress,
    /// Free the disk of the middle of outputs that have become long; then [`Slot::handle_trimmed`].
    TrimOutputs,
    /// The agent is registered with its controller.
    Ready,
    /// The agent has ended.
    Exit(Ending),
}

/// The reason for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A heartbeat is due.
    Heartbeat,
    /// The next signal is due, to a run that must end or to its remains.
    Signal,
    /// The grace time of a run that was told to finish, or of a task that a tool that stays was told to give up, has passed.
    Grace,
    /// A process that may not be signalled has delayed the end of the run, or its result, long enough.
    Hold,
    /// run.sh was busy and may have become free.
    Respawn,
    /// The time of the list has passed.
    List,
    /// A long output of the run may have grown.
    Trim,
    /// The progress of the run is due to be read.
    Progress,
    /// The batch delay of a report has passed.
    BatchDelay,
    /// The lease of the run expires.
    Lease,
    /// The controller has not confirmed the last result of a stopping agent.
    Patience,
    /// The controller has not confirmed the exit.
    Farewell,
}

/// The state of an agent. See the [module](self).
#[derive(Debug)]
pub struct Slot {
    settings: Settings,
    run: Run,
    ahead: Ahead,
    link: Link,
    epochs: epochs::Epochs,
    skew: skew::SkewMeter,
    tools: ToolReports,
    timers: base::timers::Timers<Timer>,
    effects: VecDeque<Effect>,
    journal: Journal,
    /// The deadline of a report that the controller needs, if any.
    report_by: Option<Mono>,
    early_orders: EarlyOrders,
    mode: Mode,
}

impl Slot {
    /// An agent with a free slot, which sends its first heartbeat at once.
    #[must_use]
    pub fn new(settings: Settings, now: Now) -> Self {
        let mut slot = Self {
            tools: ToolReports::new(settings.tools.clone()),
            epochs: epochs::Epochs::new(settings.epochs.clone()),
            skew: skew::SkewMeter::default(),
            settings,
            run: Run::default(),
            ahead: Ahead::default(),
            link: Link::default(),
            timers: base::timers::Timers::default(),
            effects: VecDeque::new(),
            journal: Journal::default(),
            report_by: None,
            early_orders: EarlyOrders::default(),
            mode: Mode::default(),
        };
        slot.heartbeat(now);
        slot
    }

    /// The log lines since the last call; see [`base::journal`].
    pub fn take_log(&mut self) -> VecDeque<LogLine> {
        self.journal.take()
    }

    /// The next effect. The turn ends when there is none.
    pub fn poll_effect(&mut self, now: Now) -> Option<Effect> {
        while let Some(effect) = self.effects.pop_front() {
            // The agent may have been stopped for any length of time since this was decided.
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

    /// The next deadline, and its reason.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Mono, &Timer)> {
        self.timers.next()
    }

    /// Handles everything that is due.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::Heartbeat => {
                    self.heartbeat(now);
                    self.trim_outputs();
                    self.look_at_progress();
                }
                Timer::Progress => self.look_at_progress(),
                Timer::Trim => self.trim_outputs(),
                Timer::Signal | Timer::Hold | Timer::Respawn => self.run_timer(now, timer),
                // The report is the next effect.
                Timer::BatchDelay => {}
                Timer::List => self.end_list(now),
                Timer::Lease => self.end_lease(now),
                Timer::Grace => self.end_grace(now),
                Timer::Patience => self.give_up_results(now),
                Timer::Farewell => self.effects.push_back(Effect::Exit(Ending::Unconfirmed)),
            }
        }
    }

    /// Handles an answer of the controller.
    pub fn handle_answer(&mut self, now: Now, answer: ToAgent) {
        match answer {
            ToAgent::Heard(Heard { controller, epoch, .. }) if !self.obeys(controller, epoch) => {}
            ToAgent::Heard(Heard { controller, beat, wanted, parked, tools, serving, folder, clock, .. }) => {
                self.effects.extend(self.tools.handle_folder(folder).map(Effect::ToolsFolder));
                self.tools.handle_answer(controller, tools);
                let sent = beat.and_then(|number| self.link.beat_received(number));
                if let (Some(sent), Some(clock)) = (sent, clock) {
                    self.measure_skew(now, sent, clock);
                }
                if let (Some(sent), Some((task, round, Directive::Run | Directive::Kill | Directive::Finish))) =
                    (sent, wanted)
                {
                    self.renew_lease(now, (task, round), sent);
                }
                self.handle_answer_facts(now, controller, wanted, parked);
                self.offer_outputs(serving);
            }
            ToAgent::Dispatch(dispatch) => self.take(now, *dispatch),
            ToAgent::List(list) => self.take_list(now, *list),
            ToAgent::NoTask => {
                // An early answer belongs to a replaced APPLY. Another APPLY would bring another early answer, endlessly.
                if self.link.forget_apply(now.mono, self.apply_wait()) {
                    self.apply(now);
                }
            }
            ToAgent::Reported { task, round, finished, accepted } => {
                self.link.confirmed(task, round, finished || !accepted);
                if !accepted {
                    self.drop_list();
                    self.drop_run(now, task, round);
                }
                self.report_tools(now);
                self.apply(now);
                self.leave_if_done(now);
            }
            ToAgent::Wanted(wanted) => self.effects.push_back(Effect::Read(wanted)),
            ToAgent::Replaced => {}
            ToAgent::Rejected(reason) => self.rejected(reason),
            ToAgent::Left => {
                if self.timers.is_set(&Timer::Farewell) {
                    self.timers.clear(&Timer::Farewell);
                    self.effects.push_back(Effect::Exit(Ending::Left));
                }
            }
        }
    }

    /// Whether the controller has the newest store of its service that this machine has served.
    fn obeys(&mut self, controller: u64, epoch: Option<Epoch>) -> bool {
        let Some(epoch) = epoch else { return true };
        match self.epochs.check(epoch, controller) {
            EpochCheck::Known => true,
            EpochCheck::Newer => {
                self.effects.extend(self.epochs.present().map(Effect::Remember));
                true
            }
            EpochCheck::Older(known, is_first) => {
                if is_first {
                    self.journal.error(format!(
                        "the controller that answers has a store of epoch {}, and this machine has served one of epoch {} of the same \
                         service, which is newer or another copy: another controller counts, and this one gets nothing; stop it, or \
                         connect this agent to the other one",
                        epoch.number, known.epoch.number
                    ));
                }
                false
            }
        }
    }

    /// The controller had the time `clock` between the heartbeat sent at `sent` and now.
    fn measure_skew(&mut self, now: Now, sent: Mono, clock: Wall) {
        if let Some(skew) = self.skew.measure(now, now.mono.since(sent), clock) {
            self.journal.warn(format!(
                "the clock of this machine is {skew} that of the controller: moments are the controller's; keep the clocks equal, \
                 for example with NTP"
            ));
        }
    }

    fn handle_answer_facts(
        &mut self,
        now: Now,
        controller: u64,
        wanted: Option<(TaskId, Round, Directive)>,
        parked: bool,
    ) {
        let contact = self.link.handle_answer(controller, parked);
        if contact.is_first {
            self.effects.push_back(Effect::Ready);
        }
        for report in self.link.reports_to_repeat(contact.is_new_controller) {
            self.effects.push_back(Effect::Send(FromAgent::Report(Box::new(report))));
        }
        match wanted {
            Some((task, round, Directive::Kill)) if self.run.id() == Some((task, round)) => self.kill(now),
            Some((task, round, Directive::Drop)) => self.drop_run(now, task, round),
            Some((task, round, Directive::Finish)) if self.run.id() == Some((task, round)) => self.finish(now),
            Some((.., Directive::Run | Directive::Kill | Directive::Finish)) | None => {}
        }
        if contact.is_new_controller || self.ahead.is_unreported() {
            self.report_soon(now);
        }
        // The tools go before the APPLY: the controller then chooses a task that the agent can run.
        self.report_tools(now);
        // The controller is alive but has not answered in time. Usually it reports the missing APPLY earlier.
        self.link.forget_apply(now.mono, self.apply_wait() + self.settings.heartbeat_interval);
        self.apply(now);
    }

    /// Asks for a task, if the slot is free and no request is pending. While a report is unconfirmed, only the report asks.
    fn apply(&mut self, now: Now) {
        match self.mode {
            Mode::Serving => {}
            Mode::Retiring => return self.stop_if_idle(now),
            Mode::Stopping => return,
        }
        let idle = self.run.is_free() && self.link.is_settled();
        if self.link.is_up() && !self.link.has_applied() && idle {
            self.link.apply(now.mono);
            self.effects.push_back(Effect::Send(FromAgent::Apply(Some(self.apply_wait()))));
        }
    }

    fn report_soon(&mut self, now: Now) {
        if let Some(batch_delay) = self.run.batch_delay() {
            self.report_by.get_or_insert(now.mono + batch_delay);
        }
    }

    /// A report on the run; the final one also asks for the next task.
    fn report(&mut self, now: Now) -> Option<FromAgent> {
        let mut report: Report = self.run.report(now)?;
        if !self.run.is_finished() {
            report.let_go = self.ahead.report_let_go();
            return Some(FromAgent::Report(Box::new(report)));
        }
        self.run.clear();
        let has_started = self.start_next(now);
        report.let_go = self.ahead.report_let_go();
        self.link.keep_report(report.clone());
        if has_started {
            // The final report of the new run asks for more.
        } else if self.mode == Mode::Stopping {
            self.leave_if_done(now);
        } else if self.mode == Mode::Serving && !self.link.has_applied() && self.run.is_free() {
            self.link.apply(now.mono);
            report.wait = Some(self.apply_wait());
        } else if !self.run.is_free() {
            // The remains of the run occupy the slot: the agent is busy, without a task.
            self.heartbeat(now);
        }
        Some(FromAgent::Report(Box::new(report)))
    }
}
