//! Reports the state of a service to systemd (sd_notify(3)): a datagram to the socket that the environment names, and a
//! sign of life as often as the unit wants one. Without such a unit, nothing is sent.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;
use std::time::Duration;
use std::{env, io};

use super::clock;
use base::Mono;

/// The variables of systemd for a process of a unit: the socket to notify, the watchdog interval, and the process that
/// it is for.
pub const SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG: &str = "WATCHDOG_USEC";
const WATCHDOG_OF: &str = "WATCHDOG_PID";

/// The connection to systemd, if it manages this process.
#[derive(Debug, Default)]
pub struct Systemd {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// The time between two signs of life, and the moment of the next one.
    watchdog: Option<(Duration, Mono)>,
}

impl Systemd {
    /// The connection that the environment names.
    pub fn of_environment() -> Self {
        let socket = env::var_os(SOCKET).filter(|name| !name.is_empty()).map(|name| connect(name.as_bytes()));
        let socket = socket.and_then(|socket| {
            socket.inspect_err(|error| log::warn!("systemd cannot be told of this service ({SOCKET}): {error}")).ok()
        });
        let number = |name| env::var(name).ok()?.parse::<u64>().ok();
        // The process id is kept across an exec of another program.
        let is_ours = number(WATCHDOG_OF).is_none_or(|pid| pid == u64::from(std::process::id()));
        let interval =
            number(WATCHDOG).filter(|_| is_ours && socket.is_some()).map(|micros| Duration::from_micros(micros / 2));
        let watchdog = interval.filter(|interval| !interval.is_zero()).map(|interval| (interval, clock::now().mono));
        Self { socket, watchdog }
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Mono> {
        self.watchdog.map(|(_, next)| next)
    }

    /// Sends a sign of life if one is due.
    pub fn handle_timeout(&mut self, now: Mono) {
        if let Some((interval, next)) = &mut self.watchdog
            && *next <= now
        {
            *next = now + *interval;
            self.send("WATCHDOG=1");
        }
    }

    /// The service is up, or continues after a change.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The service reads its configuration again, or becomes another program. [`Self::ready`] ends that state.
    pub fn reloading(&self) {
        let micros = clock::since_start_of_monotonic().as_micros();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// The service is stopping.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    fn send(&self, state: &str) {
        let Some((socket, address)) = &self.socket else { return };
        if let Err(error) = socket.send_to_addr(state.as_bytes(), address) {
            log::debug!("systemd was not told {state:?}: {error}");
        }
    }
}

/// Keeps another process from speaking for this one.
pub fn hide(command: &mut Command) {
    for name in [SOCKET, WATCHDOG, WATCHDOG_OF] {
        command.env_remove(name);
    }
}

/// A socket of this process, and the address of systemd's socket, which may be abstract: `@name`.
fn connect(name: &[u8]) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut text = [0; 256];
        let length = socket.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    }

    #[test]
    fn systemd_is_told_by_a_path_or_by_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("@llts-test-{}", std::process::id());
        let listeners = [
            (UnixDatagram::bind(&path).unwrap(), path.as_os_str().as_bytes().to_vec()),
            (
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name[1..]).unwrap()).unwrap(),
                name.clone().into_bytes(),
            ),
        ];
        for (listener, name) in listeners {
            let now = clock::now().mono;
            let watchdog = Some((Duration::from_secs(5), now));
            let mut systemd = Systemd { socket: Some(connect(&name).unwrap()), watchdog };
            systemd.ready("2 agents");
            assert_eq!(received(&listener), "READY=1\nSTATUS=2 agents");
            systemd.handle_timeout(now);
            assert_eq!(received(&listener), "WATCHDOG=1");
            assert_eq!(systemd.poll_timeout(), Some(now + Duration::from_secs(5)));
            systemd.reloading();
            assert!(received(&listener).starts_with("RELOADING=1\nMONOTONIC_USEC="));
            systemd.stopping();
            assert_eq!(received(&listener), "STOPPING=1\nSTATUS=stopping");
        }
    }
}
