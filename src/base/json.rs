//! Text to flat JSON objects and back.
//!
//! It has its own serde visitor, because untrusted input must be refused where `serde_json::Value` is lenient: that
//! silently keeps the last of two equal names, and builds nested values that may take 31 times the memory of their
//! text.

mod list;
mod numbers;
mod slices;
mod writer;

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

pub use list::List;
pub use numbers::{beyond_64_bits, may_be_rounded};
pub use slices::{has_member, member, members_where, text_of, value_of};
pub use writer::ObjectWriter;

use list::ListValue;

use super::code::{Code, Refusal, shown};
use super::words;
use crate::{Fields, Scalar, StepContext};

/// Maximum bytes of `__STDIN__`: what fits into a pipe. Longer input belongs in a file that the command opens.
pub const STDIN_BYTES_MAX: usize = 64 * 1024;

/// The limits of a message (configuration: `MESSAGE_BYTES_MAX`, `FIELDS_MAX`, `FIELD_NAME_BYTES_MAX`,
/// `FIELD_VALUE_BYTES_MAX`).
#[derive(Clone, Copy, Debug)]
pub struct FieldLimits {
    /// Maximum bytes of a message.
    pub message_bytes: usize,
    /// Maximum fields of an object.
    pub fields: usize,
    /// Maximum bytes of a field's name.
    pub name_bytes: usize,
    /// Maximum bytes of a field's text, except those of a command.
    pub value_bytes: usize,
    /// Maximum bytes of `__COMMAND__`, `__SHELL__`, `__ENV__` and `__INPUT__` each: `COMMAND_BYTES_MAX`.
    pub command_bytes: usize,
}

impl FieldLimits {
    /// For text from our own controller, which has already checked it.
    pub const TRUSTED: Self =
        Self { message_bytes: MAX, fields: MAX, name_bytes: MAX, value_bytes: MAX, command_bytes: MAX };

    /// The maximum bytes of a field's text, the configuration key that sets it, and the code for a longer text.
    pub fn of_text(&self, name: &str) -> (usize, &'static str, Code) {
        match name {
            words::COMMAND | words::SHELL | words::ENV | words::INPUT | words::INPUT_HEX => {
                (self.command_bytes, "COMMAND_BYTES_MAX", Code::LimitReached)
            }
            // The parser of the document has a limit of its own.
            words::GRAPH => (self.message_bytes, "GRAPH_BYTES_MAX", Code::LimitReached),
            words::STDIN => (STDIN_BYTES_MAX, "a fixed limit", Code::LimitReached),
            words::PROVIDED => (StepContext::PROVIDED_BYTES_MAX, "a fixed limit", Code::LimitReached),
            _ => (self.value_bytes, "FIELD_VALUE_BYTES_MAX", Code::BadField),
        }
    }
}

const MAX: usize = usize::MAX;

/// Fields of a typical message. Growing a list step by step costs more than the rest of the parsing.
const FIELDS_EXPECTED: usize = 16;

/// A refused text, with the fields that could be read, so that the answer can refer to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// The code and the message of the refusal.
    pub refusal: Refusal,
    /// The valid fields.
    pub fields: Fields,
}

impl From<Refusal> for Rejected {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, fields: Fields::new() }
    }
}

/// Parses a flat object.
///
/// # Errors
/// -1001 when the text is not a JSON object or contains a name twice; -1007 when a field contains an object, an array, an
/// integer beyond 64 bits, or too many bytes; -1008 when there are too many fields or bytes in total.
pub fn parse(text: &[u8], limits: &FieldLimits) -> Result<Fields, Rejected> {
    parse_object(text, limits, None)
}

/// As [`parse`], but one field may be a list of flat objects.
pub fn parse_with_list(text: &[u8], limits: &FieldLimits, list: &mut List) -> Result<Fields, Rejected> {
    parse_object(text, limits, Some(list))
}

fn parse_object(text: &[u8], limits: &FieldLimits, mut list: Option<&mut List>) -> Result<Fields, Rejected> {
    if text.len() > limits.message_bytes {
        let (bytes, max) = (text.len(), limits.message_bytes);
        let message = format!("the message has {bytes} bytes; at most {max} are accepted (MESSAGE_BYTES_MAX)");
        return Err(Refusal::new(Code::LimitReached, message).into());
    }
    let mut refusal = None;
    let mut reader = serde_json::Deserializer::from_slice(text);
    let fields = reader
        .deserialize_any(FlatObject { limits, refusal: &mut refusal, list: list.as_deref_mut() })
        .and_then(|fields| reader.end().map(|()| fields))
        .map_err(|error| Refusal::new(Code::NotJson, format!("the message is not a flat JSON object: {error}")))?;
    let items = list.iter().flat_map(|list| list.items.iter().flatten());
    if std::iter::once(&fields).chain(items).flat_map(Fields::iter).any(|(_, value)| may_be_rounded(value))
        && let Some((name, digits)) = beyond_64_bits(text)
    {
        let message = format!("field {} contains {}", shown(name), beyond(digits));
        refusal.get_or_insert(Refusal::new(Code::BadField, message));
    }
    match refusal {
        Some(refusal) => Err(Rejected { refusal, fields }),
        None => Ok(fields),
    }
}

