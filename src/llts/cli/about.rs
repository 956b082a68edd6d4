//! The arguments of the commands that print texts of this program: the help, the manual and the completions.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
pub(super) struct HelpArgs {
    /// all, options, a command, or a page of the manual
    #[arg(value_name = "TOPIC")]
    pub(super) words: Vec<String>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Print it into a file that the shell reads:
    bash:  llts completions bash > ~/.local/share/bash-completion/completions/llts
    zsh:   llts completions zsh > DIR/_llts, for a DIR in $fpath
    fish:  llts completions fish > ~/.config/fish/completions/llts.fish")]
pub(super) struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell
    #[arg(value_name = "SHELL")]
    pub(super) shell: String,
}

#[derive(Args, Debug)]
pub(super) struct ManArgs {
    /// The folder; it is made if it is missing
    #[arg(value_name = "DIR")]
    pub(super) folder: PathBuf,
}
