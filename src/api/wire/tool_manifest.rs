//! `tool.toml`: the description of a tool and its parameters, and the check of a submit against them.
//!
//! ```toml
//! description = "Converts a film"
//! end_signal = "INT"         # in place of TERM, when a run is to end
//! inputs = ["*.mov"]       # the names that its inputs have in its folder
//!
//! [parameters.input]
//! type = "text"            # text (the default), integer, number or boolean
//! required = true
//! description = "The film"
//!
//! [parameters.quality]
//! type = "integer"
//! default = 23
//!
//! [stay]                     # it is started once, and gets one task after the other (docs/stay.md)
//! max_tasks = 10000          # then it ends; without a limit otherwise
//! idle = 300                 # seconds without a task, until it ends
//! memory = 1_000_000_000     # bytes of all of its processes, above which it ends after a task
//! start_timeout = 60         # seconds until it must be ready
//! folder = false             # whether each task has a folder of its own
//! ```
//!
//! A tool with a table of parameters takes only these; the fields of the service do not count. A tool without a table takes any.
//! If the sender may not send commands, an input whose name is not in `inputs` goes to the folder `in/`, because an interpreter
//! may run a file because of its name.

use std::time::Duration;

use toml::{Table, Value};

use base::code::{Code, Refusal, shown};
use base::{
    EndSignal, Fields, FilePattern, ParameterKind, Scalar, Stay, TaskFiles, ToolManifest, ToolName, ToolParameter,
    nearest_hint, words,
};

/// Maximum number of parameters of one tool: people fill them in.
const PARAMETERS_MAX: usize = 200;

/// The longest time in `[stay]`, in seconds: a year.
const STAY_SECONDS_MAX: u64 = 31_536_000;

/// The longest description, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 4096;

/// The longest `tool.toml`, in bytes.
pub const BYTES_MAX: usize = 32_768;

/// Reads a `tool.toml`.
///
/// # Errors
/// A sentence without a full stop that names the defect.
pub fn parse(text: &str) -> Result<ToolManifest, String> {
    if text.len() > BYTES_MAX {
        return Err(format!("tool.toml has {} bytes; at most {BYTES_MAX} are accepted", text.len()));
    }
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| format!("tool.toml: {}", error.message()))?;
    let description = description(&mut table, "tool.toml")?;
    let parameters = match table.remove("parameters") {
        None => Table::new(),
        Some(Value::Table(parameters)) => parameters,
        Some(_) => return Err("tool.toml: parameters is not a table; write [parameters.NAME]".to_owned()),
    };
    let unknown_signal = || format!("tool.toml: end_signal is none of {}", EndSignal::WORDS);
    let end_signal = match table.remove("end_signal") {
        None => None,
        Some(Value::String(word)) => Some(EndSignal::parse(&word).ok_or_else(unknown_signal)?),
        Some(_) => return Err(unknown_signal()),
    };
    let inputs = match table.remove("inputs") {
        None => Vec::new(),
        Some(Value::Array(patterns)) => patterns.iter().map(input).collect::<Result<_, _>>()?,
        Some(_) => return Err("tool.toml: inputs is not a list; write inputs = [\"*.csv\"]".to_owned()),
    };
    let stay = match table.remove("stay") {
        None => None,
        Some(Value::Table(table)) => Some(stay(table)?),
        Some(_) => return Err("tool.toml: stay is not a table; write [stay]".to_owned()),
    };
    no_more(&table, "tool.toml", &["description", "end_signal", "parameters", "inputs", "stay"])?;
    if inputs.len() > TaskFiles::NAMED_MAX {
        let max = TaskFiles::NAMED_MAX;
        return Err(format!("tool.toml has {} inputs; at most {max} are accepted", inputs.len()));
    }
    if parameters.len() > PARAMETERS_MAX {
        return Err(format!("tool.toml has {} parameters; at most {PARAMETERS_MAX} are accepted", parameters.len()));
    }
    let parameters = parameters.into_iter().map(|(name, value)| parameter(name, value)).collect::<Result<_, _>>()?;
    Ok(ToolManifest { description, parameters, end_signal, inputs, stay, text: text.to_owned() })
}

fn stay(mut table: Table) -> Result<Stay, String> {
    let place = "tool.toml: stay";
    let mut whole = |name: &str, unit: &str, max: u64| match table.remove(name) {
        None => Ok(None),
        Some(Value::Integer(number)) if (1..=max).contains(&number.cast_unsigned()) => Ok(Some(number.cast_unsigned())),
        Some(other) => Err(format!("{place}: {name} is {other}, which is no whole number of {unit} from 1 to {max}")),
    };
    let usual = Stay::default();
    let most = i64::MAX.cast_unsigned();
    let max_tasks = whole("max_tasks", "tasks", most)?;
    let memory = whole("memory", "bytes", most)?;
    let idle = whole("idle", "seconds", STAY_SECONDS_MAX)?.map_or(usual.idle, Duration::from_secs);
    let start_timeout =
        whole("start_timeout", "seconds", STAY_SECONDS_MAX)?.map_or(usual.start_timeout, Duration::from_secs);
    let folder = match table.remove("folder") {
        None => usual.folder,
        Some(Value::Boolean(folder)) => folder,
        Some(other) => return Err(format!("{place}: folder is {other}, which is neither true nor false")),
    };
    no_more(&table, place, &["max_tasks", "idle", "memory", "start_timeout", "folder"])?;
    Ok(Stay { max_tasks, idle, memory, start_timeout, folder })
}

