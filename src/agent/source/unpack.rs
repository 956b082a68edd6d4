//! Unpacks the fetched bytes into the folder that gets the name of the program.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::record::Digest;
use super::{DOWNLOAD, FetchOptions, PACKED, ProgramForm, Programs, SourceError, UNPACKED};
use api::tools::archive::{Format, Packing, unpack_program};
use api::tools::scratch::Scratch;
use api::tools::{RUN_SCRIPT, pack};
use base::{Source, SourceForm};

impl Programs {
    /// The folder that gets the name of the program.
    pub(super) fn unpack(
        &self,
        source: &Source,
        scratch: &Scratch,
        options: &FetchOptions<'_>,
    ) -> Result<PathBuf, SourceError> {
        let (from, into) = (scratch.path().join(DOWNLOAD), scratch.path());
        let Some(tool) = options.tool.filter(|_| self.form == ProgramForm::Archives) else {
            return self.unpack_as(source, &from, into.join(UNPACKED), options);
        };
        let made = |folder: &Path| {
            fs::create_dir(folder).map_err(|error| SourceError::Io { action: "make", path: folder.to_owned(), error })
        };
        let (unpacked, packed) = (into.join(UNPACKED), into.join(PACKED));
        made(&unpacked).and_then(|()| made(&packed))?;
        let folder = self.unpack_as(source, &from, unpacked.join(tool.as_str()), options)?;
        let archive = packed.join(tool.archive_name());
        let failed = |error| SourceError::Pack { place: source.as_str().to_owned(), error };
        pack(&folder, &archive, &self.limits).map_err(failed)?;
        Ok(packed)
    }

    /// Unpacks the download into the folder `to`.
    fn unpack_as(
        &self,
        source: &Source,
        from: &Path,
        to: PathBuf,
        options: &FetchOptions<'_>,
    ) -> Result<PathBuf, SourceError> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |error| SourceError::Io { action, path, error }
        };
        match format(source.form()) {
            None => {
                fs::create_dir(&to).map_err(failed("make", &to))?;
                let script = to.join(RUN_SCRIPT);
                fs::rename(from, &script).map_err(failed("make", &script))?;
                fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(failed("change", &script))?;
            }
            Some(format) => {
                let file = File::open(from).map_err(failed("open", from))?;
                let place = || source.as_str().to_owned();
                // The archive has the name of a program or of a tool.
                let (name, into) = (to.file_name().and_then(|name| name.to_str()), to.parent());
                unpack_program(
                    &file,
                    format,
                    name.unwrap_or(UNPACKED),
                    into.unwrap_or(&to),
                    &self.limits,
                    options.stop.flag(),
                )
                .map_err(|error| SourceError::Archive { place: place(), error })?;
            }
        }
        // After a power cut, an installed program must not consist of empty files.
        let synced = File::open(&to).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
        synced.map_err(failed("sync", &to))?;
        Ok(to)
    }
}

/// The format of an archive; `None` for a bare run.sh.
const fn format(form: SourceForm) -> Option<Format> {
    match form {
        SourceForm::Script => None,
        SourceForm::Zip => Some(Format::Zip),
        SourceForm::Tar => Some(Format::Tar(Packing::None)),
        SourceForm::TarGz => Some(Format::Tar(Packing::Gzip)),
        SourceForm::TarBz2 => Some(Format::Tar(Packing::Bzip2)),
    }
}

/// Checks the fetched bytes against the SHA-256 that the task demands.
pub(super) fn check_digest(source: &Source, digest: &Digest, options: &FetchOptions<'_>) -> Result<(), SourceError> {
    match options.sha256 {
        Some(wanted) if wanted != digest.as_str() => Err(SourceError::Checksum {
            place: source.as_str().to_owned(),
            wanted: wanted.to_owned(),
            found: digest.as_str().to_owned(),
        }),
        _ => Ok(()),
    }
}
