//! The environment of a started program, in the form that the kernel takes.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;

/// Variables with unique names. They share one buffer, so that a copy costs as much as that of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `NAME=value` and a NUL for each variable, including replaced values.
    bytes: Vec<u8>,
    /// Offsets of the current variables.
    starts: Vec<usize>,
}

/// A name or value that cannot be passed to a process.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the environment variable {0:?} is not a valid name, or its value contains a NUL byte")]
pub struct UnpassableVariable(String);

impl Environment {
    /// The environment of this process, without the variables that `leave_out` names.
    #[must_use]
    pub fn inherited(leave_out: impl Fn(&OsStr) -> bool) -> Self {
        let mut environment = Self::default();
        for (name, value) in std::env::vars_os().filter(|(name, _)| !leave_out(name)) {
            // The kernel passed it to us and will accept it again. Only an empty or duplicate name is lost.
            let _ = environment.set(&name, value);
        }
        environment
    }

    /// Sets a variable, replacing any earlier value.
    ///
    /// # Errors
    /// When the kernel would not accept it.
    pub fn set(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Result<(), UnpassableVariable> {
        let (name, value) = (name.as_ref().as_bytes(), value.as_ref().as_bytes());
        if name.is_empty() || name.contains(&b'=') || name.contains(&0) || value.contains(&0) {
            return Err(UnpassableVariable(String::from_utf8_lossy(name).into_owned()));
        }
        let is_present = |&start: &usize| {
            let rest = self.bytes.get(start..).and_then(|entry| entry.strip_prefix(name));
            rest.is_some_and(|rest| rest.starts_with(b"="))
        };
        let start = self.bytes.len();
        match self.starts.iter().position(is_present) {
            Some(at) => self.starts[at] = start,
            None => self.starts.push(start),
        }
        for part in [name, b"=", value, b"\0"] {
            self.bytes.extend_from_slice(part);
        }
        Ok(())
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.entries().find_map(|entry| {
            let value = entry.to_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(OsStr::from_bytes(value))
        })
    }

    /// The variables, each as `NAME=value`.
    pub(super) fn entries(&self) -> impl Iterator<Item = &CStr> {
        let entry = |&start: &usize| CStr::from_bytes_until_nul(self.bytes.get(start..)?).ok();
        self.starts.iter().filter_map(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(environment: &Environment) -> Vec<&str> {
        environment.entries().map(|entry| entry.to_str().unwrap()).collect()
    }

    #[test]
    fn a_variable_has_one_value() {
        let mut environment = Environment::default();
        for (name, value) in [("A", "1"), ("AB", "2"), ("A", "3=4"), ("C", "")] {
            environment.set(name, value).unwrap();
        }
        assert_eq!(entries(&environment), ["A=3=4", "AB=2", "C="]);
        assert_eq!(
            ["A", "AB", "C", "B"].map(|name| environment.get(name).and_then(OsStr::to_str)),
            [Some("3=4"), Some("2"), Some(""), None]
        );
    }

    #[test]
    fn what_no_process_can_have_is_refused() {
        let mut environment = Environment::default();
        for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0y")] {
            assert_eq!(environment.set(name, value), Err(UnpassableVariable(name.to_owned())));
        }
        assert_eq!(environment, Environment::default());
    }

    #[test]
    fn what_is_inherited_is_all_but_what_is_left_out() {
        let environment = Environment::inherited(|name| name == "PATH");
        let mut expected: Vec<_> = std::env::vars_os().filter(|(name, _)| name != "PATH").collect();
        let mut found: Vec<_> =
            environment.entries().map(|entry| OsStr::from_bytes(entry.to_bytes()).to_owned()).collect();
        let joined = |(name, value): (std::ffi::OsString, std::ffi::OsString)| [name, value].join(OsStr::new("="));
        let mut expected: Vec<_> = expected.drain(..).map(joined).collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    }
}
