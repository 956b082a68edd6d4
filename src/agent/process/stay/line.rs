//! The socket between an agent and a tool that stays, in lines. Neither end of the agent's loop waits for the tool.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::protocol::LINE_BYTES_MAX;

/// Bytes that are read before other events of the loop have their turn.
const READ_BYTES_MAX: usize = 1 << 20;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::process) struct Line {
    socket: UnixStream,
    /// The bytes after the last whole line.
    rest: Vec<u8>,
    /// Where to look for the next end of a line.
    searched: usize,
}

/// Something from a tool.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// A line, without its end.
    Line(Vec<u8>),
    /// Nothing more at present.
    Nothing,
    /// The beginning of a line that is longer than any may be.
    TooLong,
    /// The tool has closed its end, or has ended; whether it has read everything before.
    Closed { has_read_all: bool },
}

impl Line {
    /// A line, and the end of the tool.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub(in crate::process) fn new() -> io::Result<(Self, OwnedFd)> {
        let (socket, other) = UnixStream::pair()?;
        Ok((Self { socket, rest: Vec::new(), searched: 0 }, other.into()))
    }

    /// Sends a line. A part that does not fit into the buffers of the kernel is sent by a thread, which ends with the socket.
    ///
    /// # Errors
    /// When the tool has closed its end, or no thread can be started.
    pub(super) fn send(&self, line: &[u8]) -> io::Result<()> {
        let sent = match send(&self.socket, line, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => sent,
            Err(Errno::AGAIN) => 0,
            Err(error) => return Err(error.into()),
        };
        let left = line.get(sent..).unwrap_or_default().to_vec();
        if !left.is_empty() {
            let mut socket = self.socket.try_clone()?;
            // Rust ignores SIGPIPE; an error is the end of the tool, which the loop notices.
            std::thread::Builder::new().name("hand over".to_owned()).spawn(move || drop(socket.write_all(&left)))?;
        }
        Ok(())
    }

    /// The next line that is there.
    pub(super) fn receive(&mut self) -> Received {
        let mut budget = READ_BYTES_MAX;
        loop {
            if let Some(line) = self.take_line() {
                return Received::Line(line);
            }
            if self.rest.len() > LINE_BYTES_MAX {
                return Received::TooLong;
            }
            let mut bytes = [0; 16 << 10];
            match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Received::Closed { has_read_all: true },
                Ok((length, _)) => {
                    self.rest.extend_from_slice(bytes.get(..length).unwrap_or_default());
                    budget = budget.saturating_sub(length);
                    if budget == 0 {
                        return Received::Nothing;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Received::Nothing,
                // The kernel says so if bytes of ours were left when the tool closed its end.
                Err(_) => return Received::Closed { has_read_all: false },
            }
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let Some(at) = self.rest.get(self.searched..)?.iter().position(|&byte| byte == b'\n') else {
            self.searched = self.rest.len();
            return None;
        };
        let at = self.searched + at;
        let after = self.rest.split_off(at + 1);
        let mut line = std::mem::replace(&mut self.rest, after);
        line.pop();
        self.searched = 0;
        Some(line)
    }

    /// Ends the connection in both directions, also for processes that have inherited the tool's end.
    pub(super) fn close(&self) {
        // A failure means that it is closed already.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn lines_come_whole_and_in_order() {
        let (mut line, other) = Line::new().unwrap();
        let mut tool = UnixStream::from(other);
        assert_eq!(line.receive(), Received::Nothing);
        tool.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(line.receive(), Received::Line(b"one".to_vec()));
        assert_eq!(line.receive(), Received::Line(b"two".to_vec()));
        assert_eq!(line.receive(), Received::Nothing);
        tool.write_all(b"ee\n").unwrap();
        assert_eq!(line.receive(), Received::Line(b"three".to_vec()));
    }

    #[test]
    fn a_long_line_to_a_tool_that_reads_slowly_arrives_whole() {
        let (line, other) = Line::new().unwrap();
        let tool = UnixStream::from(other);
        let long = vec![b'x'; 3 << 20];
        line.send(&long).unwrap();
        let mut read = Vec::new();
        tool.take(long.len() as u64).read_to_end(&mut read).unwrap();
        assert_eq!(read.len(), long.len());
    }

    #[test]
    fn the_end_of_a_tool_tells_whether_it_has_read_its_task() {
        for has_read_all in [true, false] {
            let (mut line, other) = Line::new().unwrap();
            let mut tool = UnixStream::from(other);
            line.send(b"a task\n").unwrap();
            if has_read_all {
                tool.read_exact(&mut [0; 7]).unwrap();
            }
            drop(tool);
            assert_eq!(line.receive(), Received::Closed { has_read_all });
        }
    }
}
