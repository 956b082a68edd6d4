//! The systemd journal in its native protocol: one datagram of `FIELD=value` lines for each event (systemd.io, Journal
//! Native Protocol). A process needs no stderr that leads to the journal, which a detached service does not have.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use log::{Level, Record};

use super::place;
use super::shown::OneLine;

/// The socket of the journal.
pub(super) const SOCKET: &str = "/run/systemd/journal/socket";

/// Connects to the journal.
pub(super) fn connect(path: &Path) -> io::Result<UnixDatagram> {
    let journal = UnixDatagram::unbound()?;
    journal.connect(path)?;
    // A journal that does not read must not stop a service.
    journal.set_nonblocking(true)?;
    Ok(journal)
}

/// The entry for an event, without the last line feed. The message is one line, so it needs no length prefix.
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
