//! The members of an object as slices of its canonical text, to compare them without parsing.

use std::borrow::Cow;

/// Whether `members` (as [`super::members`] writes them) has the member `wanted` (as [`super::members`] writes one).
#[must_use]
pub fn has_member(members: &str, wanted: &str) -> bool {
    // Most texts lack it, and a search shows that faster than a walk over the members.
    members.contains(wanted) && MemberSlices { rest: members }.any(|member| member == wanted)
}

/// The value of a member, as JSON. The names used here contain no colon.
#[must_use]
pub fn value_of(member: &str) -> Option<&str> {
    member.split_once(':').map(|(_, value)| value)
}

/// The text of a JSON value.
#[must_use]
pub fn text_of(value: &str) -> Cow<'_, str> {
    match value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Cow::Borrowed(plain),
        Some(_) => Cow::Owned(serde_json::from_str(value).unwrap_or_default()),
        None => Cow::Borrowed(value),
    }
}

/// The member with this name, which needs no escapes, among `members` (as [`super::members`] writes them).
#[must_use]
pub fn member<'a>(members: &'a str, name: &str) -> Option<&'a str> {
    if !members.contains(name) {
        return None;
    }
    let is_named = |member: &&str| {
        member.strip_prefix('"').and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with("\":"))
    };
    MemberSlices { rest: members }.find(is_named)
}

/// The members whose names are wanted. A name with escapes never is.
#[must_use]
pub fn members_where(members: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    let name = |member: &str| member.strip_prefix('"')?.split_once('"').map(|(name, _)| is_wanted(name));
    MemberSlices { rest: members }.filter(|member| name(member) == Some(true)).collect::<Vec<_>>().join(",")
}

/// The members of canonical text: no white space, commas only between members and inside texts.
struct MemberSlices<'a> {
    rest: &'a str,
}

impl<'a> Iterator for MemberSlices<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let (mut in_text, mut escaped) = (false, false);
        let end = self.rest.bytes().position(|byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = !in_text,
                b',' => return !in_text,
                _ => {}
            }
            false
        });
        let (member, rest) = match end {
            Some(at) => (&self.rest[..at], &self.rest[at + 1..]),
            None => (self.rest, ""),
        };
        self.rest = rest;
        Some(member)
    }
}
