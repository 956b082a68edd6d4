//! The archives of a tools folder that no agent can run. No task names them, so the controller has not read them either.

use std::fs::{self, Metadata};
use std::path::Path;

use super::look_into;
use api::tools::{Limits, open_archive};
use base::ToolName;

/// What to do about a defective archive.
pub const REMEDY: &str = "pack it again with `llts tool pack FOLDER`, or remove the file";

/// The defective archives of a folder, by name: each a sentence without a full stop. An archive is read as a whole, except one
/// that is known to be sound.
#[must_use]
pub fn defective(tools_dir: &Path, limits: &Limits, is_sound: impl Fn(&ToolName, &Metadata) -> bool) -> Vec<String> {
    let entries = fs::read_dir(tools_dir).into_iter().flatten().flatten();
    let tool = |name: &str| ToolName::new(name.strip_suffix(".tar.gz")?).ok();
    let mut tools: Vec<ToolName> = entries.filter_map(|entry| tool(entry.file_name().to_str()?)).collect();
    tools.sort();
    let defect = |tool: &ToolName| {
        // By the rules of the agents: no link may lead elsewhere.
        let file = match open_archive(tools_dir, tool) {
            Ok((file, ..)) => file,
            Err(error) => return Some(error.to_string()),
        };
        if file.metadata().is_ok_and(|metadata| is_sound(tool, &metadata)) {
            return None;
        }
        let why = look_into(&file, tool, limits).err()?;
        Some(format!("{} cannot be run: {why}", tools_dir.join(tool.archive_name()).display()))
    };
    tools.iter().filter_map(defect).collect()
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
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), dir.join("far.tar.gz")).unwrap();
        let named = |is_sound: fn(&ToolName, &Metadata) -> bool| {
            let all = defective(dir, &limits, is_sound);
            all.join("\n").replace(&format!("{}/", dir.display()), "")
        };
        insta::assert_snapshot!(named(|_, _| false), @r"
        cut.tar.gz cannot be run: it is truncated
        empty.tar.gz cannot be run: it is truncated
        far.tar.gz is a link that leaves the tools folder
        cannot unpack folder.tar.gz: it is not a regular file
        other.tar.gz cannot be run: it has no other/run.sh
        ");
        assert!(!named(|tool, _| tool.as_str() == "cut").contains("cut.tar.gz"));
    }
}
