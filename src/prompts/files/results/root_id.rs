//! The identity of a root, `.tasks/master.id`. A worker that finds the identity of its master there has the same root, and need not
//! send its results.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use proc::files::draft::{SHARED, replace};

const ID: &str = "master.id";

/// The identity of a root: a random text that is made once.
pub(crate) fn root_id(tasks: &Path) -> io::Result<String> {
    if let Ok(id) = read_root_id(tasks) {
        return Ok(id);
    }
    let id = format!("{:032x}", rand::random::<u128>());
    replace(&tasks.join(ID), SHARED, |file| file.write_all(id.as_bytes()))?;
    Ok(id)
}

/// The identity of the root of this `.tasks`, if a master has been there.
pub(crate) fn read_root_id(tasks: &Path) -> io::Result<String> {
    let id = fs::read_to_string(tasks.join(ID))?;
    if id.is_empty() { Err(io::ErrorKind::InvalidData.into()) } else { Ok(id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_keeps_its_identity() {
        let [one, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let id = root_id(one.path()).unwrap();
        assert_eq!((root_id(one.path()).unwrap(), read_root_id(one.path()).unwrap()), (id.clone(), id.clone()));
        assert_ne!(root_id(other.path()).unwrap(), id);
    }
}
