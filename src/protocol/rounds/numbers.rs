//! Numbers of one to ten bytes, the lower seven bits first.

/// Appends a number.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends the difference of two numbers, of which either may be the larger.
pub(super) fn put_difference(out: &mut Vec<u8>, number: u64, base: u64) {
    let difference = number.wrapping_sub(base).cast_signed();
    put(out, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
}

/// Takes a number from the beginning of the bytes; `None` if they have none.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Takes a number that was put as the difference to another one.
pub(super) fn take_difference(bytes: &mut &[u8], base: u64) -> Option<u64> {
    let found = take(bytes)?;
    Some(base.wrapping_add((found >> 1) ^ (found & 1).wrapping_neg()))
}
