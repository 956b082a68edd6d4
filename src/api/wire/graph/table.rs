//! A table of a document. Its keys are checked first, then taken one by one.

use super::node::Node;
use base::code::{Code, Refusal, shown};
use base::{Fields, Scalar, StepName, nearest_hint};

/// The part of a document that a sentence is about.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Graph,
    Step(StepName),
}

/// The refusal of something in this place.
pub(super) fn bad(place: &Place, what: impl std::fmt::Display) -> Refusal {
    let message = match place {
        Place::Graph => format!("the graph: {what}"),
        Place::Step(name) => format!("step {name}: {what}"),
    };
    Refusal::new(Code::BadField, message)
}

/// A table of the document.
pub(super) struct Table {
    pub(super) place: Place,
    members: Vec<(String, Node)>,
}

impl Table {
    /// A table with some of these keys. An unknown key is refused before a missing one, because a mistyped key causes both.
    pub(super) fn of(place: Place, node: Node, known: &[&str]) -> Result<Self, Refusal> {
        let members = match node {
            Node::Table(members) => members,
            other => return Err(bad(&place, format_args!("is {}; it must be a table of keys", other.shown()))),
        };
        if let Some((unknown, _)) = members.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            let hint = nearest_hint(unknown, known.iter().copied());
            return Err(bad(&place, format_args!("{} is not a known key{hint}", shown(unknown))));
        }
        Ok(Self { place, members })
    }

    /// The value of a key.
    pub(super) fn take(&mut self, key: &str) -> Option<Node> {
        let at = self.members.iter().position(|(name, _)| name == key)?;
        Some(self.members.swap_remove(at).1)
    }

    /// The refusal of the value of a key.
    pub(super) fn bad(&self, key: &str, found: &Node, wanted: impl std::fmt::Display) -> Refusal {
        bad(&self.place, format_args!("{key} is {}; it must be {wanted}", found.shown()))
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, Refusal> {
        match self.take(key) {
            None => Ok(None),
            Some(Node::Scalar(Scalar::Text(text))) => Ok(Some(text)),
            Some(other) => Err(self.bad(key, &other, "a text")),
        }
    }

    /// The members of a table within this one.
    pub(super) fn members(&self, key: &str, node: Node) -> Result<Vec<(String, Node)>, Refusal> {
        match node {
            Node::Table(members) => Ok(members),
            other => Err(self.bad(key, &other, "a table")),
        }
    }

    /// The fields of a flat table within this one.
    pub(super) fn fields(&mut self, key: &str) -> Result<Fields, Refusal> {
        let mut fields = Fields::new();
        let Some(node) = self.take(key) else { return Ok(fields) };
        for (name, value) in self.members(key, node)? {
            match value {
                // The reader of the text has refused names that stand twice.
                Node::Scalar(scalar) => fields.push(name, scalar),
                other => {
                    return Err(self.bad(
                        &format!("{key}: {}", shown(&name)),
                        &other,
                        "a text, a number or true or false",
                    ));
                }
            }
        }
        Ok(fields)
    }
}
