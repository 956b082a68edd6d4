//! The arguments of `llts map` as work for lines: the template, the name of the job, and the fields that all tasks have.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use serde_json::{Value, json};

use super::super::command::command_texts;
use super::super::{Session, parameter};
use super::input::Input;
use super::{MapArgs, SOURCE};
use crate::map::Item;
use crate::map::key::Keys;
use crate::map::template::Filling;
use crate::map::work::{BadLine, Work, WorkLimits};
use api::wire::requests::submit::{JobOf, Submission};
use base::{Fields, JobName, Label, Policy, PolicyField, Scalar, ToolName, in_quotes, middle, os_text, words};
use proc::clock;
use term::exit::Failure;
use term::output::to_value;
use term::times;

/// The prefix of names of gates that limit a map. The name of a job has no colon, so no job can have the gate of
/// another.
const GATE_PREFIX: &str = "map:";

/// Columns of the values of a task that are kept for a message about it.
const VALUES_SHOWN: usize = 120;

/// See the [module](self).
pub(super) struct Prepared {
    pub(super) work: Work,
    pub(super) job: JobName,
    /// The gate that limits how many of the tasks run at once.
    pub(super) gate: String,
    /// The fields of every task.
    pub(super) shared: Fields,
    keys: Keys,
    /// The separator of values in texts for people.
    separator: &'static str,
    /// Whether the values are printed whole.
    is_tagged: bool,
    /// The values after each `:::`.
    sources: Vec<Vec<OsString>>,
}

impl Prepared {
    pub(super) fn new(session: &Session, args: &MapArgs) -> Result<Self, Failure> {
        let all = || args.words.iter().chain(args.command.words()).chain(&args.values);
        if let Some(refusal) = all().find_map(|word| foreign_source(word)) {
            return Err(Failure::usage(refusal));
        }
        let (before, mut sources) = split(&args.words);
        let (command, others) = split(args.command.words());
        sources.extend(others);
        sources.extend(split(&args.values).1);
        if !sources.is_empty() && (args.arg_file.is_some() || args.null || args.colsep.is_some()) {
            return Err(Failure::usage(format!(
                "the values behind {SOURCE} are the input; omit --arg-file, --null and --colsep"
            )));
        }
        if args.replace.is_empty() {
            return Err(Failure::usage("-I \"\" stands for no text; omit it, or choose a text such as %"));
        }
        if args.colsep.as_deref() == Some("") {
            return Err(Failure::usage("-C \"\" separates no columns; omit it, or choose a text such as ,"));
        }
        let (work, identity) = work(session, args, &before, &command)?;
        let (wanted, given) = (work.values(), sources.len().max(1));
        if args.colsep.is_none() && wanted > given {
            let more = if sources.is_empty() { "-C TEXT cuts a line into several" } else { "add one with :::" };
            return Err(Failure::usage(format!(
                "{{{wanted}}} is the place of value {wanted}, and a task has {given} here: {more}; a script in a file may \
                 have the text {{{wanted}}} itself"
            )));
        }
        let job = job_name(args)?;
        let identity = identity.iter().map(String::as_str);
        let gate = gate_name(&job);
        let separator = if args.colsep.is_some() { "\t" } else { " " };
        let shared = shared(session, args, &job, &gate)?;
        let keys = Keys::new(job.as_str(), identity);
        Ok(Self { work, job, gate, shared, keys, separator, is_tagged: args.tag, sources })
    }

    /// Opens the input.
    pub(super) fn input(&self, args: &MapArgs) -> Result<Input, Failure> {
        if self.sources.is_empty() {
            let separator = args.colsep.as_ref().map(|text| text.replace("\\t", "\t"));
            return Input::stream(args.arg_file.as_deref(), if args.null { 0 } else { b'\n' }, separator);
        }
        let texts = |source: &Vec<OsString>| source.iter().map(|value| os_text(value)).collect();
        Input::values(self.sources.iter().map(texts).collect())
    }

    /// The task that a line would submit, for programs.
    pub(super) fn planned(&self, filling: Filling<'_>) -> Result<Value, BadLine> {
        let Submission { tool, mut parameters, .. } = self.work.fill(filling)?;
        // It matters only for a real submit.
        parameters.remove(words::REQUIRE_TOOL);
        let task = match tool {
            Some(tool) => json!({ words::OPERATION: tool, "parameters": to_value(&parameters) }),
            None => to_value(&parameters),
        };
        Ok(json!({ "number": filling.number, "values": filling.values.join(self.separator), "task": task }))
    }

