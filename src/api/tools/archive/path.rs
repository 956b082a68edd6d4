//! Paths and links in an archive: where they may lead. Pure.

use super::error::shown;
use super::{ArchiveError, Limits};

/// Longest name on Linux file systems.
const NAME_BYTES_MAX: usize = 255;

/// A relative path without `.`, `..`, empty names and NUL: it cannot leave its base folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InnerPath {
    bytes: Vec<u8>,
}

impl InnerPath {
    /// Checks and normalises a path: `./a//b/` becomes `a/b`. The folder itself becomes the empty path.
    pub(super) fn new(raw: &[u8], limits: &Limits) -> Result<Self, ArchiveError> {
        if raw.len() as u64 > limits.path_bytes {
            return Err(ArchiveError::PathBytes { path: shown(raw), bytes: raw.len(), limit: limits.path_bytes });
        }
        if raw.is_empty() {
            return Err(ArchiveError::path(raw, "is empty"));
        }
        if raw.contains(&0) {
            return Err(ArchiveError::path(raw, "contains a NUL byte"));
        }
        if raw[0] == b'/' {
            return Err(ArchiveError::path(raw, "is absolute"));
        }
        let names: Vec<&[u8]> = names(raw).collect();
        if names.contains(&b"..".as_slice()) {
            return Err(ArchiveError::path(raw, "holds .."));
        }
        if names.iter().any(|name| name.len() > NAME_BYTES_MAX) {
            return Err(ArchiveError::path(raw, "contains a name longer than 255 bytes"));
        }
        if names.len() as u64 > limits.depth {
            return Err(ArchiveError::Depth { path: shown(raw), depth: names.len(), limit: limits.depth });
        }
        Ok(Self { bytes: names.join(&b'/') })
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) const fn is_root(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Number of names.
    pub(super) fn depth(&self) -> usize {
        names(&self.bytes).count()
    }

    /// The parent folder and the last name. Must not be called for the root, which has no name.
    pub(super) fn split(&self) -> (&[u8], &[u8]) {
        match self.bytes.iter().rposition(|&byte| byte == b'/') {
            Some(at) => (&self.bytes[..at], &self.bytes[at + 1..]),
            None => (&[], &self.bytes),
        }
    }

    /// The first name.
    pub(super) fn top(&self) -> &[u8] {
        names(&self.bytes).next().unwrap_or_default()
    }
}

/// The names of a path, without empty ones and `.`.
pub(super) fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !matches!(name, [] | [b'.']))
}

/// Refuses a symbolic link that could lead out of the tool's folder. `depth` is the depth of the link's own folder in it.
///
/// `..` is allowed only at the beginning of the target: there it climbs real folders, so counting is exact. After a name it
/// would climb from wherever another link led. A target of leading `..` and names stays inside, by induction over the
/// links.
pub(super) fn check_symlink(path: &[u8], target: &[u8], depth: usize, limits: &Limits) -> Result<(), ArchiveError> {
    let refuse = |why| Err(ArchiveError::link(path, target, why));
    if target.len() as u64 > limits.path_bytes {
        return Err(ArchiveError::PathBytes { path: shown(target), bytes: target.len(), limit: limits.path_bytes });
    }
    if target.is_empty() || target.contains(&0) {
        return refuse("has no usable target");
    }
    if target[0] == b'/' {
        return refuse("is absolute");
    }
    if names(target).any(|name| name.len() > NAME_BYTES_MAX) {
        return refuse("contains a name longer than 255 bytes");
    }
    let climbs = names(target).take_while(|name| *name == b"..").count();
    if climbs > depth {
        return refuse("leaves the tool's folder");
    }
    if names(target).skip(climbs).any(|name| name == b"..") {
        return refuse("has a .. after a name");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::limits;
    use super::*;

    fn inner(raw: &[u8]) -> Result<String, String> {
        InnerPath::new(raw, &limits()).map(|p| shown(p.as_bytes())).map_err(|e| e.to_string())
    }

    #[test]
    fn paths_are_tidied_or_refused() {
        assert_eq!(inner(b"./a//b/"), Ok("a/b".into()));
        assert_eq!(inner(b"./"), Ok(String::new()));
        assert_eq!(inner(b"a/..b/c.."), Ok("a/..b/c..".into()));
        for (raw, text) in [
            (b"".as_slice(), "is empty"),
            (b"/etc/x", "absolute"),
            (b"//x", "absolute"),
            (b"..", ".."),
            (b"a/../b", ".."),
            (b"a/..", ".."),
            (b"a\0b", "NUL"),
            (&[b'n'; 256], "255"),
            (&[b'/'; 2000].map(|_| b'a'), "1024 are allowed"),
            (b"1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/24/25/26/27/28/29/30/31/32/33", "33 names"),
        ] {
            let error = inner(raw).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_symlink_stays_in_the_folder() {
        let check = |target: &[u8], depth| check_symlink(b"l", target, depth, &limits()).is_ok();
        for (target, depth) in [(b"x".as_slice(), 0), (b"./x/y", 0), (b"../x", 1), (b"../..", 2), (b".", 0)] {
            assert!(check(target, depth), "{}", shown(target));
        }
        for (target, depth) in
            [(b"".as_slice(), 3), (b"/x", 3), (b"..", 0), (b"../../x", 1), (b"./../x", 0), (b"x/../y", 3), (b"x\0", 0)]
        {
            assert!(!check(target, depth), "{}", shown(target));
        }
    }
}
