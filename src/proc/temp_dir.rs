//! The folder for temporary files.

use std::path::PathBuf;

/// The variable that names it.
pub const TEMP_VARIABLE: &str = "TMPDIR";

/// The folder as an absolute path, because another process may run elsewhere. An empty variable counts as unset, as in
/// other programs.
pub fn temp_dir() -> PathBuf {
    let named = std::env::var_os(TEMP_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = named.unwrap_or_else(|| "/tmp".into());
    std::path::absolute(&folder).unwrap_or(folder)
}
