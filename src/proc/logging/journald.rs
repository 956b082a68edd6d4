//! The journal of the machine, in its own protocol: a datagram of lines `FIELD=value` for each event (systemd.io, Journal Native
//! Protocol). So a process needs no standard error that is the journal, which a detached service has not.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use log::{Level, Record};

use super::place;
use super::shown::OneLine;

/// Its socket.
pub(super) const SOCKET: &str = "/run/systemd/journal/socket";

/// Connects to the journal.
pub(super) fn connect(path: &Path) -> io::Result<UnixDatagram> {
    let journal = UnixDatagram::unbound()?;
    journal.connect(path)?;
    // A journal that does not read must not stop a service.
    journal.set_nonblocking(true)?;
    Ok(journal)
}

/// The entry of an event, without the last line feed. The message is one line, so that it needs no length.
pub(super) fn entry(record: &Record<'_>) -> String {
    let priority = match record.level() {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    };
    let place = place(record).map_or_else(String::new, |(file, line)| format!("\nCODE_FILE={file}\nCODE_LINE={line}"));
    format!("SYSLOG_IDENTIFIER=llts\nPRIORITY={priority}{place}\nMESSAGE={}", OneLine(*record.args()))
}
