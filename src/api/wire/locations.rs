//! Locations by port, as the text of one field: a JSON object of arrays of texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{PortName, Provided, StepContext, checked_location};

/// The text of these locations.
pub(super) fn to_text<L: AsRef<[Arc<str>]>>(locations: &BTreeMap<PortName, L>) -> String {
    let ports: BTreeMap<&str, Vec<&str>> = locations
        .iter()
        .map(|(port, list)| (port.as_str(), list.as_ref().iter().map(|text| &**text).collect()))
        .collect();
    // Texts always become JSON.
    serde_json::to_string(&ports).unwrap_or_default()
}

/// The locations in such a text; `None` if it is not one.
pub(super) fn read(text: &str) -> Option<Provided> {
    let ports: BTreeMap<String, Vec<String>> = serde_json::from_str(text).ok()?;
    let checked = |list: Vec<String>| list.iter().map(|text| checked_location(text).ok()).collect::<Option<_>>();
    ports.into_iter().map(|(port, list)| Some((PortName::new(&port).ok()?, checked(list)?))).collect()
}

/// The locations that a run provides.
pub(super) fn read_provided(text: &str) -> Option<Provided> {
    read(text).filter(|provided| provided.values().map(Vec::len).sum::<usize>() <= StepContext::PROVIDED_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_read_back_in_their_order() {
        let port = |name| PortName::new(name).unwrap();
        let provided: Provided =
            [(port("a"), vec!["b\"\\".into(), "".into(), "a".into()]), (port("empty"), vec![])].into();
        assert_eq!(to_text(&provided), r#"{"a":["b\"\\","","a"],"empty":[]}"#);
        assert_eq!(read(&to_text(&provided)), Some(provided));
    }

    #[test]
    fn what_is_not_a_list_of_locations_is_refused() {
        for text in
            ["", "[]", "{", r#"{"a":"b"}"#, r#"{"a":[1]}"#, r#"{"a":["b\n"]}"#, r#"{"a b":[]}"#, r#"{"__a":[]}"#]
        {
            assert_eq!(read(text), None, "{text}");
        }
        let many = |count| format!(r#"{{"a":[{}]}}"#, vec![r#""""#; count].join(","));
        assert!(read_provided(&many(StepContext::PROVIDED_MAX)).is_some());
        assert_eq!(read_provided(&many(StepContext::PROVIDED_MAX + 1)), None);
    }
}
