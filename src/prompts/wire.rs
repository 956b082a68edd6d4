//! The messages of the prompt master and its workers (docs/sources/prompts.md, 11): TCP, one JSON object each.
//!
//! | from | type | content |
//! |---|---|---|
//! | worker | `JOIN` | `msg`: the worker's id; llts adds `secret`, `splits`: true for a worker that finds messages in the stream, and an [`Offer`] |
//! | worker | `REQUEST_ACK`, `CHECK_ACK` | `req_id`, as received |
//! | worker | `DONE`, `FAILED` | `msg`: any text; the file follows from the worker; llts adds `lost`: true to a FAILED whose command was killed from outside |
//! | worker | `USAGE_LIMITED` | llts adds `retry_after`, in seconds, and `scope`: "worker" if no other worker is affected |
//! | worker | `RESULT` | added by llts, for a master that takes results: a [`ResultPart`] |
//! | worker | `COST` | added by llts, for a master that sends a [`Welcome`]: `req_id`, and `usd`: the cost of the run |
//! | worker | `LEAVE` | |
//! | master | `JOIN_ACK` | llts adds a [`Welcome`], for a worker whose JOIN has an [`Offer`] |
//! | master | `REPORT_ACK` | added by llts, for such a worker: `req_id` of the run whose report has been carried out |
//! | master | `REQUEST` | `req_id`, `msg`: the prompt; llts adds `file`, its name, and `timeout`, in seconds |
//! | master | `CHECK` | `req_id` |
//! | anyone | `TAIL` | the same: a [`TailQuery`] |
//! | master | `TAIL` | the same, for a worker whose JOIN has `tails`: a [`TailOrder`] |
//! | both | `TAIL_PART` | the answers: a [`TailPart`] |
//! | anyone | `STATUS` | added by llts, sent without a `JOIN`; `secret` |
//! | anyone | `PAUSE`, `RESUME`, `DRAIN` | the same; an [`Order`]; RESUME may have `max_cost`, in USD |
//! | master | `STATUS_ACK` | added by llts: a [`Status`] |
//! | master | `REFUSED` | added by llts: `msg` is the reason why the connection is closed right after it |
//! | master | `COMPLETED` | added by llts: no prompt is left, and the connection is closed right after it |
//!
//! Every message is written with a newline at its end. Received objects may be separated by newlines, by other white space
//! or by nothing at all: [`zmtp::json::split::Splitter`] finds them. Unknown names are ignored, whatever their values.

mod debug;
mod front;
mod kind;
mod offer;
mod order;
mod request;
mod result_part;
mod status;
mod tail;
mod yaml;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use front::{FRONT_BYTES_MAX, Front};
pub use offer::{Offer, Welcome};
pub use order::Order;
pub use request::{Request, RequestId};
pub use result_part::{RESULT_PART_BYTES_MAX, ResultFile, ResultPart};
pub use status::{Pace, Status, WorkerState, WorkerStatus};
pub use tail::{TailOrder, TailPart, TailQuery};

use base::code::Code;
use base::json::{FieldLimits, ObjectWriter, Rejected};
use base::{Fields, Scalar, Usd, json};

/// Maximum bytes of one message of a worker: its longest text is a reason for people.
pub const WORKER_FRAME_BYTES_MAX: usize = 64 << 10;

/// Maximum bytes of one message of the master, which contains a whole prompt.
pub const MASTER_FRAME_BYTES_MAX: usize = 16 << 20;

/// The longest time, a year; it keeps sums of times inside their type.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;

const TYPE: &str = "type";
const MSG: &str = "msg";
const REQ_ID: &str = "req_id";
const SECRET: &str = "secret";
const SPLITS: &str = "splits";
const FILE: &str = "file";
const TIMEOUT: &str = "timeout";
const RETRY_AFTER: &str = "retry_after";
const SCOPE: &str = "scope";
const LOST: &str = "lost";
const USD: &str = "usd";
const MAX_COST: &str = "max_cost";

/// The value of `scope` for a limit of one worker.
const WORKER: &str = "worker";

/// Maximum bytes of a REQUEST besides its prompt.
const REQUEST_FRAME_BYTES: usize = 4 << 10;

