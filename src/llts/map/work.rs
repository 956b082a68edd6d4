//! The work of a map: what each line of the input becomes, a command, a line for sh or the parameters of a tool.

use super::template::{ARGUMENT_BYTES_MAX, Filling, Template, quoted};
use api::wire::requests::submit::Submission;
use base::os_text::os_len;
use base::{Fields, Misplaced, NotANumber, Reader, Scalar, reader_behind};

/// The work of a map, before a line fills it.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    kind: Kind,
    limits: WorkLimits,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Command(Vec<Template>),
    Shell(Template),
    Tool { name: String, parameters: Vec<(String, Value)> },
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Filled(Template),
    Fixed(Scalar),
}

/// The controller's limits for one task. A task that exceeds them is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLimits {
    /// Bytes of a command.
    pub command_bytes_max: usize,
    /// Bytes of a parameter.
    pub value_bytes_max: usize,
}

/// Why a line cannot become a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// The line cannot be an argument of a program.
    #[error("it has a NUL byte at byte {at}, which no argument can have; if NUL separates the lines, use -0")]
    Nul {
        /// Its place.
        at: usize,
    },
    /// Longer than any argument.
    #[error("it has {bytes} bytes; an argument has at most {ARGUMENT_BYTES_MAX}: let the line name a file")]
    TooLong {
        /// The length of the line.
        bytes: u64,
    },
    /// An argument became too long with the line.
    #[error("an argument of its command has {bytes} bytes, more than {ARGUMENT_BYTES_MAX}: let the line name a file")]
    LongArgument {
        /// The length of the argument.
        bytes: usize,
    },
    /// The command is longer than the controller accepts.
    #[error("its command has {bytes} bytes, more than {max} (COMMAND_BYTES_MAX): let the line name a file")]
    LongCommand {
        /// The length of the command.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The value of a parameter is longer than the controller accepts.
    #[error("the value of {name} has {bytes} bytes, more than {max} (FIELD_VALUE_BYTES_MAX): let it name a file")]
    LongValue {
        /// Name of the parameter.
        name: String,
        /// The length of the value.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The program of the command is an empty text.
    #[error("its command is empty: the program is an empty text")]
    NoProgram,
    /// A value is not a number where a shell calculates with it.
    #[error(transparent)]
    NotANumber(#[from] NotANumber),
}

impl Work {
    /// A command: a program and its arguments. If none of them has a place for the line, the values are appended. In the script of
    /// `sh -c`, values are quoted as in a line for sh, unless the script is a placeholder alone.
    ///
    /// # Errors
    /// A sentence about a placeholder in such a script that cannot be quoted.
    pub fn command(words: &[String], whole: &str, limits: WorkLimits) -> Result<Self, String> {
        let mut templates = Vec::with_capacity(words.len() + 1);
        for (at, word) in words.iter().enumerate() {
            let template = Template::parse(word, whole);
            let before = || words.iter().take(at).map(String::as_str).collect::<Vec<_>>();
            let is_part = template.has_value() && !template.is_value();
            templates.push(match is_part.then(|| reader_behind(&before())).flatten() {
                None => template,
                Some(Reader::Shell(_)) => Template::parse_shell(word, whole)?,
                Some(Reader::Other(name)) => return Err(Misplaced::OtherShell(name.to_owned()).sentence(whole)),
            });
        }
        if !templates.iter().any(Template::has_value) {
            templates.push(Template::parse("{}", "{}"));
        }
        Ok(Self { kind: Kind::Command(templates), limits })
    }

    /// A line for sh, in which each value is one word.
    ///
    /// # Errors
    /// A sentence about a placeholder that cannot be quoted.
    pub fn shell(line: &str, whole: &str, limits: WorkLimits) -> Result<Self, String> {
        let template = Template::parse_shell(line, whole)?;
        let template =
            if template.has_value() { template } else { Template::parse_shell(&format!("{line} {{}}"), "{}")? };
        Ok(Self { kind: Kind::Shell(template), limits })
    }

    /// A tool with parameters; texts among them may have places for the line.
    #[must_use]
    pub fn tool(name: &str, parameters: &Fields, whole: &str, limits: WorkLimits) -> Self {
        let value = |value: &Scalar| match value.as_text().map(|text| Template::parse(text, whole)) {
            Some(template) if template.has_value() || template.has_number() => Value::Filled(template),
            Some(_) | None => Value::Fixed(value.clone()),
        };
        let parameters = parameters.iter().map(|(name, scalar)| (name.to_owned(), value(scalar))).collect();
        Self { kind: Kind::Tool { name: name.to_owned(), parameters }, limits }
    }

    /// Whether the lines make a difference. A tool without a place for them would do the same for all.
    #[must_use]
    pub fn has_value(&self) -> bool {
        match &self.kind {
            Kind::Command(_) | Kind::Shell(_) => true,
            Kind::Tool { parameters, .. } => parameters.iter().any(|(_, value)| matches!(value, Value::Filled(_))),
        }
    }

    /// Whether the task of a line depends on the number of the line.
    #[must_use]
    pub fn has_number(&self) -> bool {
        self.templates().into_iter().any(Template::has_number)
    }

    /// The number of values that the task of a line has a place for, by the largest number in a placeholder.
    #[must_use]
    pub fn values(&self) -> usize {
        self.templates().into_iter().map(Template::values).max().unwrap_or_default()
    }

    fn templates(&self) -> Vec<&Template> {
        match &self.kind {
            Kind::Command(words) => words.iter().collect(),
            Kind::Shell(line) => vec![line],
            Kind::Tool { parameters, .. } => {
                let values = parameters.iter().map(|(_, value)| value);
                values
                    .filter_map(|value| if let Value::Filled(template) = value { Some(template) } else { None })
                    .collect()
            }
        }
    }

    /// The task for a line.
    ///
    /// # Errors
    /// When the line cannot become a task.
    pub fn fill(&self, filling: Filling<'_>) -> Result<Submission, BadLine> {
        match &self.kind {
            Kind::Command(templates) => {
                let words = words(templates, filling)?;
                if words.first().is_none_or(String::is_empty) {
                    return Err(BadLine::NoProgram);
                }
                words.iter().try_for_each(|word| check_argument(word))?;
                let submission = Submission::command(&words);
                let text = |value: &Scalar| value.as_text().map_or(0, str::len);
                self.check_command(submission.parameters.iter().map(|(_, value)| text(value)).sum())?;
                Ok(submission)
            }
            Kind::Shell(template) => {
                let line = template.fill(filling)?;
                check_argument(&line)?;
                self.check_command(line.len())?;
                Ok(Submission::shell(line))
            }
            Kind::Tool { name, parameters } => {
                let max = self.limits.value_bytes_max;
                let mut submission = Submission::new(name).requiring_tool();
                for (name, value) in parameters {
                    let value = match value {
                        Value::Fixed(value) => value.clone(),
                        Value::Filled(template) => template.fill(filling)?.into(),
                    };
                    if let Some(bytes) = value.as_text().map(str::len).filter(|bytes| *bytes > max) {
                        return Err(BadLine::LongValue { name: name.clone(), bytes, max });
                    }
                    submission = submission.with(name, value);
                }
                Ok(submission)
            }
        }
    }

    /// The task of a line, written as a line for sh. For a tool, it is the submit that makes the task.
    ///
    /// # Errors
    /// The same as for [`Self::fill`].
    pub fn shown(&self, filling: Filling<'_>) -> Result<String, BadLine> {
        self.fill(filling)?;
        let joined = |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        match &self.kind {
            Kind::Command(templates) => Ok(joined(&words(templates, filling)?)),
            Kind::Shell(template) => Ok(template.fill(filling)?),
            Kind::Tool { name, parameters } => {
                let mut words = ["llts", "submit", name].map(str::to_owned).to_vec();
                for (name, value) in parameters {
                    words.push(match value {
                        Value::Filled(template) => format!("{name}={}", template.fill(filling)?),
                        Value::Fixed(Scalar::Text(text)) => format!("{name}={text}"),
                        Value::Fixed(other) => format!("{name}:={other}"),
                    });
                }
                Ok(joined(&words))
            }
        }
    }

    fn check_command(&self, bytes: usize) -> Result<(), BadLine> {
        let max = self.limits.command_bytes_max;
        if bytes > max { Err(BadLine::LongCommand { bytes, max }) } else { Ok(()) }
    }
}

fn check_argument(word: &str) -> Result<(), BadLine> {
    let bytes = os_len(word);
    if bytes > ARGUMENT_BYTES_MAX { Err(BadLine::LongArgument { bytes }) } else { Ok(()) }
}

fn words(templates: &[Template], filling: Filling<'_>) -> Result<Vec<String>, NotANumber> {
    let mut words = Vec::with_capacity(templates.len());
    templates.iter().try_for_each(|template| template.fill_words(filling, &mut words))?;
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: WorkLimits = WorkLimits { command_bytes_max: 262_144, value_bytes_max: 65_536 };

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn command(words: &[&str], values: &[&str]) -> Result<Submission, BadLine> {
        let values = texts(values);
        Work::command(&texts(words), "{}", LIMITS).unwrap().fill(Filling { values: &values, number: 1 })
    }

    fn is_command(made: &Submission, words: &[&str]) {
        assert_eq!(*made, Submission::command(&texts(words)));
    }

    #[test]
    fn values_without_a_place_are_appended_as_arguments() {
        is_command(&command(&["echo"], &["a b"]).unwrap(), &["echo", "a b"]);
        is_command(&command(&["echo", "-n"], &["a", "b"]).unwrap(), &["echo", "-n", "a", "b"]);
        is_command(&command(&["echo", "{#}"], &[""]).unwrap(), &["echo", "1", ""]);
        is_command(&command(&["cp", "{}", "{.}.b"], &["x.a"]).unwrap(), &["cp", "x.a", "x.b"]);
        is_command(&command(&["cp", "{}", "to/{}"], &["a", "b"]).unwrap(), &["cp", "a", "b", "to/a b"]);
    }

    #[test]
    fn a_line_that_is_no_argument_is_refused_by_what_it_is() {
        let long = "x".repeat(ARGUMENT_BYTES_MAX);
        assert!(command(&["echo"], &[&long]).is_ok());
        assert_eq!(command(&["echo", "-{}"], &[&long]), Err(BadLine::LongArgument { bytes: 131_072 }));
        let strange = "\0ff".repeat(40_000);
        is_command(&command(&["echo", "{}"], &[&strange[..9000]]).unwrap(), &["echo", &strange[..9000]]);
        let refused = command(&["echo"], &[&strange]).unwrap_err();
        assert!(matches!(refused, BadLine::LongCommand { .. }), "its bytes fit, its text does not: {refused}");
        assert_eq!(command(&["{}"], &[""]), Err(BadLine::NoProgram));
        let refused = command(&["echo", "{}", "{}", "{}"], &[&long[..100_000]]).unwrap_err();
        assert!(matches!(refused, BadLine::LongCommand { max: 262_144, .. }), "{refused}");
        let tool = Work::tool("t", &Fields::new().with("in", "{}"), "{}", LIMITS);
        let refused = tool.fill(Filling { values: &[long], number: 1 }).unwrap_err();
        assert!(refused.to_string().contains("the value of in has 131071 bytes"), "{refused}");
    }

    #[test]
    fn the_parameters_of_a_tool_take_the_line() {
        let fields = Fields::new().with("in", "{}").with("out", "{.}.mp4").with("n", 3u32).with("b", "x");
        let work = Work::tool("convert", &fields, "{}", LIMITS);
        let values = texts(&["a b.mov"]);
        let filling = Filling { values: &values, number: 1 };
        let wanted =
            Submission::new("convert").requiring_tool().with("in", "a b.mov").with("out", "a b.mp4").with("n", 3u32);
        assert_eq!(work.fill(filling), Ok(wanted.with("b", "x")));
        assert_eq!(work.shown(filling).unwrap(), "llts submit convert 'in=a b.mov' 'out=a b.mp4' n:=3 b=x");
        assert!(work.has_value() && !Work::tool("t", &Fields::new().with("a", "b"), "{}", LIMITS).has_value());
    }

    #[test]
    fn a_line_for_sh_gets_words() {
        let work = Work::shell("wc -l < {}", "{}", LIMITS).unwrap();
        let values = texts(&["a b"]);
        let filling = Filling { values: &values, number: 1 };
        assert_eq!(work.fill(filling), Ok(Submission::shell("wc -l < 'a b'")));
        assert_eq!(Work::shell("ls", "{}", LIMITS).unwrap().shown(filling).unwrap(), "ls 'a b'");
        let refused = Work::shell("ls # all", "{}", LIMITS).unwrap_err();
        assert!(refused.starts_with("{} is in a comment"), "{refused}");
        let counted = Work::shell("echo $(({} * 2))", "{}", LIMITS).unwrap();
        assert!(matches!(counted.fill(filling), Err(BadLine::NotANumber(_))));
        let filling = Filling { values: &texts(&["-21"]), number: 1 };
        assert_eq!(counted.shown(filling).unwrap(), "echo $(( -21 * 2))");
    }

    #[test]
    fn a_script_of_a_command_gets_words_and_may_be_the_value() {
        is_command(
            &command(&["sh", "-c", "wc {} \"{}\""], &["$(x)"]).unwrap(),
            &["sh", "-c", "wc '$(x)' \"\"'$(x)'\"\""],
        );
        is_command(
            &command(&["nice", "bash", "-ec", "echo _{}"], &["a b"]).unwrap(),
            &["nice", "bash", "-ec", "echo _'a b'"],
        );
        is_command(&command(&["sh", "-c", "{}"], &["echo a; b"]).unwrap(), &["sh", "-c", "echo a; b"]);
        is_command(
            &command(&["sh", "-c", "echo $1", "_", "<{}>"], &["a b"]).unwrap(),
            &["sh", "-c", "echo $1", "_", "<a b>"],
        );
        for script in [["sh", "-c", "echo `wc {}`"], ["fish", "-c", "wc {}"]] {
            assert!(Work::command(&texts(&script), "{}", LIMITS).is_err(), "{script:?}");
        }
    }
}
