//! The files that travel with a task, in the fields of a submit and of a result.
//!
//! | field | value |
//! |---|---|
//! | `__IN__` | the files in the folder where a run starts: an object of SHA-256 by name, `+x` after it if executable, as JSON in a text |
//! | `__OUT__` | the files that are kept when a run has ended: an array of glob patterns, as JSON in a text |
//! | `__OUT_FILES__` | of a result: the kept files, an object of objects with `sha256` and `bytes` by name, and `executable` true for an executable file, as JSON in a text |
//! | `__OUT_NOTE__` | of a result: other files that match, and why they are not kept |
//! | `__OUT_IDLE__` | of a result: the patterns that match no file that the run has made or changed |
//!
//! Names and patterns are in the form of [`base::os_text()`]. In sentences, bytes that are no character are shown as `\xff`.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use super::typed::bad;
use base::code::{Code, Refusal};
use base::json::ObjectWriter;
use base::{
    Fields, FileName, FilePattern, KeptFile, KeptFiles, Policy, Scalar, TaskFiles, TaskInput, ToolDigest, in_quotes,
    words,
};

/// The fields of a submit that name files.
pub(super) const WORDS: [&str; 2] = [words::IN, words::OUT];

/// The suffix of the digest of an executable file.
const EXECUTABLE: &str = "+x";

/// The key that marks a kept file as executable. Other files do not have it.
const EXECUTABLE_KEY: &str = "executable";

/// An object of texts that may contain a name twice, so that a duplicate can be refused.
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfTexts;
        impl<'de> Visitor<'de> for OfTexts {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(OfTexts)
    }
}

/// The files that a submit names; `None` if it names none.
///
/// # Errors
/// -1007 when the form of a field is invalid, a name does not lead below the folder of the run, or a name stands twice.
pub fn read(fields: &Fields) -> Result<Option<Arc<TaskFiles>>, Refusal> {
    let (inputs, outputs) = (fields.get(words::IN), fields.get(words::OUT));
    if inputs.is_none() && outputs.is_none() {
        return Ok(None);
    }
    if fields.get(words::CWD).is_some() {
        let message = format!(
            "{} excludes {} and {}: files travel to and from the folder of the task; omit it",
            words::CWD,
            words::IN,
            words::OUT
        );
        return Err(Refusal::new(Code::BadField, message));
    }
    let inputs = inputs.map(read_inputs).transpose()?.unwrap_or_default();
    let outputs = outputs.map(read_outputs).transpose()?.unwrap_or_default();
    Ok(Some(Arc::new(TaskFiles { inputs, outputs })))
}

fn read_inputs(value: &Scalar) -> Result<Vec<TaskInput>, Refusal> {
    let wanted = "a JSON object of SHA-256 by name, in a text: {\"a.txt\": \"64 hexadecimal digits\"}";
    let pairs = value.as_text().and_then(|text| serde_json::from_str::<Pairs>(text).ok());
    let Pairs(pairs) = pairs.ok_or_else(|| bad(words::IN, value, wanted))?;
    check_count(words::IN, pairs.len())?;
    let mut inputs: Vec<TaskInput> = Vec::new();
    for (name, text) in pairs {
        let refused =
            |why: String| Refusal::new(Code::BadField, format!("{}: the name {} {why}", words::IN, in_quotes(&name)));
        let place = FileName::new(&name).map_err(|why| refused(why.to_string()))?;
        let (digest, is_executable) = text.strip_suffix(EXECUTABLE).map_or((&*text, false), |digest| (digest, true));
        let digest = digest
            .parse::<ToolDigest>()
            .map_err(|why| refused(format!("does not have the SHA-256 of a file: {why}")))?;
        if inputs.iter().any(|other| other.name == place) {
            return Err(refused("stands there twice".to_owned()));
        }
        if let Some(other) =
            inputs.iter().map(|input| &input.name).find(|other| other.is_below(&place) || place.is_below(other))
        {
            return Err(refused(format!(
                "and {} exclude one another: one is a folder of the other",
                in_quotes(other.as_str())
            )));
        }
        inputs.push(TaskInput { name: place, digest, is_executable });
    }
    Ok(inputs)
}

fn read_outputs(value: &Scalar) -> Result<Vec<FilePattern>, Refusal> {
    let patterns = value.as_text().and_then(|text| serde_json::from_str::<Vec<String>>(text).ok());
    let patterns =
        patterns.ok_or_else(|| bad(words::OUT, value, "a JSON array of glob patterns, in a text: [\"*.txt\"]"))?;
    check_count(words::OUT, patterns.len())?;
    let checked = |pattern: &String| {
        let refused = |why| format!("{}: the pattern {} {why}", words::OUT, in_quotes(pattern));
        FilePattern::new(pattern).map_err(|why| Refusal::new(Code::BadField, refused(why)))
    };
    patterns.iter().map(checked).collect()
}