/// Whether a prompt fits into a message of the master. Line ends and quotes take two bytes there.
#[must_use]
pub fn prompt_fits(prompt: &str) -> bool {
    let bytes = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..b' ' => 6,
        _ => 1,
    };
    prompt.bytes().map(bytes).sum::<usize>() <= MASTER_FRAME_BYTES_MAX - REQUEST_FRAME_BYTES
}

/// A message of a worker to the master.
#[derive(Clone, PartialEq)]
pub enum FromWorker {
    /// The first message of a worker.
    Join {
        /// The worker's own name; not unique.
        worker: String,
        /// The secret that the master's configuration requires.
        secret: Option<String>,
        /// The worker finds the messages in the stream, however they arrive. The document's workers read one message with each
        /// `recv`.
        splits: bool,
        /// The additions of llts; the default for an original.
        offer: Offer,
    },
    /// The worker has taken a prompt.
    RequestAck(RequestId),
    /// The answer to a CHECK.
    CheckAck(RequestId),
    /// The prompt is done.
    Done {
        /// A text for people.
        text: String,
    },
    /// The prompt has failed.
    Failed {
        /// A text for people.
        reason: String,
        /// The command was killed from outside. The prompt is not to blame, and there are no results.
        is_loss: bool,
    },
    /// The service behind the worker is limited for a while.
    UsageLimited {
        /// The duration of the limit, if the service has reported it.
        retry_after: Option<Duration>,
        /// The reason lies with this worker alone, such as a full disk.
        is_local: bool,
        /// A text for people.
        reason: String,
    },
    /// A part of the results of its run.
    Result(Box<ResultPart>),
    /// The cost of its run, for a master that welcomes it. The report follows.
    Cost {
        /// The request that the run belongs to.
        run: RequestId,
        /// The cost.
        cost: Usd,
    },
    /// As [`Order::Resume`], with another bound for the cost of all prompts.
    Budget {
        /// The bound.
        max: Usd,
        /// As in [`FromWorker::Join`].
        secret: Option<String>,
    },
    /// A client requests the output of a prompt.
    Tail {
        /// The wanted part.
        query: Box<TailQuery>,
        /// As in [`FromWorker::Join`].
        secret: Option<String>,
    },
    /// The answer to a [`FromMaster::Tail`].
    TailPart(Box<TailPart>),
    /// The worker leaves.
    Leave,
    /// Requests the status of the master.
    Status {
        /// As in [`FromWorker::Join`].
        secret: Option<String>,
    },
    /// An order to the master, answered like a status request.
    Order {
        /// The change.
        order: Order,
        /// As in [`FromWorker::Join`].
        secret: Option<String>,
    },
}

/// A message of the master.
#[derive(Clone, Debug, PartialEq)]
pub enum FromMaster {
    /// The worker has joined, and gets only what the document names.
    JoinAck,
    /// The worker has joined, and its offer is accepted.
    Welcome(Box<Welcome>),
    /// The report on this run has been carried out.
    ReportAck(RequestId),
    /// A prompt for the worker.
    Request(Request),
    /// Requests a sign of life.
    Check(RequestId),
    /// The present state for a status client.
    StatusAck(Box<Status>),
    /// Requests the output of the run of a worker.
    Tail(Box<TailOrder>),
    /// The answer to a client.
    TailPart(Box<TailPart>),
    /// The reason why the connection is closed.
    Refused(String),
    /// All prompts are done, and the master ends. The worker need not look for it again.
    Completed,
}

/// Why an object is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not a flat object with the members of its type.
    #[error("{0}")]
    Malformed(String),
    /// A type of another program or of a later version; the other messages of the sender may be valid.
    #[error("the type {0:?} is not known")]
    UnknownType(String),
}

