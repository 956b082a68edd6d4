//! The manager of a namespace: opens tasks, and calls back for each that has ended before it archives it.
//!
//! A callback is called at least once for each task: it comes before the move, so that after a kill between them the next manager
//! calls it again. One of several llts managers has a task at a time, by a lease. A failed callback is called again later
//! ([`crate::engine::backoff`]); the other tasks continue.

pub mod command;
mod taken;

use std::error::Error;
use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use redis::Value;

use super::error::RedisError;
use super::holder::Holder;
use super::link::{Address, Call};
use super::namespace::{LEASE, Namespace};
use super::opener::{OpenError, Order};
use super::outage::Outage;
use super::scripts;
use super::wake::{Channel, Message, Wake, WakeError};
use crate::engine::{backoff, moves};
use crate::wire::{Task, hop, words};
use api::config::ManagerConfig;
use base::tdf::{State, TaskId};
use base::{Mono, span};
use proc::signals::Signals;
use proc::{clock, readable};
use taken::{Selection, TakenTasks};

/// Why a callback has failed; the task stays where it is, and the callback is called again.
pub type CallbackError = Box<dyn Error + Send + Sync>;

/// The callbacks of a manager. Each of the first four is for one way in which a task has ended; the task is archived after `Ok`.
#[expect(unused_variables, reason = "what does nothing needs nothing")]
pub trait Callbacks {
    /// The last run wrote nothing to stderr.
    ///
    /// # Errors
    /// When the task is to be handled again later.
    fn succeeded(&mut self, manager: &mut Manager, task: &Task) -> Result<(), CallbackError> {
        Ok(())
    }

    /// Runs failed too often.
    ///
    /// # Errors
    /// When the task is to be handled again later.
    fn failed(&mut self, manager: &mut Manager, task: &Task) -> Result<(), CallbackError> {
        Ok(())
    }

    /// Runs took too long too often.
    ///
    /// # Errors
    /// When the task is to be handled again later.
    fn timed_out(&mut self, manager: &mut Manager, task: &Task) -> Result<(), CallbackError> {
        Ok(())
    }

    /// The task was not finished by `end_before`.
    ///
    /// # Errors
    /// When the task is to be handled again later.
    fn expired(&mut self, manager: &mut Manager, task: &Task) -> Result<(), CallbackError> {
        Ok(())
    }

    /// The rounds that have been, counted from 1, after each of them. `true` ends the manager.
    fn stop_processing(&mut self, manager: &mut Manager, rounds: u64) -> bool {
        false
    }

    /// A round has ended; the number of rounds before it.
    fn end_round(&mut self, manager: &mut Manager, round: u64) {}

    /// Whether the manager is to stop before the next task. It is asked after each callback.
    fn is_stopping(&mut self) -> bool {
        false
    }
}

