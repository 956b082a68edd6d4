//! A peer made of bytes.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::endpoint::echo::{PATIENCE, WAIT};

/// The bytes that a peer of this type sends up to the end of the handshake.
pub(crate) fn opening(kind: &str) -> Vec<u8> {
    let mut bytes = vec![0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 3, 1];
    bytes.extend(b"NULL");
    bytes.resize(64, 0);
    let mut ready = b"\x05READY\x0bSocket-Type\0\0\0".to_vec();
    ready.push(u8::try_from(kind.len()).unwrap());
    ready.extend(kind.as_bytes());
    bytes.extend([4, u8::try_from(ready.len()).unwrap()]);
    bytes.extend(ready);
    bytes
}

pub(crate) fn message(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let more = u8::from(index + 1 < parts.len());
        match u8::try_from(part.len()) {
            Ok(short) => bytes.extend([more, short]),
            Err(_) => {
                bytes.push(more | 2);
                bytes.extend((part.len() as u64).to_be_bytes());
            }
        }
        bytes.extend(*part);
    }
    bytes
}

pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// Done with the handshake of a DEALER: the greeting and the READY of the other side are read.
    pub(crate) fn dealer(address: &str) -> Self {
        let mut raw = Self::connect(address);
        raw.0.write_all(&opening("DEALER")).unwrap();
        raw.skip_handshake();
        raw
    }

    /// A connection with an unanswered request: it is not closed in favour of another.
    pub(crate) fn waiting(address: &str) -> Self {
        let mut raw = Self::dealer(address);
        raw.0.write_all(&message(&[b"", WAIT])).unwrap();
        raw.is_answered();
        raw
    }

    /// It asks, and is answered.
    pub(crate) fn is_answered(&mut self) {
        self.0.write_all(&message(&[b"", b"y"])).unwrap();
        assert_eq!((self.frame(), self.frame()), ((1, vec![]), (0, vec![b'y'])));
    }

    pub(crate) fn skip_handshake(&mut self) {
        let mut greeting = [0; 64];
        self.0.read_exact(&mut greeting).unwrap();
        assert!(greeting.starts_with(b"\xFF") && greeting[12..].starts_with(b"NULL\0"));
        let ready = self.frame();
        assert_eq!(ready.0, 4);
        assert!(ready.1.starts_with(b"\x05READY"), "{ready:?}");
    }

    /// The flags and the body of the next frame.
    pub(crate) fn frame(&mut self) -> (u8, Vec<u8>) {
        let mut header = [0; 2];
        self.0.read_exact(&mut header).unwrap();
        let length = if header[0] & 2 == 0 {
            usize::from(header[1])
        } else {
            let mut rest = [0; 7];
            self.0.read_exact(&mut rest).unwrap();
            rest.iter().fold(usize::from(header[1]), |length, byte| length << 8 | usize::from(*byte))
        };
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        (header[0], body)
    }

    /// Sends on until the other side has closed; gives back how many bytes it took.
    pub(crate) fn flood(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while let Ok(count) = self.0.write(bytes) {
            sent += count;
        }
        sent
    }

    /// Reads what is there.
    pub(crate) fn read_away(&mut self) {
        self.0.set_nonblocking(true).unwrap();
        let _ = self.0.read(&mut [0; 1000]);
        self.0.set_nonblocking(false).unwrap();
    }

    /// Whether the other side closes, whatever it says before.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

impl Raw {
    /// Whether something waits to be read, and nothing more has come for a moment.
    pub(crate) fn is_stuck(&self) -> bool {
        let waiting = || rustix::io::ioctl_fionread(&self.0).unwrap();
        let before = waiting();
        let (_keep, never) = std::sync::mpsc::channel::<()>();
        let _ = never.recv_timeout(std::time::Duration::from_millis(100));
        before > 0 && before == waiting()
    }

    /// Whether the other side closes within this time; what it says meanwhile is not looked at.
    pub(crate) fn is_closed_within(&mut self, time: std::time::Duration) -> bool {
        self.0.set_read_timeout(Some(time)).unwrap();
        let mut byte = [0];
        let closed = match self.0.peek(&mut byte) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        };
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();
        closed
    }
}
