//! The folder of a measurement, with its tools, and a description of the machine.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use super::BenchError;
use api::config::Config;
use api::tools;
use api::tools::{Limits, RUN_SCRIPT};
use proc::files::removal;

/// Ends at once, with success.
pub(crate) const NOTHING: (&str, &str) = ("nothing", "#!/bin/sh\nexit 0\n");

/// Reports the times of its first and its last instruction.
pub(crate) const STAMP: (&str, &str) =
    ("stamp", "#!/bin/bash\necho \"$EPOCHREALTIME\" >report.log\necho \"$EPOCHREALTIME\" >>report.log\n");

/// Five processes that obey SIGTERM; it writes to the given file when all have started.
pub(crate) const FAMILY: (&str, &str) =
    ("family", "#!/bin/sh\nsleep 1000 &\nsleep 1000 &\nsleep 1000 &\nsleep 1000 &\necho >\"$PARAM_ready\"\nwait\n");

/// A folder that is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    limits: Limits,
}

impl Place {
    /// Makes it in the folder for temporary files.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn new(config: &Config) -> Result<Self, BenchError> {
        let folder = std::path::absolute(std::env::temp_dir())
            .map(|base| base.join(format!("llts-bench-{}-{:016x}", std::process::id(), rand::random::<u64>())))
            .map_err(BenchError::io("find the folder for temporary files"))?;
        let place = Self { folder, limits: config.archive.clone() };
        for path in [&place.folder, &place.tools(), &place.folder.join("sources")] {
            make(path)?;
        }
        Ok(place)
    }

    /// The path of the folder.
    #[must_use]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The packed tools.
    pub(crate) fn tools(&self) -> PathBuf {
        self.folder.join("tools")
    }

    /// Packs a tool unless it was packed before; returns its unpacked folder.
    pub(crate) fn tool(&self, (name, script): (&str, &str)) -> Result<PathBuf, BenchError> {
        self.tool_with_files((name, script), 0, 0)
    }

    /// A tool that stays.
    pub(crate) fn tool_that_stays(&self, (name, script): (&str, &str)) -> Result<PathBuf, BenchError> {
        self.packed(name, script, |source| write(&source.join("tool.toml"), b"[stay]\n"))
    }

    /// A tool with `files` files of `bytes` bytes each.
    pub(crate) fn tool_with_files(
        &self,
        (name, script): (&str, &str),
        files: usize,
        bytes: usize,
    ) -> Result<PathBuf, BenchError> {
        self.packed(name, script, |source| {
            // Incompressible content, as in most tools of this size. Seeded, so that it is the same in each run.
            let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
            let mut content = vec![0; bytes];
            for file in 0..files {
                let folder = source.join(format!("part-{}", file / 50));
                fs::create_dir_all(&folder).map_err(BenchError::io(format!("make {}", folder.display())))?;
                random.fill(content.as_mut_slice());
                write(&folder.join(format!("file-{file}")), &content)?;
            }
            Ok(())
        })
    }

    /// Packs `run.sh` and what `add` puts beside it.
    fn packed(
        &self,
        name: &str,
        script: &str,
        add: impl FnOnce(&Path) -> Result<(), BenchError>,
    ) -> Result<PathBuf, BenchError> {
        let source = self.folder.join("sources").join(name);
        if source.exists() {
            return Ok(source);
        }
        make(&source)?;
        let run = source.join(RUN_SCRIPT);
        write(&run, script.as_bytes())?;
        fs::set_permissions(&run, fs::Permissions::from_mode(0o755))
            .map_err(BenchError::io("make run.sh executable"))?;
        add(&source)?;
        tools::pack(&source, &self.tools().join(format!("{name}.tar.gz")), &self.limits)?;
        Ok(source)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A folder that could not be removed stays among the temporary files.
        let _ = removal::remove(&self.folder);
    }
}

fn write(path: &Path, content: &[u8]) -> Result<(), BenchError> {
    fs::write(path, content).map_err(BenchError::io(format!("write {}", path.display())))
}

fn make(folder: &Path) -> Result<(), BenchError> {
    fs::create_dir(folder).map_err(BenchError::io::<io::Error>(format!("make {}", folder.display())))
}

/// The properties of the machine that a reader of the numbers must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// The model of the processor.
    pub(crate) processor: String,
    /// The number of cores that this process may use.
    pub(crate) cores: usize,
    /// The kernel.
    pub(crate) kernel: String,
    /// The load average of one minute, before the measurement.
    pub(crate) load: String,
    /// Whether the folder is in memory, where a commit to disk costs nothing.
    pub(crate) is_in_memory: bool,
}

impl Machine {
    /// This machine; a property that cannot be read is empty.
    #[must_use]
    pub(crate) fn here(folder: &Path) -> Self {
        const TMPFS: u64 = 0x0102_1994;
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let kind = rustix::fs::statfs(folder).map(|found| found.f_type);
        Self {
            processor: model.map(|(_, name)| name.trim().to_owned()).unwrap_or_default(),
            cores: cores(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            is_in_memory: kind.is_ok_and(|kind| u64::try_from(kind).is_ok_and(|kind| kind == TMPFS)),
        }
    }
}

/// The number of cores.
#[must_use]
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
