//! `llts prompt create`: one prompt for each line of a target list.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::files::create;
use crate::files::create::{CreateError, Creation};
use term::exit::Failure;
use term::session::Session;

const TEMPLATE: &str = "\
A template contains {{prompt}} and {{target}}, which are replaced by the text of PROMPT_FILE and one line of TARGET_LIST.
In a template that begins with #! and a shell, both are quoted for the place where they stand, or the template is refused; {{raw:target}} is not quoted, and {{sh:target}} is quoted anywhere.
Front matter of PROMPT_FILE comes first in each prompt. Blank lines of the list are passed over. No file is replaced: a name that is there already is an error.";

#[derive(Args, Debug)]
#[command(after_help = TEMPLATE)]
pub(crate) struct CreateArgs {
    /// The file with the instruction; - reads the standard input
    prompt_file: PathBuf,
    /// The file with one target per line; or -
    target_list: PathBuf,
    /// The folder with .tasks/ [default: prompt.ROOT_DIR]
    #[arg(long, value_name = "DIR")]
    root_dir: Option<PathBuf>,
    /// First remove the contents of .tasks/, including finished prompts and their results
    #[arg(long)]
    clear: bool,
    /// Your own template for the prompts; or -
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
}

pub(crate) fn run(session: &mut Session, args: &CreateArgs) -> Result<u8, Failure> {
    let CreateArgs { prompt_file, target_list, root_dir, clear, template } = args;
    let files = [Some(prompt_file), Some(target_list), template.as_ref()];
    if files.iter().flatten().filter(|path| path.as_os_str() == create::STDIN).count() > 1 {
        return Err(Failure::usage("only one of PROMPT_FILE, TARGET_LIST and --template can be -, the standard input"));
    }
    let creation = Creation {
        prompt: prompt_file.clone(),
        targets: target_list.clone(),
        template: template.clone(),
        root: super::root(session, root_dir.as_deref()),
        clear: *clear,
    };
    let created = create::create(&creation).map_err(|error| match error {
        CreateError::Write { .. } | CreateError::InUse { .. } => Failure::failed(error),
        error => Failure::usage(error.to_string()),
    })?;
    if session.out.is_json() {
        session.out.value(&json!({ "pending": created.pending, "created": created.names }));
    } else {
        created.names.iter().for_each(|name| session.out.line(created.pending.join(name).display()));
    }
    Ok(0)
}
