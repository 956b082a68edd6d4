//! `llts spool close`: forms lists of all new tasks at once, without waiting for more.

use std::path::Path;

use serde_json::json;

use crate::shell::orders;
use term::exit::Failure;
use term::session::Session;

pub(super) fn run(session: &mut Session, dir: Option<&Path>) -> Result<u8, Failure> {
    let folders = super::folders(session, dir)?;
    orders::close(&folders)?;
    if session.out.is_json() {
        session.out.value(&json!({}));
    }
    Ok(0)
}
