//! `llts progress`: report the progress of a task from inside it.

use std::path::PathBuf;

use clap::Args;

use api::wire::info::PROGRESS_FILE;
use base::Progress;
use term::exit::Failure;

#[derive(Args, Debug)]
#[command(after_help = "\
Writes the line `FRACTION TEXT` into the file progress in the folder of the task, as a program can do itself: its path is in the \
variable LLTS_PROGRESS_FILE, and for a run.sh it is ../progress. `llts show`, `list` and `status` show it, and it is pushed to the \
submitter at most twice a second. It is forgotten when the run ends.")]
pub(super) struct ProgressArgs {
    /// The part that is done, from 0 to 1
    #[arg(value_name = "FRACTION", value_parser = fraction)]
    fraction: f64,
    /// Words about it
    #[arg(value_name = "TEXT")]
    text: Vec<String>,
}

fn fraction(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "it is not a number from 0 to 1; write 0.4 for 40 %".to_owned())
}

pub(super) fn run(args: &ProgressArgs) -> Result<u8, Failure> {
    let Some(file) = std::env::var_os(PROGRESS_FILE).filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Err(Failure::usage(format!(
            "this process belongs to no task, so it has no progress: the variable {PROGRESS_FILE} is not set"
        )));
    };
    let text = args.text.join(" ").replace(['\n', '\r'], " ");
    let text: String = text.chars().take(Progress::TEXT_CHARS_MAX).collect();
    std::fs::write(&file, format!("{} {text}\n", args.fraction))
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", file.display())))?;
    Ok(0)
}
