//! The descriptor limit, which each process of a service raises at its start. Programs of users get the limit that the
//! first process of the service was started with: some close every possible descriptor, and others use select(2), which
//! handles 1024.

use std::io;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Upper bound of the limit. More is never useful, and some programs that inherit it close every possible descriptor at
/// their start, which takes minutes where a container sets 2^30.
const DESCRIPTORS_MAX: u64 = 1 << 20;

/// The variable in which a process of a service passes on the original limit. Its prefix keeps a client from reading it
/// as a configuration key.
const AT_START: &str = "LLTS_RUN_DESCRIPTORS";

/// The limit for programs of users, once it has been raised.
static FOR_PROGRAMS: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit of open descriptors to the hard one, up to 2^20, and returns the resulting limit. It is never
/// lowered.
///
/// # Errors
/// The error of the system. The old limit remains.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    // No limit counts as the largest number.
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (soft, hard) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    let wanted = hard.min(DESCRIPTORS_MAX).max(soft);
    let told = std::env::var(AT_START).ok().and_then(|value| value.parse().ok());
    // A second call would take the raised limit for the original one.
    let _ = FOR_PROGRAMS.set(Rlimit { current: Some(told.unwrap_or(soft).min(wanted)), maximum });
    if wanted > soft {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })?;
    }
    Ok(wanted)
}

/// The limit for a program of a user, if this process has raised its own.
pub fn for_programs() -> Option<Rlimit> {
    FOR_PROGRAMS.get().cloned()
}

/// Passes the limit for programs of users on to another process of the service.
pub fn hand_on(command: &mut Command) -> &mut Command {
    match for_programs().and_then(|limit| limit.current) {
        Some(soft) => command.env(AT_START, soft.to_string()),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_is_returned_holds() {
        let before = getrlimit(Resource::Nofile);
        let raised = raise_descriptor_limit().expect("raised");
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: Some(raised), ..before });
        assert!(Some(raised) >= before.current && (Some(raised) == before.maximum || raised >= DESCRIPTORS_MAX));
        assert_eq!(raise_descriptor_limit().expect("again"), raised);
        assert_eq!(for_programs(), Some(before), "programs get what was there before");
    }
}
