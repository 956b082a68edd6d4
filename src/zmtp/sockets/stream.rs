//! Non-blocking streams and listeners of either transport.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, bind, connect, listen,
    setsockopt, socket, sockopt,
};
use nix::sys::stat::{Mode, umask};

use super::address::Address;
use super::socket_path::SocketPath;
use crate::port::{BACKLOG, KEEPALIVE_COUNT, KEEPALIVE_IDLE_SECONDS, KEEPALIVE_INTERVAL_SECONDS};
use proc::visitor::Visitor;

/// A connection, or a connection attempt.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Ipc(UnixStream),
}

impl Stream {
    /// Begins to connect. The first successful write, or an error, shows the result.
    pub(crate) fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let fd = open(family(address))?;
                begin(&fd, &SockaddrStorage::from(*address))?;
                Self::tcp(TcpStream::from(fd))
            }
            Address::Ipc(path) => Ok(Self::Ipc(connect_unix(path)?)),
        }
    }

    fn tcp(stream: TcpStream) -> io::Result<Self> {
        // An answer is one small write for which a client waits.
        stream.set_nodelay(true)?;
        setsockopt(&stream, sockopt::KeepAlive, &true)?;
        setsockopt(&stream, sockopt::TcpKeepIdle, &KEEPALIVE_IDLE_SECONDS)?;
        setsockopt(&stream, sockopt::TcpKeepInterval, &KEEPALIVE_INTERVAL_SECONDS)?;
        setsockopt(&stream, sockopt::TcpKeepCount, &KEEPALIVE_COUNT)?;
        Ok(Self::Tcp(stream))
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        retry(|| match self {
            Self::Tcp(stream) => (&mut &*stream).read(buffer),
            Self::Ipc(stream) => (&mut &*stream).read(buffer),
        })
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        retry(|| match self {
            Self::Tcp(stream) => (&mut &*stream).write(bytes),
            Self::Ipc(stream) => (&mut &*stream).write(bytes),
        })
    }

    /// The process at the other end of a TCP stream.
    pub(super) fn visitor(&self) -> Option<Visitor> {
        match self {
            Self::Tcp(stream) => Some(Visitor::of_stream(stream)),
            Self::Ipc(_) => None,
        }
    }

    /// Closes one direction or both.
    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Ipc(stream) => stream.shutdown(how),
        }
    }
}

impl From<Stream> for OwnedFd {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Tcp(stream) => stream.into(),
            Stream::Ipc(stream) => stream.into(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Ipc(stream) => stream.as_fd(),
        }
    }
}

fn retry(mut io: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match io() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn family(address: &SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn open(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?)
}

fn begin(fd: &OwnedFd, address: &dyn SockaddrLike) -> io::Result<()> {
    match connect(fd.as_raw_fd(), address) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let fd = open(AddressFamily::Unix)?;
    begin(&fd, &UnixAddr::new(SocketPath::of(path)?.as_path())?)?;
    Ok(UnixStream::from(fd))
}

/// Looks whether a process listens at a unix socket. It does not wait for one that is frozen and has as many callers as it may.
///
/// # Errors
/// Those of a connection: none listens, or this user may not connect.
pub fn probe_unix(path: &Path) -> io::Result<()> {
    match connect_unix(path) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}

/// A bound socket.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    /// The listener with its file.
    Ipc(UnixListener, SocketFile),
}

/// The file of a bound socket. Its identity shows whether another process has replaced it.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Listener {
    /// Binds a listener. Returns the address with the actual port instead of 0.
    pub(super) fn bind(address: &Address) -> io::Result<(Self, Address)> {
        match address {
            Address::Tcp(address) => {
                let fd = open(family(address))?;
                setsockopt(&fd, sockopt::ReuseAddr, &true)?;
                bind(fd.as_raw_fd(), &SockaddrStorage::from(*address))?;
                listen(&fd, Backlog::new(BACKLOG)?)?;
                let listener = TcpListener::from(fd);
                let bound = Address::Tcp(listener.local_addr()?);
                Ok((Self::Tcp(listener), bound))
            }
            Address::Ipc(path) => {
                let listener = bind_ipc(path)?;
                let file = SocketFile { path: path.clone(), identity: identity_of_socket(path) };
                listener.set_nonblocking(true)?;
                Ok((Self::Ipc(listener, file), address.clone()))
            }
        }
    }

    /// Continues a listener for this address that the previous program in this process has left open.
    pub(super) fn adopt(fd: OwnedFd, address: &Address) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp(_) => Self::Tcp(TcpListener::from(fd)),
            Address::Ipc(path) => {
                let file = SocketFile { path: path.clone(), identity: identity_of_socket(path) };
                Self::Ipc(UnixListener::from(fd), file)
            }
        })
    }

    /// The next connection, with the address of its machine.
    pub(super) fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((Stream::tcp(stream)?, Some(peer.ip())))
            }
            Self::Ipc(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((Stream::Ipc(stream), None))
            }
        }
    }
}

