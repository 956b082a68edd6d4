//! Streams and listeners of either transport, none of which ever waits.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, bind, connect, listen,
    setsockopt, socket, sockopt,
};

use super::address::Address;

/// Connections that the kernel keeps for us while we do something else.
const BACKLOG: i32 = 1024;

/// Seconds of silence after which the kernel asks a peer, between two questions, and how many it asks: a machine that is
/// gone is noticed after two minutes. A client may be silent for days.
const KEEPALIVE_IDLE_SECONDS: u32 = 60;
const KEEPALIVE_INTERVAL_SECONDS: u32 = 20;
const KEEPALIVE_COUNT: u32 = 3;

/// A connection, or one that is being made.
#[derive(Debug)]
pub(in crate::shell) enum Stream {
    Tcp(TcpStream),
    Ipc(UnixStream),
}

impl Stream {
    /// Begins to connect; the first write that succeeds, or an error, says how it went.
    pub(in crate::shell) fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let fd = open(family(address))?;
                begin(&fd, &SockaddrStorage::from(*address))?;
                Self::tcp(TcpStream::from(fd))
            }
            Address::Ipc(path) => {
                let fd = open(AddressFamily::Unix)?;
                begin(&fd, &UnixAddr::new(path)?)?;
                Ok(Self::Ipc(UnixStream::from(fd)))
            }
        }
    }

    fn tcp(stream: TcpStream) -> io::Result<Self> {
        // An answer is one small write, and whoever asked waits for it.
        stream.set_nodelay(true)?;
        setsockopt(&stream, sockopt::KeepAlive, &true)?;
        setsockopt(&stream, sockopt::TcpKeepIdle, &KEEPALIVE_IDLE_SECONDS)?;
        setsockopt(&stream, sockopt::TcpKeepInterval, &KEEPALIVE_INTERVAL_SECONDS)?;
        setsockopt(&stream, sockopt::TcpKeepCount, &KEEPALIVE_COUNT)?;
        Ok(Self::Tcp(stream))
    }

    pub(in crate::shell) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        retry(|| match self {
            Self::Tcp(stream) => (&mut &*stream).read(buffer),
            Self::Ipc(stream) => (&mut &*stream).read(buffer),
        })
    }

    pub(in crate::shell) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        retry(|| match self {
            Self::Tcp(stream) => (&mut &*stream).write(bytes),
            Self::Ipc(stream) => (&mut &*stream).write(bytes),
        })
    }

    /// Ends one direction or both.
    pub(in crate::shell) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Ipc(stream) => stream.shutdown(how),
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

/// A bound socket.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    /// With the file that goes with it.
    Ipc(UnixListener, PathBuf),
}

impl Listener {
    /// Binds; gives back the address with the port that was taken for 0.
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
                listener.set_nonblocking(true)?;
                // The wire has no authentication: who may open the file may run tools.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
                Ok((Self::Ipc(listener, path.clone()), address.clone()))
            }
        }
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

/// A file that nobody listens at is what a killed process has left.
fn bind_ipc(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => match UnixStream::connect(path) {
            Err(dead) if dead.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path)?;
                UnixListener::bind(path)
            }
            _ => Err(error),
        },
        bound => bound,
    }
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
        if let Self::Ipc(_, path) = self {
            // It is gone already when somebody has tidied up.
            let _ = std::fs::remove_file(path);
        }
    }
}
