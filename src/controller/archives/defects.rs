//! The archives of a tools folder that no agent can run. No task names them, so the controller has not read them either.

use std::fs::{self, File, Metadata};
use std::path::{Path, PathBuf};

use super::look_into;
use api::tools::Limits;
use base::ToolName;

/// See the [module](self).
#[derive(Debug)]
pub struct Defective {
    path: PathBuf,
    why: String,
}

impl Defective {
    /// Its path, and why no agent can run it.
    #[must_use]
    pub fn what(&self) -> String {
        format!("{} cannot be run: {}", self.path.display(), self.why)
    }

    /// What to do about each of them.
    pub const REMEDY: &str = "pack it again with `llts tool pack FOLDER`, or remove the file";
}

/// The defective archives of a folder, by name. Each archive is read as a whole, except those that are known to be sound.
#[must_use]
pub fn defective(tools_dir: &Path, limits: &Limits, is_sound: impl Fn(&ToolName, &Metadata) -> bool) -> Vec<Defective> {
    let entries = fs::read_dir(tools_dir).into_iter().flatten().flatten();
    let archives = entries.filter_map(|entry| {
        let tool = ToolName::new(entry.file_name().to_str()?.strip_suffix(".tar.gz")?).ok()?;
        Some((tool, entry.path()))
    });
    let mut archives: Vec<(ToolName, PathBuf)> = archives.collect();
    archives.sort();
    let defect = |(tool, path): (ToolName, PathBuf)| {
        let checked = match fs::metadata(&path) {
            Ok(metadata) if !metadata.is_file() => Err("it is no file".to_owned()),
            Ok(metadata) if is_sound(&tool, &metadata) => Ok(()),
            Ok(_) => File::open(&path)
                .map_err(|error| error.to_string())
                .and_then(|file| look_into(&file, &tool, limits).map(drop)),
            Err(error) => Err(error.to_string()),
        };
        checked.err().map(|why| Defective { path, why })
    };
    archives.into_iter().filter_map(defect).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_archive_that_cannot_be_run_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let limits = api::config::Config::default().archive;
        let tool = api::tools::create(&dir.join("sound")).unwrap();
        api::tools::pack(&dir.join("sound"), &dir.join(tool.archive_name()), &limits).unwrap();
        let whole = fs::read(dir.join(tool.archive_name())).unwrap();
        fs::write(dir.join("cut.tar.gz"), &whole[..whole.len() / 2]).unwrap();
        fs::write(dir.join("other.tar.gz"), &whole).unwrap();
        fs::write(dir.join("empty.tar.gz"), "").unwrap();
        fs::create_dir(dir.join("folder.tar.gz")).unwrap();
        fs::write(dir.join("not a tool.tar.gz"), "").unwrap();
        let named = |is_sound: fn(&ToolName, &Metadata) -> bool| {
            let all = defective(dir, &limits, is_sound);
            all.iter().map(|one| one.what().replace(&format!("{}/", dir.display()), "")).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(named(|_, _| false), @r"
        cut.tar.gz cannot be run: it is truncated
        empty.tar.gz cannot be run: it is truncated
        folder.tar.gz cannot be run: it is no file
        other.tar.gz cannot be run: it has no other/run.sh
        ");
        assert!(!named(|tool, _| tool.as_str() == "cut").contains("cut.tar.gz"));
    }
}
