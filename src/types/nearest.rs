//! The known key, or other name, that a mistyped one probably means.

/// Only this many characters of a name are compared, so that a hostile file cannot make the comparison slow.
const COMPARED_CHARS_MAX: usize = 64;

/// The element of `known` that takes the fewest edits to become `name`; the earliest of equals. Case is ignored. A name
/// with a table is also compared without it, which finds a key in the wrong table. Never `name` itself.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().filter(|candidate| *candidate != name).min_by_key(|candidate| {
        let whole = distance(name, candidate);
        let leaves = distance(leaf(name), leaf(candidate));
        (whole.min(leaves), whole)
    })
}

/// A key without the name of its table.
pub(crate) fn leaf(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Insertions, deletions and replacements of one character.
fn distance(a: &str, b: &str) -> usize {
    strsim::levenshtein(&compared(a), &compared(b))
}

fn compared(name: &str) -> String {
    name.chars().take(COMPARED_CHARS_MAX).map(|letter| letter.to_ascii_uppercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_found_also_across_tables_and_case() {
        let known = ["CONTROLLER_IP", "AGENT_KILL_COUNT", "task_defaults.MAX_LOSSES"];
        assert_eq!(nearest("AGENT_KIL_COUNT", known), Some("AGENT_KILL_COUNT"));
        assert_eq!(nearest("controller_ip", known), Some("CONTROLLER_IP"));
        assert_eq!(nearest("MAX_LOSES", known), Some("task_defaults.MAX_LOSSES"));
        assert_eq!(nearest("task_defaults.CONTROLLER_IP", known), Some("CONTROLLER_IP"));
        assert_eq!(nearest("X", []), None);
        assert_eq!(nearest("X", ["X"]), None);
    }
}
