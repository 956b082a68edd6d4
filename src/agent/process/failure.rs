//! The ends of a run that could not be prepared.

use std::error::Error;

use crate::slot::Failure;
use base::ExitCode;
use proc::files::disk_room::is_full;

/// A failure other than a missing or a broken archive (docs/sources/controller.md, 2.7).
pub(super) fn failure(error: &dyn std::fmt::Display) -> Failure {
    Failure { exit_code: ExitCode::PREPARE_FAILED, error: error.to_string() }
}

/// A failure that another machine may not have.
pub(super) fn not_here(error: &dyn std::fmt::Display) -> Failure {
    Failure { exit_code: ExitCode::NOT_HERE, error: error.to_string() }
}

/// A failure to prepare a run. Another agent may have room where this disk is full.
pub(super) fn unprepared(error: &(dyn Error + 'static)) -> Failure {
    let exit_code = if is_full(error) { ExitCode::DISK_FULL } else { ExitCode::PREPARE_FAILED };
    Failure { exit_code, error: error.to_string() }
}