    /// The task of a line.
    pub(super) fn item(&mut self, number: u64, mut values: Vec<String>) -> Result<Item, BadLine> {
        let mut submission = self.work.fill(Filling { values: &values, number })?;
        let all = values.join(self.separator);
        // Short texts, because a map holds the values of many tasks.
        let shown = if self.is_tagged { all } else { middle(&all, VALUES_SHOWN) };
        if self.work.has_number() {
            values.push(number.to_string());
        }
        submission.submit_key = Some(self.keys.next(&values));
        Ok(Item { number, submission, values: shown })
    }
}

/// Why a source marker of GNU parallel does not work here. It would become a word of the command, or a value.
fn foreign_source(word: &OsStr) -> Option<String> {
    let instead = match word.as_bytes() {
        b":::+" | b"::::+" => {
            "values that belong together are the columns of a line: paste a b | llts map -C '\\t' -- CMD {1} {2}"
        }
        b"::::" => "lines of a file are read with -a FILE, and those of several files with cat FILE FILE | llts map …",
        _ => return None,
    };
    let word = word.display();
    Some(format!("{word} of GNU parallel is no source here: {instead}; a command with that word belongs into a script"))
}

/// Why a placeholder of GNU parallel in a text does not work here. It would stay as it is.
fn foreign_placeholder(text: &str) -> Option<String> {
    let end_of = |start: usize, end: &str| Some(start + 1 + text.get(start + 1..)?.find(end)? + end.len());
    let found = text.match_indices('{').find_map(|(start, _)| {
        let rest = &text[start + 1..];
        let end = if rest.starts_with('=') { end_of(start + 1, "=}")? } else { end_of(start, "}")? };
        let inner = &text[start + 1..end - 1];
        let last = inner.strip_prefix('-').map(|number| number.trim_end_matches(['.', '/']));
        let is_last = last.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
        (inner == "%" || is_last || rest.starts_with('=')).then(|| &text[start..end])
    })?;
    let instead = match found.as_bytes().get(1) {
        Some(b'%') => "there is no number of a slot; the variable LLTS_AGENT_ID of a task names its agent",
        Some(b'-') => "values are counted from the first one: {1}, {2}",
        _ => "an expression belongs into the command: --sh 'x={}; echo \"${x%.txt}\"'",
    };
    Some(format!("{found} is a placeholder of GNU parallel that llts map does not have: {instead}"))
}

/// Refuses texts of a template with such a placeholder.
fn check_template<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<(), Failure> {
    match texts.into_iter().find_map(foreign_placeholder) {
        Some(refusal) => Err(Failure::usage(refusal)),
        None => Ok(()),
    }
}

/// The words before the first `:::`, and the values of the sources behind it.
fn split(words: &[OsString]) -> (Vec<OsString>, Vec<Vec<OsString>>) {
    let mut parts = words.split(|word| word == OsStr::new(SOURCE)).map(<[OsString]>::to_vec);
    let before = parts.next().unwrap_or_default();
    (before, parts.collect())
}

/// The work, and the texts that distinguish it from that of another map.
fn work(
    session: &Session,
    args: &MapArgs,
    before: &[OsString],
    command: &[OsString],
) -> Result<(Work, Vec<String>), Failure> {
    let whole = args.replace.as_str();
    let limits = &session.config.limits;
    let limits =
        WorkLimits { command_bytes_max: limits.command_bytes_max, value_bytes_max: limits.field_value_bytes_max };
    if let Some(tool) = &args.tool {
        if !command.is_empty() {
            return Err(Failure::usage("--tool and a command exclude one another; omit one of them"));
        }
        ToolName::new(tool).map_err(|error| Failure::usage(error.to_string()))?;
        let parse = |word: &OsString| {
            let word = os_text(word);
            parameter::parse(&word).map_err(|why| Failure::usage(format!("the parameter {}: {why}", in_quotes(&word))))
        };
        let parameters = parameter::collect(&before.iter().map(parse).collect::<Result<Vec<_>, _>>()?)?;
        check_template(parameters.iter().filter_map(|(_, value)| value.as_text()))?;
        let work = Work::tool(tool, &parameters, whole, limits);
        if !work.has_value() {
            return Err(Failure::usage(format!(
                "no parameter of the tool {tool} has a placeholder, so every task would be the same; write for example \
                 in={{}}"
            )));
        }
        let fields = parameters.iter().flat_map(|(name, value)| [name.to_owned(), value.to_string()]);
        return Ok((work, ["tool".to_owned(), tool.clone()].into_iter().chain(fields).collect()));
    }
    if let Some(word) = before.first() {
        return Err(Failure::usage(format!(
            "{} is not behind `--`; write llts map -- COMMAND, or llts map --tool TOOL KEY=VALUE",
            in_quotes(&os_text(word))
        )));
    }
    if let Some(line) = args.command.line() {
        if line.trim().is_empty() {
            return Err(Failure::usage("the line for sh is empty; write for example --sh 'wc -l < {}'"));
        }
        check_template([line.as_str()])?;
        let work = Work::shell(&line, whole, limits)
            .map_err(|why| Failure::usage(format!("--sh {}: {why}", in_quotes(&line))))?;
        return Ok((work, vec!["sh".to_owned(), line]));
    }
    let words = command_texts(command)?;
    check_template(words.iter().map(String::as_str))?;
    match words.first() {
        None => Err(Failure::usage(
            "there is no command; write llts map -- COMMAND, for example: ls | llts map -- wc -c (lines that are commands \
             themselves: --sh 'eval {}')",
        )),
        Some(_) => {
            let work = Work::command(&words, whole, limits).map_err(Failure::usage)?;
            Ok((work, [vec!["command".to_owned()], words].concat()))
        }
    }
}

