//! The sample tools of the repository, built into the program, so that an installation has a tool to begin with.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::RUN_SCRIPT;
use super::create::CreateError;
use proc::files::removal;

/// A sample: its name, and its files by name.
type Sample = (&'static str, &'static [(&'static str, &'static str)]);

/// The sample that a new home begins with.
pub const FIRST_SAMPLE: &str = "helloworld";

const SAMPLES: [Sample; 6] = [
    ("checksums", &[(RUN_SCRIPT, include_str!("../../../tools/checksums/run.sh"))]),
    (
        "count",
        &[
            ("count.py", include_str!("../../../tools/count/count.py")),
            (RUN_SCRIPT, include_str!("../../../tools/count/run.sh")),
            ("tool.toml", include_str!("../../../tools/count/tool.toml")),
        ],
    ),
    (FIRST_SAMPLE, &[(RUN_SCRIPT, include_str!("../../../tools/helloworld/run.sh"))]),
    (
        "pi",
        &[("pi.py", include_str!("../../../tools/pi/pi.py")), (RUN_SCRIPT, include_str!("../../../tools/pi/run.sh"))],
    ),
    (
        "primes",
        &[
            ("primes.py", include_str!("../../../tools/primes/primes.py")),
            (RUN_SCRIPT, include_str!("../../../tools/primes/run.sh")),
            ("tool.toml", include_str!("../../../tools/primes/tool.toml")),
        ],
    ),
    ("sleeper", &[(RUN_SCRIPT, include_str!("../../../tools/sleeper/run.sh"))]),
];

/// A sample, and whether it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Its folder.
    pub folder: PathBuf,
    /// Whether it was made; a folder that is there already stays as it is.
    pub is_new: bool,
}

/// Makes the folders of the samples in `into`, or only that of `only`. An existing folder stays as it is.
///
/// # Errors
/// When a folder or a file cannot be made. Nothing of that sample is left then.
pub fn unpack_samples(into: &Path, only: Option<&str>) -> Result<Vec<Unpacked>, CreateError> {
    fs::create_dir_all(into).map_err(|source| CreateError::Io { path: into.to_owned(), source })?;
    let chosen = SAMPLES.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
    chosen.map(|(name, files)| unpack(into.join(name), files)).collect()
}

fn unpack(folder: PathBuf, files: &[(&str, &str)]) -> Result<Unpacked, CreateError> {
    match fs::create_dir(&folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Unpacked { folder, is_new: false }),
        Err(source) => return Err(CreateError::Io { path: folder, source }),
    }
    for (name, text) in files {
        let path = folder.join(name);
        let mode = if *name == RUN_SCRIPT { 0o755 } else { 0o644 };
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        if let Err(source) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
            let _ = removal::remove(&folder);
            return Err(CreateError::Io { path, source });
        }
    }
    Ok(Unpacked { folder, is_new: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An installed program has the tools of the repository.
    #[test]
    fn every_tool_of_the_repository_is_a_sample() {
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools");
        let place = tempfile::tempdir().unwrap();
        let unpacked = unpack_samples(place.path(), None).unwrap();
        assert!(unpacked.iter().all(|sample| sample.is_new));
        let files = |folder: &Path| {
            let mut files: Vec<_> = fs::read_dir(folder)
                .unwrap()
                .flatten()
                .flat_map(|tool| fs::read_dir(tool.path()).unwrap().flatten())
                .map(|file| {
                    let name = file.path().strip_prefix(folder).unwrap().to_owned();
                    (name, fs::read(file.path()).unwrap())
                })
                .collect();
            files.sort();
            files
        };
        assert_eq!(files(place.path()), files(&tools));
        fs::write(place.path().join("pi/run.sh"), "mine").unwrap();
        assert!(unpack_samples(place.path(), None).unwrap().iter().all(|sample| !sample.is_new));
        assert_eq!(fs::read_to_string(place.path().join("pi/run.sh")).unwrap(), "mine");
    }
}
