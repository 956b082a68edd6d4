//! The files that a task of a step has in addition to those of every task: its inputs and its outputs.
//!
//! | entry, seen from the folder of the tool | content |
//! |---|---|
//! | `../inputs/<port>` | the locations that the port was provided with, one a line |
//! | `../provide/<port>` | made by the task: a line for each partition that it provides, at most [`StepContext::PROVIDED_MAX`] in all |
//! | `../out/` | kept with the graph; a location that begins with `out/` is handed on as a path in it |
//! | `../finish` | made by the agent when the task is told to finish early |

use std::sync::Arc;

use super::locations;
use base::code::shown;
use base::{PortName, Provided, StepContext, StepRole, checked_location};

/// The folder of the inputs.
pub const INPUTS: &str = "inputs";
/// The folder of the locations that the task provides.
pub const PROVIDE: &str = "provide";
/// The folder that is kept with the graph.
pub const OUT: &str = "out";
/// The file that tells the task to finish.
pub const FINISH: &str = "finish";

/// The absolute path of [`OUT`], in the environment of the task.
pub const OUT_PATH: &str = "__OUT__";
/// The absolute path of the task's folder, in its environment. A command may run elsewhere.
pub const TASK_PATH: &str = "__TASK_DIR__";

/// The beginning of a location in [`OUT`].
pub const OUT_PREFIX: &str = "out/";

/// The prefix of the variables with the inputs.
const INPUT: &str = "INPUT_";

/// Bytes of such a variable. The kernel takes 128 KiB for one, and all of them share 2 MiB with the arguments.
const VARIABLE_BYTES_MAX: usize = 64 << 10;

/// The content of the file of each input.
pub fn input_files(step: &StepContext) -> impl Iterator<Item = (&PortName, String)> {
    step.inputs.iter().map(|(port, locations)| (port, locations.iter().flat_map(|text| [&**text, "\n"]).collect()))
}

/// The variables with the inputs: the locations of a port, one a line. A longer list is only in its file.
pub(super) fn variables(step: &StepContext) -> impl Iterator<Item = (String, String)> {
    let fits = |locations: &[Arc<str>]| {
        locations.iter().map(|text| text.len() + 1).sum::<usize>().saturating_sub(1) <= VARIABLE_BYTES_MAX
    };
    let inputs = step.inputs.iter().filter(move |(_, locations)| fits(locations));
    inputs.map(|(port, locations)| (format!("{INPUT}{port}"), locations.join("\n")))
}

/// The reading of `../provide`, file by file.
#[derive(Debug)]
pub struct ProvideReader<'a> {
    step: &'a StepContext,
    /// The absolute path of `../out`.
    out: &'a str,
    provided: Provided,
    locations: usize,
    bytes: usize,
}

impl<'a> ProvideReader<'a> {
    /// For a task whose `../out` has this absolute path.
    #[must_use]
    pub const fn new(step: &'a StepContext, out: &'a str) -> Self {
        Self { step, out, provided: Provided::new(), locations: 0, bytes: 0 }
    }

    /// Maximum bytes of the next file.
    #[must_use]
    pub const fn bytes_left(&self) -> usize {
        StepContext::PROVIDED_BYTES_MAX.saturating_sub(self.bytes)
    }

