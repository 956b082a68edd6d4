//! Plain data that every layer shares: ids, time, exit codes, tool names, the record of a task.
//!
//! Nothing here reads a clock, draws a random number or knows a word of the wire.

mod address;
mod caller;
mod checked;
mod command;
mod distribution;
mod end_signal;
mod epoch;
mod exit;
mod fields;
mod finished_round;
mod gate;
mod graph;
mod graph_event;
mod graph_view;
mod id;
mod job;
mod label;
pub mod lease;
pub mod lists;
mod middle;
mod nearest;
mod origin;
pub mod os_text;
mod output;
pub mod path_text;
mod pattern;
mod policy;
mod printable;
mod progress;
mod public_key;
mod run;
mod shell_line;
mod shown_state;
mod skew;
mod source;
mod span;
mod step;
mod task;
mod task_files;
pub mod tdf;
mod term;
mod time;
mod tool;
mod tool_digest;
mod tool_manifest;
mod tool_set;
mod unfit_agents;
mod usd;

/// An IP address is a value. Engines, which have no other use for `std::net`, take it from here.
pub(crate) use std::net::IpAddr;

pub use address::Refusal as AddressRefusal;
pub use address::{AddressError, AddressPolicy, Cidr, CidrError, PushAddress};
pub(crate) use address::{Host, split_tcp};
pub use caller::{AllowCommands, Caller, CallerKey, CallerPlace, Loopback, Right};
pub use command::TaskCommand;
pub use distribution::{Distribution, is_longer};
pub use end_signal::EndSignal;
pub use epoch::{Epoch, KnownEpoch};
pub use exit::{ExitCode, Outcome};
pub use fields::{Fields, Scalar};
pub use finished_round::{FinishedRound, Incident, IncidentKind, RoundOutcome};
pub use gate::{
    BlockedAgent, GateSettings, GateVerdict, GateView, Holdup, Offer, Pace, Requirements, Servers, UNTIL_OPENED,
};
pub use graph::{GraphLimits, GraphStatus, InvalidName, PortActivity, PortName, StepName, StepState};
pub use graph_event::{GraphEntry, GraphEvent, StepIndex, StepTask, TaskEnd, TaskRole};
pub use graph_view::{GraphChange, GraphView, InputView, StepHoldup, StepView};
pub use id::{AgentId, GraphId, InvalidAgentId, InvalidGraphId, InvalidTaskId, Round, Session, TaskId};
pub use job::{
    InvalidJobName, JobMemo, JobName, JobStatus, JobStop, JobView, Membership, Relations, RunTimes, StepPlace,
};
pub use label::{InvalidLabel, Label, Labels};
pub use lease::Lease;
pub use middle::{beginning, middle, shortened};
pub(crate) use nearest::{leaf, nearest, nearest_hint};
pub use origin::{Neighbourhood, Origin};
pub use os_text::{os_bytes, os_text};
pub use output::{OutputId, Stream, exact_tail};
pub use path_text::{path_of_text, path_text};
pub use pattern::pattern;
pub use policy::{Ahead, Counts, Policy, PolicyField, PolicySlot};
pub use printable::{Readable, in_quotes, is_harmful, printable, printable_json, printable_lines};
pub use progress::Progress;
pub(crate) use public_key::z85_key;
pub use public_key::{BadKey, PublicKey};
pub use run::{Defer, OutputBytes, Phase, PhaseTimes, RunResult};
pub use shell_line::{
    ARGUMENT_BYTES_MAX, LinePart, Misplaced, NotANumber, Place, Reader, is_shell, quoted, reader_behind,
};
pub use shown_state::{ShownState, StateCounts};
pub use skew::Skew;
pub use source::{
    AllowedHost, AllowedSources, InvalidAllowedHost, InvalidProgramName, InvalidSource, ProgramName, Source,
    SourceForm, SourceRefusal, SourceScheme, TaskSource,
};
pub use span::span;
pub use step::{Inputs, InvalidLocation, Provided, StepContext, StepRole, checked_location};
pub use task::{
    Acknowledgement, Assignment, HostAddress, Kill, KillCause, ListPlace, PastRound, RoundEnd, TaskRecord, TaskState,
    ToldProgress, address_elsewhere,
};
pub use task_files::{FileName, FilePattern, InvalidFileName, KeptFile, KeptFiles, TaskFiles, TaskInput};
pub use term::{Prior, Term, Wanted};
pub use time::{Mono, Now, SECONDS_MAX, Wall, WallText};
pub use tool::{InvalidToolName, ToolName};
pub use tool_digest::{InvalidToolDigest, ToolDigest};
pub use tool_manifest::{HeldTool, ParameterKind, ToolManifest, ToolParameter, ToolPaths};
pub use tool_set::ToolSet;
pub use usd::Usd;
