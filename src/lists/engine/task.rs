//! The content of a task file: seven lines, and three more when a worker has run it.

use base::lists::ListTaskId;
use base::tdf::WorkerName;

/// Bytes of a command. The kernel takes no longer argument of a program, with the zero byte at its end.
pub const CMD_BYTES_MAX: usize = (128 << 10) - 1;

/// Bytes of a task file: its command, and nine short lines.
pub const FILE_BYTES_MAX: usize = CMD_BYTES_MAX + 4096;

/// The ending of the file.
pub const TASK: &str = "task";
/// The ending of the file with the stdout of the command.
pub const OUT: &str = "out";
/// The ending of the file with its stderr.
pub const ERR: &str = "err";

/// A task as its creator has written it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The id, whose end is also the field `fails`.
    pub id: ListTaskId,
    /// Seconds since 1970.
    pub created: u64,
    /// Seconds since 1970: the latest start.
    pub until: u64,
    /// Seconds.
    pub expected_duration: u64,
    /// Number of runs that may fail before it is not repeated.
    pub max_fails: u32,
    /// One line for the shell.
    pub cmd: String,
}

/// The three lines that a worker adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLines {
    /// The worker that has run the task.
    pub worker: WorkerName,
    /// Seconds since 1970.
    pub started: u64,
    /// Seconds since 1970.
    pub ended: u64,
}

/// Why a file is not a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTask {
    /// Not seven or ten lines.
    #[error("it has {0} lines; a task has 7, and 10 when it has run")]
    Lines(usize),
    /// A line that does not have the form of its field.
    #[error("line {line} is not {field}")]
    Field {
        /// From 1.
        line: usize,
        /// The form of the field.
        field: &'static str,
    },
    /// The first line names another task than the file does.
    #[error("line 1 is {0:?}, and the file has another name")]
    OtherId(String),
    /// The counter contradicts the id.
    #[error("line 6 says {0} fails, and the id says {1}")]
    OtherFails(u32, u32),
    /// The command cannot be run.
    #[error("line 7: {0}")]
    Command(#[from] InvalidCommand),
}

/// Why a text is not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCommand {
    /// Nothing but white space.
    #[error("the command is empty")]
    Empty,
    /// More than one line.
    #[error("the command has more than one line")]
    Lines,
    /// A zero byte ends an argument.
    #[error("the command has a NUL byte")]
    Nul,
    /// More than the kernel takes.
    #[error("the command has {0} bytes; at most {CMD_BYTES_MAX} can be run, so put it into a script")]
    TooLong(usize),
}

/// Checks a command.
///
/// # Errors
/// [`InvalidCommand`].
pub fn check_command(cmd: &str) -> Result<(), InvalidCommand> {
    match cmd {
        _ if cmd.trim().is_empty() => Err(InvalidCommand::Empty),
        _ if cmd.contains('\n') => Err(InvalidCommand::Lines),
        _ if cmd.contains('\0') => Err(InvalidCommand::Nul),
        _ if cmd.len() > CMD_BYTES_MAX => Err(InvalidCommand::TooLong(cmd.len())),
        _ => Ok(()),
    }
}

/// Reads the content of the file of this task. The last line may lack its end.
///
/// # Errors
/// [`InvalidTask`].
pub fn read(id: ListTaskId, text: &str) -> Result<(Task, Option<RunLines>), InvalidTask> {
    let lines: Vec<&str> = text.strip_suffix('\n').unwrap_or(text).split('\n').collect();
    let [first, created, until, duration, max_fails, fails, cmd, rest @ ..] = &lines[..] else {
        return Err(InvalidTask::Lines(if text.is_empty() { 0 } else { lines.len() }));
    };
    if *first != id.to_string() {
        return Err(InvalidTask::OtherId(first.chars().take(80).collect()));
    }
    let fails: u32 = field(fails, 6, COUNT)?;
    if fails != id.fails {
        return Err(InvalidTask::OtherFails(fails, id.fails));
    }
    check_command(cmd)?;
    let task = Task {
        id,
        created: moment(created, 2)?,
        until: moment(until, 3)?,
        expected_duration: field(duration, 4, "a whole number of seconds")?,
        max_fails: field(max_fails, 5, COUNT)?,
        cmd: (*cmd).to_owned(),
    };
    let ran = match rest {
        [] => None,
        [worker, started, ended] => Some(RunLines {
            worker: WorkerName::new(worker)
                .map_err(|_| InvalidTask::Field { line: 8, field: "the name of a worker" })?,
            started: moment(started, 9)?,
            ended: moment(ended, 10)?,
        }),
        _ => return Err(InvalidTask::Lines(lines.len())),
    };
    Ok((task, ran))
}

/// Beyond it a moment is a mistake; sums of moments stay within their type.
const SECONDS_MAX: u64 = 1 << 53;

const COUNT: &str = "a count";

fn moment(text: &str, line: usize) -> Result<u64, InvalidTask> {
    let name = "a moment in whole seconds since 1970";
    let seconds = field(text, line, name)?;
    if seconds <= SECONDS_MAX { Ok(seconds) } else { Err(InvalidTask::Field { line, field: name }) }
}

