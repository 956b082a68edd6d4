//! The caller of a command, recorded with each task that the command ends.

use nix::unistd::{Uid, User};

/// `ada@box (llts kill last, process 4711)`.
pub(super) fn caller(command: &str) -> String {
    let uid = Uid::effective();
    let user = User::from_uid(uid).ok().flatten().map_or_else(|| format!("user {uid}"), |user| user.name);
    let system = rustix::system::uname();
    format!("{user}@{host} ({command}, process {})", std::process::id(), host = system.nodename().to_string_lossy())
}

/// This command as it was typed.
pub(super) fn command_line() -> String {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once("llts".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}
