//! The frames around a request: a REQ socket adds them, and the REP side must return them (RFC 28).

use serde::{Deserialize, Serialize};

use base::code::{Code, Refusal};

/// The frames that are returned unchanged before a reply: routing ids and the empty delimiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyTo(Vec<Vec<u8>>);

impl ReplyTo {
    /// The envelope of a request that did not arrive by ZMTP. Its door gets this frame back.
    #[must_use]
    pub fn of(frame: Vec<u8>) -> Self {
        Self(vec![frame])
    }

    /// The frame that identifies the peer at the controller's ROUTER.
    #[must_use]
    pub fn peer(&self) -> &[u8] {
        self.0.first().map_or(&[], Vec::as_slice)
    }

    /// The frames of a reply with this body.
    #[must_use]
    pub fn frames(self, body: Vec<u8>) -> Vec<Vec<u8>> {
        let mut frames = self.0;
        frames.push(body);
        frames
    }
}

/// One message as a ROUTER received it.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A request: one frame after the delimiter.
    Request(ReplyTo, Vec<u8>),
    /// A request that can be answered but not read: it has several frames after the delimiter, or one that is too long.
    Refused(ReplyTo, Refusal),
    /// A message that cannot be answered.
    Drop,
}

/// Splits a message at its first empty frame. The first frame is the routing id that the controller's ROUTER added. The
/// transport limits the number of frames after it.
#[must_use]
pub fn open(mut frames: Vec<Vec<u8>>) -> Received {
    let Some(delimiter) = frames.iter().skip(1).position(Vec::is_empty).map(|at| at + 1) else {
        return Received::Drop;
    };
    let mut body = frames.split_off(delimiter + 1);
    let reply_to = ReplyTo(frames);
    match (body.pop(), body.is_empty()) {
        (None, _) => Received::Drop,
        (Some(body), true) => Received::Request(reply_to, body),
        (Some(_), false) => {
            let message = "the message has more than one frame; send one JSON object";
            Received::Refused(reply_to, Refusal::new(Code::NotJson, message))
        }
    }
}

/// The envelope of a message whose last frame is missing because it was too long.
#[must_use]
pub fn open_envelope(frames: Vec<Vec<u8>>, too_long: TooLong) -> Received {
    match frames.last() {
        Some(delimiter) if frames.len() > 1 && delimiter.is_empty() => {
            Received::Refused(ReplyTo(frames), too_long.refusal())
        }
        _ => Received::Drop,
    }
}

/// The kinds of messages that may be longer than others.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum LongKind {
    /// A submit of one or several tasks: `SUBMIT_BYTES_MAX`.
    Submit,
    /// A submit of a graph: `GRAPH_BYTES_MAX`.
    Graph,
    /// A report of an agent, whose run may provide many locations.
    Report,
    /// Any other message.
    None,
    /// There are too few bytes to tell.
    Unknown,
}

/// A message beyond its limit, of which only the envelope was kept.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct TooLong {
    /// Its length in bytes, as announced.
    pub bytes: u64,
    /// Its limit in bytes.
    pub max: usize,
    /// Its kind, which determines the limit.
    pub kind: LongKind,
}

impl TooLong {
    /// A message of no long kind.
    #[must_use]
    pub const fn message(bytes: u64, max: usize) -> Self {
        Self { bytes, max, kind: LongKind::None }
    }

    /// The answer to it.
    #[must_use]
    pub fn refusal(self) -> Refusal {
        let Self { bytes, max, kind } = self;
        let key = match kind {
            LongKind::Submit => "SUBMIT_BYTES_MAX",
            LongKind::Graph => "GRAPH_BYTES_MAX",
            LongKind::Report => "a fixed limit for reports",
            LongKind::None | LongKind::Unknown => {
                "MESSAGE_BYTES_MAX; a submit may be longer if its text begins with {\"__TYPE__\":\"TASK/SUBMIT"
            }
        };
        let message = format!("the message has {bytes} bytes; at most {max} are accepted ({key})");
        Refusal::new(Code::LimitReached, message)
    }
}

