//! Limits of the operating system that a process raises for itself at its start.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Upper bound: more is never useful, and the tools inherit the limit. Some programs close every possible descriptor at
/// their start, which takes minutes where a container sets 2^30.
const DESCRIPTORS_MAX: u64 = 1 << 20;

/// Raises the soft limit of open descriptors to the hard one, up to 2^20; returns the limit in force. It is never lowered.
///
/// # Errors
/// The error of the system; the old limit stays in force.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    // No limit counts as the largest number.
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (soft, hard) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    let wanted = hard.min(DESCRIPTORS_MAX).max(soft);
    if wanted > soft {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })?;
    }
    Ok(wanted)
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
    }
}
