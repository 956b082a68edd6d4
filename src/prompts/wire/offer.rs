//! The additions of llts to JOIN and JOIN_ACK: the worker offers, and the master accepts. A side that receives none of them
//! speaks to an original, and uses none.
//!
//! | in | member | content |
//! |---|---|---|
//! | JOIN | `resumes` | true: the worker keeps its run while it has no connection, and waits for a REPORT_ACK |
//! | JOIN | `run` | the request id of the run that it still has |
//! | JOIN | `gate` | the service behind its command; workers of one gate share its limits |
//! | JOIN | `tails` | true: the worker answers TAIL |
//! | JOIN_ACK | `lease` | seconds that the master keeps a prompt for a worker without a connection |
//! | JOIN_ACK | `run` | as in the JOIN, if that run is still wanted |
//! | JOIN_ACK | `results` | the master takes results, and at most this many bytes of each output |
//! | JOIN_ACK | `root` | a text that is also in a file of the master's root, which a worker with the same root finds there |

use std::time::Duration;

use super::{RequestId, duration, text};
use base::json::ObjectWriter;
use base::{Fields, Scalar};

const RESUMES: &str = "resumes";
const RUN: &str = "run";
const GATE: &str = "gate";
const TAILS: &str = "tails";
const LEASE: &str = "lease";
const RESULTS: &str = "results";
const ROOT: &str = "root";

/// Longest name of a gate, in bytes.
const GATE_BYTES_MAX: usize = 64;

/// The additions to a JOIN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The worker keeps its run while it has no connection.
    pub resumes: bool,
    /// The run that the worker has from an earlier connection.
    pub run: Option<RequestId>,
    /// The service behind the command, in up to 64 bytes.
    pub gate: Option<String>,
    /// The worker answers requests for the output of its run.
    pub tails: bool,
}

/// The additions to a JOIN_ACK.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// How long the master keeps a prompt for a worker without a connection.
    pub lease: Duration,
    /// The run of the JOIN, if the worker is to continue it.
    pub run: Option<RequestId>,
    /// Bytes of each output that the master takes; 0 for none.
    pub result_bytes_max: u64,
    /// The identity of the master's root.
    pub root: String,
}

impl Offer {
    pub(super) fn write(&self, out: &mut ObjectWriter<'_>) {
        if self.resumes {
            out.literal(RESUMES, true);
        }
        out.maybe_text(RUN, self.run.as_ref().map(RequestId::as_str));
        out.maybe_text(GATE, self.gate.as_deref());
        if self.tails {
            out.literal(TAILS, true);
        }
    }

    pub(super) fn read(fields: &Fields) -> Self {
        Self {
            resumes: matches!(fields.get(RESUMES), Some(Scalar::Bool(true))),
            run: text(fields, RUN).map(RequestId::new),
            gate: text(fields, GATE).filter(|gate| (1..=GATE_BYTES_MAX).contains(&gate.len())),
            tails: matches!(fields.get(TAILS), Some(Scalar::Bool(true))),
        }
    }
}

impl Welcome {
    pub(super) fn write(&self, out: &mut ObjectWriter<'_>) {
        out.literal(LEASE, self.lease.as_secs_f64());
        out.maybe_text(RUN, self.run.as_ref().map(RequestId::as_str));
        out.literal(RESULTS, self.result_bytes_max);
        out.text(ROOT, &self.root);
    }

    /// `None` for the JOIN_ACK of an original.
    pub(super) fn read(fields: &Fields) -> Option<Self> {
        let bytes = fields.get(RESULTS).and_then(Scalar::as_f64).filter(|bytes| (0.0..=1e15).contains(bytes));
        Some(Self {
            lease: duration(fields, LEASE)?,
            run: text(fields, RUN).map(RequestId::new),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it was compared with both ends"
            )]
            result_bytes_max: bytes.unwrap_or(0.0) as u64,
            root: text(fields, ROOT).unwrap_or_default(),
        })
    }
}
