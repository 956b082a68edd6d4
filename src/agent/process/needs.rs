//! The folder that a run needs: with a copy of its tool, or empty.

use crate::workspace::{TailLimit, TaskDir};
use api::wire::requests::apply::Dispatch;
use api::wire::tool_manifest;
use base::Stay;

const TOOL_TOML: &str = "tool.toml";

/// The content of the folder that a run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// A copy of its tool.
    Tool,
    /// An empty folder: it is a command, or a task of a tool that stays and is running.
    Folder,
}

/// Whether a task of a tool that stays has a folder of its own. Tasks of steps, and tasks with files, get and leave files.
pub(super) fn needs_folder(dispatch: &Dispatch, terms: &Stay) -> bool {
    terms.folder || dispatch.step.is_some() || dispatch.files.is_some()
}

/// How the tool stays that was just placed.
pub(super) fn stay_terms(dispatch: &Dispatch, dir: &TaskDir) -> Option<Stay> {
    if dispatch.command.is_some() || dispatch.source.is_some() {
        return None;
    }
    let limit = TailLimit { bytes_max: tool_manifest::BYTES_MAX, drop_partial_line: false };
    let text = dir.tail(&[dispatch.tool.folder_name()], TOOL_TOML, limit).text;
    if text.is_empty() {
        return None;
    }
    // The controller refuses a tool with a wrong one; this is from a folder of the agent's own.
    let manifest = tool_manifest::parse(&text).inspect_err(|why| log::warn!("tool {}: {why}", dispatch.tool));
    manifest.ok()?.stay
}
