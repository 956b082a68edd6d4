//! The ends of a run that could not be prepared.

use std::error::Error;
use std::io;

use crate::engine::slot::Failure;
use crate::types::ExitCode;

/// A failure other than a missing or a broken archive (document, section 2.7).
pub(super) fn failure(error: &dyn std::fmt::Display) -> Failure {
    Failure { exit_code: ExitCode::PREPARE_FAILED, error: error.to_string() }
}

/// The same, unless the cause is a full disk: another agent may have room.
pub(super) fn unprepared(error: &(dyn Error + 'static)) -> Failure {
    let exit_code = if is_full(error) { ExitCode::DISK_FULL } else { ExitCode::PREPARE_FAILED };
    Failure { exit_code, error: error.to_string() }
}

/// Whether an error comes from a disk without room, or from a quota.
fn is_full(error: &(dyn Error + 'static)) -> bool {
    let full = |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    error.downcast_ref::<io::Error>().is_some_and(full) || error.source().is_some_and(is_full)
}
