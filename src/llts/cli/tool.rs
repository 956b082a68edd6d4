//! `llts tool`: make, check and pack tools, and hand them to the controller.

pub(super) mod held;
mod push;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use api::tools;
use api::tools::UnpackedSample;
use base::{ToolName, path_text};
use term::exit::Failure;
use term::output::note;
use term::session::Session;

#[derive(Args, Debug)]
pub(super) struct ToolArgs {
    #[command(subcommand)]
    command: ToolCommand,
}

#[derive(Debug, Subcommand)]
enum ToolCommand {
    /// Make a folder with a run.sh as a starting point
    New {
        /// The folder; its name is that of the tool
        folder: PathBuf,
    },
    /// Put the sample tools that are built into this program into a folder; existing files stay
    Samples {
        /// The folder that gets a folder for each [default: TOOL_SOURCES_DIR]
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
    /// Check whether a folder or a .tar.gz would run as a tool
    Check {
        /// The folder or the archive
        path: PathBuf,
    },
    /// Upload a tool; agents download it when they need it
    Push {
        /// The folder of the tool, or its archive
        path: PathBuf,
        /// The name of the tool [default: that of the folder or of the archive]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// List the tools that the controller holds
    List,
    /// Show a tool that the controller holds: its version, description, parameters, files and agents
    Show {
        /// Name of the tool
        tool: String,
    },
    /// Remove a pushed tool; tasks that were accepted before keep their version of it
    Rm {
        /// Name of the tool
        tool: String,
    },
    /// List the versions that a name stood for: the pushed ones, and those of the tools folder of the controller
    Log {
        /// Name of the tool
        tool: String,
    },
    /// Pack a folder; the same content always makes the same archive
    Pack {
        /// The folder; its name is that of the tool
        folder: PathBuf,
        /// The archive, or the folder to put it into [default: AGENT_TOOLS_DIR]
        #[arg(long, value_name = "PATH")]
        out: Option<PathBuf>,
    },
}

impl ToolArgs {
    /// Whether it only asks the controller.
    pub(super) const fn only_asks(&self) -> bool {
        use ToolCommand::{List, Log, Rm, Show};
        matches!(self.command, List | Show { .. } | Rm { .. } | Log { .. })
    }
}

pub(super) fn run(session: &mut Session, args: &ToolArgs) -> Result<u8, Failure> {
    match &args.command {
        ToolCommand::New { folder } => new(session, folder),
        ToolCommand::Samples { into } => samples(session, into.as_deref()),
        ToolCommand::Check { path } => check(session, path),
        ToolCommand::Pack { folder, out } => pack(session, folder, out.as_deref()),
        ToolCommand::Push { path, name } => push::run(session, path, name.as_deref()),
        ToolCommand::List => held::list(session),
        ToolCommand::Show { tool } => held::show(session, &named(tool)?),
        ToolCommand::Rm { tool } => held::remove(session, &named(tool)?),
        ToolCommand::Log { tool } => held::log(session, &named(tool)?),
    }?;
    Ok(0)
}

fn named(tool: &str) -> Result<ToolName, Failure> {
    ToolName::new(tool).map_err(|error| Failure::usage(error.to_string()))
}

fn new(session: &mut Session, folder: &Path) -> Result<(), Failure> {
    let tool = tools::create(folder).map_err(Failure::failed)?;
    let script = folder.join(tools::RUN_SCRIPT);
    if session.out.is_json() {
        session.out.value(&json!({ "tool": tool.as_str(), "script": path_text(&script) }));
    } else {
        session.out.line(script.display());
    }
    Ok(())
}

fn samples(session: &mut Session, into: Option<&Path>) -> Result<(), Failure> {
    let sources = session.config.paths.tool_sources_dir.as_deref();
    let Some(into) = into.or(sources) else {
        return Err(Failure::usage("TOOL_SOURCES_DIR is \"\"; say with --into DIR where the samples go"));
    };
    let samples = tools::unpack_samples(into, None).map_err(Failure::failed)?;
    if session.out.is_json() {
        let value = |sample: &UnpackedSample| json!({ "folder": path_text(&sample.folder), "new": sample.is_new });
        session.out.value(&samples.iter().map(value).collect());
        return Ok(());
    }
    for UnpackedSample { folder, is_new } in samples {
        let kept = if is_new { "" } else { " (kept as it is)" };
        session.out.line(format_args!("{}{kept}", folder.display()));
    }
    Ok(())
}

fn check(session: &mut Session, path: &Path) -> Result<(), Failure> {
    let checked = tools::check(path, &session.config.archive).map_err(Failure::failed)?;
    checked.warnings.iter().for_each(|warning| note(warning));
    let tools::Checked { tool, entries, bytes, warnings } = checked;
    if session.out.is_json() {
        let value = json!({ "tool": tool.as_str(), "entries": entries, "bytes": bytes, "warnings": warnings });
        session.out.value(&value);
    } else {
        session.out.line(format_args!("{tool}: {entries} entries, {bytes} bytes"));
    }
    Ok(())
}

fn pack(session: &mut Session, folder: &Path, out: Option<&Path>) -> Result<(), Failure> {
    let paths = &session.config.paths;
    let archive = match out {
        Some(out) if out.to_string_lossy().ends_with(".tar.gz") => out.to_owned(),
        dir => archive_in(dir.unwrap_or(&paths.tools_dir), folder)?,
    };
    let packed = tools::pack(folder, &archive, &session.config.archive).map_err(Failure::failed)?;
    if session.out.is_json() {
        let tools::Packed { bytes, entries, changed } = packed;
        session
            .out
            .value(&json!({ "archive": path_text(&archive), "bytes": bytes, "entries": entries, "changed": changed }));
    } else {
        let unchanged = if packed.changed { "" } else { " (unchanged)" };
        session.out.line(format_args!("{}{unchanged}", archive.display()));
    }
    Ok(())
}

/// The archive of a tool in a folder, which is made if it is missing.
fn archive_in(dir: &Path, tool: &Path) -> Result<PathBuf, Failure> {
    let failed =
        |path: &Path, error: std::io::Error| Failure::failed(format!("cannot pack {}: {error}", path.display()));
    // "." has no name of its own.
    let named = tool.canonicalize().map_err(|error| failed(tool, error))?;
    let name = named.file_name().unwrap_or_default().to_string_lossy();
    let tool = ToolName::new(&name).map_err(Failure::failed)?;
    tools::make_tools_dir(dir).map_err(|error| failed(dir, error))?;
    Ok(dir.join(tool.archive_name()))
}