fn check_count(word: &str, count: usize) -> Result<(), Refusal> {
    let max = TaskFiles::NAMED_MAX;
    if count > max {
        let message = format!("{word} has {count} entries; at most {max} are accepted");
        return Err(Refusal::new(Code::LimitReached, message));
    }
    Ok(())
}

/// The files of a stored task, from its submitted fields.
pub(super) fn stored(submitted: &Fields) -> Option<Arc<TaskFiles>> {
    read(submitted).ok().flatten()
}

/// The policy of a task with these files: its agent must handle them.
pub(super) fn require(mut policy: Arc<Policy>, files: Option<&Arc<TaskFiles>>) -> Arc<Policy> {
    if files.is_some() {
        Arc::make_mut(&mut policy).needs.files = true;
    }
    policy
}

/// `__IN__` for these files.
#[must_use]
pub fn inputs_text<'a>(inputs: impl Iterator<Item = &'a TaskInput>) -> String {
    let value = |input: &TaskInput| format!("{}{}", input.digest, if input.is_executable { EXECUTABLE } else { "" });
    let inputs = inputs.map(|input| (input.name.as_str().to_owned(), Value::from(value(input))));
    Value::Object(inputs.collect()).to_string()
}

/// `__OUT__` for these patterns.
#[must_use]
pub fn outputs_text(patterns: &[FilePattern]) -> String {
    patterns.iter().map(FilePattern::as_str).collect::<Value>().to_string()
}

/// The value of `__OUT_FILES__`.
pub(super) fn kept_text(kept: &KeptFiles) -> String {
    let entry = |file: &KeptFile| {
        let mut value = json!({ "sha256": file.digest.to_string(), "bytes": file.bytes });
        if file.is_executable {
            value[EXECUTABLE_KEY] = true.into();
        }
        (file.name.as_str().to_owned(), value)
    };
    Value::Object(kept.files.iter().map(entry).collect()).to_string()
}

/// Writes the kept files of a run.
pub(super) fn write_kept(kept: &KeptFiles, writer: &mut ObjectWriter<'_>) {
    writer.text(words::OUT_FILES, &kept_text(kept));
    if !kept.note.is_empty() {
        writer.text(words::OUT_NOTE, &kept.note);
    }
    if !kept.idle.is_empty() {
        writer.text(words::OUT_IDLE, &kept.idle);
    }
}

/// The kept files of a run, if its result has a list of them.
///
/// # Errors
/// -1007 when it is not such a list.
pub(super) fn read_kept(fields: &Fields) -> Result<Option<Box<KeptFiles>>, Refusal> {
    let Some(value) = fields.get(words::OUT_FILES) else { return Ok(None) };
    let files = value.as_text().and_then(kept_files);
    let wanted = "a JSON object of objects with sha256 and bytes by name, in a text";
    let files = files.ok_or_else(|| bad(words::OUT_FILES, value, wanted))?;
    let mut kept = KeptFiles { files, ..KeptFiles::default() };
    let idle = fields.text(words::OUT_IDLE).unwrap_or_default();
    idle.get(..idle.len().min(KeptFiles::NOTE_BYTES_MAX)).unwrap_or_default().clone_into(&mut kept.idle);
    if let Some(note) = fields.text(words::OUT_NOTE) {
        kept.add_note(note);
    }
    Ok(Some(Box::new(kept)))
}

