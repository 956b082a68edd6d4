//! The tools of an agent: those that it reports in a heartbeat, and those that the controller has learned of since.
//!
//! As text, on the wire and for people, a set is a list of names separated by commas; `*` means every tool, and
//! `*,-a,-b` every tool but two. The text omits two kinds of elements: the built-in operations, and
//! [`ToolName::fetched`], which says that the agent fetches tools that it lacks from the controller.

use std::fmt;

use super::{InvalidToolName, ToolName};

/// A set of tools. The names are sorted, each once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolSet {
    /// These tools and no others.
    Only(Vec<ToolName>),
    /// Every tool except these: an agent that reports no tools is assumed to have each one until it turns out to lack it.
    AllBut(Vec<ToolName>),
}

/// The text for every tool; it is not a valid tool name.
const EVERY: &str = "*";

impl ToolSet {
    /// Every tool, but no built-in operation, and without fetching.
    #[must_use]
    pub fn every() -> Self {
        Self::AllBut(vec![ToolName::command(), ToolName::fetched(), ToolName::source()])
    }

    /// The set with commands added.
    #[must_use]
    pub fn and_commands(&self) -> Self {
        self.changed(&ToolName::command(), true)
    }

    /// The set of an agent that also fetches tools from the controller.
    #[must_use]
    pub fn and_fetched(&self) -> Self {
        self.changed(&ToolName::fetched(), true)
    }

    /// Whether the agent fetches tools from the controller.
    #[must_use]
    pub fn fetches(&self) -> bool {
        self.has(&ToolName::fetched())
    }

    /// Whether commands are in the set.
    #[must_use]
    pub fn has_commands(&self) -> bool {
        self.has(&ToolName::command())
    }

    /// The set with fetched programs added.
    #[must_use]
    pub fn and_sources(&self) -> Self {
        self.changed(&ToolName::source(), true)
    }

    /// The set with everything that an agent of this program can do without an archive: the built-in operations and
    /// fetching.
    #[must_use]
    pub fn and_built_ins(&self) -> Self {
        self.and_commands().and_sources().and_fetched()
    }

    /// Whether fetched programs are in the set.
    #[must_use]
    pub fn has_sources(&self) -> bool {
        self.has(&ToolName::source())
    }

    /// Whether an agent with this set may get text for a shell.
    #[must_use]
    pub fn has_text_for_a_shell(&self) -> bool {
        self.has_commands() || self.has_sources()
    }

    /// The set without the built-in operations.
    #[must_use]
    pub fn without_text_for_a_shell(&self) -> Self {
        self.changed(&ToolName::command(), false).changed(&ToolName::source(), false)
    }

    /// Exactly these tools, given in any order.
    #[must_use]
    pub fn only(mut names: Vec<ToolName>) -> Self {
        names.sort_unstable();
        names.dedup();
        Self::Only(names)
    }

    /// Reads a set without built-in operations from its text.
    ///
    /// # Errors
    /// When one of the names cannot name a tool.
    pub fn parse(text: &str) -> Result<Self, InvalidToolName> {
        let mut names = text.split(',').filter(|name| !name.is_empty()).peekable();
        if names.next_if_eq(&EVERY).is_none() {
            return Ok(Self::only(names.map(ToolName::new).collect::<Result<_, _>>()?));
        }
        let lacking = names.map(|name| ToolName::new(name.strip_prefix('-').unwrap_or(name)));
        let lacking: Vec<ToolName> = lacking.collect::<Result<_, _>>()?;
        Ok(lacking.iter().fold(Self::every(), |set, tool| set.changed(tool, false)))
    }

    /// Whether `tool` is in the set.
    #[must_use]
    pub fn has(&self, tool: &ToolName) -> bool {
        match self {
            Self::Only(names) => names.binary_search(tool).is_ok(),
            Self::AllBut(names) => names.binary_search(tool).is_err(),
        }
    }

    /// The set with `tool` added or removed.
    #[must_use]
    pub fn changed(&self, tool: &ToolName, has: bool) -> Self {
        let (mut names, named) = match self {
            Self::Only(names) => (names.clone(), has),
            Self::AllBut(names) => (names.clone(), !has),
        };
        match (names.binary_search(tool), named) {
            (Err(index), true) => names.insert(index, tool.clone()),
            (Ok(index), false) => drop(names.remove(index)),
            (Ok(_), true) | (Err(_), false) => {}
        }
        match self {
            Self::Only(_) => Self::Only(names),
            Self::AllBut(_) => Self::AllBut(names),
        }
    }

    /// The names in the text of the set: its members, or the missing ones.
    #[must_use]
    pub fn names(&self) -> &[ToolName] {
        match self {
            Self::Only(names) | Self::AllBut(names) => names,
        }
    }
}

impl fmt::Display for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lacking = if let Self::AllBut(_) = self { "-" } else { "" };
        let mut separator = "";
        if !lacking.is_empty() {
            f.write_str(EVERY)?;
            separator = ",";
        }
        for name in self.names().iter().filter(|name| name.is_archive()) {
            write!(f, "{separator}{lacking}{name}")?;
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> ToolName {
        ToolName::new(name).unwrap()
    }

    #[test]
    fn a_set_is_what_its_text_says() {
        for text in ["", "a", "a,b-1,c.2", "*", "*,-a,-b"] {
            assert_eq!(ToolSet::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(ToolSet::parse("b,a,b").unwrap().to_string(), "a,b");
        for text in ["a b", "a,-b", "-a", "*,../x", ":command", "*,-:command"] {
            assert!(ToolSet::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn built_in_operations_are_in_no_text() {
        for text in ["", "a", "*", "*,-a"] {
            let set = ToolSet::parse(text).unwrap();
            assert!(!set.has_commands() && set.and_commands().has_commands(), "{text:?}");
            assert!(!set.has_sources() && set.and_sources().has_sources(), "{text:?}");
            assert_eq!(set.and_sources().to_string(), text);
            assert_eq!(set.and_commands().to_string(), text);
            assert_eq!(set.and_commands().has(&tool("a")), set.has(&tool("a")), "{text:?}");
        }
    }

    #[test]
    fn a_tool_is_in_a_set_or_is_not() {
        for (text, has) in [("", false), ("a", true), ("b", false), ("*", true), ("*,-b", true), ("*,-a", false)] {
            let set = ToolSet::parse(text).unwrap();
            assert_eq!(set.has(&tool("a")), has, "{text:?}");
            for wanted in [true, false] {
                let changed = set.changed(&tool("a"), wanted);
                assert_eq!(changed.has(&tool("a")), wanted, "{text:?}");
                assert_eq!(changed.has(&tool("b")), set.has(&tool("b")), "{text:?}");
                assert_eq!(changed.changed(&tool("a"), has), set, "{text:?}");
            }
        }
    }
}
