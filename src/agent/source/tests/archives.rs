//! Archives for tests, fair ones and others.

use std::io::{Cursor, Write as _};

use zip::write::SimpleFileOptions;

pub(super) fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        // Written into the header as it is: the builder refuses what a hostile archive has.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, text.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Entries with a mode, which is 0 where the archiver tells none.
pub(super) fn zip(files: &[(&str, u32, &str)]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, mode, text) in files {
        let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        let options = if *mode == 0 { options } else { options.unix_permissions(mode & 0o7777) };
        writer.start_file(*name, options).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    let mut bytes = writer.finish().unwrap().into_inner();
    // The writer makes regular files only; the kind stands in the upper half of the attributes of the directory.
    for (name, mode, _) in files {
        let at = directory_entry(&bytes, name);
        let attributes = &mut bytes[at + 38..at + 42];
        attributes.copy_from_slice(&(mode << 16).to_le_bytes());
    }
    bytes
}

fn directory_entry(bytes: &[u8], name: &str) -> usize {
    let is_it = |at: &usize| bytes[*at..].starts_with(b"PK\x01\x02") && bytes[at + 46..].starts_with(name.as_bytes());
    (0..bytes.len()).find(is_it).unwrap()
}

/// Two entries with one name.
pub(super) fn twice() -> Vec<u8> {
    let mut bytes = zip(&[("run.sh", 0, "one"), ("run.zz", 0, "two")]);
    let names: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"run.zz")).collect();
    for at in names {
        bytes[at..at + 6].copy_from_slice(b"run.sh");
    }
    bytes
}

/// The content of an entry is not what its checksum says.
pub(super) fn damaged() -> Vec<u8> {
    let mut bytes = zip(&[("run.sh", 0, "one")]);
    let at = directory_entry(&bytes, "run.sh");
    bytes[at + 16] ^= 1;
    bytes[14] ^= 1;
    bytes
}
