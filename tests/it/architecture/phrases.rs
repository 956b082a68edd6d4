//! The phrases that comments and texts must not contain, each with the words to write instead.

use crate::architecture::source::Source;

const NOUN: &str = "the noun: the user, the process, the client";

/// Phrases that are banned everywhere.
const ANYWHERE: [(&str, &str); 9] = [
    ("so far", "`yet` or `up to now`"),
    ("at the most", "`at most`"),
    ("at the least", "`at least`"),
    ("is over", "`has ended` or `has passed`"),
    ("whoever", NOUN),
    ("nobody", "`no user`, `no process` or `none`"),
    ("somebody", "`a user`, `a process` or `another process`"),
    ("anybody", "`any user` or `any process`"),
    ("everybody", "`every user` or `all`"),
];

/// Phrases that are banned at the beginning of a sentence, where they stand for a noun.
const AS_SUBJECT: [(&str, &str); 9] = [
    ("who", NOUN),
    ("what is", "the noun"),
    ("what was", "the noun"),
    ("what has", "the noun"),
    ("what had", "the noun"),
    ("what are", "the noun"),
    ("what it", "the noun"),
    ("what waits", "the noun"),
    ("what comes", "the noun"),
];

/// Questions that are banned as the only word of a comment: they give neither the shape nor the unit of a value.
const ALONE: [&str; 9] = ["which", "why", "how", "when", "who", "where", "what", "whose", "it"];

/// A word of a text, without the punctuation around it.
struct Word {
    line: usize,
    text: String,
    begins_sentence: bool,
}

/// Every banned phrase in the comments and string literals of `source`, as `file:line: rule; fix`.
pub(crate) fn violations(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for comment in &source.comments {
        let words = words(comment);
        if let [word] = &words[..]
            && ALONE.contains(&word.text.as_str())
        {
            let place = format!("{}:{}", source.path, word.line);
            found.push(format!(
                "{place}: the comment `{}` alone says nothing; say the shape and the unit of the value",
                word.text
            ));
        }
        check(&source.path, &words, &mut found);
    }
    for (line, text) in &source.strings {
        // A line break in a literal, with the backslash before it, is a blank.
        let text = text.replace('\\', " ");
        let lines: Vec<_> = text.lines().enumerate().map(|(index, text)| (line + index, text.to_owned())).collect();
        check(&source.path, &words(&lines), &mut found);
    }
    found
}

fn check(path: &str, words: &[Word], found: &mut Vec<String>) {
    for (at, word) in words.iter().enumerate() {
        let subjects = AS_SUBJECT.iter().filter(|_| word.begins_sentence);
        let banned = ANYWHERE.iter().chain(subjects).filter(|(phrase, _)| begin_with(&words[at..], phrase));
        found.extend(banned.map(|(phrase, fix)| {
            format!("{path}:{}: the phrase `{phrase}` is banned in comments and texts; write {fix} instead", word.line)
        }));
    }
}

fn begin_with(words: &[Word], phrase: &str) -> bool {
    let mut words = words.iter();
    phrase.split(' ').all(|part| words.next().is_some_and(|word| word.text == part))
}

fn words(lines: &[(usize, String)]) -> Vec<Word> {
    let mut words = Vec::new();
    let mut begins_sentence = true;
    for (line, text) in lines {
        for part in text.split_whitespace() {
            let word = part.trim_matches(|letter: char| !letter.is_alphanumeric());
            if !word.is_empty() {
                words.push(Word { line: *line, text: word.to_lowercase(), begins_sentence });
                begins_sentence = part.ends_with('.');
            }
        }
    }
    words
}
