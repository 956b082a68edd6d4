//! The text of one prompt: a template with the work and one target filled in.
//!
//! `{{target}}` stands as it is, except in a template that is a shell script, by its `#!` line: there it is quoted for the place where
//! it stands, whatever it contains. `{{raw:target}}` stands as it is everywhere. `{{sh:target}}` is one word for a shell everywhere.

use std::ffi::OsStr;
use std::fmt;

use base::{LinePart, Misplaced, Place, is_shell};

/// The text of the document's creator, in English. The two people in it make the difference between the whole list and the
/// one entry clear to the reader.
const BUILT_IN: &str = "\
You are a capable professional. Your manager has given you this mission: \"{{prompt}}\"
Several people share the list that came with it. The entry assigned to you is: {{target}}
Follow your manager's instructions and carry out the mission.
";

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// A checked template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Value, Place),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Prompt,
    Target,
}

/// A template that would not have the intended effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadTemplate {
    /// Line, from 1; `None` for the template as a whole.
    pub(super) line: Option<usize>,
    problem: String,
}

impl Template {
    pub(super) fn built_in() -> Self {
        Self::parse(BUILT_IN).unwrap_or_else(|error| unreachable!("the built-in template: {error}"))
    }

    /// Reads a template: `{{prompt}}` and `{{target}}` are placeholders, everything else is literal.
    pub(super) fn parse(text: &str) -> Result<Self, BadTemplate> {
        let is_script = is_script(text);
        let mut parts = Vec::new();
        let mut lines = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let line = text.get(..text.len() - after.len()).map(|so_far| so_far.matches('\n').count() + 1);
            let bad = |problem| BadTemplate { line, problem };
            parts.push(Part::Text(before.to_owned()));
            let Some((name, after)) = after.split_once(CLOSE) else {
                return Err(bad("{{ without }}".to_owned()));
            };
            let name = name.trim();
            let (is_quoted, value) = match name.split_once(':') {
                Some(("sh", value)) => (true, value),
                Some(("raw", value)) => (false, value),
                _ => (is_script, name),
            };
            let value = match value {
                "prompt" => Value::Prompt,
                "target" => Value::Target,
                _ => {
                    let name: String = name.chars().take(40).collect();
                    return Err(bad(format!("{{{{{name}}}}} is neither {{{{prompt}}}} nor {{{{target}}}}")));
                }
            };
            if is_quoted && !is_script && is_enclosed(before, after) {
                return Err(bad(format!("{{{{{name}}}}} is one word already; remove the quotes around it")));
            }
            if is_quoted {
                lines.push((line, format!("{{{{{name}}}}}")));
            }
            parts.push(Part::Value(value, if is_quoted { Place::Bare } else { Place::Raw }));
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        if !parts.iter().any(|part| matches!(part, Part::Value(Value::Target, _))) {
            let problem = "there is no {{target}} in it, so all prompts would be the same".to_owned();
            return Err(BadTemplate { line: None, problem });
        }
        if is_script {
            place(&mut parts).map_err(|(index, why)| {
                let (line, name) = lines.get(index).cloned().unwrap_or_default();
                BadTemplate { line, problem: why.sentence(&name) }
            })?;
        }
        Ok(Self(parts))
    }

    /// Fills in the placeholders once: placeholders inside `prompt` or `target` are not replaced.
    ///
    /// # Errors
    /// A sentence, when a value is no number where a script calculates.
    pub(super) fn fill(&self, prompt: &str, target: &str) -> Result<String, String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Value(value, place) => {
                    let value = match value {
                        Value::Prompt => prompt,
                        Value::Target => target,
                    };
                    place.put(std::iter::once(value), &mut text).map_err(|error| error.to_string())?;
                }
            }
        }
        Ok(text)
    }
}

