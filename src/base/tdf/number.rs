//! Numbers as texts in a task's hash: what Python's `float` and `int` accept, and what `repr` writes.

/// Parses what `float` accepts, except `nan`, which cannot be compared with anything. A number that is too large
/// becomes infinite, as in Python.
#[must_use]
pub fn float(text: &str) -> Option<f64> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.eq_ignore_ascii_case("inf") || digits.eq_ignore_ascii_case("infinity") {
        return Some(sign * f64::INFINITY);
    }
    // `parse` alone would accept further names and a second sign.
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    digits.parse::<f64>().ok().filter(|_| is_number).map(|number| sign * number)
}

/// Parses what `int` accepts. A number beyond 64 bits becomes the largest or smallest one: it is only compared with
/// counters.
#[must_use]
pub fn int(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let largest = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    Some(text.parse().unwrap_or(largest))
}

/// The shortest decimal that reads back as the same number, with a point and without an exponent.
#[must_use]
pub fn repr(number: f64) -> String {
    let text = number.to_string();
    if text.contains('.') || !number.is_finite() { text } else { format!("{text}.0") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_is_what_python_reads_but_for_nan() {
        for (text, expected) in [
            ("0", 0.0),
            (" 12.5\n", 12.5),
            ("-1", -1.0),
            ("+.5", 0.5),
            ("1e3", 1000.0),
            ("5.", 5.0),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("1e400", f64::INFINITY),
            ("1795312915.493763", 1_795_312_915.493_763),
        ] {
            assert_eq!(float(text), Some(expected), "{text:?}");
        }
        for text in ["", " ", "nan", "x", "1,5", "--1", "+-1", "0x10", "1_000", "1e", ".", "e5", "infin"] {
            assert_eq!(float(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_int_is_what_python_reads_and_never_overflows() {
        assert_eq!(["0", " 7 ", "-1", "+3", "007"].map(int), [Some(0), Some(7), Some(-1), Some(3), Some(7)]);
        assert_eq!(int(&"9".repeat(30)), Some(i64::MAX));
        assert_eq!(int(&format!("-{}", "9".repeat(30))), Some(i64::MIN));
        for text in ["", "1.5", "inf", "1e3", "0x1", "+", "--1", "1 2"] {
            assert_eq!(int(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_written_number_has_a_point_and_no_exponent() {
        for (number, text) in [
            (0.0, "0.0"),
            (60.0, "60.0"),
            (12.5, "12.5"),
            (1_795_312_915.493_763, "1795312915.493763"),
            (1e17, "100000000000000000.0"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(repr(number), text);
        }
    }
}
