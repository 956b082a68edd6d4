//! A store that cannot be written, such as one on a full disk: what becomes of the answers.
//!
//! | answer | while the store is in trouble |
//! |---|---|
//! | to a submit that is not stored | a refusal, at once; the task is withdrawn, or its run is ended |
//! | to a kill, a hold, a drain or a setting of a gate, and to their ends | at once, with a warning: it is in force whatever the store does |
//! | with the counts of tasks, the state of the service, or a task that has ended since | with a warning |
//! | that there is no such task or graph, where other controllers may lead the queue | a refusal: another one may have accepted it |
//! | every other promise | when the store recovers |

use std::time::Duration;

use super::{Deferred, Sequencer};
use crate::tasks::withdrawal::Abandoned;
use crate::turn::departure::Route;
use crate::turn::effect::{Claim, Record};
use api::wire::reply::Reply;
use api::wire::requests::drain::AGENT_DRAIN;
use api::wire::requests::gate::GATE_SET;
use api::wire::requests::graph::GRAPH_KILL;
use api::wire::requests::hold::{TASK_HOLD, TASK_RELEASE};
use api::wire::requests::job::{JOB_HOLD, JOB_KILL, JOB_RELEASE};
use api::wire::requests::kill::TASK_KILL;
use api::wire::requests::stats::TASK_STATISTIC;
use api::wire::requests::status::SERVICE_STATUS;
use api::wire::{Code, Refusal};
use base::{Mono, Now, TaskId, TaskState, Wall};

/// The requests that end tasks.
const KILLS: [&str; 3] = [TASK_KILL.word, JOB_KILL.word, GRAPH_KILL.word];

/// The other orders that are in force whatever the store does.
const CHANGES: [&str; 6] =
    [TASK_HOLD.word, TASK_RELEASE.word, JOB_HOLD.word, JOB_RELEASE.word, AGENT_DRAIN.word, GATE_SET.word];

/// The word for an order that takes effect at once; `None` for any other request.
fn at_once(kind: &str) -> Option<&'static str> {
    let change = || CHANGES.contains(&kind).then_some("change");
    if KILLS.contains(&kind) { Some("kill") } else { change() }
}

impl<R: Clone> Sequencer<R> {
    /// An answer that is true even if another controller has led the queue since the trouble began.
    pub(super) fn without_doubt(&self, reply: Reply) -> Reply {
        match (reply, self.controller.doubt()) {
            (Reply::Refused(refusal), Some(why)) if refusal.code == Code::InvalidTaskId => {
                let Refusal { message, .. } = refusal;
                let message = format!(
                    "{message}; the store cannot be written ({why}), and another home may lead by now: ask again"
                );
                Reply::Refused(Refusal::new(Code::LimitReached, message))
            }
            (reply, _) => reply,
        }
    }

    /// Since when the store cannot be written; `None` if it can.
    #[must_use]
    pub fn trouble_since(&self) -> Option<Wall> {
        self.trouble.as_ref().map(|(since, _)| *since)
    }

    /// When the next commit must be made, even without records, after one that began at `last`; `None` while a commit is under way,
    /// or is tried again by itself.
    #[must_use]
    pub fn renewal(&self, last: Mono, interval: Duration) -> Option<Mono> {
        self.commits.is_idle().then(|| last + interval)
    }

    /// Makes a commit, even without records. It shows whether the store can be written, and renews the lease of a leader.
    pub const fn probe_store(&mut self) {
        self.commits.probe();
    }

    /// The last commit is on the disk. `has_room` says whether the disk has room for more. True if the store was in trouble until
    /// now.
    pub fn handle_stored(&mut self, now: Now, has_room: bool) -> bool {
        let committed = self.commits.handle_stored(now.mono, has_room);
        self.controller.handle_committed(now, committed.newest);
        if committed.recovered {
            self.trouble = None;
            self.controller.handle_store(None);
        }
        self.release(committed.released);
        committed.recovered
    }

    /// The last commit has failed; its records come back and are tried again every second. None of them is stored. But if the
    /// answer of the store `is_missing`, all of them may be stored, and nothing is withdrawn. True if the trouble has begun with
    /// this commit.
    pub fn handle_trouble(&mut self, now: Now, why: &str, records: Vec<Record>, is_missing: bool) -> bool {
        let Some(deferred) = self.commits.handle_trouble(now.mono, records) else {
            if let Some((_, before)) = &mut self.trouble
                && before != why
            {
                why.clone_into(before);
                self.controller.handle_store(Some(why.to_owned()));
            }
            return false;
        };
        self.trouble = Some((now.wall, why.to_owned()));
        self.controller.handle_store(Some(why.to_owned()));
        // The messages of this turn are included, because one may be a second answer about a task that is withdrawn here.
        let batch = std::mem::take(&mut self.batch);
        let messages: Vec<_> = deferred.into_iter().chain(batch.into_messages()).collect();
        if is_missing {
            messages.into_iter().for_each(|message| self.hold_or_refuse(now, message, None));
            return true;
        }
        let calls = self.controller.end_unstored_calls();
        let calls = calls.into_iter().filter_map(|(ticket, reply)| {
            let (claim, route) = (Claim::Promise, self.routes.remove(&ticket)?);
            Some(Deferred::Reply { route, claim, reply, delay_max: Duration::ZERO })
        });
        let messages: Vec<_> = messages.into_iter().chain(calls).collect();
        // A later task that waits for an earlier one is withdrawn before it. A repeated submit is handled before its repetition,
        // which would otherwise be held for a task that is gone.
        let mut refusals: Vec<_> =
            messages.iter().rev().map(|message| self.refusal_of_unstored(now, why, message, false)).collect();
        for message in messages {
            let own = refusals.pop().flatten();
            let refusal = own.or_else(|| self.refusal_of_unstored(now, why, &message, true));
            self.hold_or_refuse(now, message, refusal);
        }
        self.controller.handle_withdrawn(now);
        true
    }

