//! Checks an unpacked tool: its run.sh and its tool.toml.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::RUN_SCRIPT;
use crate::wire::tool_manifest;

/// Bytes of run.sh that are checked.
const SCRIPT_BYTES_MAX: u64 = 1024 * 1024;

/// Checks the run.sh and the tool.toml of an unpacked tool. Returns likely mistakes.
///
/// # Errors
/// A defect that would make each run fail.
pub(super) fn check_unpacked(folder: &Path) -> Result<Vec<String>, String> {
    let mut script = Vec::new();
    let read =
        File::open(folder.join(RUN_SCRIPT)).and_then(|file| file.take(SCRIPT_BYTES_MAX).read_to_end(&mut script));
    read.map_err(|error| format!("its run.sh cannot be read: {error}"))?;
    let warnings = check_script(&script).map_err(|why| format!("its run.sh {why}"))?;
    check_manifest(folder)?;
    Ok(warnings)
}

/// Checks the `tool.toml` of an unpacked tool, if it has one.
fn check_manifest(folder: &Path) -> Result<(), String> {
    let mut text = String::new();
    let opened = match File::open(folder.join("tool.toml")) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("its tool.toml cannot be read: {error}")),
    };
    let read = opened.take(tool_manifest::BYTES_MAX as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| format!("its tool.toml cannot be read: {error}"))?;
    tool_manifest::parse(&text).map(drop)
}

/// Checks the text of run.sh.
///
/// # Errors
/// The rest of the sentence "its run.sh …".
fn check_script(script: &[u8]) -> Result<Vec<String>, &'static str> {
    let mut warnings = Vec::new();
    if script.is_empty() {
        return Err("is empty");
    }
    // A binary named run.sh needs no first line.
    if script.starts_with(b"\x7fELF") {
        return Ok(warnings);
    }
    let first = script.split(|&byte| byte == b'\n').next().unwrap_or_default();
    match first.strip_prefix(b"#!") {
        Some(line) if line.ends_with(b"\r") => {
            return Err("has CR LF at the end of its #! line, so nothing can start it");
        }
        Some(line) => {
            let line = String::from_utf8_lossy(line);
            let interpreter = line.split_ascii_whitespace().next().unwrap_or_default();
            if interpreter.is_empty() {
                return Err("names no program in its #! line");
            }
            if !Path::new(interpreter).exists() {
                warnings.push(format!("run.sh wants {interpreter}, which this machine does not have"));
            }
        }
        None if script.starts_with(b"\xef\xbb\xbf") => {
            return Err("begins with a byte order mark, which hides its #! line");
        }
        None => warnings.push("run.sh has no #! line, so it is not certain which shell runs it".to_owned()),
    }
    if script.windows(2).any(|pair| pair == b"\r\n") {
        warnings.push("run.sh has lines that end with CR LF, and a shell takes the CR as part of the line".to_owned());
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_cannot_start_is_an_error_and_a_doubtful_one_a_warning() {
        assert_eq!(check_script(b"#!/bin/sh\necho\n"), Ok(vec![]));
        assert_eq!(check_script(b"\x7fELF\x02\r\n"), Ok(vec![]));
        for (script, text) in [
            (b"".as_slice(), "empty"),
            (b"#!/bin/sh\r\necho\r\n", "CR LF"),
            (b"#!  \necho\n", "no program"),
            (b"\xef\xbb\xbf#!/bin/sh\n", "byte order mark"),
        ] {
            let error = check_script(script).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        for (script, text) in [
            (b"echo\n".as_slice(), "no #!"),
            (b"#!/bin/sh\necho\r\n", "CR LF"),
            (b"#! /no/such/shell -e\n", "/no/such/shell,"),
        ] {
            let warnings = check_script(script).unwrap();
            assert!(warnings.len() == 1 && warnings[0].contains(text), "{warnings:?}");
        }
    }
}
