//! The connection of a tool to its agent: one JSON object per line.
//!
//! A line is read to its end and no further, so all that comes while a task runs stays in the socket. A look at the socket then tells
//! whether the task is killed, from any thread, without a thread or a signal that reads beside the handler.

use std::env;
use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd, retry_on_intr};
use rustix::net::{RecvFlags, SocketType, recv, sockopt};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Answer, ServeError, Task};

/// The variable with the number of the socket.
pub(super) const VARIABLE: &str = "LLTS_STAY_FD";

/// The version of the lines.
const VERSION: u32 = 1;

/// Bytes that are looked at once. The lines that end a task are far shorter.
const LOOK_BYTES: usize = 4096;

/// A line of the agent.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    Task { id: String, round: u32, folder: Option<PathBuf>, fields: Map<String, Value> },
    Kill { id: String },
    Stop,
}

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    round: u32,
    folder: Option<PathBuf>,
    #[serde(default)]
    task: Map<String, Value>,
}

#[derive(Serialize)]
struct Ready {
    r#type: &'static str,
    version: u32,
}

#[derive(Serialize)]
struct Done<'a> {
    r#type: &'static str,
    id: &'a str,
    round: u32,
    exit_code: u8,
    report: &'a str,
    value: Option<&'a RawValue>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Line(UnixStream);

impl Line {
    /// Takes over the socket that the agent has made for this process.
    pub(super) fn take() -> Result<Self, ServeError> {
        static IS_TAKEN: AtomicBool = AtomicBool::new(false);
        let number = env::var(VARIABLE).ok().and_then(|number| number.parse().ok()).ok_or(ServeError::NoAgent)?;
        if IS_TAKEN.swap(true, Ordering::SeqCst) {
            return Err(ServeError::Taken);
        }
        let socket = adopt(number).ok_or(ServeError::NoAgent)?;
        // A process that outlives its tool must not hold the connection.
        fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(io::Error::from)?;
        let socket = UnixStream::from(socket);
        socket.set_nonblocking(false)?;
        Ok(Self(socket))
    }