    /// Why a submit is refused whose answer has waited for the store, whether it made new tasks or was a repetition; `None` for
    /// every other message.
    fn refusal_of_unstored(
        &mut self,
        now: Now,
        why: &str,
        message: &Deferred<R>,
        is_repeated: bool,
    ) -> Option<Refusal> {
        let Deferred::Reply { reply, .. } = message else { return None };
        if repeats(reply) != is_repeated {
            return None;
        }
        let (what, them, abandoned) = match reply {
            Reply::Submitted { task, duplicate, .. } => {
                ("task", "it", self.controller.abandon_unstored(now, &[*task], *duplicate)?)
            }
            Reply::Called { record, duplicate, .. } if !self.controller.submit_is_stored(record.id) => {
                ("task", "it", self.controller.abandon_unstored(now, &[record.id], *duplicate)?)
            }
            Reply::SubmittedMany { tasks, duplicates, .. } => {
                let new = |(index, task): (usize, &TaskId)| (!duplicates.contains(&index)).then_some(*task);
                let new: Vec<_> = tasks.iter().enumerate().filter_map(new).collect();
                let abandoned = match new.is_empty() {
                    true => self.controller.abandon_unstored(now, tasks, true),
                    false => self.controller.abandon_unstored(now, &new, false),
                };
                ("tasks", "them", abandoned?)
            }
            Reply::GraphSubmitted { graph, duplicate, .. } => {
                let is_gone = self.controller.handle_graph_unstored(now, *graph, *duplicate);
                ("graph", "it", is_gone.then_some(Abandoned::Withdrawn)?)
            }
            _ => return None,
        };
        let end = match abandoned {
            Abandoned::Withdrawn => format!("submit {them} again later"),
            Abandoned::Killed => format!("a run that had begun is ended; submit {them} again later"),
            Abandoned::HasRun => format!("a run has ended before; submit {them} again only if that may be repeated"),
        };
        Some(Refusal::new(Code::LimitReached, format!("the {what} cannot be stored ({why}); {end}")))
    }

    /// Handles a deferred message when the store gets into trouble.
    fn hold_or_refuse(&mut self, now: Now, message: Deferred<R>, refusal: Option<Refusal>) {
        match (message, refusal) {
            (Deferred::Reply { route, .. }, Some(refusal)) => self.send(route, refusal.into(), Duration::ZERO),
            (Deferred::JobStatus(status), _) => {
                self.controller.handle_job_status_dropped(now.mono, &status.view.name);
            }
            (Deferred::Reply { route, claim: Claim::View, reply, delay_max }, _) => self.send(route, reply, delay_max),
            (message, _) => self.commits.hold(message),
        }
    }

    /// The claim of the answer to a request; `own` is the claim of the reply itself.
    pub(crate) fn claim(route: &Route<R>, reply: &Reply, own: Claim) -> Claim {
        match reply {
            Reply::Done | Reply::Concerned { .. } if at_once(route.kind).is_some() => Claim::View,
            _ => own,
        }
    }

    /// Adds a warning about the trouble of the store to a reply whose receiver would not expect it.
    pub(crate) fn with_trouble(&self, route: &Route<R>, reply: Reply) -> Reply {
        let Some((since, why)) = &self.trouble else { return reply };
        let seconds = since.unix_seconds();
        match reply {
            Reply::Done | Reply::Concerned { .. } if let Some(order) = at_once(route.kind) => Reply::Warned(
                Box::new(reply),
                format!(
                    "the store cannot be written ({why}): a controller that crashes before it can forgets this {order}"
                ),
            ),
            Reply::Task { ref record, .. } | Reply::Called { ref record, .. } | Reply::Explained { ref record, .. }
                if matches!(record.state, TaskState::Finished { at, .. } if at >= *since) =>
            {
                let warning = format!(
                    "the store cannot be written ({why}), so this end is not stored: a controller that crashes before it can runs the \
                     task again"
                );
                Reply::Warned(Box::new(reply), warning)
            }
            Reply::Statistic(..) | Reply::Status(_)
                if route.kind == TASK_STATISTIC.word || route.kind == SERVICE_STATUS.word =>
            {
                Reply::Warned(
                    Box::new(reply),
                    format!(
                        "the store cannot be written since unix time {seconds:.6} ({why}); submits are refused until it can"
                    ),
                )
            }
            _ => reply,
        }
    }
}

/// Whether a reply is to a submit that has made nothing new.
const fn repeats(reply: &Reply) -> bool {
    match reply {
        Reply::Submitted { duplicate, .. }
        | Reply::Called { duplicate, .. }
        | Reply::GraphSubmitted { duplicate, .. } => *duplicate,
        Reply::SubmittedMany { tasks, duplicates, .. } => duplicates.len() == tasks.len(),
        _ => false,
    }
}
