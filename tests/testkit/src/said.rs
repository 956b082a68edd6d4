//! What a process has said, and how it has ended.

use std::process::Output;

use serde_json::Value;

/// The output of a process that has ended.
#[derive(Debug)]
pub struct Said {
    /// Its exit code; `None` if a signal has ended it.
    pub code: Option<i32>,
    /// Its stdout; behind the ready line, if that was waited for.
    pub out: String,
    /// Its stderr.
    pub err: String,
}

impl Said {
    /// A good end.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.ended(0)
    }

    /// An end with this exit code.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// A good end with exactly this stdout.
    #[track_caller]
    pub fn prints(&self, out: &str) {
        assert_eq!((self.code, &*self.out), (Some(0), out), "{self:?}");
    }

    /// An end with this exit code, and with this part of its stderr.
    #[track_caller]
    pub fn failed(&self, code: i32, part: &str) {
        assert!(self.code == Some(code) && self.err.contains(part), "{code}, {part:?}: {self:?}");
    }

    /// The same, with a sentence of llts.
    #[track_caller]
    pub fn refused(&self, code: i32, part: &str) {
        assert!(self.err.starts_with("llts: "), "{self:?}");
        self.failed(code, part);
    }

    /// The one JSON value on stdout.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The first line on stdout.
    #[track_caller]
    pub fn line(&self) -> &str {
        self.out.lines().next().unwrap_or_else(|| panic!("{self:?}"))
    }
}

impl From<Output> for Said {
    #[track_caller]
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}
