//! Which transport carries the messages.

use super::error::ConfigError;
use super::reader::Reader;

/// Who reads and writes the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// libzmq, with threads of its own.
    Zmq,
    /// The loop itself.
    Own,
}

impl Transport {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "zmq" => Some(Self::Zmq),
            "own" => Some(Self::Own),
            _ => None,
        }
    }
}

/// Which transport carries the messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSection {
    /// Who reads and writes the sockets.
    pub transport: Transport,
}

impl NetworkSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self { transport: reader.parsed("TRANSPORT", "\"own\" or \"zmq\"", Transport::parse)? })
    }
}
