//! Front matter: the part of a prompt file for the master, before the part for a worker.
//!
//! ```text
//! ---
//! priority: 10
//! timeout: 600
//! max_fails: 2
//! gate: [claude, web]
//! ---
//! The prompt begins here.
//! ```
//!
//! YAML between lines of `---`, TOML between lines of `+++`, at the very beginning of the file. A block that is neither, or
//! has none of these keys, belongs to the prompt: such a file is handed out unchanged.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{SECONDS_MAX, yaml};

/// A longer block is a prompt that happens to begin with a rule.
pub const FRONT_BYTES_MAX: usize = 8 << 10;

/// A file with more gates than that is not a prompt.
const GATES_MAX: usize = 8;
const GATE_BYTES_MAX: usize = 64;

const PRIORITY_MAX: i64 = 100;
const FAILS_MAX: u64 = 1_000_000;

const PRIORITY: &str = "priority";
const TIMEOUT: &str = "timeout";
const MAX_FAILS: &str = "max_fails";
const GATE: &str = "gate";

/// The settings of a prompt file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Front {
    /// The priority, from -100 to 100; higher goes first.
    pub priority: i32,
    /// The time limit of a worker.
    pub timeout: Option<Duration>,
    /// The number of failures after which it waits again.
    pub max_fails: u32,
    /// The gates that must be open when it is handed out; sorted, each once.
    pub gates: Vec<String>,
}

impl Front {
    /// The front matter of a file's text, and the prompt after it.
    ///
    /// # Errors
    /// A sentence, when one of the keys has an invalid value.
    pub fn split(text: &str) -> Result<(Self, &str), String> {
        let Some((block, rest)) = Block::find(text) else { return Ok((Self::default(), text)) };
        match block.fields() {
            Some(fields) if [PRIORITY, TIMEOUT, MAX_FAILS, GATE].iter().any(|key| fields.contains_key(*key)) => {
                Ok((Self::read(&fields)?, rest))
            }
            _ => Ok((Self::default(), text)),
        }
    }

    /// The front matter in the first bytes of a file. Errors in it are reported when the file is handed out.
    #[must_use]
    pub fn peek(head: &[u8]) -> Self {
        let head = &head[..head.len().min(FRONT_BYTES_MAX)];
        let text = match std::str::from_utf8(head) {
            Ok(text) => text,
            // A character may be cut in two at the end.
            Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
        };
        Self::split(text).map(|(front, _)| front).unwrap_or_default()
    }

    fn read(fields: &Map<String, Value>) -> Result<Self, String> {
        let bad = |key: &str, value: &Value, allowed: &str| {
            Err(format!("the front matter has {key} = {}; it must be {allowed}", shortened(value)))
        };
        let mut front = Self::default();
        if let Some(value) = fields.get(PRIORITY) {
            match value.as_i64().filter(|priority| priority.abs() <= PRIORITY_MAX).and_then(|p| i32::try_from(p).ok()) {
                Some(priority) => front.priority = priority,
                None => return bad(PRIORITY, value, "a whole number from -100 to 100"),
            }
        }
        if let Some(value) = fields.get(TIMEOUT) {
            let allowed = |seconds: &f64| (0.001..=SECONDS_MAX).contains(seconds);
            match value.as_f64().filter(allowed).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
                Some(timeout) => front.timeout = Some(timeout),
                None => return bad(TIMEOUT, value, "a number of seconds from 0.001 to a year"),
            }
        }
        if let Some(value) = fields.get(MAX_FAILS) {
            match value.as_u64().filter(|fails| *fails <= FAILS_MAX).and_then(|fails| u32::try_from(fails).ok()) {
                Some(fails) => front.max_fails = fails,
                None => return bad(MAX_FAILS, value, "a whole number from 0 to 1000000"),
            }
        }
        if let Some(value) = fields.get(GATE) {
            match gates(value) {
                Some(gates) => front.gates = gates,
                None => return bad(GATE, value, "a name of 1 to 64 bytes, or a list of up to 8 names"),
            }
        }
        Ok(front)
    }
}

fn gates(value: &Value) -> Option<Vec<String>> {
    let names = match value {
        Value::Array(names) => names.as_slice(),
        one => std::slice::from_ref(one),
    };
    let name =
        |name: &Value| name.as_str().filter(|name| (1..=GATE_BYTES_MAX).contains(&name.len())).map(str::to_owned);
    let mut gates = names.iter().map(name).collect::<Option<Vec<_>>>()?;
    gates.sort_unstable();
    gates.dedup();
    (gates.len() <= GATES_MAX).then_some(gates)
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 60 { text.chars().take(60).chain("…".chars()).collect() } else { text }
}

