//! Reads replies. They should come from a controller, but any program may listen on the port, so their content is not trusted.

use serde_json::{Map, Value};

use base::code::{Code, shown};
use base::json::FieldLimits;
use base::{Fields, Scalar, is_harmful, json, words};

/// Why a reply contains no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The controller refused the request.
    #[error("{message} ({code})")]
    Refused {
        /// The `__CODE__` of the refusal.
        code: i64,
        /// The message of the controller.
        message: String,
    },
    /// A controller does not send this.
    #[error("{0}")]
    Malformed(String),
}

impl ReplyError {
    /// Whether a field of the request had a value that does not apply.
    #[must_use]
    pub fn is_bad_field(&self) -> bool {
        self.is(Code::BadField)
    }

    /// Whether the request exceeded a limit, so that a later one may succeed.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        self.is(Code::LimitReached)
    }

    /// Whether the controller is stopping, so that the next one may accept the request.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.is(Code::Stopping)
    }

    /// Whether the present state of the service does not allow the request.
    #[must_use]
    pub fn is_not_allowed(&self) -> bool {
        self.is(Code::NotAllowed)
    }

    /// Whether the request named a task that the controller does not know.
    #[must_use]
    pub fn is_no_such_task(&self) -> bool {
        self.is(Code::InvalidTaskId)
    }

    /// Whether the request named no tool, or one that no agent has.
    #[must_use]
    pub fn is_bad_operation(&self) -> bool {
        self.is(Code::BadOperation)
    }

    fn is(&self, reason: Code) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == i64::from(reason.number()))
    }
}

/// Reads a flat reply, and removes its type and its code.
///
/// # Errors
/// When the request was refused, or the frame is not a reply.
pub fn decode(frame: &[u8]) -> Result<Fields, ReplyError> {
    let malformed =
        |reason: &str| ReplyError::Malformed(format!("{reason}: {}", shown(&String::from_utf8_lossy(frame))));
    let mut fields =
        json::parse(frame, &FieldLimits::TRUSTED).map_err(|rejected| malformed(&rejected.refusal.message))?;
    let code = fields.remove(words::CODE).and_then(|code| code.as_i64());
    let code = code.ok_or_else(|| malformed("the reply has no code"))?;
    fields.remove(words::TYPE);
    if code == 0 {
        return Ok(fields);
    }
    let message = fields.get(words::ERROR_MSG).and_then(Scalar::as_text).unwrap_or("the request was refused");
    Err(ReplyError::Refused { code, message: one_line(message) })
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing<T> {
    /// The number of entries of the whole list.
    pub total: u64,
    /// The entries of this page.
    pub rows: Vec<T>,
}

/// Reads a reply with one object per row.
///
/// # Errors
/// When the request was refused, or the frame is not such a reply.
pub fn decode_listing<T: From<Fields>>(frame: &[u8]) -> Result<Listing<T>, ReplyError> {
    let (head, rows) = decode_parts(frame)?;
    let total = head.get(words::TOTAL).and_then(Scalar::as_u64);
    let total = total.ok_or_else(|| ReplyError::Malformed("the reply has no total".to_owned()))?;
    Ok(Listing { total, rows: rows.into_iter().map(|(_, row)| T::from(row)).collect() })
}

/// Reads a reply with a head and an object per row, each with its name.
///
/// # Errors
/// When the request was refused, or the frame is not such a reply.
pub(in crate::wire) fn decode_parts(frame: &[u8]) -> Result<(Fields, Vec<(String, Fields)>), ReplyError> {
    let malformed = |reason: &str| ReplyError::Malformed(reason.to_owned());
    let members: Map<String, Value> = serde_json::from_slice(frame)
        .map_err(|error| ReplyError::Malformed(format!("the reply is not a JSON object: {error}")))?;
    let (rows, head): (Vec<_>, Vec<_>) = members.into_iter().partition(|(_, value)| value.is_object());
    let head = flat(head).ok_or_else(|| malformed("the reply has a nested head"))?;
    let head = decode(&json::to_vec(&head))?;
    let row = |(name, value)| match value {
        Value::Object(members) => flat(members).map(|fields| (name, fields)),
        _ => None,
    };
    let rows: Option<Vec<_>> = rows.into_iter().map(row).collect();
    Ok((head, rows.ok_or_else(|| malformed("a row of the reply is not flat"))?))
}

/// The members of an object as fields; `None` if a value is nested.
pub(in crate::wire) fn flat(members: impl IntoIterator<Item = (String, Value)>) -> Option<Fields> {
    let mut fields = Fields::new();
    for (name, value) in members {
        let value = match value {
            Value::Null => Scalar::Null,
            Value::Bool(value) => Scalar::Bool(value),
            Value::Number(number) => Scalar::Number(number),
            Value::String(text) => Scalar::Text(text),
            Value::Array(_) | Value::Object(_) => return None,
        };
        fields.set(&name, value);
    }
    Some(fields)
}

/// A sentence for a terminal, in one line, because control characters of an untrusted peer could rewrite the screen.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_harmful(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(frame: &[u8]) -> ReplyError {
        decode(frame).unwrap_err()
    }

    #[test]
    fn a_reply_loses_its_head() {
        let fields = decode(br#"{"__TYPE__":"TASK/KILL","__CODE__":0,"a":1}"#).unwrap();
        assert_eq!(fields, Fields::new().with("a", 1u32));
    }

    #[test]
    fn a_refusal_is_told_apart_from_nonsense() {
        let error = refused(br#"{"__CODE__":-1004,"__ERROR_MSG__":"no task\u001b[2J"}"#);
        assert_eq!(error.to_string(), "no task [2J (-1004)");
        assert!(error.is_no_such_task());
        assert!(!refused(br#"{"__CODE__":-1007}"#).is_no_such_task());
        for frame in [b"".as_slice(), b"{}", b"[]", b"\xff", br#"{"__CODE__":"0"}"#, br#"{"__CODE__":0,"a":{}}"#] {
            assert!(matches!(refused(frame), ReplyError::Malformed(_)), "{:?}", String::from_utf8_lossy(frame));
        }
    }

    #[test]
    fn a_listing_has_a_row_per_object_in_their_order() {
        let frame = br#"{"__TYPE__":"TASK/DETAILS","__CODE__":0,"__TOTAL__":7,"b":{"x":"1"},"a":{"x":"2"}}"#;
        let listing: Listing<Fields> = decode_listing(frame).unwrap();
        assert_eq!(listing.total, 7);
        assert_eq!(listing.rows, [Fields::new().with("x", "1"), Fields::new().with("x", "2")]);
    }

    #[test]
    fn a_listing_that_is_none_is_refused() {
        for frame in [
            b"x".as_slice(),
            br#"{"__CODE__":0}"#,
            br#"{"__CODE__":0,"__TOTAL__":1,"a":{"b":[]}}"#,
            br#"{"__CODE__":0,"__TOTAL__":1,"a":[]}"#,
        ] {
            let result: Result<Listing<Fields>, _> = decode_listing(frame);
            assert!(matches!(result, Err(ReplyError::Malformed(_))), "{:?}", String::from_utf8_lossy(frame));
        }
        let result: Result<Listing<Fields>, _> = decode_listing(br#"{"__CODE__":-1009,"__ERROR_MSG__":"stopping"}"#);
        assert_eq!(result, Err(ReplyError::Refused { code: -1009, message: "stopping".into() }));
    }
}