fn input(pattern: &Value) -> Result<FilePattern, String> {
    let Value::String(text) = pattern else {
        return Err(format!("tool.toml: inputs has {pattern}, which is no text"));
    };
    FilePattern::new(text).map_err(|why| format!("tool.toml: inputs: the pattern {} {why}", shown(text)))
}

fn parameter(name: String, value: Value) -> Result<ToolParameter, String> {
    let place = format!("tool.toml: parameter {}", shown(&name));
    if name.is_empty() || name.starts_with("__") || name.chars().any(|c| c.is_control() || c == '=') {
        return Err(format!("{place}: a name must not be empty, begin with __ or contain = or a control character"));
    }
    let Value::Table(mut table) = value else { return Err(format!("{place} is not a table; write [parameters.NAME]")) };
    let kind = match table.remove("type") {
        None => ParameterKind::Text,
        Some(Value::String(word)) => ParameterKind::parse(&word).ok_or_else(|| {
            format!("{place}: type {} is unknown; use text, integer, number or boolean", shown(&word))
        })?,
        Some(_) => return Err(format!("{place}: type is not a text")),
    };
    let required = match table.remove("required") {
        None => false,
        Some(Value::Boolean(required)) => required,
        Some(_) => return Err(format!("{place}: required is neither true nor false")),
    };
    let default = table.remove("default").map(|value| scalar(value, &place)).transpose()?;
    if let Some(default) = &default {
        if required {
            return Err(format!("{place} is required, so its default would never be used; remove one of them"));
        }
        if !kind.admits(default) {
            return Err(format!("{place}: its default {default} is no {}", kind.word()));
        }
    }
    let description = description(&mut table, &place)?;
    no_more(&table, &place, &["type", "required", "default", "description"])?;
    Ok(ToolParameter { name, kind, default, required, description })
}

fn description(table: &mut Table, place: &str) -> Result<String, String> {
    match table.remove("description") {
        None => Ok(String::new()),
        Some(Value::String(text)) if text.len() <= DESCRIPTION_BYTES_MAX => Ok(text),
        Some(Value::String(text)) => Err(format!(
            "{place}: the description has {} bytes; at most {DESCRIPTION_BYTES_MAX} are accepted",
            text.len()
        )),
        Some(_) => Err(format!("{place}: description is not a text")),
    }
}

fn scalar(value: Value, place: &str) -> Result<Scalar, String> {
    match value {
        Value::String(text) => Ok(text.into()),
        Value::Boolean(value) => Ok(value.into()),
        Value::Integer(number) => Ok(number.into()),
        Value::Float(number) if number.is_finite() => Ok(number.into()),
        _ => Err(format!("{place}: default is not a text, a number, true or false")),
    }
}

fn no_more(table: &Table, place: &str, known: &[&str]) -> Result<(), String> {
    let Some(key) = table.keys().next() else { return Ok(()) };
    let hint = nearest_hint(key, known.iter().copied());
    Err(format!("{place}: the key {} is unknown{hint}; known are {}", shown(key), known.join(", ")))
}

/// Checks the parameters and files of a submit, and fills in the defaults of missing parameters.
///
/// # Errors
/// -1007 with a sentence that names the parameter, or the field for files.
pub fn fit(
    tool: &ToolName,
    manifest: &ToolManifest,
    fields: &mut Fields,
    files: Option<&TaskFiles>,
) -> Result<(), Refusal> {
    if let (Some(files), Some(Stay { folder: false, .. })) = (files, manifest.stay) {
        check_files(tool, files)?;
    }
    if let Some(signal) = manifest.end_signal.filter(|_| fields.get(words::END_SIGNAL).is_none()) {
        fields.set(words::END_SIGNAL, signal.word());
    }
    if manifest.parameters.is_empty() {
        return Ok(());
    }
    let refused = |message: String| Err(Refusal::new(Code::BadField, message));
    let known = |name: &str| manifest.parameters.iter().any(|parameter| parameter.name == name);
    if let Some((name, _)) = fields.iter().find(|(name, _)| !name.starts_with("__") && !known(name)) {
        let names = manifest.parameters.iter().map(|parameter| parameter.name.as_str());
        let hint = nearest_hint(name, names);
        return refused(format!(
            "tool {tool} has no parameter {}{hint}; `llts tool show {tool}` lists them",
            shown(name)
        ));
    }
    for parameter in &manifest.parameters {
        let name = &parameter.name;
        match (fields.get(name), &parameter.default) {
            (Some(value), _) if !parameter.kind.admits(value) => {
                return refused(format!(
                    "parameter {name} of tool {tool} is {}, which is no {}",
                    shown(&value.to_string()),
                    parameter.kind.word()
                ));
            }
            (None, _) if parameter.required => {
                return refused(format!(
                    "tool {tool} needs the parameter {name} ({}); add {name}=VALUE",
                    parameter.kind.word()
                ));
            }
            (None, Some(default)) => fields.set(name, default.clone()),
            (Some(_), _) | (None, None) => {}
        }
    }
    Ok(())
}

