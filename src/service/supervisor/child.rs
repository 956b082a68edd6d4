//! One process of the service: its start, its output lines, its end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open};

use proc::files::privacy::as_started;
use proc::signals::with_clean_mask;

/// A longer line is truncated: a child prints a ready line or the reason of its end.
const LINE_BYTES_MAX: usize = 4096;

/// Bytes of one read from a pipe, so that a child that prints endlessly cannot block the supervisor.
const LOOK_BYTES_MAX: usize = 64 * 1024;

/// A process that was started and has not been reaped yet.
#[derive(Debug)]
pub(super) struct ChildProcess {
    pid: Pid,
    /// Readable from the end of the process until it is reaped. SIGCHLD alone gives only one chance to notice the end.
    end: OwnedFd,
    pub(super) out: Lines,
    pub(super) err: Lines,
    /// The last line on stderr: usually the reason of its end.
    last_words: Option<String>,
}

impl ChildProcess {
    /// Starts a process in a group of its own, so that the terminal's Ctrl-C reaches the supervisor only.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = as_started(|| with_clean_mask(|| command.spawn()))?;
        let (out, err) = (child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from));
        Self::adopt(Pid::from_child(&child), out, err)
    }

    /// Adopts a child of this process that the earlier program in it had started, with its output pipes.
    pub(super) fn adopt(pid: Pid, out: Option<OwnedFd>, err: Option<OwnedFd>) -> io::Result<Self> {
        let end = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self { pid, end, out: Lines::new(out)?, err: Lines::new(err)?, last_words: None })
    }

    /// The descriptors that become readable when it writes or ends.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [Some(self.end.as_fd()), self.out.fd(), self.err.fd()].into_iter().flatten()
    }

    pub(super) const fn pid(&self) -> Pid {
        self.pid
    }

    /// Signals the process. Its number cannot be reused before it is reaped.
    pub(super) fn signal(&self, signal: Signal) {
        // An error means that it has ended meanwhile; SIGCHLD is on its way.
        let _ = rustix::process::kill_process(self.pid(), signal);
    }

    /// Reaps the process if it has ended, and says how it ended, as the end of a sentence.
    pub(super) fn try_wait(&mut self) -> Option<String> {
        match rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG) {
            Ok(None) => None,
            Ok(Some((_, status))) => Some(how_it_ended(status)),
            Err(error) => Some(format!("cannot be waited for: {error}")),
        }
    }

    /// Stores a line of stderr.
    pub(super) fn note_line(&mut self, line: &str) {
        self.last_words = Some(line.strip_prefix("llts: ").unwrap_or(line).to_owned());
    }

    /// Its last line on stderr.
    pub(super) fn last_words(&self) -> Option<&str> {
        self.last_words.as_deref()
    }
}

fn how_it_ended(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The output lines of a pipe.
#[derive(Debug)]
pub(super) struct Lines {
    /// `None` after its end.
    pipe: Option<OwnedFd>,
    rest: Vec<u8>,
}

impl Lines {
    pub(super) fn new(pipe: Option<OwnedFd>) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Self { pipe, rest: Vec::new() })
    }

    /// The descriptor to wait for.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// The available complete lines; at the end of the pipe also a last one without a newline. Does not wait.
    pub(super) fn read(&mut self) -> Vec<String> {
        let mut buffer = [0; 4096];
        let mut read = 0;
        while let Some(pipe) = &self.pipe
            && read < LOOK_BYTES_MAX
        {
            match rustix::io::read(pipe, &mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(length) => {
                    read += length;
                    self.rest.extend_from_slice(&buffer[..length]);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(_) => self.pipe = None,
            }
        }
        self.take_lines()
    }

    fn take_lines(&mut self) -> Vec<String> {
        let ended = self.pipe.is_none() || self.rest.len() > LINE_BYTES_MAX;
        let whole = match self.rest.iter().rposition(|byte| *byte == b'\n') {
            _ if ended => self.rest.len(),
            Some(at) => at + 1,
            None => 0,
        };
        let bytes: Vec<u8> = self.rest.drain(..whole).collect();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]).into_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn pipe() -> (Lines, std::io::PipeWriter) {
        let (reader, writer) = std::io::pipe().unwrap();
        (Lines::new(Some(reader.into())).unwrap(), writer)
    }

    #[test]
    fn lines_come_whole() {
        let (mut lines, mut writer) = pipe();
        assert!(lines.read().is_empty());
        writer.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(lines.read(), ["one", "two"]);
        writer.write_all(b"ee").unwrap();
        assert!(lines.read().is_empty() && lines.fd().is_some());
        drop(writer);
        assert_eq!(lines.read(), ["three"]);
        assert!(lines.fd().is_none() && lines.read().is_empty());
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let (mut lines, mut writer) = pipe();
        writer.write_all(&[b'x'; LINE_BYTES_MAX + 1]).unwrap();
        assert_eq!(lines.read(), ["x".repeat(LINE_BYTES_MAX)]);
    }

    #[test]
    fn an_end_is_told_in_words() {
        for (script, end) in [("exit 3", "exited with code 3"), ("kill -9 $$", "was ended by signal 9")] {
            let mut child = ChildProcess::start(Command::new("sh").args(["-c", script])).unwrap();
            let pidfd = rustix::process::pidfd_open(child.pid(), rustix::process::PidfdFlags::empty()).unwrap();
            assert!(proc::readable::is_readable(pidfd, Some(std::time::Duration::from_secs(60))), "{script}");
            assert_eq!(child.try_wait().as_deref(), Some(end), "{script}");
        }
    }
}
