//! The command of a worker with places for values of the prompt: `{{prompt}}`, `{{name}}` and `{{file}}`.
//!
//! In the script of `sh -c` a value is quoted for the place where it stands, whatever it contains: a shell would carry out a name such as
//! `$(rm x)`. In any other word it stands as it is, because no shell reads that. `{{raw:name}}` stands as it is in a script as well, and
//! `{{sh:name}}` is quoted in any word, such as one for ssh. Any other text in braces stays.

use std::borrow::Cow;
use std::ffi::OsString;

use base::{ARGUMENT_BYTES_MAX, LinePart, Misplaced, Place, Reader, reader_behind};

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// The words of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine(Vec<Word>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// A word without a place, which may not be UTF-8.
    Plain(OsString),
    Filled(Vec<Piece>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// [`Place::Bare`] until all of the word has been read, if the value is to be quoted.
    Place {
        value: Value,
        quoting: Place,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Prompt,
    Name,
    File,
}

/// The values of one prompt.
#[derive(Clone, Copy, Debug)]
pub struct PromptValues<'a> {
    /// The text.
    pub prompt: &'a str,
    /// The name, as in `PROMPT_NAME`.
    pub name: &'a str,
    /// The path of the file with the text, as in `PROMPT_FILE`.
    pub file: &'a str,
}

impl CommandLine {
    /// Finds the places in the words of a command.
    ///
    /// # Errors
    /// A sentence about a value that cannot be quoted where it stands.
    pub fn parse(words: &[OsString]) -> Result<Self, String> {
        let word = |(at, word): (usize, &OsString)| {
            let is_place = |piece: &Piece| matches!(piece, Piece::Place { .. });
            let Some(text) = word.to_str().filter(|text| pieces(text, false).iter().any(is_place)) else {
                return Ok(Word::Plain(word.clone()));
            };
            let before: Vec<Cow<'_, str>> = words.iter().take(at).map(|word| word.to_string_lossy()).collect();
            let before: Vec<&str> = before.iter().map(AsRef::as_ref).collect();
            match reader_behind(&before) {
                // The program itself is found at the start.
                _ if at == 0 => Ok(Word::Plain(word.clone())),
                None => in_line(pieces(text, false)).map(Word::Filled),
                Some(Reader::Shell(_)) => in_line(pieces(text, true)).map(Word::Filled),
                Some(Reader::Other(name)) => {
                    let pieces = pieces(text, true);
                    match pieces.iter().find_map(Piece::for_shell) {
                        None => Ok(Word::Filled(pieces)),
                        Some(value) => Err(Misplaced::OtherShell(name.to_owned()).sentence(value.placeholder())),
                    }
                }
            }
        };
        words.iter().enumerate().map(word).collect::<Result<_, _>>().map(Self)
    }

    /// True if any word has a place for a value.
    #[must_use]
    pub fn has_places(&self) -> bool {
        self.0.iter().any(|word| matches!(word, Word::Filled(_)))
    }

    /// The words for a prompt.
    ///
    /// # Errors
    /// A sentence, when a word is longer than a program can get, or has a NUL byte.
    pub fn fill(&self, values: PromptValues<'_>) -> Result<Vec<OsString>, String> {
        let fill = |word: &Word| match word {
            Word::Plain(word) => Ok(word.clone()),
            Word::Filled(pieces) => {
                let mut text = String::new();
                pieces.iter().try_for_each(|piece| piece.fill(values, &mut text))?;
                if text.contains('\0') {
                    return Err(
                        "the prompt has a NUL byte, which no argument can have; read PROMPT_FILE instead".to_owned()
                    );
                }
                if text.len() > ARGUMENT_BYTES_MAX {
                    return Err(format!(
                        "an argument of the command would have {} bytes with this prompt, and {ARGUMENT_BYTES_MAX} are possible; read \
                         PROMPT_FILE or the standard input instead",
                        text.len()
                    ));
                }
                Ok(text.into())
            }
        };
        self.0.iter().map(fill).collect()
    }
}

impl Piece {
    fn fill(&self, values: PromptValues<'_>, text: &mut String) -> Result<(), String> {
        let (value, place) = match self {
            Self::Text(plain) => {
                text.push_str(plain);
                return Ok(());
            }
            Self::Place { value, quoting } => (*value, *quoting),
        };
        let filled = match value {
            Value::Prompt => values.prompt,
            Value::Name => values.name,
            Value::File => values.file,
        };
        place.put(std::iter::once(filled), text).map_err(|error| format!("{}: {error}", value.placeholder()))
    }

    /// The value, if it is to be quoted.
    fn for_shell(&self) -> Option<Value> {
        match self {
            Self::Place { value, quoting } if *quoting != Place::Raw => Some(*value),
            Self::Place { .. } | Self::Text(_) => None,
        }
    }
}

impl Value {
    const fn placeholder(self) -> &'static str {
        match self {
            Self::Prompt => "{{prompt}}",
            Self::Name => "{{name}}",
            Self::File => "{{file}}",
        }
    }
}