/// The end of a sentence about an integer that needs more than 64 bits.
pub fn beyond(digits: &str) -> String {
    format!("{}, which needs more than 64 bits; send it as a text", shown(digits).replace('"', ""))
}

/// Parses one value that is not nested.
///
/// # Errors
/// A sentence about the value.
pub fn scalar(text: &str) -> Result<Scalar, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = OneValue.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match value.map_err(|error| format!("the value is not JSON: {error}"))? {
        Value::Nested(_) => Err("the value is nested, but the fields of tasks are flat".to_owned()),
        Value::Scalar(value) => match beyond_64_bits(text.as_bytes()) {
            Some((_, digits)) if may_be_rounded(&value) => Err(format!("the value is {}", beyond(digits))),
            _ => Ok(value),
        },
    }
}

/// Reads the whole object even when a field is refused, so that a text that is not JSON is -1001 whatever precedes the
/// error.
struct FlatObject<'a> {
    limits: &'a FieldLimits,
    refusal: &'a mut Option<Refusal>,
    /// The field that may be a list.
    list: Option<&'a mut List>,
}

impl FlatObject<'_> {
    fn refuse(&mut self, code: Code, message: String) {
        self.refusal.get_or_insert(Refusal::new(code, message));
    }

    fn check(&mut self, name: &str, value: Value) -> Option<Scalar> {
        let (max, key, code) = self.limits.of_text(name);
        let (code, flaw) = match value {
            Value::Scalar(Scalar::Text(text)) if text.len() > max => {
                (code, format!("has {} bytes; at most {max} are accepted ({key})", text.len()))
            }
            Value::Scalar(scalar) => return Some(scalar),
            Value::Nested(what) => {
                (Code::BadField, format!("contains {what}; send a flat object, with texts for nested values"))
            }
        };
        self.refuse(code, format!("field {} {flaw}", shown(name)));
        None
    }
}

impl<'de> Visitor<'de> for FlatObject<'_> {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::with_capacity(FIELDS_EXPECTED.min(self.limits.fields));
        while let Some(name) = map.next_key::<String>()? {
            if fields.get(&name).is_some() {
                return Err(A::Error::custom(format_args!("field {} occurs twice", shown(&name))));
            }
            let value = match &mut self.list {
                Some(list) if list.is_named(&name) && list.len.is_none() => {
                    let Some(value) = map.next_value_seed(ListValue { list, limits: self.limits })? else { continue };
                    value
                }
                Some(list) if list.is_named(&name) => {
                    return Err(A::Error::custom(format_args!("field {} occurs twice", shown(&name))));
                }
                Some(_) | None => map.next_value_seed(OneValue)?,
            };
            if name.len() > self.limits.name_bytes {
                let max = self.limits.name_bytes;
                let message =
                    format!("the field name {} is longer than {max} bytes (FIELD_NAME_BYTES_MAX)", shown(&name));
                self.refuse(Code::BadField, message);
            } else if fields.len() == self.limits.fields {
                let max = self.limits.fields;
                self.refuse(Code::LimitReached, format!("the message has more than {max} fields (FIELDS_MAX)"));
            } else if let Some(scalar) = self.check(&name, value) {
                fields.push(name, scalar);
            }
        }
        Ok(fields)
    }
}