fn field<T: std::str::FromStr>(text: &str, line: usize, name: &'static str) -> Result<T, InvalidTask> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or(InvalidTask::Field { line, field: name })
}

impl Task {
    /// The content of its file.
    #[must_use]
    pub fn write(&self) -> String {
        let Self { id, created, until, expected_duration, max_fails, cmd } = self;
        format!("{id}\n{created}\n{until}\n{expected_duration}\n{max_fails}\n{}\n{cmd}\n", id.fails)
    }

    /// The content of its file after a run.
    #[must_use]
    pub fn write_ran(&self, ran: &RunLines) -> String {
        format!("{}{}\n{}\n{}\n", self.write(), ran.worker, ran.started, ran.ended)
    }

    /// The duplicate that is attempted next.
    #[must_use]
    pub fn again(&self) -> Self {
        Self { id: self.id.again(), ..self.clone() }
    }
}

/// What follows a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Failed too often.
    Count,
    /// `until` has passed.
    Time,
    /// The task is archived, and this duplicate is attempted.
    Again(Box<Task>),
}

/// Judges a task that has failed. The count comes before the time: a late task that has used up its runs has failed by count.
#[must_use]
pub fn judge(task: &Task, now_seconds: u64) -> Fate {
    if task.id.again().fails >= task.max_fails {
        Fate::Count
    } else if now_seconds > task.until {
        Fate::Time
    } else {
        Fate::Again(Box::new(task.again()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "1448978609795035000_0\n1448978609\n1448985809\n120\n5\n0\necho 'A'; sleep 2; echo 'B'\n";
    const RAN: &str = "worker_123\n1448978619\n1448978622\n";

    fn id() -> ListTaskId {
        "1448978609795035000_0".parse().unwrap()
    }

    #[test]
    fn the_example_of_the_document_reads_and_writes_as_itself() {
        let (task, ran) = read(id(), NEW).unwrap();
        assert_eq!(
            (task.cmd.as_str(), task.max_fails, task.expected_duration),
            ("echo 'A'; sleep 2; echo 'B'", 5, 120)
        );
        assert_eq!((task.write(), ran), (NEW.to_owned(), None));
        let whole = format!("{NEW}{RAN}");
        let (task, ran) = read(id(), &whole).unwrap();
        let ran = ran.unwrap();
        assert_eq!((ran.worker.as_str(), ran.ended - ran.started), ("worker_123", 3));
        assert_eq!(task.write_ran(&ran), whole);
        assert_eq!(read(id(), NEW.trim_end()).unwrap().0, task, "the last line may lack its end");
    }

    #[test]
    fn a_file_that_is_no_task_says_why() {
        let change = |line: usize, text: &str| {
            let mut lines: Vec<&str> = NEW.lines().collect();
            lines[line - 1] = text;
            read(id(), &(lines.join("\n") + "\n")).unwrap_err().to_string()
        };
        assert_eq!(change(1, "7_0"), "line 1 is \"7_0\", and the file has another name");
        for (line, text) in [
            (2, "x"),
            (2, "18446744073709551615"),
            (3, "-1"),
            (4, "1.5"),
            (5, ""),
            (6, "+0"),
            (2, "1448978609 # created"),
        ] {
            assert!(change(line, text).starts_with(&format!("line {line} is not ")), "{line}");
        }
        assert_eq!(change(6, "1"), "line 6 says 1 fails, and the id says 0");
        assert_eq!([change(7, ""), change(7, " ")], ["line 7: the command is empty"; 2]);
        assert_eq!(change(7, "a\0b"), "line 7: the command has a NUL byte");
        assert!(change(7, &"x".repeat(CMD_BYTES_MAX + 1)).contains("131072 bytes"));
        for (text, lines) in
            [("", 0), ("x", 1), (&NEW[..40], 3), (&format!("{NEW}w\n"), 8), (&format!("{NEW}{RAN}\n"), 11)]
        {
            assert_eq!(read(id(), text), Err(InvalidTask::Lines(lines)), "{text}");
        }
    }

    /// Three runs for max_fails 3: `_0` and `_1` are repeated, `_2` has failed by count.
    #[test]
    fn a_failure_counts_before_time_and_max_fails_are_runs() {
        let task = |fails, max_fails| Task {
            id: ListTaskId { nanos: 1, fails },
            created: 1,
            until: 100,
            expected_duration: 0,
            max_fails,
            cmd: "false".to_owned(),
        };
        let again = |fails| Fate::Again(Box::new(task(fails, 3)));
        assert_eq!([judge(&task(0, 3), 100), judge(&task(1, 3), 1)], [again(1), again(2)]);
        assert_eq!(
            [judge(&task(2, 3), 1), judge(&task(2, 3), 101), judge(&task(9, 3), 1)],
            [Fate::Count, Fate::Count, Fate::Count]
        );
        assert_eq!([judge(&task(0, 3), 101), judge(&task(1, 3), 999)], [Fate::Time, Fate::Time]);
        assert_eq!([judge(&task(0, 0), 1), judge(&task(0, 1), 1)], [Fate::Count, Fate::Count], "one run");
    }
}
