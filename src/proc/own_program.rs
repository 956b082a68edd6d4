//! Other commands of this program, with the home and the configuration of this process.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::signals::with_clean_mask;
use super::supervised::HOME_VARIABLE;

/// How to run this program again.
#[derive(Clone, Debug)]
pub struct OwnProgram {
    /// Determined once: after a rebuild, `/proc/self/exe` would name a deleted file.
    pub path: PathBuf,
    /// The folder of the service.
    pub home: PathBuf,
    /// The file of `--config`, if one was named.
    pub config: Option<PathBuf>,
}

impl OwnProgram {
    /// The program with its home and its configuration, to which the words of a command are added.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        command.env(HOME_VARIABLE, &self.home);
        command
    }

    /// What a command prints to a reader without colours: its output, or the sentence of its failure.
    #[must_use]
    pub fn printed(&self, words: &[&str]) -> String {
        let run = || -> io::Result<Output> {
            let mut command = self.command();
            command.args(["--color", "never"]).args(words);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            with_clean_mask(|| command.spawn())?.wait_with_output()
        };
        match run() {
            Ok(Output { stdout, stderr, .. }) => {
                let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
                text.strip_prefix("llts: ").map(str::to_owned).unwrap_or(text)
            }
            Err(error) => format!("llts {} cannot be started: {error}", words.join(" ")),
        }
    }
}