/// The first bytes of long messages. Their senders put the type first. A blank after the colon is allowed.
const LONG: [(&str, LongKind); 8] = [
    (r#"{"__TYPE__":"TASK/SUBMIT""#, LongKind::Submit),
    (r#"{"__TYPE__": "TASK/SUBMIT""#, LongKind::Submit),
    (r#"{"__TYPE__":"TASK/SUBMIT_MANY""#, LongKind::Submit),
    (r#"{"__TYPE__": "TASK/SUBMIT_MANY""#, LongKind::Submit),
    (r#"{"__TYPE__":"GRAPH/SUBMIT""#, LongKind::Graph),
    (r#"{"__TYPE__": "GRAPH/SUBMIT""#, LongKind::Graph),
    (r#"{"__TYPE__":"TASK/INTERNAL/REPORT""#, LongKind::Report),
    (r#"{"__TYPE__": "TASK/INTERNAL/REPORT""#, LongKind::Report),
];

/// The kind of a message that begins like this.
#[must_use]
pub fn long_kind(start: &[u8]) -> LongKind {
    if let Some((_, kind)) = LONG.iter().find(|(head, _)| start.starts_with(head.as_bytes())) {
        return *kind;
    }
    let may_become = LONG.iter().any(|(head, _)| head.as_bytes().starts_with(start));
    if may_become { LongKind::Unknown } else { LongKind::None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_that_say_so_first_may_be_long() {
        for (start, kind) in [
            (r#"{"__TYPE__":"TASK/SUBMIT","#, LongKind::Submit),
            (r#"{"__TYPE__": "TASK/SUBMIT_MANY","#, LongKind::Submit),
            (r#"{"__TYPE__":"GRAPH/SUBMIT","#, LongKind::Graph),
            (r#"{"__TYPE__": "GRAPH/SUBMIT","#, LongKind::Graph),
            (r#"{"__TYPE__":"TASK/INTERNAL/REPORT","#, LongKind::Report),
            (r#"{"__TYPE__":"TASK/INTERNAL/APPLY","#, LongKind::None),
            (r#"{"__TYPE__":"TASK/SUBMIT"#, LongKind::Unknown),
            ("", LongKind::Unknown),
            (r#"{"__TYPE__":"TASK/SUBMITS","#, LongKind::None),
            (r#"{"__TYPE__":"GRAPH/KILL","#, LongKind::None),
            (r#"{"a":1,"__TYPE__":"TASK/SUBMIT"#, LongKind::None),
            (r#" {"__TYPE__":"TASK/SUBMIT","#, LongKind::None),
        ] {
            assert_eq!(long_kind(start.as_bytes()), kind, "{start}");
        }
    }

    fn frames(parts: &[&str]) -> Vec<Vec<u8>> {
        parts.iter().map(|part| part.as_bytes().to_vec()).collect()
    }

    /// docs/design/hazards.md, W5.
    #[test]
    fn the_envelope_goes_back_as_it_came() {
        let Received::Request(reply_to, body) = open(frames(&["id", "hop", "", "{}"])) else { panic!() };
        assert_eq!(body, b"{}");
        assert_eq!(reply_to.frames(b"r".to_vec()), frames(&["id", "hop", "", "r"]));
    }

    #[test]
    fn what_has_no_delimiter_or_no_data_is_dropped() {
        for parts in [&["id"][..], &["id", "{}"], &["id", ""], &["id", "a", "b"]] {
            assert_eq!(open(frames(parts)), Received::Drop, "{parts:?}");
        }
    }

    #[test]
    fn extra_frames_can_be_answered() {
        for parts in [["id", "", "", ""], ["id", "", "a", "b"]] {
            let Received::Refused(to, refusal) = open(frames(&parts)) else { panic!("{parts:?}") };
            assert_eq!((to, refusal.code), (ReplyTo(frames(&["id", ""])), Code::NotJson));
        }
        let too_long = TooLong::message(300_000, 262_144);
        let Received::Refused(to, refusal) = open_envelope(frames(&["id", "hop", ""]), too_long) else { panic!() };
        assert_eq!((to, refusal.code), (ReplyTo(frames(&["id", "hop", ""])), Code::LimitReached));
        assert!(refusal.message.contains("300000 bytes; at most 262144 are accepted (MESSAGE_BYTES_MAX"), "{refusal}");
        assert_eq!(open_envelope(frames(&["id"]), too_long), Received::Drop, "it has no envelope");
    }

    /// An empty body is a request that is not JSON, but a REQ peer waits for its answer.
    #[test]
    fn an_empty_body_is_a_request() {
        assert_eq!(open(frames(&["id", "", ""])), Received::Request(ReplyTo(frames(&["id", ""])), vec![]));
    }
}
