//! Relative paths in the configuration start in the home.

use std::io;
use std::path::{Path, PathBuf};

use super::{Config, ConfigError, LocalSocket, Sources, USUAL_FILE, layers, read_bounded};

/// Joins relative paths to the folder of the home.
///
/// The root of prompts is an exception while it has its default: it is the folder in which a prompt command is started, because
/// prompts belong to the files around them and not to a service.
pub(super) fn put_behind(config: &mut Config, home: &Path, sources: &Sources) {
    let Config { paths, log, network, http, prompt, lists, tdf, store, .. } = config;
    let behind = |path: &mut PathBuf| *path = home.join(&*path);
    for path in [&mut paths.state_dir, &mut paths.work_dir, &mut paths.tools_dir, &mut log.dir] {
        behind(path);
    }
    paths.tool_sources_dir.iter_mut().for_each(behind);
    http.token_file.iter_mut().for_each(behind);
    lists.dir.iter_mut().for_each(behind);
    behind(&mut lists.work_dir);
    tdf.pool.iter_mut().for_each(|pool| behind(&mut pool.dir));
    store.files().for_each(behind);
    if let LocalSocket::At(path) = &mut network.local {
        behind(path);
    }
    if let Some(keys) = &mut network.curve_server {
        behind(&mut keys.secret_key);
        behind(&mut keys.authorised_keys);
    }
    if let Some(keys) = &mut network.curve_client {
        behind(&mut keys.secret_key);
        behind(&mut keys.server_key);
    }
    if sources.is_set("prompt.ROOT_DIR") {
        behind(&mut prompt.root_dir);
    }
}

/// Whether a folder has a `config.toml` of ours. Other programs use the same name. Our keys are written in capitals or are in a
/// table that we know: a file that has keys, but none of this form, is not ours.
#[must_use]
pub fn is_configured(folder: &Path) -> bool {
    let path = folder.join(USUAL_FILE);
    let text = match read_bounded(&path) {
        Ok(text) => text,
        // The code that needs the file reports that it cannot be read.
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    let is_like_ours = |key: &str| {
        let top = key.split('.').next().unwrap_or(key);
        !top.contains(char::is_lowercase)
            || ["task_defaults", "http", "prompt", "prompt_worker", "lists", "tdf", "tdf_worker", "source"]
                .contains(&top)
    };
    match layers::entries(&text, Some(&path)) {
        Ok(entries) => entries.is_empty() || entries.iter().any(|(key, ..)| is_like_ours(key)),
        // Skipping a file with a syntax error would hide the error.
        Err(ConfigError::Syntax { .. }) => true,
        Err(_) => false,
    }
}