/// Binds a unix socket. A socket without a listening process was left by a killed process and is replaced. No other
/// file is.
fn bind_ipc(path: &Path) -> io::Result<UnixListener> {
    match bind_private(path) {
        Err(in_use) if in_use.kind() == io::ErrorKind::AddrInUse => {
            // Checked first, because a connection to a regular file is refused as well.
            let Some(found) = identity_of_socket(path) else {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "the file there is not a socket; move it away, or name another path with CONTROLLER_IPC_FILE",
                ));
            };
            let taken = |what: &str| {
                let sentence = format!("{what}; end it, or name another path with CONTROLLER_IPC_FILE");
                io::Error::new(io::ErrorKind::AddrInUse, sentence)
            };
            match probe_unix(path) {
                Err(dead) if dead.kind() == io::ErrorKind::ConnectionRefused => {
                    // Another controller may have bound its socket there meanwhile.
                    if identity_of_socket(path) == Some(found) {
                        std::fs::remove_file(path)?;
                    }
                    bind_private(path)
                }
                Ok(_) => Err(taken("a process listens there")),
                Err(other) => Err(taken(&format!("the socket there cannot be reached ({other})"))),
            }
        }
        bound => bound,
    }
}

/// Binds a socket that only its owner can open, from its creation on: the wire has no authentication, and a connection
/// made before a later chmod would stay.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    // The umask applies to the whole process. A file that another thread creates meanwhile has fewer permissions, never
    // more.
    let path = SocketPath::of(path)?;
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(path.as_path());
    umask(before);
    bound
}

/// Device and inode of a socket; `None` for any other file, for a link to a socket, and for a missing file.
fn identity_of_socket(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    found.file_type().is_socket().then(|| (found.dev(), found.ino()))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Ipc(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Ipc(_, SocketFile { path, identity }) = self
            && identity.is_some()
            && identity_of_socket(path) == *identity
        {
            // A failure means that another process has removed the file meanwhile.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(path: &Path) -> io::Result<Listener> {
        Listener::bind(&Address::Ipc(path.to_owned())).map(|(listener, _)| listener)
    }

    #[test]
    fn a_listener_that_takes_no_callers_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = open(AddressFamily::Unix).unwrap();
        nix::sys::socket::bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        nix::sys::socket::listen(&listener, Backlog::new(1).unwrap()).unwrap();
        let callers: Vec<UnixStream> = std::iter::from_fn(|| connect_unix(&path).ok()).take(9).collect();
        assert!(callers.len() < 9, "no more callers fit");
        probe_unix(&path).unwrap();
        drop(listener);
        assert_eq!(probe_unix(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn only_a_dead_socket_makes_way() {
        let folder = tempfile::tempdir().unwrap();
        let [file, dead, link] = ["precious.txt", "dead", "link"].map(|name| folder.path().join(name));
        std::fs::write(&file, "precious").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            let refused = listen(path).unwrap_err();
            assert_eq!(
                refused.to_string(),
                "the file there is not a socket; move it away, or name another path with CONTROLLER_IPC_FILE"
            );
            assert_eq!(std::fs::read_to_string(path).unwrap(), "precious");
        }
        drop(UnixListener::bind(&dead).unwrap());
        let living = listen(&dead).unwrap();
        assert_eq!(listen(&dead).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        UnixStream::connect(&dead).unwrap();
        drop(living);
        assert!(!dead.exists());
    }

    #[test]
    fn a_socket_is_for_its_owner_only_and_takes_no_other_file_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = listen(&path).unwrap();
        assert_eq!(std::fs::symlink_metadata(&path).unwrap().mode() & 0o777, 0o600);
        std::fs::remove_file(&path).unwrap();
        let second = listen(&path).unwrap();
        drop(first);
        UnixStream::connect(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        drop(second);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    /// There is no instant at which the socket is open to others: the mode is that of the bind, not of a later chmod.
    #[test]
    fn a_socket_is_born_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let before = umask(Mode::empty());
        let bound = bind_private(&path);
        assert_eq!(umask(before), Mode::empty(), "the umask is given back");
        assert_eq!(std::fs::symlink_metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(bound.unwrap());
    }
}
