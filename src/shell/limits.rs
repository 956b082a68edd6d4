//! Limits of the operating system that a process raises for itself at its start.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// More would help nobody, and the tools inherit the limit: some programs close every possible descriptor at their start,
/// which takes minutes where a container sets 2^30.
const DESCRIPTORS_MAX: u64 = 1 << 20;

/// Raises the soft limit of open descriptors to the hard one, up to 2^20; returns the limit that holds. It
/// is never lowered.
///
/// # Errors
/// What the system says; the old limit holds then.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = hard.min(DESCRIPTORS_MAX).max(soft);
    if wanted > soft {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)?;
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_is_returned_holds() {
        let (before, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
        let raised = raise_descriptor_limit().expect("raised");
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).expect("a limit"), (raised, hard));
        assert!(raised >= before && (raised == hard || raised >= DESCRIPTORS_MAX));
        assert_eq!(raise_descriptor_limit().expect("again"), raised);
    }
}
