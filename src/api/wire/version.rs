//! The version of an agent. It consists of the version of the program, for people, and the version of the conversation with
//! controllers, which decides whether both can work together.

use std::borrow::Cow;

use super::typed::{bad, whole};
use super::{Code, Refusal};
use base::json::ObjectWriter;
use base::{Fields, words};

/// The version of the conversation that this program speaks. It is increased when an older program would misunderstand the new
/// conversation.
pub const WIRE: u32 = 1;

/// The oldest version that this program understands. Agents that report none speak version 1.
pub const WIRE_OLDEST: u32 = 1;

/// The version of this program, after a text that occurs nowhere else. A test changes these bytes to get a program of another
/// version.
static STAMP: &str = concat!("llts program version ", env!("CARGO_PKG_VERSION"));

/// The version of this program, for people. Every report of it comes from here.
#[must_use]
pub fn program() -> &'static str {
    // Keeps the compiler from copying the known text to each use.
    let stamp = std::hint::black_box(STAMP);
    stamp.rsplit_once(' ').map_or(stamp, |(_, version)| version)
}

/// The commit, if this was built from an archive: `git archive` writes it into the file.
const ARCHIVED: &str = include_str!("commit");

/// The version of this program with its commit and the version of the conversation: `0.1.0 (commit 78c24d2897e2, wire 1)`.
///
/// The commit comes from the variable `LLTS_COMMIT` at the build, which packaging scripts set, or else from the archive. A build
/// in a clone shows none, because the files of a clone change between two builds without a new commit.
#[must_use]
pub fn shown() -> String {
    let archived = Some(ARCHIVED.trim()).filter(|commit| !commit.starts_with('$'));
    let commit = option_env!("LLTS_COMMIT").filter(|commit| !commit.is_empty()).or(archived);
    let commit = commit.map(|commit| format!("commit {commit}, ")).unwrap_or_default();
    format!("{} ({commit}wire {WIRE})", program())
}

/// Maximum characters of the version of a program.
const PROGRAM_MAX: usize = 64;

/// The version of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The version of the conversation.
    pub wire: u32,
    /// The version of the program.
    pub program: Cow<'static, str>,
}

impl Version {
    /// The version of this program.
    #[must_use]
    pub fn ours() -> Self {
        Self { wire: WIRE, program: Cow::Borrowed(program()) }
    }

    /// Refuses an agent that a controller of this program does not understand.
    ///
    /// # Errors
    /// Names both versions, and tells what to do.
    pub fn check(&self) -> Result<(), Refusal> {
        let remedy = match self.wire {
            wire if wire > WIRE => "restart the controller with the newer llts first: `llts restart` where it runs",
            wire if wire < WIRE_OLDEST => "restart the agent with the newer llts: `llts restart` where it runs",
            _ => return Ok(()),
        };
        let ours = program();
        let message = format!(
            "this agent is of llts {} and speaks version {} of the agents' protocol ({}), the controller is of llts {ours} and \
             understands versions {WIRE_OLDEST} to {WIRE}; {remedy}",
            self.program,
            self.wire,
            words::WIRE_VERSION
        );
        Err(Refusal::new(Code::NotAllowed, message))
    }

    pub(super) fn write(&self, writer: &mut ObjectWriter<'_>) {
        writer.literal(words::WIRE_VERSION, self.wire);
        writer.text(words::PROGRAM_VERSION, &self.program);
    }

    /// Reads the version in a heartbeat; `None` from a program that reports none.
    pub(super) fn read(fields: &Fields) -> Result<Option<Self>, Refusal> {
        let Some(wire) = whole(fields, words::WIRE_VERSION, u32::MAX)? else { return Ok(None) };
        let Some(value) = fields.get(words::PROGRAM_VERSION) else {
            return Ok(Some(Self { wire, program: Cow::Borrowed("?") }));
        };
        let is_version = |text: &&str| text.len() <= PROGRAM_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        let program = value.as_text().filter(is_version);
        let program =
            program.ok_or_else(|| bad(words::PROGRAM_VERSION, value, "a version of at most 64 characters"))?;
        Ok(Some(Self { wire, program: Cow::Owned(program.to_owned()) }))
    }
}
