//! Copies files: by sharing their blocks, where the file system can do that, and with the holes of sparse files.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use rustix::fs::{SeekFrom, ioctl_ficlone, seek};
use rustix::io::Errno;

/// The unit of `st_blocks`, which does not depend on the file system.
const BLOCK_BYTES: u64 = 512;

/// Copies a file into an empty one.
///
/// # Errors
/// When it cannot be written.
pub fn copy_into(file: &File, new: &File) -> io::Result<()> {
    if ioctl_ficlone(new, file).is_ok() {
        return Ok(());
    }
    let metadata = file.metadata()?;
    let is_sparse = metadata.blocks().saturating_mul(BLOCK_BYTES) < metadata.len();
    // The cursor of the file may be shared, and searching for holes moves it.
    match File::open(format!("/proc/self/fd/{}", file.as_raw_fd())) {
        Ok(own) if is_sparse => copy_data(&own, new, metadata.len()),
        _ => copy_range(file, new, (0, u64::MAX)),
    }
}

/// Copies the data between the holes. `copy_file_range` and a copy through memory would both fill them.
fn copy_data(file: &File, new: &File, size: u64) -> io::Result<()> {
    let mut at = 0;
    loop {
        let begin = match seek(file, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            Err(Errno::NXIO) => return new.set_len(size),
            Err(error) => return Err(error.into()),
        };
        at = seek(file, SeekFrom::Hole(begin))?;
        copy_range(file, new, (begin, at))?;
    }
}

/// Copies bytes to the same offset, at most up to the end of the file.
fn copy_range(file: &File, new: &File, (mut at, end): (u64, u64)) -> io::Result<()> {
    let mut to = at;
    while at < end {
        // With explicit positions, because the cursor may be shared.
        let bytes = usize::try_from((end - at).min(1 << 30)).unwrap_or(1 << 30);
        match rustix::fs::copy_file_range(file, Some(&mut at), new, Some(&mut to), bytes) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    let mut chunk = vec![0; 1 << 17];
    while at < end {
        let bytes = usize::try_from(end - at).unwrap_or(chunk.len()).min(chunk.len());
        match file.read_at(&mut chunk[..bytes], at) {
            Ok(0) => return Ok(()),
            Ok(bytes) => {
                new.write_all_at(&chunk[..bytes], at)?;
                at += bytes as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// On a file system that shares blocks, the copy has no blocks of its own either.
    #[test]
    fn a_copy_of_a_sparse_file_has_its_bytes_and_its_holes() {
        const SIZE: usize = 64 << 20;
        let ground = tempfile::tempdir().unwrap();
        let file = File::options().read(true).write(true).create_new(true).open(ground.path().join("file")).unwrap();
        file.set_len(SIZE as u64).unwrap();
        file.write_all_at(b"first", 1 << 20).unwrap();
        file.write_all_at(b"second", 40 << 20).unwrap();
        let path = ground.path().join("copy");
        copy_into(&file, &File::create_new(&path).unwrap()).unwrap();
        let blocks = fs::metadata(&path).unwrap().blocks();
        assert!(blocks * BLOCK_BYTES < 1 << 20, "{blocks} blocks");
        let mut wanted = vec![0; SIZE];
        wanted[1 << 20..][..5].copy_from_slice(b"first");
        wanted[40 << 20..][..6].copy_from_slice(b"second");
        assert!(fs::read(&path).unwrap() == wanted);
        let full = ground.path().join("full");
        fs::write(&full, [7; 200_000]).unwrap();
        let path = ground.path().join("copy of full");
        copy_into(&File::open(&full).unwrap(), &File::create_new(&path).unwrap()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), [7; 200_000]);
    }
}