impl FromWorker {
    /// Writes the message, with its newline.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Join { worker, secret, splits, offer } => message(kind::JOIN, worker, |out| {
                out.maybe_text(SECRET, secret.as_deref());
                if *splits {
                    out.literal(SPLITS, true);
                }
                offer.write(out);
            }),
            Self::RequestAck(id) => message(kind::REQUEST_ACK, "", |out| out.text(REQ_ID, id.as_str())),
            Self::CheckAck(id) => message(kind::CHECK_ACK, "", |out| out.text(REQ_ID, id.as_str())),
            Self::Done { text } => message(kind::DONE, text, |_| {}),
            Self::Failed { reason, is_loss } => message(kind::FAILED, reason, |out| {
                if *is_loss {
                    out.literal(LOST, true);
                }
            }),
            Self::UsageLimited { retry_after, is_local, reason } => message(kind::USAGE_LIMITED, reason, |out| {
                out.maybe(RETRY_AFTER, retry_after.as_ref().map(Duration::as_secs_f64));
                out.maybe_text(SCOPE, is_local.then_some(WORKER));
            }),
            Self::Result(part) => message(kind::RESULT, "", |out| part.write(out)),
            Self::Cost { run, cost } => message(kind::COST, "", |out| {
                out.text(REQ_ID, run.as_str());
                out.literal(USD, cost.dollars());
            }),
            Self::Budget { max, secret } => message(Order::Resume.kind(), "", |out| {
                out.literal(MAX_COST, max.dollars());
                out.maybe_text(SECRET, secret.as_deref());
            }),
            Self::Tail { query, secret } => message(kind::TAIL, "", |out| {
                query.write(out);
                out.maybe_text(SECRET, secret.as_deref());
            }),
            Self::TailPart(part) => message(kind::TAIL_PART, &part.note, |out| part.write(out)),
            Self::Leave => message(kind::LEAVE, "", |_| {}),
            Self::Status { secret } => message(kind::STATUS, "", |out| out.maybe_text(SECRET, secret.as_deref())),
            Self::Order { order, secret } => message(order.kind(), "", |out| out.maybe_text(SECRET, secret.as_deref())),
        }
    }

    /// Parses an object that a [`zmtp::json::split::Splitter`] has found.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn parse(frame: &[u8]) -> Result<Self, MessageError> {
        let (kind, fields) = read(frame)?;
        Ok(match kind.as_str() {
            kind::JOIN => Self::Join {
                worker: needed(&fields, MSG, &kind)?,
                secret: text(&fields, SECRET),
                splits: matches!(fields.get(SPLITS), Some(Scalar::Bool(true))),
                offer: Offer::read(&fields),
            },
            kind::REQUEST_ACK => Self::RequestAck(RequestId::new(needed(&fields, REQ_ID, &kind)?)),
            kind::CHECK_ACK => Self::CheckAck(RequestId::new(needed(&fields, REQ_ID, &kind)?)),
            kind::DONE => Self::Done { text: text(&fields, MSG).unwrap_or_default() },
            kind::FAILED => Self::Failed {
                reason: text(&fields, MSG).unwrap_or_default(),
                is_loss: matches!(fields.get(LOST), Some(Scalar::Bool(true))),
            },
            kind::USAGE_LIMITED => Self::UsageLimited {
                retry_after: duration(&fields, RETRY_AFTER),
                is_local: text(&fields, SCOPE).is_some_and(|scope| scope == WORKER),
                reason: text(&fields, MSG).unwrap_or_default(),
            },
            kind::LEAVE => Self::Leave,
            kind::RESULT => Self::Result(Box::new(ResultPart::read(&fields, &kind)?)),
            kind::COST => Self::Cost {
                run: RequestId::new(needed(&fields, REQ_ID, &kind)?),
                cost: usd(&fields, USD)
                    .ok_or_else(|| MessageError::Malformed(format!("{kind} has no valid {USD:?}")))?,
            },
            kind::TAIL => {
                Self::Tail { query: Box::new(TailQuery::read(&fields, &kind)?), secret: text(&fields, SECRET) }
            }
            kind::TAIL_PART => Self::TailPart(Box::new(TailPart::read(&fields, &kind)?)),
            kind::STATUS => Self::Status { secret: text(&fields, SECRET) },
            _ => match (Order::of(&kind), usd(&fields, MAX_COST)) {
                (Some(Order::Resume), Some(max)) => Self::Budget { max, secret: text(&fields, SECRET) },
                (Some(order), _) => Self::Order { order, secret: text(&fields, SECRET) },
                (None, _) => return Err(MessageError::UnknownType(kind)),
            },
        })
    }
}

