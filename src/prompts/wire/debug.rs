//! Messages of workers for logs.

use std::fmt;

use super::FromWorker;

/// The secret is for the master only, not for logs.
impl fmt::Debug for FromWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Join { worker, .. } => f.debug_struct("Join").field("worker", worker).finish_non_exhaustive(),
            Self::RequestAck(id) => f.debug_tuple("RequestAck").field(id).finish(),
            Self::CheckAck(id) => f.debug_tuple("CheckAck").field(id).finish(),
            Self::Done { text } => f.debug_struct("Done").field("text", text).finish(),
            Self::Failed { reason, .. } => f.debug_struct("Failed").field("reason", reason).finish(),
            Self::UsageLimited { retry_after, reason, .. } => {
                f.debug_struct("UsageLimited").field("retry_after", retry_after).field("reason", reason).finish()
            }
            Self::Result(part) => f.debug_tuple("Result").field(&part.file).field(&part.offset).finish(),
            Self::Cost { run, cost } => f.debug_tuple("Cost").field(run).field(cost).finish(),
            Self::Budget { max, .. } => f.debug_tuple("Budget").field(max).finish(),
            Self::Tail { query, .. } => f.debug_tuple("Tail").field(query).finish(),
            Self::TailPart(part) => f.debug_tuple("TailPart").field(&part.offset).finish(),
            Self::Order { order, .. } => f.debug_tuple("Order").field(order).finish(),
            Self::Leave => f.write_str("Leave"),
            Self::Status { .. } => f.write_str("Status"),
        }
    }
}
