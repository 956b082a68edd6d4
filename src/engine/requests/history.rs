//! HISTORY/QUERY, HISTORY/SUMMARY and HISTORY/INCIDENTS: answered by [`crate::history::rules`], beside the loop.

use super::Reply;
use api::wire::requests::history::is_off;

/// The answer of a controller that keeps no history: it does not get here otherwise.
pub(super) fn without_one() -> Reply {
    Reply::Refused(is_off())
}
