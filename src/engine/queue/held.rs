//! The tools that agents can fetch from the controller: with each of them, the lanes that such agents serve change.

use super::Queue;
use base::{Now, ToolName};

impl Queue {
    /// The controller begins or ceases to hold a tool.
    pub(crate) fn set_held(&mut self, now: Now, tool: &ToolName, is_held: bool) {
        if !self.sets.set_held(tool, is_held) {
            return;
        }
        for line in self.lines.values_mut() {
            line.lanes.tool_has_changed(tool, &self.sets);
        }
        // Heads can change for sets that no longer serve the lane, so a narrower update does not suffice.
        let all: Vec<_> = self.lines.keys().cloned().collect();
        for needs in all {
            self.refresh(now, &needs, None);
        }
    }
}
