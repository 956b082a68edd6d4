//! The results of a run on their way to a master with another root. The worker reads them part by part, as fast as the connection takes
//! them, from files that were opened before they were put in place: their content is the same whatever happens to their names.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::files::results::{SIZES, open_output};
use crate::wire::{RESULT_PART_BYTES_MAX, RequestId, ResultFile, ResultPart};

/// The outputs of a run, open for reading.
#[derive(Debug)]
pub(super) struct Outputs {
    out: File,
    err: File,
    /// The text of the JSON file.
    json: String,
}

/// Results that are being sent.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) run: RequestId,
    files: Vec<Sending>,
}

#[derive(Debug)]
struct Sending {
    file: ResultFile,
    content: Content,
    /// Bytes that are not sent, because the output is longer than the master allows.
    skipped: u64,
    size: u64,
    offset: u64,
    is_begun: bool,
}

#[derive(Debug)]
enum Content {
    File(File),
    Text(Vec<u8>),
}

impl Outputs {
    /// Opens `out` and `err` of a folder.
    pub(super) fn open(folder: &Path, json: String) -> io::Result<Self> {
        let open = |name: &str| {
            open_output(&folder.join(name)).map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
        };
        Ok(Self { out: open("out")?, err: open("err")?, json })
    }

    /// The output or the error output.
    pub(super) const fn file(&self, output: ResultFile) -> &File {
        if matches!(output, ResultFile::Err) { &self.err } else { &self.out }
    }

    /// Whole outputs, or the end of each output that is longer than `bytes_max`.
    pub(super) fn outbox(&self, run: RequestId, bytes_max: u64) -> io::Result<Outbox> {
        let mut files = Vec::new();
        let mut sizes = json!({});
        for (file, handle) in [(ResultFile::Out, &self.out), (ResultFile::Err, &self.err)] {
            let length = handle.metadata()?.len();
            let (size, skipped) = (length.min(bytes_max), length.saturating_sub(bytes_max));
            sizes[file.ending()] = size.into();
            if skipped > 0 {
                sizes[format!("{}_skipped", file.ending())] = skipped.into();
            }
            let content = Content::File(handle.try_clone()?);
            files.push(Sending { file, content, skipped, size, offset: 0, is_begun: false });
        }
        let mut json: Value = serde_json::from_str(&self.json).map_err(io::Error::other)?;
        json[SIZES] = sizes;
        let text = json.to_string().into_bytes();
        let (file, size) = (ResultFile::Json, text.len() as u64);
        files.push(Sending { file, content: Content::Text(text), skipped: 0, size, offset: 0, is_begun: false });
        files.reverse();
        Ok(Outbox { run, files })
    }
}

impl Outbox {
    /// The next part; `None` after the last.
    pub(super) fn next_part(&mut self) -> io::Result<Option<ResultPart>> {
        while let Some(sending) = self.files.last_mut() {
            // An empty output is one empty part.
            if !sending.is_begun || sending.offset < sending.size {
                let (file, offset) = (sending.file, sending.offset);
                let bytes = sending.read()?;
                return Ok(Some(ResultPart { run: self.run.clone(), file, offset, bytes }));
            }
            self.files.pop();
        }
        Ok(None)
    }
}

impl Sending {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let length = (self.size - self.offset).min(RESULT_PART_BYTES_MAX as u64);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(RESULT_PART_BYTES_MAX)];
        match &self.content {
            Content::File(file) => file.read_exact_at(&mut bytes, self.skipped + self.offset)?,
            Content::Text(text) => {
                let rest = text.iter().skip(usize::try_from(self.offset).unwrap_or(usize::MAX));
                bytes.iter_mut().zip(rest).for_each(|(byte, source)| *byte = *source);
            }
        }
        self.offset += length;
        self.is_begun = true;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(out: &[u8], bytes_max: u64) -> (Vec<u8>, Value) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("out"), out).unwrap();
        std::fs::write(folder.path().join("err"), "").unwrap();
        let outputs = Outputs::open(folder.path(), "{\"outcome\": \"done\"}".to_owned()).unwrap();
        drop(folder);
        let mut outbox = outputs.outbox("r".into(), bytes_max).unwrap();
        let mut files: std::collections::BTreeMap<ResultFile, Vec<u8>> = [].into();
        let mut last = None;
        while let Some(part) = outbox.next_part().unwrap() {
            let file = files.entry(part.file).or_default();
            assert_eq!(part.offset, file.len() as u64);
            file.extend(part.bytes);
            last = Some(part.file);
        }
        assert_eq!((last, files.len()), (Some(ResultFile::Json), 3));
        (files.remove(&ResultFile::Out).unwrap(), serde_json::from_slice(&files[&ResultFile::Json]).unwrap())
    }

    #[test]
    fn an_output_is_sent_in_parts_and_of_a_longer_one_the_end() {
        for length in [0, 1, RESULT_PART_BYTES_MAX, 3 * RESULT_PART_BYTES_MAX + 7] {
            let out: Vec<u8> = (0..length).map(|number| (number % 253) as u8).collect();
            let (whole, json) = sent(&out, u64::MAX);
            assert!(whole == out, "{length}");
            assert_eq!((&json[SIZES], &json["outcome"]), (&json!({ "out": length, "err": 0 }), &json!("done")));
        }
        let (end, json) = sent(b"a long answer", 6);
        assert_eq!((end.as_slice(), &json[SIZES]["out_skipped"]), (&b"answer"[..], &json!(7)));
    }
}
