//! `llts tool push`: hands an archive to the controller, in parts.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde_json::json;

use super::super::Session;
use super::super::caller::{caller, command_line};
use super::named;
use api::tools::{PackedTool, packed};
use api::wire::requests::tool;
use api::wire::requests::tool::ToolPut;
use base::{ToolDigest, ToolName};
use llts_client::Client;
use proc::files::file_digest::digest_at;
use term::exit::Failure;
use term::output::note;

/// The first request carries no bytes, and its answer says how many the following ones may carry. This is the size if the controller does
/// not say.
const PART_BYTES: u64 = 4096;

/// How often the controller may answer that it has fewer bytes than before: another push of the same archive may interfere.
const SETBACKS_MAX: usize = 100;

pub(super) fn run(session: &mut Session, path: &Path, name: Option<&str>) -> Result<(), Failure> {
    let name = name.map(named).transpose()?;
    let PackedTool { tool, archive, warnings, .. } =
        &packed(path, name, &session.config.archive).map_err(Failure::failed)?;
    warnings.iter().for_each(|warning| note(warning));
    let unreadable = |error: std::io::Error| Failure::failed(format!("cannot read {}: {error}", archive.display()));
    let digest = digest_at(archive).map_err(unreadable)?;
    let file = File::open(archive).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let client = session.client()?;
    let sent = send(&client, (tool, digest), (&file, size), &unreadable)?;
    if session.out.is_json() {
        session.out.value(&json!({ "tool": tool.as_str(), "digest": digest.to_string(), "bytes": size, "sent": sent }));
    } else {
        let known = if sent == 0 { " (the controller had it already)" } else { "" };
        session.out.line(format_args!("{tool} {} {size} bytes{known}", digest.short()));
    }
    Ok(())
}

/// Sends the missing parts to the controller. Returns the number of sent bytes.
fn send(
    client: &Client,
    (tool, digest): (&ToolName, ToolDigest),
    (file, size): (&File, u64),
    unreadable: &dyn Fn(std::io::Error) -> Failure,
) -> Result<u64, Failure> {
    let by = caller(&command_line());
    let (mut offset, mut sent, mut setbacks, mut data) = (0, 0, 0, Vec::new());
    loop {
        let part = data.len() as u64;
        let put = ToolPut { tool: tool.clone(), digest, total: size, offset, data, by: by.as_str().into() };
        let answer = client.ask(&tool::put(&put))?;
        if !answer.warning().is_empty() {
            note(answer.warning());
        }
        if answer.is_complete() {
            return Ok(sent + part);
        }
        if answer.end() == offset + part {
            sent += part;
        } else {
            setbacks += 1;
        }
        if setbacks > SETBACKS_MAX {
            return Err(Failure::failed(format!(
                "the controller does not keep the parts of tool {tool}; push it again"
            )));
        }
        offset = answer.end();
        let limit = if answer.limit() == 0 { PART_BYTES } else { answer.limit() };
        data = vec![0; usize::try_from(limit.min(size.saturating_sub(offset))).unwrap_or_default()];
        file.read_exact_at(&mut data, offset).map_err(unreadable)?;
    }
}
