//! The end of a file that an untrusted program wrote: bounded, never blocking, always valid UTF-8, never another file's
//! content.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::{Errno, Result};

/// How much of the end of a file is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailLimit {
    /// The maximum number of bytes of the text.
    pub bytes_max: usize,
    /// Whether a partial first line is dropped. It is retained if nothing else would be left: half of a long line is better
    /// than nothing.
    pub drop_partial_line: bool,
}

/// The end of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// As text.
    pub text: String,
    /// The size of the whole file in bytes.
    pub bytes: u64,
}

/// Opens a regular file, without following any link in its path.
///
/// A file with a second name is refused as well. A hard link, like a symbolic one, can lead to another file's content: the
/// kernel's own protection against that is a setting, and does not apply to root.
pub(crate) fn open_regular(
    folder: BorrowedFd<'_>,
    folders: &[impl AsRef<OsStr>],
    name: impl AsRef<OsStr>,
) -> Result<File> {
    // NONBLOCK: opening a named pipe would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let name = name.as_ref();
    let path: PathBuf = folders.iter().map(AsRef::as_ref).chain([name]).collect();
    let file = match openat2(folder, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Without openat2: an old kernel, or a container whose filter rejects unknown calls.
        Err(Errno::NOSYS | Errno::PERM) => open_stepwise(folder, folders, name, flags)?,
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink > 1 {
        return Err(Errno::INVAL);
    }
    Ok(File::from(file))
}

fn open_stepwise(
    folder: BorrowedFd<'_>,
    folders: &[impl AsRef<OsStr>],
    name: &OsStr,
    flags: OFlags,
) -> Result<OwnedFd> {
    let path_only = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut below = None;
    for step in folders {
        let from = below.as_ref().map_or(folder, AsFd::as_fd);
        below = Some(openat(from, step.as_ref(), path_only, Mode::empty())?);
    }
    openat(below.as_ref().map_or(folder, AsFd::as_fd), name, flags, Mode::empty())
}

/// The end of an open file as text. Reads `bytes_max` bytes and one more, however long the file is. Bytes that are not
/// UTF-8 become U+FFFD. The result is "" for a file that cannot be read.
#[must_use]
pub(super) fn tail_of(file: impl AsFd, limit: TailLimit) -> Tail {
    let Ok(stat) = rustix::fs::fstat(&file) else { return Tail::default() };
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    // One byte before the tail shows whether the tail begins with a whole line.
    let wanted = limit.bytes_max.saturating_add(1);
    let start = size.saturating_sub(wanted as u64);
    let mut bytes = vec![0; usize::try_from(size - start).unwrap_or(wanted)];
    let length = read_at(file.as_fd(), &mut bytes, start);
    bytes.truncate(length);
    Tail { text: text_of(&bytes, limit), bytes: size }
}

/// The end of a text.
#[must_use]
pub fn tail_of_text(text: &str, limit: TailLimit) -> Tail {
    let bytes = text.as_bytes();
    // With one byte more, as of a file.
    let from = bytes.len().saturating_sub(limit.bytes_max.saturating_add(1));
    Tail { text: text_of(bytes.get(from..).unwrap_or_default(), limit), bytes: bytes.len() as u64 }
}

/// Reads until the buffer is full or the file ends; the file may have been truncated since its length was read.
fn read_at(file: BorrowedFd<'_>, buffer: &mut [u8], start: u64) -> usize {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(file, rest, start + length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    length
}

/// The text of the last bytes of a file. More than `bytes_max` of them mean that the file is longer.
fn text_of(bytes: &[u8], limit: TailLimit) -> String {
    let Some(cut) = bytes.len().checked_sub(limit.bytes_max).filter(|&cut| cut > 0) else {
        return shortened(String::from_utf8_lossy(bytes).into_owned(), limit.bytes_max);
    };
    let (before, tail) = bytes.split_at(cut);
    let whole_line = before.ends_with(b"\n");
    let mut tail = without_broken_char(tail);
    if limit.drop_partial_line && !whole_line {
        tail = without_first_line(tail);
    }
    shortened(String::from_utf8_lossy(tail).into_owned(), limit.bytes_max)
}

/// Removes the rest of a character whose beginning was cut off: at most three bytes.
fn without_broken_char(bytes: &[u8]) -> &[u8] {
    let is_continuation = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let broken = bytes.iter().take(3).take_while(is_continuation).count();
    bytes.get(broken..).unwrap_or_default()
}

fn without_first_line(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().position(|&byte| byte == b'\n').and_then(|end| bytes.get(end + 1..));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(bytes)
}

/// U+FFFD is longer than the byte that it replaces: without this limit a binary file would be returned at three times the
/// permitted length.
fn shortened(mut text: String, bytes_max: usize) -> String {
    let mut cut = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(cut) {
        cut += 1;
    }
    text.drain(..cut);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINES: TailLimit = TailLimit { bytes_max: 8, drop_partial_line: true };
    const BYTES: TailLimit = TailLimit { drop_partial_line: false, ..LINES };

    fn tail(content: &[u8], limit: TailLimit) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, content).unwrap();
        let tail = tail_of(File::open(path).unwrap(), limit);
        assert_eq!(tail.bytes, content.len() as u64);
        tail.text
    }

    /// The file is refused when it is opened, not only because it has no content.
    #[test]
    fn what_is_no_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let dir = File::open(folder.path()).unwrap();
        rustix::fs::mkfifoat(&dir, "pipe", Mode::RWXU).unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        for name in ["pipe", "folder"] {
            assert_eq!(open_regular(dir.as_fd(), &[""; 0], name).unwrap_err(), Errno::INVAL, "{name}");
        }
    }

    #[test]
    fn a_short_file_comes_whole() {
        for content in ["", "a", "a\nb\n", "12345678", "\u{e9}\u{e9}\u{e9}\u{e9}"] {
            assert_eq!(tail(content.as_bytes(), LINES), content);
        }
    }

    #[test]
    fn a_line_that_was_cut_is_dropped_and_a_whole_one_is_not() {
        assert_eq!(tail(b"first line\n1234\n", LINES), "1234\n");
        assert_eq!(tail(b"first\n1234567\n", LINES), "1234567\n");
        assert_eq!(tail(b"first line\n1234\n", BYTES), "ne\n1234\n");
    }

    #[test]
    fn one_long_line_is_cut_instead_of_lost() {
        assert_eq!(tail(b"123456789", LINES), "23456789");
        assert_eq!(tail(b"123456789\n", LINES), "3456789\n");
    }

    #[test]
    fn no_character_is_cut() {
        // Byte 8 from the end is the second byte of an e with an acute accent.
        assert_eq!(tail("aaaa\u{e9}bbbbbbb".as_bytes(), BYTES), "bbbbbbb");
        assert_eq!(tail("aaaa\u{1f600}bbbbb".as_bytes(), BYTES), "bbbbb");
        assert_eq!(tail("\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}".as_bytes(), BYTES), "\u{e9}\u{e9}\u{e9}\u{e9}");
    }

    #[test]
    fn what_is_not_utf8_is_replaced_and_stays_within_the_limit() {
        assert_eq!(tail(b"a\xffb", BYTES), "a\u{fffd}b");
        assert_eq!(tail(&[0xff; 100], BYTES), "\u{fffd}\u{fffd}");
        assert_eq!(tail(&[0x80; 100], BYTES), "\u{fffd}\u{fffd}");
    }

    proptest! {
        #[test]
        fn any_content_gives_a_bounded_text(content: Vec<u8>, bytes_max in 0usize..40, drop_partial_line: bool) {
            let cut = content.len().saturating_sub(bytes_max + 1);
            let text = text_of(&content[cut..], TailLimit { bytes_max, drop_partial_line });
            prop_assert!(text.len() <= bytes_max);
        }

        #[test]
        fn the_tail_of_a_text_is_its_end(content: String, bytes_max in 0usize..40, drop_partial_line: bool) {
            let cut = content.len().saturating_sub(bytes_max + 1);
            let text = text_of(&content.as_bytes()[cut..], TailLimit { bytes_max, drop_partial_line });
            prop_assert!(content.ends_with(&text));
            // With whole lines not required, only a broken character is missing.
            prop_assert!(drop_partial_line || text.len() + 3 >= bytes_max.min(content.len()));
        }
    }
}
