//! A YAML mapping as JSON, for front matter: a text of a few kilobytes by a stranger. Nesting is bounded, and aliases, which
//! make a short text very long, are refused.

use serde_json::{Map, Value};
use yaml_rust2::Yaml;
use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::scanner::TScalarStyle;

/// Lists and mappings within one another.
const DEPTH_MAX: usize = 16;

/// A list or a mapping that has not ended.
enum Open {
    List(Vec<Value>),
    /// With the key whose value comes next.
    Mapping(Map<String, Value>, Option<String>),
}

impl Open {
    /// Adds a value, or the key of the next one. `None` for a key that is no scalar, or stands twice.
    fn add(&mut self, value: Value) -> Option<()> {
        match self {
            Self::List(values) => values.push(value),
            Self::Mapping(fields, key) => match key.take() {
                Some(name) => fields.insert(name, value).map_or(Some(()), |_| None)?,
                None => *key = Some(name_of(value)?),
            },
        }
        Some(())
    }
}

/// The mapping that `text` is. `None` if it is something else, or is not valid.
pub(super) fn mapping(text: &str) -> Option<Map<String, Value>> {
    // Each call reads one event, so that no nesting is too deep for the stack.
    let mut parser = Parser::new_from_str(text);
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    loop {
        let value = match parser.next_token().ok()?.0 {
            Event::StreamEnd => break,
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                None
            }
            Event::MappingStart(..) => {
                open.push(Open::Mapping(Map::new(), None));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => Some(match open.pop()? {
                Open::List(values) => Value::Array(values),
                Open::Mapping(fields, _) => Value::Object(fields),
            }),
            Event::Scalar(text, style, ..) => Some(scalar(text, style)?),
            Event::Alias(_) => return None,
            Event::Nothing | Event::StreamStart | Event::DocumentStart | Event::DocumentEnd => None,
        };
        if open.len() > DEPTH_MAX {
            return None;
        }
        match (value, open.last_mut()) {
            (Some(value), Some(outer)) => outer.add(value)?,
            // A second document has a second root.
            (Some(value), None) => root.replace(value).map_or(Some(()), |_| None)?,
            (None, _) => {}
        }
    }
    match root? {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

fn scalar(text: String, style: TScalarStyle) -> Option<Value> {
    if style != TScalarStyle::Plain {
        return Some(text.into());
    }
    Some(match Yaml::from_str(&text) {
        Yaml::Integer(number) => number.into(),
        number @ Yaml::Real(_) => serde_json::Number::from_f64(number.as_f64()?)?.into(),
        Yaml::Boolean(value) => value.into(),
        Yaml::Null => Value::Null,
        _ => text.into(),
    })
}

fn name_of(value: Value) -> Option<String> {
    match value {
        Value::String(name) => Some(name),
        Value::Array(_) | Value::Object(_) => None,
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_becomes_json() {
        let text = "a: 1\nb: [x, 'y', {c: ~}]\n\"d\": |\n  two\n  lines\n5: 1.5\ne: \"7\"\nf: true\n";
        let expected = r#"{"a":1,"b":["x","y",{"c":null}],"d":"two\nlines\n","5":1.5,"e":"7","f":true}"#;
        assert_eq!(serde_json::to_string(&mapping(text)).unwrap(), expected);
    }

    #[test]
    fn anything_else_is_none() {
        let deep = format!("a: {}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        let deeper = format!("a: {}", "[".repeat(8000));
        for text in
            ["", "a", "[a]", "a: 1\na: 2", "a: &x 1\nb: *x", "a: .inf", "[a]: 1", "a: 1\n---\nb: 1", &deep, &deeper]
        {
            assert_eq!(mapping(text), None, "{text:.40}");
        }
    }
}
