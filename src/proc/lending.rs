//! Lending slots: a task that waits for other tasks tells the supervisor of its agent so, by a connection to a socket
//! of that supervisor. The connection stays open as long as the wait lasts, however it ends.
//!
//! The socket has an abstract name, outside the file system, so that a tool running as another user can reach it, too.
//! The supervisor checks the process at the other end, which must descend from one of its agents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use base::Role;

/// The variable of a task with the name of the socket.
pub const VARIABLE: &str = "LLTS_RUN_LEND";

/// Maximum connections of one supervisor. A task has one for each of its waits.
const CONNECTIONS_MAX: usize = 4096;

/// The pause before a supervisor that does not listen is tried again. It may be about to become another program.
const AGAIN: Duration = Duration::from_secs(1);

/// Maximum steps from a process up to its agent. A deeper tree is not followed.
const DEPTH_MAX: usize = 64;

/// Tells the supervisor of this task's agent, if there is one, that the task waits from now until this process ends.
///
/// Call it while the signals of this process are blocked, because the new thread inherits the mask.
pub fn lend_slot() {
    let Some(name) = std::env::var_os(VARIABLE) else { return };
    let Ok(address) = SocketAddr::from_abstract_name(name.as_encoded_bytes()) else { return };
    let wait = move || {
        loop {
            if let Ok(mut supervisor) = UnixStream::connect_addr(&address) {
                // The end of the connection is the only answer.
                let _ = supervisor.read(&mut [0]);
            }
            std::thread::park_timeout(AGAIN);
        }
    };
    // Without the thread, the task keeps its slot while it waits.
    let _ = std::thread::Builder::new().name("lend".to_owned()).spawn(wait);
}

/// The same for as long as the returned connection is open. A supervisor that does not listen is not tried again.
#[must_use]
pub fn lend_for_now() -> Option<UnixStream> {
    let address = SocketAddr::from_abstract_name(std::env::var_os(VARIABLE)?.as_encoded_bytes()).ok()?;
    UnixStream::connect_addr(&address).ok()
}

/// The name of the socket of the service with this mark. It stays the same when the supervisor becomes another program.
pub fn name_of(mark: &str) -> String {
    let digest = Sha256::digest(mark.as_bytes());
    let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("llts-lend-{digits}")
}

/// The supervisor's side.
#[derive(Debug)]
pub struct Lenders {
    listener: UnixListener,
    /// One connection for each wait, with the agent of its task.
    waits: Vec<(Role, UnixStream)>,
}

impl Lenders {
    /// # Errors
    /// When another process has the name.
    pub fn listen(mark: &str) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name_of(mark))?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, waits: Vec::new() })
    }

    /// The descriptors that are readable when a wait begins or ends.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd()).chain(self.waits.iter().map(|(_, stream)| stream.as_fd()))
    }

    /// The agents whose tasks have begun (true) or stopped (false) waiting since the last call. `agents` maps processes
    /// to agents.
    pub fn changes(&mut self, agents: &BTreeMap<i32, Role>) -> Vec<(Role, bool)> {
        let before = self.waiting();
        self.waits.retain(|(_, stream)| {
            let read = (&mut &*stream).read(&mut [0; 64]);
            matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        });
        while let Ok((stream, _)) = self.listener.accept() {
            let agent = peer(&stream).and_then(|pid| agent_of(pid, agents));
            if let (Some(agent), Ok(())) = (agent, stream.set_nonblocking(true))
                && self.waits.len() < CONNECTIONS_MAX
            {
                self.waits.push((agent, stream));
            }
        }
        let after = self.waiting();
        let ended = before.difference(&after).map(|role| (*role, false));
        let begun = after.difference(&before).map(|role| (*role, true));
        ended.chain(begun).collect()
    }

    fn waiting(&self) -> BTreeSet<Role> {
        self.waits.iter().map(|(role, _)| *role).collect()
    }
}

fn peer(stream: &UnixStream) -> Option<i32> {
    let found = nix::sys::socket::getsockopt(stream, nix::sys::socket::sockopt::PeerCredentials).ok()?;
    Some(found.pid()).filter(|pid| *pid > 0)
}

/// The agent that a process descends from.
fn agent_of(mut pid: i32, agents: &BTreeMap<i32, Role>) -> Option<Role> {
    for _ in 0..DEPTH_MAX {
        if let Some(role) = agents.get(&pid) {
            return Some(*role);
        }
        pid = parent(pid)?;
    }
    None
}

/// The parent of a process: field 4 of its `stat`, whose second field may contain anything.
fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().filter(|pid| *pid > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_wait_is_one_of_the_agent_that_the_process_descends_from() {
        let mark = format!("/test/{}", std::process::id());
        let mut lenders = Lenders::listen(&mark).unwrap();
        let address = SocketAddr::from_abstract_name(name_of(&mark)).unwrap();
        let ours = parent(i32::try_from(std::process::id()).unwrap()).expect("a parent");
        let agents = BTreeMap::from([(ours, Role::Agent(7))]);
        assert_eq!(lenders.changes(&agents), []);
        let waits = [UnixStream::connect_addr(&address).unwrap(), UnixStream::connect_addr(&address).unwrap()];
        assert_eq!(lenders.changes(&agents), [(Role::Agent(7), true)]);
        let [first, second] = waits;
        drop(first);
        assert_eq!(lenders.changes(&agents), []);
        drop(second);
        assert_eq!(lenders.changes(&agents), [(Role::Agent(7), false)]);
        // A process that descends from no agent is ignored.
        let _stranger = UnixStream::connect_addr(&address).unwrap();
        assert_eq!(lenders.changes(&BTreeMap::from([(1, Role::Agent(7))])), []);
        assert_eq!(lenders.descriptors().count(), 1);
    }
}
