//! The archives of tools in a turn: the archives that submits name are looked at before the engine sees the submits, and the engine
//! gets the outcomes of the thread of the store.

use super::Service;
use api::wire::requests::Request;
use base::Now;

impl Service {
    /// Tells the engine of the tools of a submit whose archives have changed in the controller's own folder.
    pub(super) fn look_at_archives(&mut self, now: Now, request: &Request) {
        let (archives, sequencer) = (&mut self.archives, &mut self.sequencer);
        if matches!(request, Request::ToolList(_)) {
            for tool in archives.changed(now.mono) {
                sequencer.controller().handle_archive_changed(now, &tool);
            }
        }
        request.for_each_tool(|tool| {
            if archives.has_changed(now.mono, tool) {
                sequencer.controller().handle_archive_changed(now, tool);
            }
        });
    }

    pub(super) fn take_archives(&mut self, now: Now) {
        while let Some(outcome) = self.archives.poll(now.mono) {
            self.sequencer.controller().handle_tool(now, outcome);
        }
        self.sequencer.controller().handle_room(now, self.archives.little_room());
        if let Some(folder) = self.archives.take_folder() {
            self.sequencer.controller().handle_tools_folder(folder);
        }
    }
}
