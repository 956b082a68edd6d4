//! The command of a worker with places for values of the prompt: `{{prompt}}`, `{{name}}` and `{{file}}`.
//!
//! In the script of `sh -c` a value is one word for the shell, whatever it contains: a shell would carry out a name such as `$(rm x)`.
//! In any other word it stands as it is, because no shell reads that. `{{raw:name}}` stands as it is in a script as well, and
//! `{{sh:name}}` is one word for a shell in any word, such as one for ssh. Any other text in braces stays.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::types::{ARGUMENT_BYTES_MAX, quoted};

/// The shells whose option -c takes a script.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ksh", "zsh", "ash"];

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
    Place { value: Value, is_quoted: bool },
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

/// Whether a program is a shell that carries out a script, by its path.
#[must_use]
pub fn is_shell(program: &OsStr) -> bool {
    Path::new(program).file_name().and_then(OsStr::to_str).is_some_and(|name| SHELLS.contains(&name))
}

impl CommandLine {
    /// Finds the places in the words of a command.
    #[must_use]
    pub fn parse(words: &[OsString]) -> Self {
        // Behind a wrapper such as env or timeout, too.
        let is_script = |at: usize| {
            let Some([shell, option]) = at.checked_sub(2).and_then(|from| words.get(from..at)) else { return false };
            let option = option.to_str().and_then(|option| option.strip_prefix('-'));
            is_shell(shell) && option.is_some_and(|letters| !letters.starts_with('-') && letters.contains('c'))
        };
        let word = |(at, word): (usize, &OsString)| {
            let pieces = word.to_str().map(|text| pieces(text, is_script(at)));
            match pieces.filter(|pieces| pieces.iter().any(|piece| matches!(piece, Piece::Place { .. }))) {
                // The program itself is found at the start.
                Some(pieces) if at > 0 => Word::Filled(pieces),
                _ => Word::Plain(word.clone()),
            }
        };
        Self(words.iter().enumerate().map(word).collect())
    }

    /// Whether there is any place.
    #[must_use]
    pub fn has_places(&self) -> bool {
        self.0.iter().any(|word| matches!(word, Word::Filled(_)))
    }

    /// The words for a prompt.
    ///
    /// # Errors
    /// One sentence, when a word is longer than a program can get, or has a NUL byte.
    pub fn fill(&self, values: PromptValues<'_>) -> Result<Vec<OsString>, String> {
        let fill = |word: &Word| match word {
            Word::Plain(word) => Ok(word.clone()),
            Word::Filled(pieces) => {
                let text: String = pieces.iter().map(|piece| piece.fill(values)).collect();
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
    fn fill<'a>(&'a self, values: PromptValues<'a>) -> Cow<'a, str> {
        let (value, is_quoted) = match self {
            Self::Text(text) => return text.into(),
            Self::Place { value, is_quoted } => (value, *is_quoted),
        };
        let text = match value {
            Value::Prompt => values.prompt,
            Value::Name => values.name,
            Value::File => values.file,
        };
        if is_quoted { quoted(text) } else { text.into() }
    }
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
    let is_quoted = match form {
        None => is_script,
        Some("sh") => true,
        Some("raw") => false,
        Some(_) => return None,
    };
    let value = match name {
        "prompt" => Value::Prompt,
        "name" => Value::Name,
        "file" => Value::File,
        _ => return None,
    };
    Some(Piece::Place { value, is_quoted })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: PromptValues<'_> = PromptValues { prompt: "it's $(id)\nnow", name: "a b.txt", file: "/r/prompt.txt" };

    fn filled(words: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let filled = CommandLine::parse(&words).fill(VALUES).unwrap();
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
    fn other_text_in_braces_stays() {
        for text in ["{{.Names}}", "{{ prompt }}", "{{x:prompt}}", "{{", "{{prompt", "{prompt}", "}}{{"] {
            assert_eq!(filled(&["echo", text])[1], text);
            assert!(!CommandLine::parse(&["echo".into(), text.into()]).has_places(), "{text}");
        }
        assert_eq!(filled(&["echo", "{{{name}}}"])[1], "{a b.txt}");
    }

    #[test]
    fn a_word_that_no_program_can_get_is_a_sentence() {
        let line = CommandLine::parse(&["echo".into(), "{{prompt}}".into()]);
        let long = "x".repeat(ARGUMENT_BYTES_MAX + 1);
        for (prompt, expected) in [(long.as_str(), "131072 bytes"), ("a\0b", "NUL byte")] {
            let refused = line.fill(PromptValues { prompt, ..VALUES }).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
