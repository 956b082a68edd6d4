//! Prints the outputs of `llts map`'s tasks: complete and unmixed, one task after the other.

use std::io;
use std::time::Duration;

use serde_json::json;

use super::super::output_reader::print_finished;
use super::results::Results;
use crate::map::Printed;
use base::Stream;
use llts_client::Client;
use term::output::{Output, Sink, Target, to_value};

/// See the [module](self).
pub(super) struct Outputs {
    pub(super) results: Option<Results>,
    /// Whether each line begins with the values of its task.
    pub(super) is_tagged: bool,
    /// Set for programs, which read one object per task.
    pub(super) json: Option<Output>,
    /// The error that closed stdout.
    pub(super) failure: Option<io::ErrorKind>,
    /// The number of outputs with missing bytes.
    pub(super) cut: u64,
    /// How long to wait for an absent agent. After one such wait in vain, later ones are skipped.
    pub(super) patience: Duration,
}

impl Outputs {
    /// Prints the outputs of a finished task. `ends_lines`: adds the missing line end on a terminal.
    pub(super) fn print(&mut self, client: &Client, printed: &Printed, ends_lines: bool) {
        let Printed { number, task, values } = printed;
        if let Some(json) = &mut self.json {
            json.value(&json!({ "number": number, "values": values, "task": to_value(task.fields()) }));
            self.failure = json.failure_of_write();
            if self.results.is_none() {
                return;
            }
        }
        let is_json = self.json.is_some();
        let sink = |target, name: &str| {
            let target = if is_json { Target::Nowhere } else { target };
            let sink = Sink::new(target, self.is_tagged.then(|| values.clone()));
            match self.results.as_ref().map(|results| results.file(*number, name)) {
                Some(Ok(file)) => (sink.copied_to(file), Ok(())),
                Some(Err(why)) => (sink, Err(why)),
                None => (sink, Ok(())),
            }
        };
        let (mut stdout, stdout_file) = sink(Target::Stdout, "stdout");
        let (mut stderr, stderr_file) = sink(Target::Stderr, "stderr");
        let mut patience = self.patience;
        let mut print = |stream, sink: &mut Sink| {
            let is_whole = print_finished(client, task, stream, patience, sink);
            if !is_whole {
                patience = Duration::ZERO;
            }
            is_whole
        };
        let mut has_stdout = print(Stream::Stdout, &mut stdout);
        if stdout.is_unused() {
            // For a tool that prints nothing, its report counts as stdout.
            has_stdout &= print(Stream::Report, &mut stdout);
        }
        let has_stderr = print(Stream::Stderr, &mut stderr);
        self.patience = patience;
        self.cut += u64::from(!has_stdout) + u64::from(!has_stderr);
        if ends_lines {
            stdout.end(false);
            stderr.end(false);
        }
        self.failure = self.failure.or(stdout.failure());
        if let Some(results) = &mut self.results {
            let whole =
                |is_whole: bool, name| if is_whole { Ok(()) } else { Err(format!("bytes of {name} are missing")) };
            let stdout_file = stdout_file.and_then(|()| whole(has_stdout, "stdout"));
            let stderr_file = stderr_file.and_then(|()| whole(has_stderr, "stderr"));
            let outputs =
                [("stdout", stdout_file.map(|()| &mut stdout)), ("stderr", stderr_file.map(|()| &mut stderr))];
            results.finish(*number, task, outputs);
        }
    }
}
