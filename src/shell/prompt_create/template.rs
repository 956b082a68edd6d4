//! The text of one prompt: a template with the work and one target filled in.

use std::fmt;

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
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let line = text.get(..text.len() - after.len()).map(|so_far| so_far.matches('\n').count() + 1);
            let bad = |problem| BadTemplate { line, problem };
            parts.push(Part::Text(before.to_owned()));
            let Some((name, after)) = after.split_once(CLOSE) else {
                return Err(bad("{{ without }}".to_owned()));
            };
            parts.push(match name.trim() {
                "prompt" => Part::Prompt,
                "target" => Part::Target,
                other => {
                    let name: String = other.chars().take(40).collect();
                    return Err(bad(format!("{{{{{name}}}}} is neither {{{{prompt}}}} nor {{{{target}}}}")));
                }
            });
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        if !parts.contains(&Part::Target) {
            let problem = "there is no {{target}} in it, so all prompts would be the same".to_owned();
            return Err(BadTemplate { line: None, problem });
        }
        Ok(Self(parts))
    }

    /// Fills in the placeholders once: placeholders inside `prompt` or `target` are not replaced.
    pub(super) fn fill(&self, prompt: &str, target: &str) -> String {
        let text = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Prompt => prompt.to_owned(),
            Part::Target => target.to_owned(),
        };
        self.0.iter().map(text).collect()
    }
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
        let text = Template::built_in().fill("Summarise the page.", "https://example.org");
        assert!(text.contains("\"Summarise the page.\"") && text.contains("assigned to you is: https://example.org\n"));
    }

    #[test]
    fn what_is_filled_in_is_not_filled_again() {
        let template = Template::parse("{{target}}|{{ prompt }}|{{target}}|{x}").unwrap();
        assert_eq!(template.fill("a {{target}}", "b {{prompt}}"), "b {{prompt}}|a {{target}}|b {{prompt}}|{x}");
    }

    #[test]
    fn a_bad_template_is_told_by_its_line() {
        for (text, expected) in [
            ("a\n{{tarGet}}", "line 2: {{tarGet}} is neither {{prompt}} nor {{target}}"),
            ("{{target}}\n\n{{prompt", "line 3: {{ without }}"),
            ("{{prompt}}", "there is no {{target}} in it, so all prompts would be the same"),
            ("", "there is no {{target}} in it, so all prompts would be the same"),
        ] {
            assert_eq!(Template::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
