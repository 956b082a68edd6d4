//! One connection of a server whose messages are JSON objects: turns received bytes into objects and messages into
//! bytes. It never blocks and buffers no more than its limits.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;

use mio::net::TcpStream;

use super::json_wire::{Decoded, Wire};
use crate::json::split::{FrameError, Splitter};
use base::PublicKey;

/// Bytes read from one connection before others have their turn.
const TURN_BYTES_MAX: usize = 256 << 10;

/// Whether more input may be available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// No input until the next event.
    Drained,
    /// Its turn has ended, but there may be more.
    More,
    /// The peer has closed it, or it is broken.
    Closed,
}

/// Something that a peer has sent.
#[derive(Debug)]
pub(crate) enum Input<'a> {
    /// A message, or the reason why the input is not one.
    Object(Result<&'a [u8], FrameError>),
    /// The peer has proved that it owns this authorised key.
    Key(PublicKey),
    /// The connection must be closed, for this reason.
    Refused(String),
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) stream: TcpStream,
    pub(crate) wire: Wire,
    splitter: Splitter,
    read_bytes_max: usize,
    queue: VecDeque<Vec<u8>>,
    /// Bytes of the first queued message that have been sent.
    sent: usize,
    queued_bytes: usize,
    /// Maximum bytes queued for a peer that does not read.
    queued_bytes_max: usize,
    /// Whether further input is ignored.
    deaf: bool,
    speech: Speech,
}

/// The state of our side of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speech {
    Open,
    /// It ends after the queued messages.
    Ending,
    /// Its end has been sent. It must not be sent again: if the peer has closed as well, there is no connection left.
    Ended,
}

impl Link {
    /// A connection that reads messages of at most `read_bytes_max`, and gives up a peer that leaves more than
    /// `queued_bytes_max` unread.
    pub(crate) fn new(stream: TcpStream, wire: Wire, read_bytes_max: usize, queued_bytes_max: usize) -> Self {
        let splitter = Splitter::new(read_bytes_max);
        let (queue, sent, queued_bytes, deaf, speech) = (VecDeque::new(), 0, 0, false, Speech::Open);
        Self { stream, wire, splitter, read_bytes_max, queue, sent, queued_bytes, queued_bytes_max, deaf, speech }
    }

    /// Reads the available input, up to a turn's worth. After an error no further object follows.
    pub(crate) fn receive(&mut self, buffer: &mut [u8], mut take: impl FnMut(Input<'_>)) -> After {
        let mut bytes = 0;
        while bytes < TURN_BYTES_MAX {
            match self.stream.read(buffer) {
                Ok(0) => return After::Closed,
                Ok(count) => {
                    bytes += count;
                    if !self.deaf && self.understand(&buffer[..count], &mut take).is_err() {
                        return After::Closed;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return After::Drained,
                Err(_) => return After::Closed,
            }
        }
        After::More
    }

    fn understand(&mut self, bytes: &[u8], take: &mut impl FnMut(Input<'_>)) -> io::Result<()> {
        let Decoded { answer, key, refusal } = self.wire.decode(bytes, self.read_bytes_max, &mut self.splitter);
        if !answer.is_empty() {
            self.queue(answer)?;
        }
        if let Some(key) = key {
            take(Input::Key(key));
        }
        while let Some(object) = self.splitter.next_object().transpose() {
            // The beginning of the next message is unknown after an error.
            self.deaf |= object.is_err();
            take(Input::Object(object));
            if self.deaf {
                return Ok(());
            }
        }
        if let Some(reason) = refusal {
            self.deaf = true;
            take(Input::Refused(reason));
        }
        Ok(())
    }

    /// Sends a message, or queues it until the peer reads.
    ///
    /// # Errors
    /// The connection is broken, or its peer has not read for too long.
    pub(crate) fn send(&mut self, message: Vec<u8>) -> io::Result<()> {
        let bytes = self.wire.encode(message);
        if bytes.is_empty() { Ok(()) } else { self.queue(bytes) }
    }

    fn queue(&mut self, message: Vec<u8>) -> io::Result<()> {
        self.queued_bytes += message.len();
        if self.queued_bytes > self.queued_bytes_max {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read"));
        }
        self.queue.push_back(message);
        self.flush()
    }

    /// Sends as many bytes as the peer takes.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some(message) = self.queue.front() {
            match self.stream.write(&message[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.sent += count;
                    self.queued_bytes -= count;
                    if self.sent == message.len() {
                        self.queue.pop_front();
                        self.sent = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if self.speech == Speech::Ending {
            self.stream.shutdown(Shutdown::Write)?;
            self.speech = Speech::Ended;
        }
        Ok(())
    }

    /// Sends the queue and then the end of the stream. The peer's own end is reported as [`After::Closed`].
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.deaf = true;
        if self.speech == Speech::Open {
            self.speech = Speech::Ending;
        }
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const QUEUED_BYTES_MAX: usize = 16 << 20;

    fn pair() -> (Link, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        (Link::new(TcpStream::from_std(stream), Wire::Plain, 64 << 10, QUEUED_BYTES_MAX), peer)
    }

    #[test]
    fn a_peer_that_does_not_read_is_given_up() {
        let (mut link, _peer) = pair();
        let message = || vec![b' '; 1 << 20];
        // The system also buffers some of it, a few MiB.
        let sent = (0..200).take_while(|_| link.send(message()).is_ok()).count();
        assert!((QUEUED_BYTES_MAX >> 20..200).contains(&sent), "{sent} messages of 1 MiB");
    }

    #[test]
    fn what_is_queued_leaves_before_the_end_of_the_stream() {
        let (mut link, mut peer) = pair();
        let sent = vec![b'x'; 8 << 20];
        link.send(sent.clone()).unwrap();
        link.close().unwrap();
        let reader = std::thread::spawn(move || {
            let mut heard = Vec::new();
            peer.read_to_end(&mut heard).unwrap();
            heard
        });
        while !reader.is_finished() {
            link.flush().unwrap();
            std::thread::yield_now();
        }
        assert!(reader.join().unwrap() == sent);
        // The peer is gone. An error between the end of the stream and its detection by the loop is not reported.
        link.flush().unwrap();
        link.close().unwrap();
    }

    #[test]
    fn a_peer_is_heard_until_it_breaks_the_stream_and_not_after() {
        let (mut link, mut peer) = pair();
        peer.write_all(b"{\"type\":\"LEAVE\"}x{\"type\":\"LEAVE\"}").unwrap();
        drop(peer);
        let (mut brought, mut buffer) = (Vec::new(), [0; 64]);
        let take = |input: Input<'_>, brought: &mut Vec<_>| {
            if let Input::Object(object) = input {
                brought.push(object.map(<[u8]>::to_vec));
            }
        };
        while link.receive(&mut buffer, |input| take(input, &mut brought)) != After::Closed {}
        assert_eq!(brought, [Ok(b"{\"type\":\"LEAVE\"}".to_vec()), Err(FrameError::NoObject(b'x'))]);
    }
}
