//! The listener of the door. If the usual port is in use, the home gets another one and keeps it over restarts, so that a bookmark stays
//! valid.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::{fs, io};

use api::config::HttpSection;

/// The file in STATE_DIR with the port that this home has in place of the usual one.
const PORT_FILE: &str = "http.port";

/// Listens. `before` is the listener of the program before this one in this process.
pub(super) fn listen(http: &HttpSection, state_dir: &Path, before: Option<TcpListener>) -> io::Result<TcpListener> {
    let (address, may_move) = (http.address, http.may_move());
    let is_ours =
        |found: SocketAddr| found.ip() == address.ip() && (may_move || [0, found.port()].contains(&address.port()));
    if let Some(before) = before.filter(|listener| listener.local_addr().is_ok_and(is_ours)) {
        return Ok(before);
    }
    let bind = |port| TcpListener::bind(SocketAddr::new(address.ip(), port));
    if let Some(own) = may_move.then(|| kept(state_dir)).flatten().and_then(|port| bind(port).ok()) {
        return Ok(own);
    }
    match bind(address.port()) {
        Err(error) if may_move && error.kind() == io::ErrorKind::AddrInUse => {
            let free = bind(0)?;
            keep(state_dir, free.local_addr()?.port());
            Ok(free)
        }
        bound => bound,
    }
}

/// The port of an earlier start. A file without a valid port counts as missing.
fn kept(state_dir: &Path) -> Option<u16> {
    fs::read_to_string(state_dir.join(PORT_FILE)).ok()?.trim().parse().ok().filter(|port| *port != 0)
}

fn keep(state_dir: &Path, port: u16) {
    if let Err(error) = fs::write(state_dir.join(PORT_FILE), format!("{port}\n")) {
        log::info!("the next start may have another port for HTTP: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::config::{Config, HttpOpening};

    fn section(port: u16) -> HttpSection {
        let mut http = Config::default().http;
        http.address.set_port(port);
        http
    }

    fn port(listener: &TcpListener) -> u16 {
        listener.local_addr().unwrap().port()
    }

    #[test]
    fn a_home_whose_usual_port_is_in_use_keeps_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let http = section(port(&taken));
        let first = listen(&http, folder.path(), None).unwrap();
        let own = port(&first);
        assert_ne!(own, port(&taken));
        drop((first, taken));
        let again = listen(&http, folder.path(), None).unwrap();
        assert_eq!(port(&again), own, "also when the usual one is free again");
        let third = listen(&http, folder.path(), None).unwrap();
        assert_eq!(port(&third), http.address.port(), "its own is in use");
        for text in ["", "0", "70000", "-1", "x"] {
            fs::write(folder.path().join(PORT_FILE), text).unwrap();
            assert_eq!(kept(folder.path()), None, "{text:?}");
        }
    }

    #[test]
    fn a_port_that_was_asked_for_is_taken_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let asked = HttpSection { opening: HttpOpening::Always, ..section(port(&taken)) };
        let other = HttpSection { port_is_usual: false, ..section(port(&taken)) };
        for http in [&asked, &other] {
            assert_eq!(listen(http, folder.path(), None).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
        let before = taken.try_clone().unwrap();
        assert_eq!(port(&listen(&asked, folder.path(), Some(before)).unwrap()), port(&taken), "it is ours already");
        let before = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listen(&asked, folder.path(), Some(before)).is_err(), "another port is configured");
        let before = TcpListener::bind("127.0.0.1:0").unwrap();
        let moved = port(&before);
        assert_eq!(port(&listen(&section(port(&taken)), folder.path(), Some(before)).unwrap()), moved);
        assert!(!folder.path().join(PORT_FILE).exists());
    }
}