    /// The output that a file of this name belongs to.
    ///
    /// # Errors
    /// One sentence, when there is none.
    pub fn port(&self, name: &str) -> Result<PortName, String> {
        let StepContext { step, outputs, .. } = self.step;
        if let Some(port) = outputs.iter().find(|port| port.as_str() == name) {
            return Ok(port.clone());
        }
        let file = shown(name);
        if let StepRole::Prepare(input) = &self.step.role {
            return Err(format!(
                "../{PROVIDE} has a file {file}, and a task that prepares the input {input} provides nothing"
            ));
        }
        let known = outputs.iter().map(PortName::as_str).collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "it has none".to_owned() } else { format!("they are: {known}") };
        Err(format!("../{PROVIDE} has a file {file}, which is not the name of an output of step {step}; {known}"))
    }

    /// The refusal of a file with so many bytes.
    #[must_use]
    pub fn too_long(&self, port: &PortName, bytes: u64) -> String {
        let max = StepContext::PROVIDED_BYTES_MAX;
        format!(
            "../{PROVIDE}/{port} has {bytes} bytes; a task may provide at most {max} bytes on all its outputs together"
        )
    }

    /// Takes the content of a file.
    ///
    /// # Errors
    /// One sentence, when it is not a list of locations, or the limit is reached.
    pub fn add(&mut self, port: PortName, content: &[u8]) -> Result<(), String> {
        if content.len() > self.bytes_left() {
            return Err(self.too_long(&port, content.len() as u64));
        }
        self.bytes += content.len();
        let text = std::str::from_utf8(content).map_err(|error| {
            let line = 1 + content.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count();
            format!("../{PROVIDE}/{port}: line {line} is not UTF-8")
        })?;
        let mut list = Vec::new();
        // A last line need not end with a newline.
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n').filter(|_| !text.is_empty()) {
            self.locations += 1;
            if self.locations > StepContext::PROVIDED_MAX {
                let max = StepContext::PROVIDED_MAX;
                return Err(format!(
                    "../{PROVIDE}/{port} has too many lines; a task may provide at most {max} locations on all its outputs together"
                ));
            }
            let number = list.len() + 1;
            let whole = line.strip_prefix(OUT_PREFIX).map(|path| format!("{}/{path}", self.out));
            let location = checked_location(whole.as_deref().unwrap_or(line));
            list.push(location.map_err(|flaw| format!("../{PROVIDE}/{port}: line {number} {flaw}"))?);
        }
        self.provided.insert(port, list);
        Ok(())
    }

    /// All locations that the files provide.
    ///
    /// # Errors
    /// One sentence, when they do not fit into a report.
    pub fn end(self) -> Result<Provided, String> {
        let bytes = locations::to_text(&self.provided).len();
        let longest = self.provided.iter().max_by_key(|(_, list)| list.iter().map(|text| text.len()).sum::<usize>());
        match longest {
            Some((port, _)) if bytes > StepContext::PROVIDED_BYTES_MAX => {
                let max = StepContext::PROVIDED_BYTES_MAX;
                Err(format!(
                    "what the task provides, most of it on {port}, has {bytes} bytes as JSON; at most {max} are accepted"
                ))
            }
            _ => Ok(self.provided),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use base::StepName;

    fn step(role: StepRole, outputs: &[&str]) -> StepContext {
        let port = |name: &&str| PortName::new(name).unwrap();
        StepContext {
            graph: "GRAPH_1480000000.120000_AZazA".parse().unwrap(),
            step: StepName::new("s").unwrap(),
            role,
            partition: 0,
            inputs: [].into(),
            outputs: outputs.iter().map(port).collect(),
            grace: Duration::ZERO,
        }
    }

    fn provided(files: &[(&str, &[u8])]) -> Result<Vec<(String, Vec<String>)>, String> {
        let step = step(StepRole::Main, &["a", "b"]);
        let mut reader = ProvideReader::new(&step, "/out of it");
        for (name, content) in files {
            let port = reader.port(name)?;
            reader.add(port, content)?;
        }
        let texts = |list: Vec<Arc<str>>| list.iter().map(ToString::to_string).collect();
        Ok(reader.end()?.into_iter().map(|(port, list)| (port.to_string(), texts(list))).collect())
    }

    #[test]
    fn each_line_is_a_location_and_a_file_without_lines_provides_nothing() {
        let cases: [(&[u8], &[&str]); 6] = [
            (b"", &[]),
            (b"\n", &[""]),
            (b"x", &["x"]),
            (b"x\n\ny\r\n", &["x", "", "y\r"]),
            (b"out/p/q\nout\nouter/x", &["/out of it/p/q", "out", "outer/x"]),
            ("/ü ä\n".as_bytes(), &["/ü ä"]),
        ];
        for (content, expected) in cases {
            let expected = expected.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(provided(&[("a", content)]), Ok(vec![("a".to_owned(), expected)]));
        }
        assert_eq!(provided(&[]), Ok(vec![]));
    }

    #[test]
    fn what_is_no_list_of_locations_is_refused_with_its_place() {
        let refused = |content: &[u8]| provided(&[("a", content)]).unwrap_err();
        assert_eq!(refused(b"x\ny\xff"), "../provide/a: line 2 is not UTF-8");
        let sentence = "../provide/a: line 2 contains a newline or a NUL, which a location cannot";
        assert_eq!(refused(b"x\n\0"), sentence);
        let long = [b"x\nout/".as_slice(), &[b'y'; 4092], b"\n"].concat();
        assert_eq!(refused(&long), "../provide/a: line 2 has 4103 bytes; a location has at most 4096");
        let known = "../provide has a file \"c\", which is not the name of an output of step s; they are: a, b";
        assert_eq!(provided(&[("c", b"")]), Err(known.to_owned()));
        let prepares = step(StepRole::Prepare(PortName::new("in").unwrap()), &[]);
        let sentence = "../provide has a file \"a\", and a task that prepares the input in provides nothing";
        assert_eq!(ProvideReader::new(&prepares, "").port("a"), Err(sentence.to_owned()));
    }

    #[test]
    fn a_task_provides_so_much_and_no_more() {
        let most = "\n".repeat(StepContext::PROVIDED_MAX - 1);
        assert!(provided(&[("a", most.as_bytes()), ("b", b"\n")]).is_ok());
        let refused = provided(&[("a", most.as_bytes()), ("b", b"\n\n")]).unwrap_err();
        assert!(refused.starts_with("../provide/b has too many lines; a task may provide at most 100000"), "{refused}");
        let line = [vec![b'x'; 4095], vec![b'\n']].concat().repeat(512);
        assert!(provided(&[("a", &line)]).is_ok());
        let refused = provided(&[("a", &line), ("b", &[line.clone(), line.clone()].concat())]).unwrap_err();
        assert!(refused.starts_with("../provide/b has 4194304 bytes; a task may provide at most 4194304"), "{refused}");
        let refused = provided(&[("a", &[vec![b'"'; 4095], vec![b'\n']].concat().repeat(1000))]).unwrap_err();
        assert!(refused.starts_with("what the task provides, most of it on a, has 8193"), "{refused}");
    }

    #[test]
    fn a_variable_has_the_locations_unless_they_are_too_many() {
        let port = |name| PortName::new(name).unwrap();
        let list = |texts: &[&str]| texts.iter().map(|text| Arc::from(*text)).collect::<Arc<[Arc<str>]>>();
        let mut step = step(StepRole::Main, &[]);
        let long = "x".repeat(VARIABLE_BYTES_MAX);
        step.inputs = [
            (port("fits"), list(&[&long])),
            (port("long"), list(&[&long, ""])),
            (port("none"), list(&[])),
            (port("two"), list(&["a", ""])),
        ]
        .into();
        let variables: Vec<_> = variables(&step).collect();
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            variables,
            [variable("INPUT_fits", &long), variable("INPUT_none", ""), variable("INPUT_two", "a\n")]
        );
        let files: Vec<_> = input_files(&step).map(|(port, text)| (port.as_str(), text)).collect();
        assert_eq!(files[2..], [("none", String::new()), ("two", "a\n\n".to_owned())]);
    }
}
