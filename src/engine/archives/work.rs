//! The work on archives: their changes, the outcomes of orders, and the requests that wait for them.
//!
//! | event | then |
//! |---|---|
//! | the archive of a name in the controller's folder has changed ([`Controller::handle_archive_changed`]) | it is read into the store; submits that name it and requests for the list of tools wait for that, and so do later submits of the same connection |
//! | the archive was read | the name stands for it, and those submits are carried out in their order |
//! | a part is pushed | it is written; with the last one the name stands for the archive |
//! | an agent asks for a part | it is read in its turn ([`crate::archives::tool_reads`]) |
//! | a version is lost or damaged | agents cannot fetch it any more, and the archive in the folder is read again |

use std::sync::Arc;
use std::time::Duration;

use super::Postponed;
use super::tool_order::{ReadFailure, ToolOrder, ToolOutcome, Written};
use crate::Controller;
use crate::graph::Graph;
use crate::tasks::restore::StoredTools;
use crate::turn::effect::{Answer, ConnectionId, Effect, Ticket, Timer};
use api::wire::reply::Reply;
use api::wire::requests::Request;
use api::wire::requests::tool::{ToolGet, ToolPart, ToolView};
use api::wire::{Code, Refusal};
use base::{AgentId, Now, TaskId, ToolDigest, ToolName};

/// How long a file outlives the last task that names it. By then, the store has committed that the task is gone.
const DROP_DELAY: Duration = Duration::from_secs(1);

impl Controller {
    /// Whether submits wait until archives have been read.
    #[must_use]
    pub fn has_postponed(&self) -> bool {
        !self.archives.postponed.is_empty()
    }

    /// Restores the archives that an earlier controller has stored.
    pub(crate) fn restore_catalog(&mut self, now: Now, stored: StoredTools) {
        self.archives.folder = stored.folder;
        self.archives.store = stored.store;
        for (digest, size) in stored.held {
            self.archives.catalog.hold(digest, size);
        }
        for held in stored.pushed {
            let name = held.name.clone();
            self.archives.catalog.set_pushed(&name, Some(held));
            self.refresh_offer(now, &name);
        }
    }

    /// The archive of a tool in the controller's own folder has changed, or is gone.
    pub fn handle_archive_changed(&mut self, now: Now, tool: &ToolName) {
        if self.archives.catalog.set_stale(tool) {
            self.turn.emit(Effect::Tool(ToolOrder::Take(tool.clone())));
        }
        self.settle(now);
    }

    /// The controller's own tools folder exists, with this identity on its machine.
    pub fn handle_tools_folder(&mut self, folder: Arc<str>) {
        self.archives.folder = Some(folder);
    }

    /// An order about archives was carried out.
    pub fn handle_tool(&mut self, now: Now, outcome: ToolOutcome) {
        match outcome {
            ToolOutcome::Taken(tool, held) => {
                self.archives.catalog.set_folder(&tool, held);
                self.refresh_offer(now, &tool);
                self.resume_postponed(now);
            }
            ToolOutcome::Written(ticket, written) => self.written(now, ticket, written),
            ToolOutcome::FileWritten(ticket, written) => self.file_written(ticket, written),
            ToolOutcome::Read(ticket, read) => self.read(now, ticket, read),
            ToolOutcome::Removed(ticket, tool, removed) => {
                if removed.is_ok() {
                    self.archives.catalog.set_pushed(&tool, None);
                    self.refresh_offer(now, &tool);
                }
                self.tell(ticket, removed.map(|()| Reply::Done));
            }
            ToolOutcome::Logged(ticket, rows) => self.tell(ticket, rows.map(Reply::ToolLog)),
            ToolOutcome::Listed(ticket, tool, digest, files) => {
                let present = self.archives.catalog.present(&tool).filter(|held| held.digest == digest).cloned();
                let view = |files| present.map(|held| Reply::Tool(Box::new(ToolView { files, ..self.view(&held) })));
                let reply = files.and_then(|files| view(files).ok_or_else(|| self.unknown_tool(&tool)));
                self.tell(ticket, reply);
            }
            ToolOutcome::Verified(ticket, page, lost) => {
                lost.iter().for_each(|digest| self.lose_tool(now, digest));
                // An archive in the folder takes the place of a damaged version.
                let reply = match self.archives.catalog.has_stale() {
                    true => self.postpone(ticket, Request::ToolList(page), None),
                    false => self.page_of_tools(page).into(),
                };
                if let Answer::Now(reply) = reply {
                    self.tell(ticket, Ok(reply));
                }
            }
        }
        self.settle(now);
    }

    pub(crate) fn tell(&mut self, ticket: Ticket, reply: Result<Reply, Refusal>) {
        self.turn.reply(ticket, reply.unwrap_or_else(Reply::Refused));
    }

    fn written(&mut self, now: Now, ticket: Ticket, written: Result<Written, Refusal>) {
        let limit = self.settings.part_bytes_max;
        let reply = written.map(|written| match written {
            Written::Part(end) => Reply::ToolPut { end, is_whole: false, limit, warning: None },
            Written::Whole(held) => {
                let (tool, end) = (held.name.clone(), held.size);
                self.archives.catalog.set_pushed(&tool, Some(*held));
                self.refresh_offer(now, &tool);
                let warning = self.archives.catalog.is_in_folder(&tool).then(|| {
                    format!(
                        "AGENT_TOOLS_DIR of the controller has {} too, which goes first; remove it there to use this version",
                        tool.archive_name()
                    )
                });
                Reply::ToolPut { end, is_whole: true, limit, warning }
            }
        });
        self.tell(ticket, reply);
    }