fn job_name(args: &MapArgs) -> Result<JobName, Failure> {
    let name = match &args.job {
        Some(name) => name.clone(),
        None => {
            let moment = times::local(clock::now().wall).replace(['-', ':'], "").replace(' ', "-");
            format!("map-{moment}-{:05x}", rand::random::<u32>() & 0xf_ffff)
        }
    };
    JobName::new(&name).map_err(|error| Failure::usage(error.to_string()))
}

/// The name of the gate for a job. Long names are cut, so two such jobs may share a gate.
fn gate_name(job: &JobName) -> String {
    let room = Label::BYTES_MAX - GATE_PREFIX.len();
    format!("{GATE_PREFIX}{}", job.as_str().get(..room).unwrap_or(job.as_str()))
}

fn shared(session: &Session, args: &MapArgs, job: &JobName, gate: &str) -> Result<Fields, Failure> {
    let job = JobOf { name: job.as_str().to_owned(), fails_max: args.max_fails, is_pushed: false };
    let mut shared = Submission { job: Some(job), ..Submission::default() };
    if args.tool.is_none() {
        shared = shared.surrounded(&args.command.surroundings(session.is_elsewhere()?)?);
    }
    let mut gates = gate.to_owned();
    for (field, value) in &args.policy.0 {
        match value {
            Scalar::Text(others) if field.name == GATES => gates = format!("{others},{gates}"),
            value => shared = shared.demanding(field, value.clone()),
        }
    }
    shared = shared.demanding(field(GATES), gates);
    if let Some(retries) = args.retries {
        shared = shared.demanding(field("MAX_FAILS"), retries).demanding(field("MAX_TIMEOUTS"), retries);
    }
    let mut fields = shared.request().fields().clone();
    fields.remove(words::TYPE);
    Ok(fields)
}

/// The field of a policy that names gates.
const GATES: &str = "GATE";

fn field(name: &str) -> &'static PolicyField {
    let found = Policy::FIELDS.iter().find(|field| field.name == name);
    found.unwrap_or_else(|| unreachable!("the policy has no field {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_of_gnu_parallel_that_mean_nothing_here_are_refused() {
        for (text, part) in [
            ("mv {-1} x", "{-1} is a placeholder"),
            ("{-2.}", "{-2.} is a placeholder"),
            ("echo {%}", "{%} is a placeholder"),
            ("echo {= s/a/b/; =} {}", "{= s/a/b/; =} is a placeholder"),
        ] {
            let refusal = foreign_placeholder(text).unwrap_or_else(|| panic!("{text} is accepted"));
            assert!(refusal.contains(part), "{refusal}");
        }
        for text in
            ["{}", "{1} {2.}", "{..} {+/} {##}", "awk '{print $1}'", "${x}", "{", "{-}", "{-a}", "{=", "{=x}", "a{1,2}"]
        {
            assert_eq!(foreign_placeholder(text), None, "{text}");
        }
    }

    #[test]
    fn sources_of_gnu_parallel_that_are_none_here_are_refused() {
        for word in [":::+", "::::", "::::+"] {
            assert!(foreign_source(OsStr::new(word)).unwrap().starts_with(word), "{word}");
        }
        for word in [":::", "a:::+", "::", ""] {
            assert_eq!(foreign_source(OsStr::new(word)), None);
        }
    }
}
