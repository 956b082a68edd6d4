//! A plain command as a task: `__COMMAND__` or `__SHELL__`.

use std::ffi::OsString;
use std::path::PathBuf;

/// A command with everything it is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskCommand {
    /// The program, never empty, then its arguments. None has a NUL byte.
    pub words: Vec<OsString>,
    /// `__CWD__`: absolute path of its working directory; `None` for the folder of its task.
    pub folder: Option<PathBuf>,
    /// `__STDIN__`: the text of its standard input; `None` for an empty one.
    pub stdin: Option<String>,
    /// `__STREAMS__`: the name under which a client on the machine of the agent offers the standard streams.
    pub streams: Option<String>,
    /// `__UMASK__`: its umask, 0 to 0o777; `None` for the umask of the agent's tools.
    pub umask: Option<u32>,
    /// `__ENV__`: variables that override those of the agent and are overridden by those of the task. No name is empty,
    /// and there is no NUL byte.
    pub environment: Vec<(OsString, OsString)>,
}

impl TaskCommand {
    /// Exit code of a command that exists but cannot be started, as in a shell.
    pub const NOT_STARTED: super::ExitCode = super::ExitCode(126);

    /// Exit code of a command whose program does not exist, as in a shell.
    pub const NOT_FOUND: super::ExitCode = super::ExitCode(127);
}