enum Value {
    Scalar(Scalar),
    Nested(&'static str),
}

struct OneValue;

impl<'de> DeserializeSeed<'de> for OneValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OneValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Scalar(Scalar::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Scalar(Scalar::Bool(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Scalar(Scalar::Number(value.into())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Scalar(Scalar::Number(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Scalar(Scalar::from(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Scalar(Scalar::Text(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Scalar(Scalar::Text(value)))
    }

    // Nested values use this same visitor, because its depth is bounded and that of `IgnoredAny` is not.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        while seq.next_element_seed(Self)?.is_some() {}
        Ok(Value::Nested("an array"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value_seed(Self)?;
        }
        Ok(Value::Nested("an object"))
    }
}

/// The members of an object without its braces, for [`ObjectWriter::members`].
#[must_use]
pub fn members(fields: &Fields) -> String {
    let mut out = Vec::with_capacity(fields.len() * 32);
    let mut writer = ObjectWriter::of_members(&mut out);
    for (name, value) in fields.iter() {
        writer.scalar(name, value);
    }
    // All of it comes from `str` and `Display`, so it is UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// A whole flat object as text.
#[must_use]
pub fn to_vec(fields: &Fields) -> Vec<u8> {
    format!("{{{}}}", members(fields)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FieldLimits =
        FieldLimits { message_bytes: 4096, fields: 4, name_bytes: 8, value_bytes: 16, command_bytes: 32 };

    fn code(text: &[u8]) -> Option<i32> {
        parse(text, &LIMITS).err().map(|rejected| rejected.refusal.code.number())
    }

    /// docs/design/hazards.md, W1.
    #[test]
    fn what_is_not_a_json_object_is_refused() {
        let deep = [b"{\"a\":".as_slice(), &[b'['; 200], &[b']'; 200], b"}"].concat();
        for text in [
            b"".as_slice(),
            b"x",
            b"[]",
            b"null",
            b"\"\"",
            b"text",
            b"{} {}",
            b"{}x",
            b"\xef\xbb\xbf{}",
            b"{\"a\":\"\xff\"}",
            b"{\"a\":\"\0\"}",
            b"{\"a\":\"\\ud800\"}",
            b"{\"a\":1e400}",
            b"{\"a\":}",
            b"{\"a\":1,}",
            b"{a:1}",
            &deep,
        ] {
            assert_eq!(code(text), Some(-1001), "{:?}", String::from_utf8_lossy(text));
        }
    }

    /// docs/design/hazards.md, W2.
    #[test]
    fn a_name_twice_is_refused() {
        assert_eq!(code(br#"{"a":1,"a":2}"#), Some(-1001));
        assert_eq!(code(br#"{"a_b":1,"a\u005fb":2}"#), Some(-1001));
    }

    /// docs/design/hazards.md, W4.
    #[test]
    fn nested_values_and_excess_are_refused() {
        assert_eq!(code(br#"{"a":{}}"#), Some(-1007));
        assert_eq!(code(br#"{"a":[1]}"#), Some(-1007));
        assert_eq!(code(br#"{"a":[1}"#), Some(-1001));
        assert_eq!(code(br#"{"a":123456789012345678901234567890}"#), Some(-1007));
        assert_eq!(code(br#"{"a":1,"b":1,"c":1,"d":1,"e":1}"#), Some(-1008));
        assert_eq!(code(br#"{"123456789":1}"#), Some(-1007));
        assert_eq!(code(br#"{"a":"12345678901234567"}"#), Some(-1007));
        assert_eq!(code(&[b' '; 4097]), Some(-1008));
    }

    /// The answer to a refused request still has its type.
    #[test]
    fn what_is_not_to_blame_is_read() {
        let rejected = parse(br#"{"a":[1],"b":"x","c":{}}"#, &LIMITS).unwrap_err();
        assert_eq!(rejected.fields, Fields::new().with("b", "x"));
    }

    #[test]
    fn numbers_keep_their_value() {
        let limits = FieldLimits { fields: 8, ..LIMITS };
        for text in [
            r#""a":18446744073709551615,"b":-9223372036854775808,"c":0.1,"d":9589.205976918347"#,
            r#""a":1e+22,"b":1.23e+47,"c":5e-324,"d":1.7976931348623157e+308,"e":9223372036854775808,"f":-1e+19"#,
        ] {
            let fields = parse(format!("{{{text}}}").as_bytes(), &limits).unwrap();
            assert_eq!(members(&fields), text);
        }
        assert_eq!(members(&parse(br#"{"a":1E22}"#, &limits).unwrap()), r#""a":1e+22"#);
    }

    /// Every double that a client can write as its shortest text comes back.
    #[test]
    fn doubles_are_read_exactly() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let double = f64::from_bits(bits);
            if double.is_finite() {
                let fields = parse(format!("{{\"a\":{double:e}}}").as_bytes(), &LIMITS).unwrap();
                assert_eq!(fields.get("a").and_then(Scalar::as_f64).map(f64::to_bits), Some(bits), "{double:e}");
            }
        }
    }

    #[test]
    fn an_integer_beyond_64_bits_is_refused_with_the_digits_that_were_sent() {
        for digits in ["18446744073709551616", "-9223372036854775809", "123456789012345678901234567890"] {
            let said = parse(format!("{{\"b\":1e22,\"n\":{digits}}}").as_bytes(), &LIMITS).unwrap_err().refusal;
            assert_eq!(said.code, Code::BadField);
            assert!(said.message.contains(digits) && said.message.contains("field \"n\""), "{said}");
            let mut list = List::named("l", 3);
            let text = format!("{{\"l\":[{{\"n\":{digits}}}]}}");
            let said = parse_with_list(text.as_bytes(), &LIMITS, &mut list).unwrap_err().refusal;
            assert!(said.message.contains(digits), "{said}");
            assert!(scalar(digits).unwrap_err().contains(digits));
        }
        assert_eq!(scalar("1E22"), Ok(Scalar::from(1e22)));
    }

    /// A key or a text with quotes, commas and colons in it must not look like another member.
    #[test]
    fn a_member_is_found_only_as_a_whole() {
        let fields = Fields::new().with("a", "x,").with(":1,y", 5u32).with("q", "\",\"k\":1,\"");
        let text = members(&fields);
        for (name, value) in fields.iter() {
            assert!(has_member(&text, &members(&Fields::new().with(name, value.clone()))), "{name}");
        }
        assert!(!has_member(&text, &members(&Fields::new().with(",", 1u32))));
        assert!(!has_member(&text, &members(&Fields::new().with("k", 1u32))));
        assert!(!has_member("", "\"a\":1"));
    }
}
