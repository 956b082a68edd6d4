//! The known key or other name that a mistyped one probably means.

/// Only this many characters of a name are compared, so that a hostile file cannot make the comparison slow.
const COMPARED_CHARS_MAX: usize = 64;

/// The element of `known` that `name` probably means, never `name` itself. The shortest one that begins with `name`
/// wins, else the one with the fewest edits, at most a third of its characters; of equals, the first. Case is ignored.
/// A key with a table is also compared without the table, so that a key in the wrong table is found.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (whole, own) = (compared(name), compared(leaf(name)));
    let ranked = known.into_iter().filter(|candidate| *candidate != name).filter_map(|candidate| {
        let (candidate_whole, candidate_own) = (compared(candidate), compared(leaf(candidate)));
        let ranks = [rank(&whole, &candidate_whole), rank(&own, &candidate_own)];
        let best = ranks.into_iter().flatten().min()?;
        Some(((best, strsim::osa_distance(&whole, &candidate_whole)), candidate))
    });
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, candidate)| candidate)
}

/// The end of a sentence that says that `name` is unknown: the name that was probably meant, or nothing.
pub fn nearest_hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map(|nearest| format!("; the nearest is {nearest}")).unwrap_or_default()
}

/// A key without its table.
pub fn leaf(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// The rank of a candidate for a name, the best first; `None` if it is a different word.
fn rank(name: &str, candidate: &str) -> Option<(bool, usize)> {
    if name.is_empty() || candidate.is_empty() {
        return None;
    }
    if candidate.starts_with(name) {
        return Some((false, candidate.len()));
    }
    let [shorter, longer] = {
        let mut lengths = [name, candidate].map(|text| text.chars().count());
        lengths.sort_unstable();
        lengths
    };
    let distance = strsim::osa_distance(name, candidate);
    // Two one-letter names have nothing in common.
    (distance <= (longer / 3).max(1) && distance < shorter).then_some((true, distance))
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

    #[test]
    fn a_prefix_comes_first_and_another_word_is_no_near_name() {
        let tools = ["rep", "help", "helloworld", "helloworld2"];
        assert_eq!(nearest("hello", tools), Some("helloworld"));
        assert_eq!(nearest("helloword", tools), Some("helloworld"));
        assert_eq!(nearest("hlep", tools), Some("help"), "two letters that have changed places are one edit");
        assert_eq!([nearest("x", ["y"]), nearest("convert", tools), nearest("", tools)], [None; 3]);
        assert_eq!(nearest_hint("hello", tools), "; the nearest is helloworld");
        assert_eq!(nearest_hint("convert", tools), "");
    }
}