    /// The next line; `None` if the agent has gone.
    pub(super) fn next(&self) -> Result<Option<Said>, ServeError> {
        match self.read() {
            Ok(Some(line)) => parse(&line).map(Some),
            Ok(None) => Ok(None),
            Err(error) if is_end(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let (mut line, mut seen) = (Vec::new(), [0; LOOK_BYTES]);
        loop {
            let (_, len) = retry_on_intr(|| recv(&self.0, &mut seen[..], RecvFlags::PEEK))?;
            if len == 0 {
                return Ok(None);
            }
            let end = seen[..len].iter().position(|byte| *byte == b'\n');
            let begun = line.len();
            line.resize(begun + end.map_or(len, |end| end + 1), 0);
            (&self.0).read_exact(&mut line[begun..])?;
            if end.is_some() {
                return Ok(Some(line));
            }
        }
    }

    /// Tells the agent that this tool takes tasks.
    pub(super) fn ready(&self) -> Result<(), ServeError> {
        Ok(self.say(&Ready { r#type: "ready", version: VERSION })?)
    }

    /// Answers a task; false if the agent has gone.
    pub(super) fn done(&self, task: &Task, Answer { value, report, exit_code }: &Answer) -> Result<bool, ServeError> {
        let (id, round, value) = (task.id(), task.round(), value.as_deref());
        match self.say(&Done { r#type: "done", id, round, exit_code: *exit_code, report, value }) {
            Ok(()) => Ok(true),
            Err(error) if is_end(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn say(&self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        (&self.0).write_all(&line)
    }

    /// Whether the agent has sent the end of this task, or has gone. Nothing is read: the line stays for later looks.
    pub(super) fn tells_end_of(&self, task: &str) -> bool {
        let mut seen = [0; LOOK_BYTES];
        let looked = retry_on_intr(|| recv(&self.0, &mut seen[..], RecvFlags::PEEK | RecvFlags::DONTWAIT));
        let len = match looked {
            Err(Errno::AGAIN) => return false,
            Ok((_, 0)) | Err(_) => return true,
            Ok((_, len)) => len,
        };
        let ends = |line: &[u8]| match parse(line) {
            Ok(Said::Kill { id }) => id == task,
            Ok(Said::Stop) => true,
            Ok(Said::Task { .. }) | Err(_) => false,
        };
        seen[..len].split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")).any(ends)
    }

    /// Waits until something has arrived, for at most so long.
    pub(super) fn wait(&self, timeout: Duration) {
        // A longer one than the system knows is none.
        let timeout = Timespec::try_from(timeout).ok();
        // A signal may cut it short.
        let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], timeout.as_ref());
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Takes over a descriptor with this number, if it is a stream socket.
fn adopt(number: RawFd) -> Option<OwnedFd> {
    let is_socket = |target: PathBuf| target.to_string_lossy().starts_with("socket:");
    fs::read_link(format!("/proc/self/fd/{number}")).ok().filter(|target| is_socket(target.clone()))?;
    #[expect(
        unsafe_code,
        reason = "a descriptor that the parent of this process has passed on has no other form than its number"
    )]
    // SAFETY: the descriptor is open. The agent has passed it to this process and named it in its environment, so nothing here has opened
    // it, and `IS_TAKEN` lets one caller take it.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    (sockopt::socket_type(&socket) == Ok(SocketType::STREAM)).then_some(socket)
}

fn parse(line: &[u8]) -> Result<Said, ServeError> {
    let shown = |why: &dyn std::fmt::Display| ServeError::Unknown(why.to_string());
    let Message { kind, id, round, folder, task } = serde_json::from_slice(line).map_err(|error| shown(&error))?;
    match kind.as_str() {
        "task" => Ok(Said::Task { id, round, folder, fields: task }),
        "kill" => Ok(Said::Kill { id }),
        "stop" => Ok(Said::Stop),
        other => Err(shown(&format!("its type is {other:?}"))),
    }
}

/// Whether an error means that the agent has gone.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Line, UnixStream) {
        let (tool, agent) = UnixStream::pair().unwrap();
        (Line(tool), agent)
    }

    fn task(id: &str) -> Said {
        Said::Task { id: id.to_owned(), round: 0, folder: None, fields: Map::new() }
    }

    #[test]
    fn a_line_is_read_to_its_end_and_no_further() {
        let (line, mut agent) = pair();
        let long = "x".repeat(3 * LOOK_BYTES);
        let writer = std::thread::spawn(move || {
            writeln!(
                agent,
                "{{\"type\":\"task\",\"version\":1,\"id\":\"A\",\"round\":0,\"folder\":null,\"task\":{{}}}}"
            )
            .unwrap();
            writeln!(agent, "{{\"type\":\"kill\",\"id\":\"A\"}}").unwrap();
            writeln!(agent, "{{\"type\":\"task\",\"id\":\"B\",\"new\":1,\"task\":{{\"x\":{long:?}}}}}").unwrap();
            agent
        });
        assert_eq!(line.next().unwrap(), Some(task("A")));
        line.wait(Duration::from_secs(60));
        assert!(line.tells_end_of("A") && !line.tells_end_of("B"));
        assert!(line.tells_end_of("A"), "a look takes nothing away");
        assert_eq!(line.next().unwrap(), Some(Said::Kill { id: "A".to_owned() }));
        let Some(Said::Task { id, fields, .. }) = line.next().unwrap() else { panic!("no task") };
        assert_eq!((id.as_str(), fields["x"].as_str().map(str::len)), ("B", Some(3 * LOOK_BYTES)));
        let agent = writer.join().unwrap();
        assert!(!line.tells_end_of("B"));
        drop(agent);
        assert!(line.tells_end_of("B"), "the agent has gone");
        assert_eq!(line.next().unwrap(), None);
    }

    #[test]
    fn an_unknown_line_is_an_error_that_shows_it() {
        let (line, mut agent) = pair();
        for (sent, shown) in [("{\"type\":\"sing\"}", "\"sing\""), ("[", "EOF"), ("{}", "`type`")] {
            writeln!(agent, "{sent}").unwrap();
            let error = line.next().unwrap_err().to_string();
            assert!(error.contains(shown), "{error}");
        }
    }

    #[test]
    fn only_a_stream_socket_is_taken_over() {
        let file = fs::File::open("/dev/null").unwrap();
        assert!(adopt(std::os::fd::AsRawFd::as_raw_fd(&file)).is_none());
        assert!(adopt(1 << 20).is_none(), "no descriptor has this number");
    }
}
