//! Parsing of the answers of scripts. `None` for an answer that no script gives.

use redis::Value;

use crate::wire::facts::Row;

pub(super) fn list(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

pub(super) fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        Value::Okay => Some(b"OK".to_vec()),
        Value::Int(number) => Some(number.to_string().into_bytes()),
        _ => None,
    }
}

pub(super) fn text(value: Value) -> Option<String> {
    bytes(value).and_then(|bytes| String::from_utf8(bytes).ok())
}

pub(super) fn parsed<T: std::str::FromStr>(value: Value) -> Option<T> {
    text(value)?.parse().ok()
}

/// A list of texts of which some may be missing.
pub(super) fn row(value: Value) -> Option<Row> {
    Some(list(value)?.into_iter().map(bytes).collect())
}

/// A list of texts.
pub(super) fn texts(value: Value) -> Option<Vec<String>> {
    list(value)?.into_iter().map(text).collect()
}