impl FromMaster {
    /// Writes the message, with its newline.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::JoinAck => message(kind::JOIN_ACK, "", |_| {}),
            Self::Welcome(welcome) => message(kind::JOIN_ACK, "", |out| welcome.write(out)),
            Self::ReportAck(id) => message(kind::REPORT_ACK, "", |out| out.text(REQ_ID, id.as_str())),
            Self::Request(request) => message(kind::REQUEST, &request.prompt, |out| {
                out.text(REQ_ID, request.id.as_str());
                out.maybe_text(FILE, request.file.as_deref());
                out.maybe(TIMEOUT, request.timeout.as_ref().map(Duration::as_secs_f64));
            }),
            Self::Check(id) => message(kind::CHECK, "", |out| out.text(REQ_ID, id.as_str())),
            Self::StatusAck(status) => message(kind::STATUS_ACK, "", |out| status.write(out)),
            Self::Refused(reason) => message(kind::REFUSED, reason, |_| {}),
            Self::Completed => message(kind::COMPLETED, "", |_| {}),
            Self::Tail(order) => message(kind::TAIL, "", |out| order.write(out)),
            Self::TailPart(part) => message(kind::TAIL_PART, &part.note, |out| part.write(out)),
        }
    }

    /// Parses an object that a [`zmtp::json::split::Splitter`] has found.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn parse(frame: &[u8]) -> Result<Self, MessageError> {
        let (kind, fields) = read(frame)?;
        Ok(match kind.as_str() {
            kind::JOIN_ACK => match Welcome::read(&fields) {
                Some(welcome) => Self::Welcome(Box::new(welcome)),
                None => Self::JoinAck,
            },
            kind::REPORT_ACK => Self::ReportAck(RequestId::new(needed(&fields, REQ_ID, &kind)?)),
            kind::REQUEST => Self::Request(Request {
                id: RequestId::new(needed(&fields, REQ_ID, &kind)?),
                prompt: needed(&fields, MSG, &kind)?,
                file: text(&fields, FILE),
                timeout: duration(&fields, TIMEOUT),
            }),
            kind::CHECK => Self::Check(RequestId::new(needed(&fields, REQ_ID, &kind)?)),
            kind::STATUS_ACK => Self::StatusAck(Box::new(Status::parse(frame)?)),
            kind::REFUSED => Self::Refused(text(&fields, MSG).unwrap_or_default()),
            kind::COMPLETED => Self::Completed,
            kind::TAIL => Self::Tail(Box::new(TailOrder::read(&fields, &kind)?)),
            kind::TAIL_PART => Self::TailPart(Box::new(TailPart::read(&fields, &kind)?)),
            _ => return Err(MessageError::UnknownType(kind)),
        })
    }
}

fn message(kind: &str, msg: &str, rest: impl FnOnce(&mut ObjectWriter<'_>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + msg.len());
    let mut writer = ObjectWriter::new(&mut out);
    writer.text(TYPE, kind);
    writer.text(MSG, msg);
    rest(&mut writer);
    writer.end();
    out.push(b'\n');
    out
}

/// The type and the fields of an object. The splitter has bounded its bytes; fields beyond these limits, and nested ones,
/// do not belong to this protocol.
fn read(frame: &[u8]) -> Result<(String, Fields), MessageError> {
    const LIMITS: FieldLimits = FieldLimits { fields: 64, name_bytes: 64, ..FieldLimits::TRUSTED };
    let fields = match json::parse(frame, &LIMITS) {
        Ok(fields) => fields,
        Err(Rejected { refusal, .. }) if refusal.code == Code::NotJson => {
            return Err(MessageError::Malformed(refusal.message));
        }
        Err(Rejected { fields, .. }) => fields,
    };
    match fields.get(TYPE) {
        Some(Scalar::Text(kind)) => Ok((kind.clone(), fields)),
        _ => Err(MessageError::Malformed(format!("the message has no text {TYPE:?}"))),
    }
}

/// A text, or another scalar converted to a text: an id may be sent as a number.
fn text(fields: &Fields, name: &str) -> Option<String> {
    match fields.get(name)? {
        Scalar::Null => None,
        scalar => Some(scalar.to_string()),
    }
}

fn needed(fields: &Fields, name: &str, kind: &str) -> Result<String, MessageError> {
    text(fields, name).ok_or_else(|| MessageError::Malformed(format!("{kind} has no text {name:?}")))
}

fn usd(fields: &Fields, name: &str) -> Option<Usd> {
    Usd::from_dollars(fields.get(name)?.as_f64()?)
}

fn duration(fields: &Fields, name: &str) -> Option<Duration> {
    let seconds = fields.get(name)?.as_f64().filter(|seconds| *seconds >= 0.0)?;
    Duration::try_from_secs_f64(seconds.min(SECONDS_MAX)).ok()
}
