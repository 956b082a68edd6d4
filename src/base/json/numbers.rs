//! Integers beyond 64 bits. The parser returns them as the nearest double, so they are searched for in the original text.

use crate::Scalar;

/// Whether a parsed number may stem from an integer beyond 64 bits. It may also be a genuine double.
pub fn may_be_rounded(value: &Scalar) -> bool {
    // The smallest magnitude of such a double: that of the negative integers.
    const ROUNDED_MIN: f64 = 9_223_372_036_854_775_808.0;
    let Scalar::Number(number) = value else { return false };
    number.is_f64() && number.as_f64().is_some_and(|value| value.abs() >= ROUNDED_MIN && value.fract() == 0.0)
}

/// The first integer in a JSON text that 64 bits cannot hold, and the name before it, both as written there.
pub fn beyond_64_bits(json: &[u8]) -> Option<(&str, &str)> {
    let (mut at, mut name) = (0, "");
    while at < json.len() {
        let rest = &json[at..];
        match rest[0] {
            b'"' => {
                let end = end_of_text(rest);
                if rest[end..].trim_ascii_start().first() == Some(&b':') {
                    name = rest.get(1..end - 1).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
                }
                at += end;
            }
            b'-' | b'0'..=b'9' => {
                let end = rest.iter().position(|byte| !b"+-.0123456789Ee".contains(byte)).unwrap_or(rest.len());
                let number = std::str::from_utf8(&rest[..end]).unwrap_or_default();
                let is_whole = !number.contains(['.', 'e', 'E']);
                if is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                    return Some((name, number));
                }
                at += end;
            }
            _ => at += 1,
        }
    }
    None
}

/// The end of the string that begins here, after its closing quote.
fn end_of_text(json: &[u8]) -> usize {
    let mut at = 1;
    while at < json.len() {
        match json[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_integer_beyond_64_bits_is_found_with_its_name() {
        for (json, found) in [
            (r#"{"a":18446744073709551616}"#, Some(("a", "18446744073709551616"))),
            (r#"{"a":1e22,"b\"c" : [1, {"d": -9223372036854775809}]}"#, Some(("d", "-9223372036854775809"))),
            (r#"{"b\"c" :99999999999999999999}"#, Some((r#"b\"c"#, "99999999999999999999"))),
            (r#"{"a":18446744073709551615,"b":-9223372036854775808,"c":1E22,"d":123e45,"e":1.0}"#, None),
            (r#"{"a":"99999999999999999999","99999999999999999999":"\\"}"#, None),
        ] {
            assert_eq!(beyond_64_bits(json.as_bytes()), found, "{json}");
        }
    }

    /// Only valid JSON is searched, but no text makes it fail.
    #[test]
    fn no_text_is_too_broken() {
        for json in ["\"", "{\"", "{\"a\\", "-", "{\"a\":-", "\"\\\"", "\u{e9}"] {
            let _ = beyond_64_bits(json.as_bytes());
        }
    }
}
