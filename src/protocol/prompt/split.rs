//! Finds the JSON objects in a stream of bytes, piece by piece, and holds no more than one object may have.
//!
//! It knows of JSON only what it needs to find an object's end: braces, texts and the escapes in them. Whether the object is
//! one is the parser's concern. Each byte is looked at once, however the stream is cut.

/// Why a stream has no further objects. It cannot be read on: where the next one begins is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// An object is longer than the limit.
    #[error("a message is longer than {0} bytes")]
    TooLong(usize),
    /// Something stands between two objects.
    #[error("the byte 0x{0:02x} stands where a JSON object must begin")]
    NoObject(u8),
    /// A text holds a bare control character, a newline for example: its end was forgotten.
    #[error("the byte 0x{0:02x} stands in a JSON text, where it must be escaped")]
    ControlInText(u8),
}

/// The objects of one stream.
#[derive(Debug)]
pub struct Splitter {
    bytes_max: usize,
    buffer: Vec<u8>,
    /// Up to here the buffer has been given out.
    start: usize,
    /// Up to here it has been looked at.
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

/// A buffer that has grown beyond this is given back when it is empty.
const KEPT_BYTES: usize = 8 << 10;

impl Splitter {
    /// A stream whose objects have at most `bytes_max` bytes.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, buffer: Vec::new(), start: 0, looked: 0, depth: 0, place: Place::Outside, error: None }
    }

    /// Takes the next bytes of the stream. Take all objects out before pushing more, or they are held here.
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
    /// [`FrameError`]; then every further call returns the same.
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

    /// Whether an object has begun and not ended.
    #[must_use]
    pub const fn is_inside(&self) -> bool {
        self.depth > 0
    }

    /// Bytes of memory that the stream has at the moment.
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
