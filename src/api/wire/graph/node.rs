//! The text of a document as a tree of values: JSON if its first character that is not blank is `{`, else TOML.
//!
//! A key that stands twice in a table is refused here, because JSON readers do not do that by themselves. The number of values is
//! bounded, because a value takes up to 30 times the memory of its text. The TOML reader takes up to 140 times the memory of the
//! text before the first value can be counted, so the text is bounded, too ([`base::GraphLimits::toml_bytes_max`]).

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use base::code::{Code, Refusal, shown};
use base::{Scalar, json};

/// One value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Scalar(Scalar),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
}

impl Node {
    /// The value or its kind, for a sentence.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Scalar(scalar) => shown(&scalar.to_string()),
            Self::List(_) => "a list".to_owned(),
            Self::Table(_) => "a table".to_owned(),
        }
    }
}

/// The name under which the TOML reader passes a date.
const TOML_DATE: &str = "$__toml_private_datetime";

/// Whether a text is read as JSON.
pub(super) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Reads a text of at most `values_max` values.
///
/// # Errors
/// -1007 when it is neither JSON nor TOML, has a key twice, or is no table; -1008 when it has too many values.
pub(super) fn read(text: &str, values_max: usize) -> Result<Node, Refusal> {
    let (mut left, mut may_be_rounded) = (values_max, false);
    let budget = Budget { left: &mut left, may_be_rounded: &mut may_be_rounded };
    let (format, read) = if is_json(text) {
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = budget.deserialize(&mut reader).and_then(|node| reader.end().map(|()| node));
        let read = read.map_err(|error| error.to_string());
        match may_be_rounded.then(|| json::beyond_64_bits(text.as_bytes())).flatten() {
            Some((name, digits)) => ("JSON", read.and(Err(format!("{} is {}", shown(name), json::beyond(digits))))),
            None => ("JSON", read),
        }
    } else {
        let read = toml::Deserializer::parse(text).and_then(|reader| budget.deserialize(reader));
        ("TOML", read.map_err(|error| with_line(text, &error)))
    };
    read.map_err(|why| {
        if left == 0 {
            let message = format!("the graph has more than {values_max} values; split it into several graphs");
            return Refusal::new(Code::LimitReached, message);
        }
        Refusal::new(Code::BadField, format!("the graph is not valid {format}: {why}"))
    })
}

/// The message of an error in TOML, in the form of those in JSON: one line, with the place.
fn with_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().trim_end().replace('\n', ", ");
    let Some(span) = error.span() else { return message };
    let before = &text.as_bytes()[..span.start.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    format!("{message} at line {line}")
}

/// The number of values that may still be read, and whether one of those that were read may be an integer beyond 64 bits.
struct Budget<'a> {
    left: &'a mut usize,
    may_be_rounded: &'a mut bool,
}

impl Budget<'_> {
    fn again(&mut self) -> Budget<'_> {
        Budget { left: self.left, may_be_rounded: self.may_be_rounded }
    }
}

impl<'de> DeserializeSeed<'de> for Budget<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        *self.left = self.left.checked_sub(1).ok_or_else(|| D::Error::custom("too many values"))?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Budget<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Scalar::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(Scalar::Bool(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(Scalar::Number(value.into())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(Scalar::Number(value.into())))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        let number = Scalar::from(value);
        *self.may_be_rounded |= json::may_be_rounded(&number);
        match number {
            Scalar::Null => Err(E::custom(format_args!("{value} is no number of JSON; write it as a text"))),
            number => Ok(Node::Scalar(number)),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(Scalar::Text(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Scalar(Scalar::Text(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.again())? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Node, A::Error> {
        let (mut members, mut names) = (Vec::new(), HashSet::new());
        while let Some(name) = map.next_key::<String>()? {
            if name == TOML_DATE {
                return map.next_value::<String>().map(|date| Node::Scalar(Scalar::Text(date)));
            }
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("the key {} stands twice in one table", shown(&name))));
            }
            let value = map.next_value_seed(self.again())?;
            members.push((name, value));
        }
        Ok(Node::Table(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        read(text, 20).unwrap_err().to_string()
    }

    #[test]
    fn both_formats_are_the_same_tree() {
        let json = read(r#" {"a": {"b": [1, "x", true, 0.5]}, "c": "d"}"#, 20).unwrap();
        let toml = read("c = 'd'\n[a]\nb = [1, 'x', true, 0.5]", 20).unwrap();
        let sorted = |node| match node {
            Node::Table(mut members) => {
                members.sort_by(|one, other| one.0.cmp(&other.0));
                members
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(sorted(json), sorted(toml));
        let date = read("a = 2026-01-31", 20).unwrap();
        assert_eq!(date, Node::Table(vec![("a".into(), Node::Scalar(Scalar::Text("2026-01-31".into())))]));
    }

    #[test]
    fn errors_are_one_line_with_their_place() {
        let json = refused("{\"a\": 1,\n\"a\": 2}");
        let twice = "the graph is not valid JSON: the key \"a\" stands twice in one table at line 2";
        assert!(json.starts_with(twice) && json.ends_with("(-1007)"), "{json}");
        let toml = refused("a = 1\n\na = 2");
        assert!(
            toml.starts_with("the graph is not valid TOML: duplicate key") && toml.ends_with("line 3 (-1007)"),
            "{toml}"
        );
        for text in ["{", "{} {}", "a", "a = nan", "a = 1\nb", "{\"a\": 123456789012345678901234567890}"] {
            let sentence = refused(text);
            assert!(sentence.ends_with("(-1007)") && !sentence.contains('\n'), "{sentence}");
        }
    }

    #[test]
    fn numbers_keep_their_value() {
        let numbers = |text: &str| match read(text, 20).unwrap() {
            Node::Table(members) => members.iter().map(|(_, node)| node.shown()).collect::<Vec<_>>().join(" "),
            other => panic!("{other:?}"),
        };
        let expected = "\"9589.205976918347\" \"1e+22\" \"-9223372036854775808\"";
        assert_eq!(numbers(r#"{"a": 9589.205976918347, "b": 1E22, "c": -9223372036854775808}"#), expected);
        assert_eq!(numbers("a = 9589.205976918347\nb = 1E22\nc = -9223372036854775808"), expected);
        for digits in ["18446744073709551616", "-9223372036854775809"] {
            for text in [format!("{{\"b\": 1e22, \"n\": {digits}}}"), format!("b = 1e22\nn = {digits}")] {
                assert!(refused(&text).contains(digits), "{}", refused(&text));
            }
        }
    }

    #[test]
    fn values_are_counted_in_both_formats() {
        for text in [format!("{{\"a\": [{}0]}}", "0,".repeat(30)), format!("a = [{}0]", "0,".repeat(30))] {
            assert!(refused(&text).ends_with("(-1008)"), "{text}");
        }
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(200), "]".repeat(200));
        assert!(read(&deep, 1000).unwrap_err().to_string().ends_with("(-1007)"));
    }
}