/// Why a manager cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// Redis does not answer.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// The messages cannot be received.
    #[error(transparent)]
    Wake(#[from] WakeError),
    /// The system is out of something.
    #[error("cannot start the manager: {0}")]
    System(#[from] io::Error),
}

/// A manager that has reached its namespace.
pub struct Manager {
    namespace: Namespace,
    config: ManagerConfig,
    wake: Wake,
    holder: Holder,
    outage: Outage,
    /// A name that no other manager has.
    identity: String,
    /// Archivings of tasks that were called back for, until Redis has done them.
    owed: Vec<Call>,
    /// Whether its callbacks want it to stop.
    stopping: bool,
}

impl Manager {
    /// Connects. A manager leaves no trace of itself until it takes a task.
    ///
    /// # Errors
    /// When Redis cannot be reached or the system is out of descriptors or threads.
    pub fn connect(config: ManagerConfig) -> Result<Self, ManagerError> {
        let (redis, name) = (&config.tdf.redis, &config.tdf.namespace);
        let namespace = Namespace::connect(redis, name)?;
        let identity = format!("{:016x}", rand::random::<u64>());
        let holder = Holder::start(Address::new(redis)?, words::prefix(name), identity.clone())?;
        let wake = Wake::start(redis, name, &[Channel::Ended])?;
        Ok(Self {
            namespace,
            wake,
            holder,
            outage: Outage::default(),
            identity,
            owed: Vec::new(),
            stopping: false,
            config,
        })
    }

    /// Opens a task.
    ///
    /// # Errors
    /// When a value is invalid for a task, or Redis does not answer as it should.
    pub fn open(&mut self, order: Order) -> Result<TaskId, OpenError> {
        let ids = self.open_all(&[order])?;
        ids.first().copied().ok_or_else(|| self.namespace.link.reply(scripts::OPEN.name).into())
    }

    /// Opens tasks; their ids are in the same order. A Redis that goes away is asked again for a bounded time.
    ///
    /// # Errors
    /// When a value is invalid for a task, before anything is opened, or Redis does not answer as it should.
    pub fn open_all(&mut self, orders: &[Order]) -> Result<Vec<TaskId>, OpenError> {
        self.namespace.open(orders, &self.config.task_defaults, rand::random(), rand::random)
    }

    /// The namespace, for tasks and counts.
    pub fn namespace(&mut self) -> &mut Namespace {
        &mut self.namespace
    }

    /// Makes rounds until [`Callbacks::stop_processing`] returns true, or a signal arrives.
    pub fn run(&mut self, callbacks: &mut impl Callbacks, mut signals: Option<&mut Signals>) {
        let mut rounds = 0;
        while !self.stopping {
            let began = clock::now().mono;
            if let Err(error) = self.round(callbacks) {
                let pause = self.outage.fail(&error);
                if self.wait(callbacks, clock::now().mono + pause, signals.as_deref_mut()) {
                    return;
                }
                continue;
            }
            self.outage.end();
            callbacks.end_round(self, rounds);
            rounds += 1;
            if self.stopping || callbacks.stop_processing(self, rounds) {
                return;
            }
            let next = began + self.config.round_duration.max(ROUND_DURATION_MIN);
            if self.wait(callbacks, next, signals.as_deref_mut()) {
                return;
            }
        }
    }

    /// One round through the four sets.
    ///
    /// # Errors
    /// When Redis does not answer as it should. Tasks whose callbacks have been called are archived later.
    pub fn round(&mut self, callbacks: &mut impl Callbacks) -> Result<(), RedisError> {
        self.pay()?;
        for set in State::ENDED {
            // Entries that are passed over stay in front of the rest.
            let mut first = 0;
            loop {
                let TakenTasks { tasks, passed, looked, .. } = self.take(set, &Selection::From(first))?;
                first += passed + self.handle(callbacks, set, tasks)?;
                // Nothing more was found; a set with many that wait for another attempt is gone through in several steps.
                if looked == 0 || self.stopping {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Handles the tasks of messages until the next round. True if a signal has arrived.
    fn wait(&mut self, callbacks: &mut impl Callbacks, until: Mono, mut signals: Option<&mut Signals>) -> bool {
        loop {
            let timeout = Some(until.since(clock::now().mono));
            let wake = self.wake.as_fd();
            match signals.as_deref_mut() {
                Some(signals) => {
                    readable::wait([wake, signals.as_fd()], timeout);
                    if !signals.read().is_empty() {
                        return true;
                    }
                }
                None => {
                    readable::wait([wake], timeout);
                }
            }
            match self.handle_messages(callbacks) {
                // A round is the answer to an error, too.
                Err(error) => {
                    log::debug!("{error}");
                    return false;
                }
                Ok(()) if self.stopping => return true,
                Ok(()) if until <= clock::now().mono => return false,
                Ok(()) => {}
            }
        }
    }

    /// Handles tasks that have ended just now.
    fn handle_messages(&mut self, callbacks: &mut impl Callbacks) -> Result<(), RedisError> {
        self.pay()?;
        let ended = self.wake.take().into_iter().filter_map(|message| match message {
            Message::Received(_, payload) => words::parse_ended(&payload),
            Message::Connected => None,
        });
        let ended: Vec<(State, TaskId)> = ended.collect();
        for set in State::ENDED {
            let ids: Vec<TaskId> = ended.iter().filter(|(state, _)| *state == set).map(|(_, id)| *id).collect();
            for ids in ids.chunks(taken::COUNT) {
                let TakenTasks { tasks, .. } = self.take(set, &Selection::Ids(ids))?;
                self.handle(callbacks, set, tasks)?;
            }
        }
        Ok(())
    }

    /// Calls back for tasks, and archives them. Says how many stay.
    fn handle(
        &mut self,
        callbacks: &mut impl Callbacks,
        set: State,
        tasks: Vec<(Task, u32)>,
    ) -> Result<usize, RedisError> {
        let mut left: Vec<TaskId> = tasks.iter().map(|(task, _)| task.id()).collect();
        let mut staying = 0;
        for (task, failures) in tasks {
            self.holder.hold(left.iter().copied());
            self.stopping |= callbacks.is_stopping();
            if self.stopping {
                break;
            }
            let result = match set {
                State::Succeeded => callbacks.succeeded(self, &task),
                State::Failed => callbacks.failed(self, &task),
                State::TimedOut => callbacks.timed_out(self, &task),
                _ => callbacks.expired(self, &task),
            };
            match result {
                Ok(()) => self.archive(&task, set)?,
                Err(error) if callbacks.is_stopping() => {
                    let id = task.id();
                    log::info!(
                        "the callback for task {id} was ended with the manager: {error}; the next manager calls it again"
                    );
                    break;
                }
                Err(error) => {
                    let failures = failures.saturating_add(1);
                    let pause = backoff::pause(failures, self.config.round_duration);
                    let (id, state) = (task.id(), words::state(set));
                    log::warn!("the callback for task {id}, {state}, has failed: {error}; again in {}", span(pause));
                    self.put_off(task.id(), failures, pause)?;
                    staying += 1;
                }
            }
            left.retain(|id| *id != task.id());
        }
        self.stopping |= callbacks.is_stopping();
        self.holder.hold([]);
        if !left.is_empty() {
            let call = Call::new(scripts::LET_GO).arg(&self.identity);
            let call = left.iter().fold(call, |call, id| call.arg(id.to_string()));
            self.namespace.ask(call, |value| done(&value))?;
        }
        Ok(staying)
    }

    fn take(&mut self, set: State, selection: &Selection<'_>) -> Result<TakenTasks, RedisError> {
        let call = taken::call(&self.identity, LEASE, set, selection);
        let taken = self.namespace.ask(call, |value| TakenTasks::read(value, set))?;
        for (id, sentence) in &taken.poisoned {
            let (name, shown) = (self.namespace.name(), id.escape_ascii());
            log::warn!("passing over \"{shown}\" in {name}:{}: {sentence}", words::state(set));
        }
        Ok(taken)
    }

    fn archive(&mut self, task: &Task, set: State) -> Result<(), RedisError> {
        // A task without a round was ended by another program; it is archived all the same.
        let hops = hop::encode(&moves::archived(set, task.round().unwrap_or_default()));
        let call = Call::new(scripts::ARCHIVE).arg(task.id().to_string()).arg(words::state(set));
        self.owed.push(call.arg(hops.to_string()));
        self.pay()
    }

    /// Archives what was called back for. A task that another manager has archived is passed over.
    fn pay(&mut self) -> Result<(), RedisError> {
        while let Some(call) = self.owed.last() {
            self.namespace.ask(call.clone(), |value| done(&value))?;
            self.owed.pop();
        }
        Ok(())
    }

    fn put_off(&mut self, task: TaskId, failures: u32, pause: Duration) -> Result<(), RedisError> {
        let call = Call::new(scripts::PUT_OFF).arg(&self.identity).arg(task.to_string());
        self.namespace.ask(call.arg(failures.to_string()).arg(pause.as_secs_f64().to_string()), |value| done(&value))
    }
}

fn done(value: &Value) -> Option<()> {
    matches!(value, Value::Int(_)).then_some(())
}

/// Rounds that follow each other without a pause would keep Redis busy with nothing.
const ROUND_DURATION_MIN: Duration = Duration::from_millis(10);