    fn read(&mut self, now: Now, ticket: Ticket, read: Result<ToolPart, ReadFailure>) {
        self.archives.reads.done();
        let reply = match read {
            Ok(part) => Ok(Reply::ToolPart(part)),
            Err(ReadFailure { digest, is_lost, refusal }) => {
                if is_lost {
                    self.lose_tool(now, &digest);
                }
                Err(refusal)
            }
        };
        self.tell(ticket, reply);
        self.read_next();
    }

    /// A version is missing in the store, or damaged there.
    fn lose_tool(&mut self, now: Now, digest: &ToolDigest) {
        self.turn.warn(format!("{digest}, a file or the archive of a tool, is missing in the store, or damaged there"));
        for tool in self.archives.catalog.lose(digest) {
            // The folder may still have it.
            if self.archives.catalog.is_in_folder(&tool) && self.archives.catalog.set_stale(&tool) {
                self.turn.emit(Effect::Tool(ToolOrder::Take(tool.clone())));
            }
            self.refresh_offer(now, &tool);
        }
    }

    /// Whether a request must wait: an archive that it names is being read, or an earlier request of its connection waits.
    pub(crate) fn must_postpone(&self, ticket: Ticket, request: &Request) -> bool {
        if !self.archives.catalog.has_stale() && self.archives.postponed.is_empty() {
            return false;
        }
        let mut is_submit = false;
        let mut is_stale = false;
        request.for_each_tool(|tool| {
            is_submit = true;
            is_stale |= self.archives.catalog.is_stale(tool);
        });
        let waits = |postponed: &Postponed| postponed.ticket.connection == ticket.connection;
        let is_behind = || self.archives.postponed.iter().any(waits);
        let is_list = matches!(request, Request::ToolList(_)) && self.archives.catalog.has_stale();
        is_list || is_stale || is_submit && is_behind()
    }

    pub(crate) fn postpone(&mut self, ticket: Ticket, request: Request, plan: Option<Arc<Graph>>) -> Answer {
        let max = self.settings.parked_max;
        if self.archives.postponed.len() >= max {
            let message =
                format!("{max} submits wait already until archives have been read (PARKED_MAX); try again later");
            return Reply::Refused(Refusal::new(Code::LimitReached, message)).into();
        }
        self.archives.postponed.push_back(Postponed { ticket, request, plan });
        Answer::Later
    }

    /// Carries out the requests whose archives have been read, in their order.
    pub(crate) fn resume_postponed(&mut self, now: Now) {
        let mut kept = Vec::new();
        for Postponed { ticket, request, plan } in std::mem::take(&mut self.archives.postponed) {
            let is_behind = kept.iter().any(|kept: &Postponed| kept.ticket.connection == ticket.connection);
            if is_behind || self.must_postpone(ticket, &request) {
                kept.push(Postponed { ticket, request, plan });
                continue;
            }
            self.submit_waited(now, ticket, request, plan);
        }
        self.archives.postponed = kept.into();
    }

    pub(crate) fn refuse_postponed(&mut self) {
        let Err(refusal) = self.check_open() else { return };
        for postponed in std::mem::take(&mut self.archives.postponed) {
            self.tell(postponed.ticket, Err(refusal.clone()));
        }
    }

    /// A connection is gone. Returns the tickets that therefore get no answer.
    pub(crate) fn forget_postponed(&mut self, connection: ConnectionId) -> Vec<Ticket> {
        let mut forgotten = self.archives.reads.forget(connection);
        self.archives.postponed.retain(|postponed| {
            let is_gone = postponed.ticket.connection == connection;
            forgotten.extend(is_gone.then_some(postponed.ticket));
            !is_gone
        });
        forgotten
    }

    /// Pins the tool of a task that was accepted before the controller held a version, if the agent that gets the task has to fetch
    /// it.
    pub(crate) fn pin_for(&mut self, now: Now, task: TaskId, agent: &AgentId) {
        let Some(record) = self.tasks.get(task).filter(|record| record.pin.is_none()) else { return };
        let sets = &self.queue.sets;
        let has_own = |set| sets.has_own(set, &record.tool);
        if !self.fleet.get(agent).and_then(|agent| agent.tools).is_some_and(|tools| has_own(tools.set)) {
            self.pin_late(now, task);
        }
    }

    pub(crate) fn read_next(&mut self) {
        while let Some((ticket, ToolGet { digest, offset, is_doubted })) =
            self.archives.reads.next(self.settings.tools.parts_max)
        {
            let limit = self.settings.tools.part_bytes;
            let order = ToolOrder::Read { ticket, digest, offset, limit, is_doubted };
            self.turn.emit(Effect::Tool(order));
        }
    }

    /// Sets the time at which unneeded versions and files are removed.
    pub(crate) fn plan_discards(&mut self, now: Now) {
        for digest in self.archives.catalog.take_dropped() {
            self.turn.set_timer(Timer::ToolDiscard(digest), now.mono + DROP_DELAY);
        }
        for digest in self.archives.catalog.take_unneeded() {
            self.turn.set_timer(Timer::ToolDiscard(digest), now.mono + self.settings.tools.keep);
        }
    }

    pub(crate) fn discard_tool(&mut self, digest: ToolDigest) {
        if !self.archives.catalog.needs(&digest) {
            self.archives.catalog.lose(&digest);
            self.turn.emit(Effect::Tool(ToolOrder::Discard(digest)));
        }
    }
}
