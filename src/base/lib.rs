//! The values that all parts of a task service share, and flat JSON.
//!
//! Nothing here reads a clock, opens a file or a socket, or draws a random number. A value is checked when it is made, so code that
//! holds a [`TaskId`] or a [`Label`] never checks it again. The crate depends on no other crate of the workspace.
//!
//! | modules and types | content |
//! |---|---|
//! | [`json`], [`Fields`], [`Scalar`] | text to flat objects and back, within [`json::FieldLimits`] |
//! | [`words`], [`code`] | the words of the wire, and the codes of refusals |
//! | [`Mono`], [`Wall`], [`Now`] | time for deadlines, time for people, and the moment on both clocks |
//! | [`timers`], [`journal`] | deadlines as data, log lines as data |
//! | [`TaskId`], [`AgentId`], [`GraphId`], [`Round`], [`Session`], [`Epoch`] | ids |
//! | [`TaskRecord`], [`TaskState`], [`Phase`], [`Outcome`], [`RunResult`] | the record of a task, and the result of a run |
//! | [`Policy`], [`Requirements`], [`GateSettings`], [`Term`] | a submitter's demands: when a task may start, how often it may fail, what it waits for |
//! | [`lease`] | how long an exclusive run continues without contact |
//! | [`TaskCommand`], [`TaskSource`], [`ToolName`], [`ToolSet`] | the work of a task: a command, a fetched program, a tool |
//! | [`JobView`], [`GraphView`], [`GraphEvent`] | jobs and step graphs |
//! | [`lists`], [`tdf`] | the names of task lists and of TDF |
//! | [`Caller`], [`Right`], [`AllowCommands`] | the sender of a request and its rights |
//! | [`mod@printable`], [`mod@middle`], [`mod@nearest`], [`mod@span`], [`mod@pattern`] | texts for people: safe for a terminal, shortened, with hints |
//! | [`mod@os_text`], [`mod@path_text`] | arguments and paths as message texts |
//!
//! # Callers
//!
//! Every other crate uses this one. Engines take the time ([`Now`]), deadlines ([`timers::Timers`]) and the log
//! ([`journal::Journal`]) from here.
//!
//! # The way of a message
//!
//! 1. A frame arrives as bytes. [`json::parse`] reads them as one flat object.
//! 2. [`json::FieldLimits`] bound the message, its fields, their names and their values before anything is kept.
//! 3. A valid message becomes [`Fields`]: unique names in the sender's order.
//! 4. An invalid one becomes [`json::Rejected`]: a [`code::Refusal`] and the valid fields, so that the answer can name
//!    the task.
//! 5. The reader takes typed values: [`Fields::text`], [`Fields::count`], [`Fields::moment`], [`Fields::flag`].
//! 6. An answer is written with [`json::ObjectWriter`], or as a whole with [`json::to_vec`].
//!
//! ```
//! use base::Fields;
//! use base::code::Code;
//! use base::json::{self, FieldLimits};
//!
//! let limits = FieldLimits { message_bytes: 4096, fields: 16, name_bytes: 32, value_bytes: 256, command_bytes: 1024 };
//! let fields = json::parse(br#"{"name": "Ada", "age": 36}"#, &limits).expect("a flat object");
//! assert_eq!(fields.text("name"), Some("Ada"));
//! assert_eq!(fields.count("age"), Some(36));
//!
//! let rejected = json::parse(br#"{"name": "Ada", "friends": ["Charles"]}"#, &limits).expect_err("a nested value");
//! assert_eq!(rejected.refusal.code, Code::BadField);
//! assert_eq!(rejected.fields.text("name"), Some("Ada"));
//!
//! let answer = Fields::new().with("name", "Ada").with("age", 36_u64);
//! assert_eq!(json::to_vec(&answer), br#"{"name":"Ada","age":36}"#);
//! ```

mod address;
mod caller;
mod checked;
pub mod code;
mod command;
mod counted;
mod curve_files;
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
pub mod journal;
pub mod json;
mod label;
pub mod lease;
pub mod lists;
mod log;
pub mod middle;
pub mod nearest;
mod origin;
pub mod os_text;
mod output;
pub mod path_text;
pub mod pattern;
mod policy;
pub mod printable;
mod progress;
mod public_key;
mod role;
mod run;
mod shell_line;
mod shown_state;
mod skew;
mod source;
pub mod span;
mod step;
mod task;
mod task_files;
pub mod tdf;
mod term;
mod time;
pub mod timers;
mod tool;
mod tool_digest;
mod tool_manifest;
mod tool_set;
mod unfit_agents;
mod usd;
pub mod words;

/// An IP address is a value. Engines must not use `std::net`, so they take it from here.
pub use std::net::IpAddr;

pub use address::{
    AddressError, AddressPolicy, Cidr, CidrError, Host, PushAddress, Refusal as AddressRefusal, is_loopback, split_tcp,
};
pub use caller::{AllowCommands, Caller, CallerKey, CallerPlace, Loopback, Right};
pub use command::TaskCommand;
pub use counted::counted;
pub use curve_files::{CurveClientFiles, CurveServerFiles};
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
pub use log::{LogFormat, LogLayout, LogPart, LogPiece, LogSection};
pub use middle::{beginning, middle, shortened};
pub use nearest::{leaf, nearest, nearest_hint};
pub use origin::{Neighbourhood, Origin};
pub use os_text::{os_bytes, os_text};
pub use output::{OutputId, Stream, exact_tail};
pub use path_text::{broadcast_socket, path_of_text, path_text, quoted_path};
pub use pattern::pattern;
pub use policy::{Ahead, Counts, Policy, PolicyField, PolicySlot};
pub use printable::{Readable, in_quotes, is_harmful, printable, printable_json, printable_lines};
pub use progress::Progress;
pub use public_key::{BadKey, PublicKey, z85_key};
pub use role::Role;
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
pub use tool_manifest::{HeldTool, ParameterKind, Stay, ToolManifest, ToolParameter, ToolPaths};
pub use tool_set::ToolSet;
pub use usd::Usd;