/// The list in a value of `__OUT_FILES__`; `None` for any other text.
#[must_use]
pub fn kept_files(text: &str) -> Option<Vec<KeptFile>> {
    let entries: Map<String, Value> = serde_json::from_str(text).ok()?;
    let entry = |(name, value): (String, Value)| {
        let digest = value.get("sha256")?.as_str()?.parse().ok()?;
        let is_executable = value.get(EXECUTABLE_KEY).and_then(Value::as_bool).unwrap_or_default();
        Some(KeptFile { name: FileName::new(&name).ok()?, digest, bytes: value.get("bytes")?.as_u64()?, is_executable })
    };
    let files: Vec<KeptFile> = entries.into_iter().map(entry).collect::<Option<_>>()?;
    let names = files.iter().map(|file| file.name.as_str().len()).sum::<usize>();
    (files.len() <= KeptFiles::FILES_MAX && names <= KeptFiles::NAMES_BYTES_MAX).then_some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest() -> String {
        "ab".repeat(32)
    }

    fn refusal(fields: &Fields) -> String {
        read(fields).unwrap_err().message
    }

    #[test]
    fn inputs_and_patterns_are_read() {
        assert_eq!(read(&Fields::new().with("a", 1)), Ok(None));
        let inputs = format!(r#"{{"a.mov": "{0}", "sub/cfg": "{0}+x"}}"#, digest());
        let fields = Fields::new().with("__IN__", inputs).with("__OUT__", r#"["*.mp4", "out/**"]"#);
        let files = read(&fields).unwrap().unwrap();
        let names: Vec<_> = files.inputs.iter().map(|input| input.name.as_str()).collect();
        assert_eq!(names, ["a.mov", "sub/cfg"]);
        let executable: Vec<_> = files.inputs.iter().map(|input| input.is_executable).collect();
        assert_eq!(executable, [false, true]);
        assert_eq!(outputs_text(&files.outputs), r#"["*.mp4","out/**"]"#);
        let text = inputs_text(files.inputs.iter());
        let again = Fields::new().with("__IN__", text).with("__OUT__", outputs_text(&files.outputs));
        assert_eq!(read(&again).unwrap().unwrap(), files);
    }

    #[test]
    fn names_that_leave_the_folder_or_stand_twice_are_refused_with_the_name() {
        for (name, why) in [
            ("../x", "\"..\""),
            ("/etc/x", "absolute"),
            ("a//b", "empty"),
            ("", "is empty"),
            ("a\\u0000b", "control character"),
        ] {
            let said = refusal(&Fields::new().with("__IN__", format!(r#"{{"{name}": "{}"}}"#, digest())));
            assert!(said.contains("__IN__: the name") && said.contains(why), "{name}: {said}");
            let said = refusal(&Fields::new().with("__OUT__", format!(r#"["{name}"]"#)));
            assert!(said.contains("__OUT__: the pattern") && said.contains(why), "{name}: {said}");
        }
        let twice = |first: &str, second: &str| {
            refusal(&Fields::new().with("__IN__", format!(r#"{{"{first}": "{0}", "{second}": "{0}"}}"#, digest())))
        };
        assert!(twice("a", "a").contains("the name \"a\" stands there twice"));
        assert!(twice("a", "a/b").contains("exclude one another"));
        assert!(twice("a/b", "a").contains("exclude one another"));
        let said = refusal(&Fields::new().with("__IN__", r#"{"a": "abc"}"#));
        assert!(said.contains("the name \"a\" does not have the SHA-256"), "{said}");
        for text in ["", "[]", "{", r#"{"a": 1}"#] {
            assert!(refusal(&Fields::new().with("__IN__", text)).contains("it must be a JSON object"), "{text}");
        }
        for text in ["", "{}", "[1]"] {
            assert!(refusal(&Fields::new().with("__OUT__", text)).contains("it must be a JSON array"), "{text}");
        }
        let many = vec!["a"; TaskFiles::NAMED_MAX + 1];
        let said = refusal(&Fields::new().with("__OUT__", serde_json::to_string(&many).unwrap()));
        assert!(said.contains("has 101 entries; at most 100"), "{said}");
        let said = refusal(&Fields::new().with("__OUT__", "[]").with("__CWD__", "/tmp"));
        assert!(said.contains("__CWD__ excludes"), "{said}");
    }

    #[test]
    fn kept_files_read_back_and_a_list_beyond_the_limits_is_refused() {
        let file = |name: &str, bytes| KeptFile {
            name: FileName::new(name).unwrap(),
            digest: digest().parse().unwrap(),
            bytes,
            is_executable: bytes > 0,
        };
        let kept = KeptFiles {
            files: vec![file("a \"x\"", 0), file("b/c", u64::MAX)],
            note: "too large".to_owned(),
            idle: "none".to_owned(),
        };
        let fields = Fields::new().with("__OUT_FILES__", kept_text(&kept)).with("__OUT_NOTE__", "too large");
        let fields = fields.with("__OUT_IDLE__", "none");
        assert_eq!(read_kept(&fields), Ok(Some(Box::new(kept))));
        assert_eq!(read_kept(&Fields::new()), Ok(None));
        let many = (0..=KeptFiles::FILES_MAX).map(|number| file(&number.to_string(), 1)).collect();
        assert_eq!(kept_files(&kept_text(&KeptFiles { files: many, ..KeptFiles::default() })), None);
        assert_eq!(kept_files(r#"{"../a":{"sha256":"ab","bytes":1}}"#), None);
    }
}
