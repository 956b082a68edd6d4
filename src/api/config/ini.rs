//! INI files as the RawConfigParser of Python 2.7 reads them: no interpolation, names of keys in any case, continued lines, and a
//! comment in a line only after ` ;`.

use std::collections::BTreeMap;

/// The section whose keys are defaults for all other sections.
const DEFAULT: &str = "DEFAULT";

/// A value and the line on which its key stands, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) line: usize,
}

/// One section: its keys, in small letters, and their values.
pub(super) type Section = BTreeMap<String, Value>;

/// A file that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ini {
    pub(super) sections: BTreeMap<String, Section>,
    /// Lines that other readers of such files would understand differently, each with a sentence.
    pub(super) warnings: Vec<(usize, String)>,
}

/// A line that does not belong in an INI file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    pub(super) line: usize,
    pub(super) message: &'static str,
}

/// The section and the key to which the next line may belong.
#[derive(Default)]
struct Place {
    /// `None` before the first header.
    section: Option<String>,
    /// The key that an indented line continues.
    key: Option<String>,
}

impl Ini {
    /// Reads a whole file.
    pub(super) fn parse(text: &str) -> Result<Self, BadLine> {
        let mut ini = Self::default();
        let mut place = Place::default();
        // The line ends of Windows are stripped with the blanks at the end of each value.
        for (at, line) in text.strip_prefix('\u{feff}').unwrap_or(text).split('\n').enumerate() {
            ini.read_line(at + 1, line.trim_end_matches('\r'), &mut place)
                .map_err(|message| BadLine { line: at + 1, message })?;
        }
        let defaults = ini.sections.remove(DEFAULT).unwrap_or_default();
        for section in ini.sections.values_mut() {
            for (key, value) in &defaults {
                section.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        Ok(ini)
    }

    fn read_line(&mut self, number: usize, line: &str, place: &mut Place) -> Result<(), &'static str> {
        if line.trim().is_empty() || line.starts_with(['#', ';']) || is_remark(line) {
            return Ok(());
        }
        if line.starts_with(char::is_whitespace)
            && let (Some(section), Some(key)) = (&place.section, &place.key)
        {
            if let Some(value) = self.sections.get_mut(section).and_then(|section| section.get_mut(key)) {
                value.text.push('\n');
                value.text.push_str(line.trim());
            }
            return Ok(());
        }
        if let Some((name, _)) =
            line.strip_prefix('[').and_then(|rest| rest.split_once(']')).filter(|(n, _)| !n.is_empty())
        {
            self.sections.entry(name.to_owned()).or_default();
            *place = Place { section: Some(name.to_owned()), key: None };
            return Ok(());
        }
        let Some(section) = &place.section else { return Err("a key stands before the first [section]") };
        let split = line.find(['=', ':']).filter(|at| *at > 0 && !line.starts_with(char::is_whitespace));
        let Some(at) = split else { return Err("it is neither a [section] nor key = value") };
        let key = line[..at].trim_end().to_lowercase();
        let (value, is_cut) = without_comment(line[at + 1..].trim_start());
        if is_cut {
            let message = format!("the value of {key} ends before its \" ;\", as Python 2.7 reads it");
            self.warnings.push((number, message));
        }
        let text = if value == "\"\"" { String::new() } else { value.to_owned() };
        if let Some(section) = self.sections.get_mut(section) {
            section.insert(key.clone(), Value { text, line: number });
        }
        place.key = Some(key);
        Ok(())
    }
}

/// Whether the line begins with the word `rem`, which begins a comment as `#` does.
fn is_remark(line: &str) -> bool {
    line.starts_with(['r', 'R']) && line.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("rem"))
}

/// The value before its comment, and whether a comment was cut off. Only the first `;` counts, and only after a blank. For a `;`
/// at the very beginning, Python looks at the end of the line instead: a blank there counts.
fn without_comment(value: &str) -> (&str, bool) {
    let Some(at) = value.find(';') else { return (value.trim(), false) };
    let before = if at == 0 { value.chars().next_back() } else { value[..at].chars().next_back() };
    if before.is_some_and(char::is_whitespace) { (value[..at].trim(), true) } else { (value.trim(), false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> String {
        Ini::parse(text).unwrap().sections["s"]["k"].text.clone()
    }

    #[test]
    fn keys_are_in_any_case_and_values_as_they_are() {
        for (line, expected) in [
            ("k=v", "v"),
            ("K = v ", "v"),
            ("k : v", "v"),
            ("k:v=w", "v=w"),
            ("k = a:b#c%d e", "a:b#c%d e"),
            ("k=", ""),
            ("k=\"\"", ""),
            ("k=\"x\"", "\"x\""),
            ("k = a;b", "a;b"),
            ("k = a ;b", "a"),
            ("k = a;b ;c", "a;b ;c"),
            ("k = ;b", ";b"),
            ("k = ;b ", ""),
            ("k=v\r", "v"),
            ("k = a\n  b\n\n\tc", "a\nb\nc"),
            ("k = a\n # no comment", "a\n# no comment"),
            ("k = a\nREM k = b\n# k = c\n;k = d", "a"),
            ("k = a\nk = b", "b"),
            ("remark = 1\nk = a", "a"),
        ] {
            assert_eq!(value(&format!("[s]\n{line}")), expected, "{line:?}");
        }
    }

    #[test]
    fn a_value_that_ends_before_its_semicolon_is_told() {
        let ini = Ini::parse("[s]\nk = a;b\nl = a ; b").unwrap();
        assert_eq!(ini.warnings.len(), 1);
        assert_eq!(ini.warnings[0].0, 3);
    }

    #[test]
    fn sections_go_on_and_share_defaults() {
        let ini = Ini::parse("[DEFAULT]\na=1\nb=1\n[s] x\nb=2\n[t]\n[s]\nc=3").unwrap();
        let section = |name: &str| -> Vec<(String, String)> {
            ini.sections[name].iter().map(|(key, value)| (key.clone(), value.text.clone())).collect()
        };
        assert_eq!(section("s"), [("a", "1"), ("b", "2"), ("c", "3")].map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert_eq!(section("t").len(), 2);
        assert!(!ini.sections.contains_key("DEFAULT"));
    }

    #[test]
    fn a_line_that_is_nothing_is_named() {
        for (text, line) in [("k=v", 1), ("[s]\nk", 2), ("[s]\n=v", 2), ("[s]\n  k=v", 2), ("[]\n", 1), ("\n[s", 2)] {
            assert_eq!(Ini::parse(text).unwrap_err().line, line, "{text:?}");
        }
    }
}
