//! Standard streams that a client passes to the command of its task, on its own machine.
//!
//! The giver listens on an abstract unix socket with a random name, which its task contains. The agent takes the
//! streams when it prepares the run, anew in each round. The kernel tells the giver the user of a taker, and only the
//! users that the giver allows get the streams. The taker checks that the giver's user is the one in the name: when a
//! giver has ended, any user may listen under its name.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg, sockopt,
};

/// The prefix of a name. The user id of the giver follows.
const NAME: &str = "llts-";

/// How long to wait for a giver. It answers at once, unless it is stopped.
const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum number of streams: stdin, or all three.
const STREAMS_MAX: usize = 3;

/// Streams for a command.
#[derive(Debug)]
pub struct Streams {
    /// Its standard input.
    pub stdin: File,
    /// Its standard output and standard error, if the giver has made a terminal for it.
    pub outputs: Option<[File; 2]>,
}

/// Why the streams of a task cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// There is no giver.
    #[error("its `llts run` has ended, or is on another machine; let the command open a file instead")]
    NoGiver,
    /// The giver did not pass them.
    #[error("`llts run` gives them to its own user, that of the service and root only")]
    Refused,
    /// An error of the system, or the giver is stopped.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Streams that are offered.
#[derive(Debug)]
pub struct Offer {
    name: String,
    /// Empty after a withdrawal.
    streams: Arc<Mutex<Vec<OwnedFd>>>,
}

impl Offer {
    /// The name under which they are taken.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Closes this end of the streams.
    pub fn withdraw(&self) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Offers these streams to the users with these ids, until this process ends. `on_taken` is called each time they are taken.
///
/// # Errors
/// When the system has no socket or thread.
pub fn offer(streams: Vec<OwnedFd>, users: Vec<u32>, on_taken: impl Fn() + Send + 'static) -> io::Result<Offer> {
    let name = format!("{NAME}{}-{:032x}", rustix::process::geteuid().as_raw(), rand::random::<u128>());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    let streams = Arc::new(Mutex::new(streams));
    let offer = Offer { name, streams: Arc::clone(&streams) };
    std::thread::Builder::new().name("streams".to_owned()).spawn(move || {
        for taker in listener.incoming().flatten() {
            match give(&taker, &streams.lock().unwrap_or_else(PoisonError::into_inner), &users) {
                Ok(true) => on_taken(),
                Ok(false) => {}
                Err(error) => log::debug!("the standard streams were not taken: {error}"),
            }
        }
    })?;
    Ok(offer)
}

/// Passes the streams to a taker. Returns whether it may have them.
fn give(taker: &UnixStream, streams: &[OwnedFd], users: &[u32]) -> io::Result<bool> {
    if streams.is_empty() || !users.contains(&sockopt::socket_peercred(taker)?.uid.as_raw()) {
        return Ok(false);
    }
    let streams: Vec<BorrowedFd<'_>> = streams.iter().map(OwnedFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS_MAX))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    rights.push(SendAncillaryMessage::ScmRights(&streams));
    // Descriptors travel with at least one byte.
    sendmsg(taker, &[IoSlice::new(&[0])], &mut rights, SendFlags::NOSIGNAL)?;
    Ok(true)
}

/// Takes the streams offered under this name.
///
/// # Errors
/// [`TakeError`].
pub fn take(name: &str) -> Result<Streams, TakeError> {
    let giver = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?).map_err(|error| {
        if error.kind() == io::ErrorKind::ConnectionRefused { TakeError::NoGiver } else { TakeError::System(error) }
    })?;
    // A name without a user comes from an earlier version.
    let user = name.strip_prefix(NAME).and_then(|rest| rest.split_once('-')?.0.parse::<u32>().ok());
    let giver_user = sockopt::socket_peercred(&giver).map_err(io::Error::from)?.uid.as_raw();
    if user.is_some_and(|user| user != giver_user) {
        return Err(TakeError::NoGiver);
    }
    giver.set_read_timeout(Some(PATIENCE))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS_MAX))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(&giver, &mut [IoSliceMut::new(&mut [0])], &mut rights, RecvFlags::CMSG_CLOEXEC)
        .map_err(io::Error::from)?;
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("no descriptor is left").into());
    }
    let mut files = rights.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.map(File::from).collect(),
        _ => Vec::new(),
    });
    let stdin = files.next().ok_or(TakeError::Refused)?;
    let outputs = files.next().zip(files.next()).map(|(stdout, stderr)| [stdout, stderr]);
    Ok(Streams { stdin, outputs })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    fn own_user() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn a_stream_is_taken_in_each_round() {
        let (read, write) = io::pipe().unwrap();
        let offer = offer(vec![read.into()], vec![own_user()], || {}).unwrap();
        let name = offer.name();
        let mut write = File::from(OwnedFd::from(write));
        for round in [b"one", b"two"] {
            write.write_all(round).unwrap();
            let mut taken = take(name).unwrap();
            assert!(taken.outputs.is_none());
            let mut text = [0; 3];
            taken.stdin.read_exact(&mut text).unwrap();
            assert_eq!(&text, round);
        }
        offer.withdraw();
        assert!(matches!(take(name), Err(TakeError::Refused)));
    }

    #[test]
    fn all_three_streams_keep_their_order() {
        let (read, write) = io::pipe().unwrap();
        let nothing = File::open("/dev/null").unwrap();
        let streams = vec![nothing.into(), write.into(), File::open("/dev/zero").unwrap().into()];
        let offer = offer(streams, vec![own_user()], || {}).unwrap();
        let taken = take(offer.name()).unwrap();
        let [mut stdout, mut stderr] = taken.outputs.unwrap();
        stdout.write_all(b"x").unwrap();
        let mut byte = [7];
        File::from(OwnedFd::from(read)).read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
        stderr.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [0]);
    }

    #[test]
    fn other_users_get_nothing() {
        let streams = vec![File::open("/dev/null").unwrap().into()];
        let offer = offer(streams, vec![own_user().wrapping_add(1)], || {}).unwrap();
        assert!(matches!(take(offer.name()), Err(TakeError::Refused)));
    }

    #[test]
    fn nothing_is_taken_from_another_user_who_listens_under_the_name() {
        let name = format!("{NAME}{}-{:032x}", own_user().wrapping_add(1), rand::random::<u128>());
        let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        assert!(matches!(take(&name), Err(TakeError::NoGiver)));
    }

    #[test]
    fn a_giver_that_is_not_there_is_named_as_the_reason() {
        assert!(matches!(take("llts-nothing-listens-here"), Err(TakeError::NoGiver)));
    }
}