/// Finds the places of values in a line for a shell.
fn in_line(mut pieces: Vec<Piece>) -> Result<Vec<Piece>, String> {
    let places = Place::all(pieces.iter().map(|piece| match piece {
        Piece::Text(text) => LinePart::Text(text),
        Piece::Place { quoting: Place::Raw, .. } => LinePart::Word,
        Piece::Place { .. } => LinePart::Value,
    }));
    let mut wanted = pieces.iter_mut().filter_map(|piece| match piece {
        Piece::Place { value, quoting } if *quoting != Place::Raw => Some((*value, quoting)),
        Piece::Place { .. } | Piece::Text(_) => None,
    });
    match places {
        Ok(places) => wanted.zip(places).for_each(|((_, quoting), place)| *quoting = place),
        Err((index, why)) => {
            return Err(why.sentence(wanted.nth(index).map_or("the value", |(value, _)| value.placeholder())));
        }
    }
    Ok(pieces)
}

fn pieces(text: &str, is_script: bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut plain = String::new();
    while let Some((before, after)) = rest.split_once(OPEN) {
        plain.push_str(before);
        match after.split_once(CLOSE).and_then(|(inner, after)| Some((place(inner, is_script)?, after))) {
            Some((place, after)) => {
                pieces.extend([Piece::Text(std::mem::take(&mut plain)), place]);
                rest = after;
            }
            None => {
                // A brace more may begin a place.
                plain.push('{');
                rest = &rest[before.len() + 1..];
            }
        }
    }
    plain.push_str(rest);
    pieces.push(Piece::Text(plain));
    pieces
}

fn place(inner: &str, is_script: bool) -> Option<Piece> {
    let (form, name) = inner.split_once(':').map_or((None, inner), |(form, name)| (Some(form), name));
    let quoting = match form {
        None if is_script => Place::Bare,
        Some("sh") => Place::Bare,
        None | Some("raw") => Place::Raw,
        Some(_) => return None,
    };
    let value = match name {
        "prompt" => Value::Prompt,
        "name" => Value::Name,
        "file" => Value::File,
        _ => return None,
    };
    Some(Piece::Place { value, quoting })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: PromptValues<'_> = PromptValues { prompt: "it's $(id)\nnow", name: "a b.txt", file: "/r/prompt.txt" };

    fn filled(words: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let filled = CommandLine::parse(&words).unwrap().fill(VALUES).unwrap();
        filled.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn a_value_is_one_word_where_a_shell_reads_it() {
        let script = "claude -p {{prompt}} > out/{{name}}; cat {{file}}";
        let quoted = "claude -p 'it'\\''s $(id)\nnow' > out/'a b.txt'; cat /r/prompt.txt";
        assert_eq!(filled(&["sh", "-c", script])[2], quoted);
        assert_eq!(filled(&["timeout", "60", "/bin/bash", "-ec", script])[4], quoted);
        assert_eq!(filled(&["sh", "-c", "echo {{raw:name}}"])[2], "echo a b.txt");
        assert_eq!(filled(&["ssh", "box", "claude -p {{sh:name}}"])[2], "claude -p 'a b.txt'");
        // No shell reads these.
        assert_eq!(filled(&["claude", "-p", "{{prompt}}"])[2], VALUES.prompt);
        assert_eq!(filled(&["sh", "-c", "echo $1", "_", "{{name}}"])[4], "a b.txt");
        assert_eq!(filled(&["sh", "x.sh", "{{name}}"])[2], "a b.txt");
        assert_eq!(filled(&["bash", "--rcfile", "{{name}}"])[2], "a b.txt");
    }

    #[test]
    fn a_value_in_quotes_is_quoted_for_them_or_refused() {
        assert_eq!(filled(&["sh", "-c", "echo \"{{prompt}}\""])[2], "echo \"\"'it'\\''s $(id)\nnow'\"\"");
        assert_eq!(filled(&["ssh", "box", "wc '{{sh:name}}'"])[2], "wc 'a b.txt'");
        let refused = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            CommandLine::parse(&words).unwrap_err()
        };
        assert!(refused(&["sh", "-c", "echo `wc {{name}}`"]).starts_with("{{name}} is in backticks"));
        assert!(refused(&["ssh", "box", "bash -c \"wc {{sh:file}}\""]).contains("bash reads as a script"));
        assert!(refused(&["fish", "-c", "wc {{file}}"]).contains("a script for fish"));
        assert_eq!(filled(&["fish", "-c", "wc {{raw:file}}"])[2], "wc /r/prompt.txt");
    }

    #[test]
    fn other_text_in_braces_stays() {
        for text in ["{{.Names}}", "{{ prompt }}", "{{x:prompt}}", "{{", "{{prompt", "{prompt}", "}}{{"] {
            assert_eq!(filled(&["echo", text])[1], text);
            assert!(!CommandLine::parse(&["echo".into(), text.into()]).unwrap().has_places(), "{text}");
        }
        assert_eq!(filled(&["echo", "{{{name}}}"])[1], "{a b.txt}");
    }

    #[test]
    fn a_word_that_no_program_can_get_is_a_sentence() {
        let line = CommandLine::parse(&["echo".into(), "{{prompt}}".into()]).unwrap();
        let long = "x".repeat(ARGUMENT_BYTES_MAX + 1);
        for (prompt, expected) in [(long.as_str(), "131072 bytes"), ("a\0b", "NUL byte")] {
            let refused = line.fill(PromptValues { prompt, ..VALUES }).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