enum Block<'a> {
    Yaml(&'a str),
    Toml(&'a str),
}

impl<'a> Block<'a> {
    /// The block at the beginning of a text, and the text after it.
    fn find(text: &'a str) -> Option<(Self, &'a str)> {
        // Windows editors put it at the beginning.
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = body.split_inclusive('\n');
        let fence = lines.next()?;
        let word = fence.trim_end();
        let make = match word {
            "---" => Self::Yaml,
            "+++" => Self::Toml,
            _ => return None,
        };
        let mut end = fence.len();
        for line in lines {
            if line.trim_end() == word {
                return Some((make(&body[fence.len()..end]), &body[end + line.len()..]));
            }
            end += line.len();
            if end > FRONT_BYTES_MAX {
                return None;
            }
        }
        None
    }

    fn fields(&self) -> Option<Map<String, Value>> {
        match self {
            Self::Yaml(text) => yaml::mapping(text),
            Self::Toml(text) => toml::from_str(text).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn front(text: &str) -> Front {
        Front::split(text).unwrap().0
    }

    #[test]
    fn a_file_without_front_matter_is_the_prompt() {
        let long = format!("---\n{}---\nx", "priority: 1\n".repeat(FRONT_BYTES_MAX));
        for text in [
            "",
            "Do it.\n---\npriority: 1\n---\n",
            "---\n",
            "---\npriority: 1\n",
            "---\nA rule, not a block.\n---\n",
            "---\ntitle: x\n---\ny",
            "---\n- priority\n---\n",
            "---\npriority: [\n---\n",
            "+++\npriority = \n+++\n",
            "---\npriority: 1\n+++\n",
            " ---\npriority: 1\n---\n",
            long.as_str(),
        ] {
            assert_eq!(Front::split(text), Ok((Front::default(), text)), "{text:.60}");
        }
    }

    #[test]
    fn both_languages_say_the_same() {
        let expected = Front {
            priority: -5,
            timeout: Some(Duration::from_millis(1500)),
            max_fails: 2,
            gates: vec!["a".into(), "b".into()],
        };
        for text in [
            "---\npriority: -5\ntimeout: 1.5\nmax_fails: 2\ngate: [b, a, b]\n---\nGo.\n",
            "\u{feff}---\r\npriority: -5\r\ntimeout: 1.5\r\nmax_fails: 2\r\ngate:\r\n  - b\r\n  - \"a\"\r\n---\r\nGo.\n",
            "+++\npriority = -5\ntimeout = 1.5\nmax_fails = 2\ngate = [\"b\", \"a\"]\n+++\nGo.\n",
            "---\n# why\ntitle: {x: [y]}\npriority: -5\ntimeout: 1.5\nmax_fails: 2\ngate: [b, a]\n---\nGo.\n",
        ] {
            assert_eq!(Front::split(text), Ok((expected.clone(), "Go.\n")), "{text}");
            assert_eq!(Front::peek(text.as_bytes()), expected);
        }
        assert_eq!(front("---\ngate: claude\n---").gates, ["claude"]);
    }

    #[test]
    fn a_bad_value_is_named() {
        for (line, part) in [
            ("priority: high", "priority = \"high\"; it must be a whole number"),
            ("priority: 101", "101"),
            ("priority: 1.5", "1.5"),
            ("timeout: 0", "timeout = 0"),
            ("timeout: soon", "timeout = \"soon\""),
            ("max_fails: -1", "max_fails = -1"),
            ("gate: 5", "gate = 5"),
            ("gate: ''", "gate = \"\""),
            ("gate: [a, {}]", "gate"),
            ("gate: [a,b,c,d,e,f,g,h,i]", "up to 8"),
        ] {
            let text = format!("---\n{line}\n---\nx");
            let error = Front::split(&text).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
            assert_eq!(Front::peek(text.as_bytes()), Front::default());
        }
    }

    #[test]
    fn aliases_do_not_grow() {
        let mut text = String::from("---\na0: &a0 [x, x]\n");
        for n in 1..30 {
            let last = n - 1;
            text.push_str(&format!("a{n}: &a{n} [*a{last}, *a{last}, *a{last}]\n"));
        }
        text.push_str("priority: 1\n---\nx");
        assert_eq!(Front::split(&text), Ok((Front::default(), text.as_str())));
    }

    #[test]
    fn a_head_that_is_cut_or_no_text_says_nothing() {
        let text = "---\npriority: 1\n---\nあ";
        assert_eq!(Front::peek(&text.as_bytes()[..text.len() - 1]).priority, 1);
        assert_eq!(Front::peek(&text.as_bytes()[..12]), Front::default());
        assert_eq!(Front::peek(b"---\n\xff\npriority: 1\n---\n"), Front::default());
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(block in "[-+]{3}\n[ -~あ\n]{0,80}\n[-+]{3}\n", bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Front::split(&block);
            let _ = Front::peek(&bytes);
        }
    }
}
