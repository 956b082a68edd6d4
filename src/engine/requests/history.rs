//! HISTORY/QUERY, HISTORY/SUMMARY and HISTORY/INCIDENTS: answered by `controller::history`, outside of the engine.

use super::Reply;
use api::wire::requests::history::is_off;

/// The answer of a controller that keeps no history. Any other one answers before the engine is asked.
pub(super) fn without_one() -> Reply {
    Reply::Refused(is_off())
}