/// Finds the places of the values in a script.
fn place(parts: &mut [Part]) -> Result<(), (usize, Misplaced)> {
    let places = Place::all(parts.iter().map(|part| match part {
        Part::Text(text) => LinePart::Text(text),
        Part::Value(_, Place::Raw) => LinePart::Word,
        Part::Value(..) => LinePart::Value,
    }))?;
    let wanted = parts.iter_mut().filter_map(|part| match part {
        Part::Value(_, place) if *place != Place::Raw => Some(place),
        Part::Value(..) | Part::Text(_) => None,
    });
    wanted.zip(places).for_each(|(place, found)| *place = found);
    Ok(())
}

/// Whether a placeholder in a text stands alone in quotes, which the quotes of its value would end.
fn is_enclosed(before: &str, after: &str) -> bool {
    ['\'', '"'].into_iter().any(|quote| before.ends_with(quote) && after.starts_with(quote))
}

/// Whether the first line names a shell: `#!/bin/sh`, `#!/usr/bin/env bash`.
fn is_script(text: &str) -> bool {
    let line = text.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or_default();
    line.split_ascii_whitespace().any(|word| is_shell(OsStr::new(word)))
}

impl fmt::Display for BadTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_template_names_work_and_target() {
        let text = Template::built_in().fill("Summarise the page.", "https://example.org").unwrap();
        assert!(text.contains("\"Summarise the page.\"") && text.contains("assigned to you is: https://example.org\n"));
    }

    #[test]
    fn what_is_filled_in_is_not_filled_again() {
        let template = Template::parse("{{target}}|{{ prompt }}|{{target}}|{x}").unwrap();
        assert_eq!(
            template.fill("a {{target}}", "b {{prompt}}").unwrap(),
            "b {{prompt}}|a {{target}}|b {{prompt}}|{x}"
        );
    }

    #[test]
    fn a_target_is_one_word_where_a_shell_reads_it() {
        let fill = |template: &str| Template::parse(template).unwrap().fill("work", "a b'$(id)").unwrap();
        assert_eq!(fill("#!/bin/sh\nwc {{target}} {{raw:target}}"), "#!/bin/sh\nwc 'a b'\\''$(id)' a b'$(id)");
        assert_eq!(fill("#!/usr/bin/env bash\n{{target}}"), "#!/usr/bin/env bash\n'a b'\\''$(id)'");
        assert_eq!(fill("#!/bin/sh\nwc \"{{target}}\""), "#!/bin/sh\nwc \"\"'a b'\\''$(id)'\"\"");
        assert_eq!(fill("run: wc {{sh:target}}, {{target}}"), "run: wc 'a b'\\''$(id)', a b'$(id)");
        // Text is not for a shell, and neither is another language.
        for template in ["{{target}}", "# sh\n{{target}}", "#!/usr/bin/python3\n{{target}}", "{{ target }}\n#!/bin/sh"]
        {
            assert!(fill(template).contains("a b'$(id)") && !fill(template).contains("''"), "{template}");
        }
    }

    #[test]
    fn the_built_in_text_is_the_same_whatever_the_target_contains() {
        let text = Template::built_in().fill("it's \"work\"", "a b'$(id)`x`").unwrap();
        let expected = "\
You are a capable professional. Your manager has given you this mission: \"it's \"work\"\"
Several people share the list that came with it. The entry assigned to you is: a b'$(id)`x`
Follow your manager's instructions and carry out the mission.
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_bad_template_is_told_by_its_line() {
        for (text, expected) in [
            ("a\n{{tarGet}}", "line 2: {{tarGet}} is neither {{prompt}} nor {{target}}"),
            ("{{target}}\n\n{{prompt", "line 3: {{ without }}"),
            ("{{prompt}}", "there is no {{target}} in it, so all prompts would be the same"),
            ("", "there is no {{target}} in it, so all prompts would be the same"),
            (
                "#!/bin/sh\n\n# {{target}}",
                "line 3: {{target}} is in a comment, which ends with the first line of the value; remove it there",
            ),
            ("echo \"{{sh:target}}\"", "line 1: {{sh:target}} is one word already; remove the quotes around it"),
        ] {
            assert_eq!(Template::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
