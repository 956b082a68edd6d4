//! The `llts` program: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    llts::cli::run().into()
}
