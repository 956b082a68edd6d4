//! The fields of a tar header: numbers, checksum, PAX records. Stricter than most readers, so that no two can disagree.

use tar::Header;

/// A numeric field: octal digits surrounded by spaces or NULs, or base-256 with its first bit set. Blank is zero.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    if let [0x80, rest @ ..] = field {
        let (high, low) = rest.split_at(rest.len().saturating_sub(8));
        return high.iter().all(|&byte| byte == 0).then(|| low.iter().fold(0, |n, &byte| n << 8 | u64::from(byte)));
    }
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    let digits = field[..end].trim_ascii();
    digits.iter().try_fold(0u64, |n, &byte| match byte {
        b'0'..=b'7' => n.checked_mul(8)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// Whether the checksum in the header is correct.
pub(super) fn checksum_matches(header: &Header) -> bool {
    let field = 148..156;
    let sum: u64 = header
        .as_bytes()
        .iter()
        .enumerate()
        .map(|(at, &byte)| if field.contains(&at) { 32 } else { u64::from(byte) })
        .sum();
    number(&header.as_old().cksum) == Some(sum)
}

/// The relevant records of a PAX header.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
}

/// Reads `<length> <key>=<value>\n` records. The length is authoritative, not the newline: a value may contain newlines.
///
/// # Errors
/// The rest of the sentence "the header …".
pub(super) fn pax(mut data: &[u8]) -> Result<Pax, &'static str> {
    let mut pax = Pax::default();
    while !data.is_empty() {
        let (key, value, rest) = record(data).ok_or("has a malformed PAX record")?;
        data = rest;
        let twice = match key {
            b"path" => pax.path.replace(value.to_vec()).is_some(),
            b"linkpath" => pax.link.replace(value.to_vec()).is_some(),
            b"size" => {
                let text = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
                let size = text.and_then(|text| text.parse().ok()).ok_or("has a PAX size that is not a number")?;
                pax.size.replace(size).is_some()
            }
            _ if key.starts_with(b"GNU.sparse.") => return Err("describes a sparse file"),
            _ => false,
        };
        if twice {
            return Err("has the same PAX record twice");
        }
    }
    Ok(pax)
}

fn record(data: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = data.iter().position(|&byte| byte == b' ')?;
    let length = std::str::from_utf8(&data[..space]).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    let length: usize = length.parse().ok()?;
    let body = data.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|&byte| byte == b'=')?;
    Some((&body[..equals], &body[equals + 1..], &data[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_base_256_and_nothing_else() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"  644 \0\0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0\0\0\0\0"), Some(0));
        assert_eq!(number(b"77777777777\0"), Some(0o77_777_777_777));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1]), Some((2 << 32) + 1));
        for bad in [b"+644\0".as_slice(), b"0x1", b"9", b"-1", &[0xff; 12], &[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn pax_records_go_by_their_length() {
        let read = pax(b"16 path=a\n9 b=c\n15 size=000007\n10 x=abcd\n");
        assert_eq!(read, Ok(Pax { path: Some(b"a\n9 b=c".to_vec()), link: None, size: Some(7) }));
        for (bad, why) in [
            (b"9 path=a".as_slice(), "malformed"),
            (b"99 path=a\n", "malformed"),
            (b"0 path=a\n", "malformed"),
            (b" path=a\n", "malformed"),
            (b"+9 path=a\n", "malformed"),
            (b"9 path:a\n", "malformed"),
            (b"18446744073709551616 path=a\n", "malformed"),
            (b"13 size=0x1f\n", "not a number"),
            (b"9 path=a\n9 path=b\n", "twice"),
            (b"23 GNU.sparse.size=100\n", "sparse"),
        ] {
            let text = pax(bad).unwrap_err();
            assert!(text.contains(why), "{}: {text}", String::from_utf8_lossy(bad));
        }
    }
}
