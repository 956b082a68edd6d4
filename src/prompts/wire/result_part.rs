//! RESULT: a part of the results of a run, from a worker to the master. Parts are compressed one by one, so that neither side
//! holds more than one, and carry their offset, so that a worker that lost its connection can begin again.

use std::io::{self, Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::{MessageError, RequestId, needed};
use base::json::ObjectWriter;
use base::{Fields, Scalar};

const REQ_ID: &str = "req_id";
const OUTPUT: &str = "output";
const OFFSET: &str = "offset";
const DATA: &str = "data";

/// Maximum bytes of a part before compression: one that cannot be compressed still fits into a message of a worker.
pub const RESULT_PART_BYTES_MAX: usize = 40 << 10;

/// A file of the results of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResultFile {
    /// The standard output.
    Out,
    /// The error output.
    Err,
    /// The data of the run, in JSON. The last file, with the sizes of the other two.
    Json,
}

/// A part of the results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultPart {
    /// The request that the run belongs to.
    pub run: RequestId,
    /// The file that this is a part of.
    pub file: ResultFile,
    /// Position of the first byte.
    pub offset: u64,
    /// At most [`RESULT_PART_BYTES_MAX`] bytes.
    pub bytes: Vec<u8>,
}

impl ResultFile {
    /// All files, in the order in which they are sent.
    pub const ALL: [Self; 3] = [Self::Out, Self::Err, Self::Json];

    /// The ending of its name.
    #[must_use]
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::Err => "err",
            Self::Json => "json",
        }
    }
}

impl ResultPart {
    pub(super) fn write(&self, out: &mut ObjectWriter<'_>) {
        out.text(REQ_ID, self.run.as_str());
        out.text(OUTPUT, self.file.ending());
        out.literal(OFFSET, self.offset);
        write_bytes(&self.bytes, out);
    }

    pub(super) fn read(fields: &Fields, kind: &str) -> Result<Self, MessageError> {
        let (file, offset, bytes) = (output(fields, kind)?, offset(fields, kind)?, bytes(fields, kind)?);
        Ok(Self { run: RequestId::new(needed(fields, REQ_ID, kind)?), file, offset, bytes })
    }
}

pub(super) fn write_bytes(bytes: &[u8], out: &mut ObjectWriter<'_>) {
    out.text(DATA, &STANDARD.encode(compressed(bytes)));
}

pub(super) fn output(fields: &Fields, kind: &str) -> Result<ResultFile, MessageError> {
    let output = needed(fields, OUTPUT, kind)?;
    ResultFile::ALL.into_iter().find(|file| file.ending() == output).ok_or_else(|| odd(kind, OUTPUT))
}

pub(super) fn offset(fields: &Fields, kind: &str) -> Result<u64, MessageError> {
    let offset = fields.get(OFFSET).and_then(Scalar::as_f64).filter(|offset| (0.0..=1e15).contains(offset));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was compared with both ends")]
    offset.map(|offset| offset as u64).ok_or_else(|| odd(kind, OFFSET))
}

pub(super) fn bytes(fields: &Fields, kind: &str) -> Result<Vec<u8>, MessageError> {
    let data = STANDARD.decode(needed(fields, DATA, kind)?).map_err(|_| odd(kind, DATA))?;
    expanded(&data).ok_or_else(|| odd(kind, DATA))
}

fn odd(kind: &str, what: &str) -> MessageError {
    MessageError::Malformed(format!("{kind} has no valid {what}"))
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    // A vector takes everything.
    written.unwrap_or_default()
}

/// `None` if it is no compressed part, or expands to more than a part may have.
fn expanded(data: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read: io::Result<usize> = ZlibDecoder::new(data).take(RESULT_PART_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    (read.is_ok() && bytes.len() <= RESULT_PART_BYTES_MAX).then_some(bytes)
}
