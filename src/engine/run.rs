//! What the run of a tool and the run of a command for a prompt have in common: how they are ended.

/// A signal to all processes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, and SIGCONT so that a stopped process can obey.
    Terminate,
    /// SIGKILL.
    Kill,
}
