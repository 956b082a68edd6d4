//! TOOL/PUT and the other requests about the archives that the controller holds.

use std::sync::Arc;

use super::{Answer, Code, Controller, Effect, Page, Refusal, Reply, Ticket};
use crate::archives::tool_order::ToolOrder;
use api::wire::page::PageOf;
use api::wire::requests::submit::Submit;
use api::wire::requests::tool::{ToolGet, ToolPut, ToolView};
use api::wire::tool_manifest;
use base::{AgentId, HeldTool, ToolName, nearest_hint};

impl Controller {
    /// Checks the parameters and files of a submit against the `tool.toml` of its tool, and fills in defaults.
    pub(super) fn fit_parameters(&self, submit: &mut Submit) -> Result<(), Refusal> {
        let Some(held) = self.archives.catalog.present(&submit.tool) else { return Ok(()) };
        let Some(manifest) = &held.manifest else { return Ok(()) };
        tool_manifest::fit(&submit.tool, manifest, &mut submit.fields, submit.files.as_deref())
    }

    pub(super) fn order_tool(&mut self, order: ToolOrder) -> Answer {
        self.turn.emit(Effect::Tool(order));
        Answer::Later
    }

    pub(super) fn put_tool(&mut self, ticket: Ticket, put: Box<ToolPut>) -> Answer {
        let max = self.settings.tools.archive_bytes_max;
        if put.total > max {
            let message =
                format!("the archive has {} bytes; at most {max} are accepted (ARCHIVE_BYTES_MAX)", put.total);
            return Reply::Refused(Refusal::new(Code::LimitReached, message)).into();
        }
        self.order_tool(ToolOrder::Write(ticket, put))
    }

    pub(super) fn remove_tool(&mut self, ticket: Ticket, tool: ToolName, by: Arc<str>) -> Answer {
        if self.archives.catalog.is_pushed(&tool) {
            return self.order_tool(ToolOrder::Remove(ticket, tool, by));
        }
        let refusal = if self.archives.catalog.is_in_folder(&tool) {
            let message = format!(
                "tool {tool} was not pushed: it comes from AGENT_TOOLS_DIR of the controller; remove {} there",
                tool.archive_name()
            );
            Refusal::new(Code::NotAllowed, message)
        } else {
            self.unknown_tool(&tool)
        };
        Reply::Refused(refusal).into()
    }

    /// Has the versions of a page checked first: a damaged one is shown as such.
    pub(super) fn list_tools(&mut self, ticket: Ticket, page: Page) -> Answer {
        let limit = self.page_limit(page.limit);
        let held = self.archives.catalog.all().skip(page.offset).take(limit);
        let digests = held.map(|held| held.digest).collect();
        self.order_tool(ToolOrder::Verify(ticket, page, digests))
    }

    pub(crate) fn page_of_tools(&self, page: Page) -> Reply {
        let all = self.archives.catalog.all();
        let total = all.len();
        let limit = self.page_limit(page.limit);
        let tools = all.skip(page.offset).take(limit).map(|held| self.view(held)).collect();
        Reply::Tools { tools, page: PageOf { offset: page.offset, asked: page.limit, total } }
    }

    pub(super) fn show_tool(&mut self, ticket: Ticket, tool: &ToolName) -> Answer {
        let Some(digest) = self.archives.catalog.present(tool).map(|held| held.digest) else {
            return Reply::Refused(self.unknown_tool(tool)).into();
        };
        self.order_tool(ToolOrder::List(ticket, tool.clone(), digest))
    }

    pub(crate) fn unknown_tool(&self, tool: &ToolName) -> Refusal {
        let known = self.archives.catalog.all().map(|held| &held.name).chain(self.queue.sets.names());
        let hint = nearest_hint(tool.as_str(), known.map(ToolName::as_str));
        Refusal::new(Code::BadOperation, format!("the controller holds no tool {tool}{hint}"))
    }

    pub(crate) fn view(&self, held: &Arc<HeldTool>) -> ToolView {
        let tool = &held.name;
        let sets = &self.queue.sets;
        let present = || self.fleet.tools().filter(|(_, is_present)| *is_present).map(|(set, _)| set);
        let own = present().filter(|set| sets.has_own(*set, tool)).count();
        let able = present().filter(|set| sets.has(*set, tool)).count();
        let pinned = self.archives.catalog.pins_of(tool);
        let is_damaged = self.archives.catalog.size(&held.digest).is_none();
        ToolView { held: Arc::clone(held), own, fetching: able - own, pinned, is_damaged, files: Vec::new() }
    }

    /// An agent asks for a part of a version.
    pub(super) fn get_tool(&mut self, ticket: Ticket, agent: &AgentId, get: ToolGet) -> Answer {
        let Some(total) = self.archives.catalog.size(&get.digest) else {
            let message = format!("the controller does not hold {} any more", get.digest);
            return Reply::Refused(Refusal::new(Code::NotAllowed, message)).into();
        };
        self.archives.reads.add(ticket, Some(agent), get, total);
        self.read_next();
        Answer::Later
    }
}
