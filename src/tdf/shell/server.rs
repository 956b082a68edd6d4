//! The server of a namespace: it expires, times out, judges and repairs tasks. One of several servers is the leader, by a lease; the
//! others stand by.
//!
//! The report of an llts worker is judged at once: its message has the facts ([`super::wake`]). Rounds ([`rounds`]), `round_duration`
//! apart, find everything else.

mod decision;
mod rounds;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use redis::Value;

use super::error::RedisError;
use super::link::Call;
use super::namespace::Namespace;
use super::outage::Outage;
use super::session::{Holder, Session, WorkerKind, server_name};
use super::wake::{Channel, Message, Wake, WakeError};
use super::{reply, scripts};
use crate::wire::Facts;
use api::config::ServerConfig;
use base::Mono;
use base::tdf::number::float;
use proc::background::Bell;
use proc::signals::Signals;
use proc::{clock, readable};
use rounds::Rounds;

/// The lease of the leader.
const LEAD: Duration = Duration::from_secs(10);

/// Time between two renewals of the lease, and two attempts of the others: a killed leader is replaced within [`LEAD`] and this.
const LEAD_INTERVAL: Duration = Duration::from_secs(1);

/// Time between two searches for tasks that originals have left between two states.
const MENDING_INTERVAL: Duration = Duration::from_secs(60);

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Redis does not answer.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// The messages cannot be received.
    #[error(transparent)]
    Wake(#[from] WakeError),
    /// The system is out of something.
    #[error("cannot start the server: {0}")]
    System(#[from] io::Error),
}

/// A server that has reached its namespace.
pub struct Server {
    namespace: Namespace,
    wake: Wake,
    round_duration: Duration,
    /// The name of the server, and a part that no other process has.
    identity: String,
    rounds: Rounds,
    outage: Outage,
    /// Whether this server is the leader.
    leads: bool,
    next_lead: Mono,
    next_round: Mono,
    next_mending: Mono,
}

impl Server {
    /// Connects. `nonce` is a random number that no server of the same name has.
    ///
    /// # Errors
    /// When Redis cannot be reached or the system is out of descriptors or threads.
    pub fn start(config: &ServerConfig, name: &str, max_losses: u32, nonce: u64) -> Result<Self, ServerError> {
        Self::at(Namespace::connect(&config.tdf.redis, &config.tdf.namespace)?, config, name, max_losses, nonce)
    }

    /// A server that connects with its first call.
    ///
    /// # Errors
    /// When a certificate cannot be read or the system is out of descriptors or threads.
    pub fn unconnected(config: &ServerConfig, name: &str, max_losses: u32, nonce: u64) -> Result<Self, ServerError> {
        Self::at(Namespace::unconnected(&config.tdf.redis, &config.tdf.namespace)?, config, name, max_losses, nonce)
    }

    fn at(
        namespace: Namespace,
        config: &ServerConfig,
        name: &str,
        max_losses: u32,
        nonce: u64,
    ) -> Result<Self, ServerError> {
        let redis = &config.tdf.redis;
        let wake = Wake::start(redis, &config.tdf.namespace, &[Channel::Executed])?;
        let now = clock::now().mono;
        Ok(Self {
            namespace,
            wake,
            round_duration: config.round_duration,
            identity: format!("{name} {nonce:016x} {}", Session::fresh().about(WorkerKind::Server)),
            rounds: Rounds::new(max_losses),
            outage: Outage::default(),
            leads: false,
            next_lead: now,
            next_round: now,
            next_mending: now,
        })
    }

    /// Runs until a signal, or until `rounds` rounds have been.
    pub fn run(self, mut signals: Option<Signals>, rounds: Option<u64>) {
        self.serve(rounds, |fds, timeout| match &mut signals {
            Some(signals) => {
                readable::wait(fds.iter().copied().chain([signals.as_fd()]), timeout);
                !signals.read().is_empty()
            }
            None => {
                readable::wait(fds.iter().copied(), timeout);
                false
            }
        });
    }

    /// Runs until the bell rings.
    pub fn run_until(self, stop: &Bell) {
        self.serve(None, |fds, timeout| {
            readable::wait(fds.iter().copied().chain([stop.as_fd()]), timeout);
            stop.take()
        });
    }

    /// `wait` waits for the descriptors, at most for the time; with true the server ends.
    fn serve(mut self, rounds: Option<u64>, mut wait: impl FnMut(&[BorrowedFd<'_>], Option<Duration>) -> bool) {
        let mut done = 0;
        while rounds.is_none_or(|rounds| done < rounds) {
            match self.turn() {
                Ok(had_round) => {
                    // A renewed lease does not end an error of the rounds.
                    if had_round || !self.leads {
                        self.outage.end();
                    }
                    done += u64::from(had_round);
                }
                Err(error) => {
                    let pause = self.outage.fail(&error);
                    self.next_lead = clock::now().mono + pause;
                    self.next_round = self.next_round.max(self.next_lead);
                    if error.is_away() {
                        // The received reports are judged after the outage.
                        self.leads = false;
                        self.rounds.handle_silence();
                    }
                }
            }
            let next = if self.leads { self.next_lead.min(self.next_round) } else { self.next_lead };
            let timeout = Some(next.since(clock::now().mono));
            let messages = self.leads.then(|| self.wake.as_fd());
            if wait(messages.as_slice(), timeout) {
                break;
            }
        }
        self.resign();
    }

    /// Carries out everything that is due. True if that was a round.
    fn turn(&mut self) -> Result<bool, RedisError> {
        let now = clock::now().mono;
        if self.next_lead <= now {
            self.lead()?;
            self.next_lead = now + LEAD_INTERVAL;
        }
        if !self.leads {
            return Ok(false);
        }
        self.judge_reports()?;
        if now < self.next_round {
            return Ok(false);
        }
        self.next_round = now + self.round_duration.max(ROUND_DURATION_MIN);
        let mends = self.next_mending <= now;
        if mends {
            self.next_mending = now + MENDING_INTERVAL;
            self.rounds.begin_mending();
        }
        let began = clock::now().mono;
        let moved = self.rounds.round(&mut self.namespace, mends)?;
        if moved > 0 {
            log::debug!("a round moved {moved} tasks in {:.1} ms", clock::now().mono.since(began).as_secs_f64() * 1e3);
        }
        Ok(true)
    }

    /// Judges the reports in messages of llts workers, whose facts need not be read.
    fn judge_reports(&mut self) -> Result<(), RedisError> {
        let mut facts = Vec::new();
        for message in self.wake.take() {
            match message {
                Message::Received(Channel::Executed, payload) => {
                    let row = serde_json::from_slice(&payload).ok().as_ref().and_then(rounds::row_of_json);
                    // The round finds a message that cannot be read.
                    facts.extend(row.and_then(|row| Facts::parse(&row).ok()));
                }
                Message::Received(..) => {}
                // Reports may be lost.
                Message::Connected => self.next_round = clock::now().mono,
            }
        }
        self.rounds.judge_reported(&mut self.namespace, &facts)
    }

    /// Takes or keeps the lease of the rounds.
    fn lead(&mut self) -> Result<(), RedisError> {
        let (time, mut holder) = self.take_lead("")?;
        // Its lease would keep the namespace waiting.
        if holder != self.identity && process_of(&holder).is_dead() {
            holder = self.take_lead(&holder)?.1;
        }
        // A server that stands by observes the presence of Redis, too.
        self.rounds.handle_answer(time);
        let leads = holder == self.identity;
        match (self.leads, leads) {
            (false, true) => {
                log::info!("at work on {}", self.namespace.name());
                // The leader before may have left anything.
                self.rounds.forget();
                (self.next_round, self.next_mending) = (clock::now().mono, clock::now().mono);
            }
            (true, false) => log::warn!("server {} is at work; standing by", server_name(&holder)),
            _ => {}
        }
        self.leads = leads;
        Ok(())
    }

    /// Takes or keeps the lease, also if it is that of `replaced`. The time, and the server that has it.
    fn take_lead(&mut self, replaced: &str) -> Result<(f64, String), RedisError> {
        let call = Call::new(scripts::LEAD).arg(&self.identity).arg(LEAD.as_millis().to_string()).arg(replaced);
        self.namespace.ask(call, |value| {
            let [time, holder] = reply::texts(value)?.try_into().ok()?;
            Some((float(&time)?, holder))
        })
    }

    /// Another server need not wait for the end of the lease.
    fn resign(&mut self) {
        if self.leads {
            let call = Call::new(scripts::RESIGN).arg(&self.identity);
            if let Err(error) = self.namespace.ask(call, |value| matches!(value, Value::Int(_)).then_some(())) {
                log::debug!("{error}");
            }
        }
    }
}

/// Rounds that follow each other without a pause would keep Redis busy with nothing.
const ROUND_DURATION_MIN: Duration = Duration::from_millis(10);

/// The process in the session of a server; an older version writes none.
fn process_of(identity: &str) -> Holder {
    Holder::read(identity.find(" {").and_then(|at| identity.get(at..)).unwrap_or_default())
}
