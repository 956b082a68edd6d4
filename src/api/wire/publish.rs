//! The messages of the PUB port (docs/reference/wire.md). Each message is one frame; subscribers select messages by their first
//! bytes.

use super::client::TaskView;
use super::requests::kill::TASK_KILL;
use super::task;
use base::json::{FieldLimits, ObjectWriter};
use base::words::kind;
use base::{Round, TaskId, TaskRecord, json, words};

/// One published message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Published {
    /// A task waits, and no agent was parked.
    Inform,
    /// The agent with this round of this task must end it. A later round may follow, and may overtake this message.
    Kill(TaskId, Round),
    /// The agent with this round of this task of a step must tell it to finish early.
    Finish(TaskId, Round),
}

/// Writes a message.
#[must_use]
pub fn encode(message: &Published) -> Vec<u8> {
    let mut out = Vec::with_capacity(96);
    let writer = match message {
        Published::Inform => ObjectWriter::typed(&mut out, kind::TASK_INFORM),
        Published::Kill(task, round) | Published::Finish(task, round) => {
            let is_kill = matches!(message, Published::Kill(..));
            let kind = if is_kill { TASK_KILL.word } else { kind::TASK_FINISH };
            let mut writer = ObjectWriter::typed(&mut out, kind);
            writer.text(words::TASK_ID, &task.to_string());
            writer.literal(words::ROUND, round);
            writer
        }
    };
    writer.end();
    out
}

/// Writes the state of a task, for pushes and publications.
#[must_use]
pub fn encode_status(record: &TaskRecord) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let mut writer = ObjectWriter::typed(&mut out, kind::TASK_STATUS);
    task::write(record, &mut writer);
    writer.end();
    out
}

/// Reads the state of a task; `None` for any other message.
#[must_use]
pub fn read_status(frame: &[u8]) -> Option<TaskView> {
    let fields = json::parse(frame, &FieldLimits::TRUSTED).ok()?;
    (fields.text(words::TYPE)? == kind::TASK_STATUS).then(|| TaskView::from(fields))
}

/// Reads a message for agents; `None` for any other.
#[must_use]
pub fn decode(frame: &[u8]) -> Option<Published> {
    let fields = json::parse(frame, &FieldLimits::TRUSTED).ok()?;
    let run = || {
        let round = u32::try_from(fields.count(words::ROUND)?).ok()?;
        Some((fields.text(words::TASK_ID)?.parse().ok()?, Round(round)))
    };
    match fields.text(words::TYPE)? {
        kind::TASK_INFORM => Some(Published::Inform),
        kind::TASK_FINISH => run().map(|(task, round)| Published::Finish(task, round)),
        kind if kind == TASK_KILL.word => run().map(|(task, round)| Published::Kill(task, round)),
        _ => None,
    }
}

/// Reads the confirmation of a push by its receiver: the task, and the `__SEQ__` of the push.
#[must_use]
pub fn decode_acknowledgement(frame: &[u8]) -> Option<(TaskId, u32)> {
    // The largest valid message has two short texts and a number.
    const LIMITS: FieldLimits =
        FieldLimits { message_bytes: 4096, fields: 32, name_bytes: 128, value_bytes: 1024, command_bytes: 1024 };
    let fields = json::parse(frame, &LIMITS).ok()?;
    (fields.text(words::TYPE)? == kind::TASK_STATUS_ACK).then_some(())?;
    Some((fields.text(words::TASK_ID)?.parse().ok()?, u32::try_from(fields.count(words::SEQ)?).ok()?))
}

/// The first bytes of all messages of a kind, for a subscription.
#[must_use]
pub fn prefix(kind: &str) -> String {
    format!("{{\"{}\":\"{kind}\"", words::TYPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_reads_back() {
        let task = "TASK_1480000000.120000_AZazA".parse().unwrap();
        let orders = [Published::Kill(task, Round(3)), Published::Finish(task, Round(4))];
        for message in [Published::Inform].into_iter().chain(orders) {
            assert_eq!(decode(&encode(&message)), Some(message));
        }
        assert!(encode(&Published::Kill(task, Round(0))).starts_with(prefix(TASK_KILL.word).as_bytes()));
        assert_eq!(decode(b"garbage"), None);
    }
}