/// Refuses files for a tool that stays and has no folder for each task.
fn check_files(tool: &ToolName, files: &TaskFiles) -> Result<(), Refusal> {
    let (word, what) = match (files.inputs.is_empty(), files.outputs.is_empty()) {
        (false, _) => (words::IN, "for the files that travel in"),
        (true, false) => (words::OUT, "in which files could be left"),
        (true, true) => return Ok(()),
    };
    let message = format!(
        "{word}: a task of tool {tool} has no folder {what}; set folder = true in [stay] of its tool.toml, or submit the task without \
         files"
    );
    Err(Refusal::new(Code::BadField, message))
}

/// The parameters for people, a line for each: `input  text, required  The film`.
#[must_use]
pub fn lines(manifest: &ToolManifest) -> Vec<[String; 3]> {
    let line = |parameter: &ToolParameter| {
        let terms = match &parameter.default {
            _ if parameter.required => format!("{}, required", parameter.kind.word()),
            Some(default) => format!("{}, default {default}", parameter.kind.word()),
            None => parameter.kind.word().to_owned(),
        };
        [parameter.name.clone(), terms, parameter.description.clone()]
    };
    manifest.parameters.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "description = \"Converts\"\n[parameters.input]\nrequired = true\n[parameters.quality]\n\
        type = \"integer\"\ndefault = 23\n[parameters.fast]\ntype = \"boolean\"\n";

    #[test]
    fn a_submit_is_checked_and_gets_the_defaults() {
        let (manifest, tool) = (parse(TEXT).unwrap(), ToolName::new("convert").unwrap());
        let fitted = |mut fields: Fields| fit(&tool, &manifest, &mut fields, None).map(|()| fields);
        let fields = Fields::new().with("input", "a.mov").with("__TIMEOUT__", 3u64);
        assert_eq!(fitted(fields.clone()).unwrap(), fields.clone().with("quality", 23i64));
        assert_eq!(fitted(fields.clone().with("quality", "7")).unwrap().text("quality"), Some("7"));
        for (fields, named) in [
            (Fields::new(), "needs the parameter input (text)"),
            (
                fields.clone().with("quality", "high"),
                "parameter quality of tool convert is \"high\", which is no integer",
            ),
            (fields.clone().with("fast", "yes"), "which is no boolean"),
            (fields.clone().with("qualty", 1u64), "the nearest is quality"),
        ] {
            let refusal = fitted(fields).unwrap_err();
            assert!(refusal.code == Code::BadField && refusal.message.contains(named), "{refusal}");
        }
    }

    #[test]
    fn a_tool_without_parameters_takes_any() {
        let manifest = parse("description = \"x\"").unwrap();
        let mut fields = Fields::new().with("anything", true);
        assert_eq!(fit(&ToolName::new("t").unwrap(), &manifest, &mut fields, None), Ok(()));
    }

    #[test]
    fn a_defect_is_named_with_its_place() {
        for (text, named) in [
            ("x = [", "tool.toml"),
            ("inputs = \"*.mov\"", "inputs is not a list"),
            ("inputs = [\"../x\"]", "the pattern \"../x\""),
            ("descripton = \"a\"", "nearest is description"),
            ("parameters = 1", "not a table"),
            ("[parameters.a]\ntype = \"int\"", "type \"int\" is unknown"),
            ("[parameters.a]\ndefault = 1", "its default 1 is no text"),
            ("[parameters.a]\nrequired = true\ndefault = \"x\"", "never be used"),
            ("[parameters.__ID__]", "begin with __"),
            ("stay = true", "write [stay]"),
            ("[stay]\nidle = 0", "idle is 0, which is no whole number of seconds from 1"),
            ("[stay]\nidle = -1", "idle is -1"),
            ("[stay]\nmemory = \"1g\"", "memory is \"1g\""),
            ("[stay]\nfolder = 1", "folder is 1, which is neither true nor false"),
            ("[stay]\nmaxtasks = 1", "the nearest is max_tasks"),
            ("[parameters.a]\nmin = 1", "the key \"min\" is unknown"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
        assert!(parse(&"#".repeat(BYTES_MAX + 1)).is_err());
    }
}
