//! Finds the JSON objects in a stream of bytes, piece by piece, and buffers no more than the maximum of one object.
//!
//! It knows only the parts of JSON that it needs to find the end of an object: braces, strings and their escapes. The
//! parser checks the object itself. Each byte is examined once, however the stream is cut.

/// Why a stream has no further objects. Reading cannot continue, because the beginning of the next object is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// An object is longer than the limit.
    #[error("a message is longer than {0} bytes")]
    TooLong(usize),
    /// There is an unexpected byte between two objects.
    #[error("the byte 0x{0:02x} is at a place where a JSON object must begin")]
    NoObject(u8),
    /// A string contains a bare control character, such as a newline. Its closing quote is probably missing.
    #[error("the byte 0x{0:02x} is in a JSON text, where it must be escaped")]
    ControlInText(u8),
}

/// The objects of one stream.
#[derive(Debug)]
pub struct Splitter {
    bytes_max: usize,
    buffer: Vec<u8>,
    /// The end of the part of the buffer that was returned.
    start: usize,
    /// The end of the part that was examined.
    looked: usize,
    depth: usize,
    place: Place,
    error: Option<FrameError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Outside,
    Text,
    Escape,
}

/// A buffer larger than this is freed when it is empty.
const KEPT_BYTES: usize = 8 << 10;

impl Splitter {
    /// A stream whose objects have at most `bytes_max` bytes.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, buffer: Vec::new(), start: 0, looked: 0, depth: 0, place: Place::Outside, error: None }
    }

    /// Adds the next bytes of the stream. All objects should be taken out before more bytes are pushed, or they stay in
    /// the buffer.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.error.is_some() {
            return;
        }
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.looked -= self.start;
            self.start = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES.max(bytes.len()) {
            self.buffer = Vec::new();
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next object, or `None` until more bytes are pushed.
    ///
    /// # Errors
    /// [`FrameError`]. Every further call returns the same error.
    pub fn next_object(&mut self) -> Result<Option<&[u8]>, FrameError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        match self.find_end() {
            Ok(Some(end)) => {
                let object = self.start..end;
                self.start = end;
                Ok(Some(&self.buffer[object]))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.error = Some(error);
                self.buffer = Vec::new();
                Err(error)
            }
        }
    }

    /// Bytes of memory that the buffer currently uses.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    fn find_end(&mut self) -> Result<Option<usize>, FrameError> {
        while let Some(&byte) = self.buffer.get(self.looked) {
            if self.depth > 0 && self.looked - self.start >= self.bytes_max {
                return Err(FrameError::TooLong(self.bytes_max));
            }
            self.looked += 1;
            match (self.place, byte) {
                (Place::Outside, b'{') => self.depth += 1,
                (Place::Outside, b' ' | b'\t' | b'\r' | b'\n') if self.depth == 0 => self.start = self.looked,
                (Place::Outside, _) if self.depth == 0 => return Err(FrameError::NoObject(byte)),
                (Place::Outside, b'}') => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Ok(Some(self.looked));
                    }
                }
                (Place::Outside, b'"') => self.place = Place::Text,
                (Place::Outside, _) | (Place::Text, b' '..=b'!' | b'#'..=b'[' | b']'..) => {}
                (Place::Text, b'"') => self.place = Place::Outside,
                (Place::Text, b'\\') => self.place = Place::Escape,
                (Place::Text | Place::Escape, 0..b' ') => return Err(FrameError::ControlInText(byte)),
                (Place::Escape, _) => self.place = Place::Text,
            }
        }
        Ok(None)
    }
}
