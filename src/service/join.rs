//! Authorises the key of another machine without copying files by hand: [`Desk`] is the controller's side, [`ask`] the newcomer's.
//!
//! The token of an invitation holds the public key of the controller and a secret key made for this invitation. The newcomer connects
//! with CURVE, identifies the controller by the token, and hands over its own public key; its secret key never leaves its machine.
//!
//! | peer | result |
//! |---|---|
//! | a stranger without the token | a handshake that fails, as with every controller that does not know the key |
//! | a machine in the middle | the same: it has neither the secret of the controller nor that of the token |
//! | a second holder of the token | a refusal that names the first holder, and a notice to the inviting user |
//!
//! The token is not compared. Its holder proves it in the handshake, whose arithmetic takes the same time for every key.

mod waiting;

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use api::config::Config;
use api::transport;
use api::wire::join::{Admission, Newcomer};
use base::{AgentId, CurveServerFiles, Loopback, Mono, PublicKey};
use proc::clock;
use proc::signals::Signals;
use zmtp::curve_keys;
use zmtp::curve_keys::{AuthorisedKey, KeyError};
use zmtp::endpoint::ConnectionLimits;
use zmtp::engine::{BadKey, ClientKeys, KeyPair, Security, ServerKeys};
use zmtp::port::{Denial, SocketError};
use zmtp::sockets::{Address, LinkSettings, Outcome, PortSettings, Ports, Requester};

pub use waiting::{KeysInWait, WaitError};

/// The length of one key in letters. A token has two keys.
const KEY_LETTERS: usize = 40;

/// Strangers that may be in their handshake at once.
const CONNECTIONS_MAX: usize = 64;

/// Bytes that all connections together may make the desk hold.
const HELD_BYTES_MAX: usize = 1 << 20;

/// How long a newcomer tries to connect: the inviting side already listens.
const CONNECT_MAX: Duration = Duration::from_secs(30);

/// The reason why a machine could not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The text is no token.
    #[error("this is no token of `llts keys invite`: {0}; copy it as a whole, in single quotes")]
    BadToken(#[source] BadKey),
    /// A key file is not as it should be.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// No connection could be made.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The controller's side does not accept the token.
    #[error(
        "{address} does not take this token: it is for another invitation, or for another controller; ask there for a new one with `llts keys invite`"
    )]
    Denied {
        /// The endpoint, as `tcp://IP:PORT`.
        address: String,
    },
    /// The request was refused.
    #[error("{address} does not let this machine in: {why}")]
    Refused {
        /// The endpoint, as `tcp://IP:PORT`.
        address: String,
        /// The reason, as a sentence.
        why: String,
    },
    /// No answer came.
    #[error("{address} has not answered within {} s", .waited.as_secs())]
    Silence {
        /// The endpoint, as `tcp://IP:PORT`.
        address: String,
        /// The time that passed without an answer.
        waited: Duration,
    },
    /// The connection has ended without an answer.
    #[error(
        "{address} has ended the connection without an answer: the invitation has ended, or another machine has used its token; \
         ask there which keys wait (`llts keys list`), and for a new invitation"
    )]
    Lost {
        /// The endpoint, as `tcp://IP:PORT`.
        address: String,
    },
    /// A signal interrupts the wait.
    #[error("left before the answer")]
    Interrupted,
}

/// The secret that an invitation gives to a newcomer. It is shown once, to the user who invites, and never logged.
pub struct Token {
    server: PublicKey,
    pair: KeyPair,
}

impl Token {
    /// Reads the text form of a token ([`Self::text`]).
    ///
    /// # Errors
    /// When the text is not a token.
    pub fn parse(text: &str) -> Result<Self, JoinError> {
        let (server, secret) = text.split_at_checked(KEY_LETTERS).ok_or(JoinError::BadToken(BadKey::NotZ85))?;
        let server = PublicKey::parse(server).map_err(JoinError::BadToken)?;
        Ok(Self { server, pair: KeyPair::parse(secret).map_err(JoinError::BadToken)? })
    }

    /// The token as text, 80 letters of Z85. No quote is among them.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}{}", self.server, self.pair.secret_text())
    }

    /// The public key of the controller.
    #[must_use]
    pub const fn server(&self) -> PublicKey {
        self.server
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("server", &self.server).finish_non_exhaustive()
    }
}

/// A socket that waits for one newcomer.
pub struct Desk {
    ports: Ports,
    token: Token,
}

/// The event that ends the wait of a desk.
#[derive(Debug)]
pub enum Visit {
    /// A newcomer, and the frames that address the answer to it.
    Newcomer(Newcomer, Vec<Vec<u8>>),
    /// A message from a holder of the token that is not a request to join. It uses the token up.
    Nonsense,
    /// The time has passed.
    Expired,
    /// A signal interrupts the wait.
    Interrupted,
}

/// The event that ends the wait for a decision on a newcomer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A second holder of the token was refused. The wait goes on.
    Another(Newcomer),
    /// Its key is authorised.
    Accepted,
    /// The newcomer no longer waits, and its key is not authorised.
    Refused,
    /// The user has typed a line on the terminal.
    Typed,
    /// The newcomer has closed its connection.
    Left,
    /// The time has passed.
    Expired,
    /// A signal interrupts the wait.
    Interrupted,
}

impl Desk {
    /// Opens a desk at this address for the controller with these keys.
    ///
    /// # Errors
    /// When its key cannot be read, or the address is taken.
    pub fn open(config: &Config, files: &CurveServerFiles, at: SocketAddr) -> Result<Self, JoinError> {
        let (pair, guest) = (curve_keys::server(files)?, KeyPair::from_bytes(rand::random()));
        let token = Token { server: pair.public(), pair: guest.clone() };
        let authorised = [guest.public()].into_iter().collect();
        let settings = PortSettings {
            limits: transport::limits(config),
            security: Security::CurveServer(Arc::new(ServerKeys { pair, authorised, commanders: [].into() })),
            places: ConnectionLimits {
                connections_max: CONNECTIONS_MAX,
                per_address_max: CONNECTIONS_MAX,
                held_bytes_max: HELD_BYTES_MAX,
            },
            local: None,
            local_may_fail: false,
            subscriptions_max: 1,
            loopback: Loopback::default(),
        };
        let endpoint = Address::Tcp(at).to_string();
        Ok(Self { ports: Ports::open(Some(&endpoint), None, String::new(), &settings)?, token })
    }

    /// Its endpoint: `tcp://IP:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        self.ports.requests()
    }

    /// The token for the newcomer.
    #[must_use]
    pub const fn token(&self) -> &Token {
        &self.token
    }

    /// Waits for the first message.
    pub fn wait(&mut self, until: Mono, signals: &mut Signals) -> Visit {
        loop {
            let now = clock::now().mono;
            if let Some(mut frames) = self.ports.receive() {
                let body = frames.pop().unwrap_or_default();
                return Newcomer::parse(&body).map_or(Visit::Nonsense, |newcomer| Visit::Newcomer(newcomer, frames));
            }
            if until <= now {
                return Visit::Expired;
            }
            self.ports.wait(now, Some(until), &[signals.as_fd()]);
            if !signals.read().is_empty() {
                return Visit::Interrupted;
            }
        }
    }

    /// Waits for the decision on a newcomer. It comes from the folder of waiting keys, where this key is, or from the terminal. `from`
    /// are the frames that came with the request.
    ///
    /// # Errors
    /// When the folder cannot be watched.
    pub fn wait_for_verdict(
        &mut self,
        (keys, newcomer): (&KeysInWait, &Newcomer),
        from: &[Vec<u8>],
        until: Mono,
        (signals, terminal): (&mut Signals, Option<BorrowedFd<'_>>),
    ) -> std::io::Result<Verdict> {
        let news = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        news.add_watch(
            &keys.folder(),
            AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVE | AddWatchFlags::IN_DELETE_SELF,
        )?;
        loop {
            while news.read_events().is_ok() {}
            let now = clock::now().mono;
            match keys.decided(newcomer) {
                Some(true) => return Ok(Verdict::Accepted),
                Some(false) => return Ok(Verdict::Refused),
                None if until <= now => return Ok(Verdict::Expired),
                None => {}
            }
            let fds: Vec<_> = [signals.as_fd(), news.as_fd()].into_iter().chain(terminal).collect();
            let ready = self.ports.wait(now, Some(until), &fds);
            if let Some(other) = self.refuse_others(newcomer) {
                return Ok(Verdict::Another(other));
            }
            while let Some(gone) = self.ports.poll_closed() {
                if from.first() == Some(&gone) {
                    return Ok(Verdict::Left);
                }
            }
            if !signals.read().is_empty() {
                return Ok(Verdict::Interrupted);
            }
            if ready.get(2) == Some(&true) {
                return Ok(Verdict::Typed);
            }
        }
    }

    /// Refuses newcomers after the first one: the token was good for one message. Returns the first of those refused.
    fn refuse_others(&mut self, first: &Newcomer) -> Option<Newcomer> {
        let mut other = None;
        while let Some(mut frames) = self.ports.receive() {
            let late = frames.pop().and_then(|body| Newcomer::parse(&body));
            let why = format!(
                "another machine has used this token before, {} with the key {}; if that is not one of yours, have its key refused \
                 there (`llts keys refuse {}`), and ask for a new invitation",
                first.name, first.key, first.name
            );
            frames.push(Admission::Refused(why).encode());
            // A newcomer that has left needs no answer.
            let _ = self.ports.send(&frames, Duration::ZERO);
            other = other.or(late);
        }
        other
    }

    /// Answers the first newcomer, and closes the desk.
    pub fn answer(mut self, newcomer: &Newcomer, mut to: Vec<Vec<u8>>, admission: &Admission) {
        self.refuse_others(newcomer);
        to.push(admission.encode());
        // A newcomer that has left learns the result when it next connects to the controller.
        let _ = self.ports.send(&to, Duration::ZERO);
        Box::new(self.ports).close();
    }
}

/// Authorises a key: writes it to a file in the folder, which takes effect within a second.
///
/// # Errors
/// When there is a file of that name already, or it cannot be written.
pub fn let_in(folder: &Path, name: &AgentId, key: AuthorisedKey) -> Result<(), KeyError> {
    key.write(&folder.join(name.as_str()))
}

/// Hands the key of a newcomer over, and waits for the answer.
///
/// # Errors
/// [`JoinError`]
pub fn ask(
    config: &Config,
    address: &str,
    token: &Token,
    newcomer: &Newcomer,
    patience: Duration,
    signals: &mut Signals,
) -> Result<Admission, JoinError> {
    let keys = ClientKeys { pair: token.pair.clone(), server: token.server };
    let settings = LinkSettings {
        limits: transport::limits(config),
        security: Security::CurveClient(Arc::new(keys)),
        reconnect_interval_max: config.agent.reconnect_interval_max,
    };
    let mut requester = Requester::connect(address, settings)?;
    let until = clock::now().mono + patience;
    let address = || address.to_owned();
    let connect_by = clock::now().mono + CONNECT_MAX;
    match requester.exchange_once(newcomer.encode(), connect_by, until, Some(signals.as_fd())) {
        Outcome::Answer(frames) => match frames.last().and_then(|frame| Admission::parse(frame)) {
            Some(Admission::Refused(why)) => Err(JoinError::Refused { address: address(), why }),
            Some(accepted) => Ok(accepted),
            None => Err(JoinError::Refused { address: address(), why: "its answer is none".to_owned() }),
        },
        Outcome::Denied(
            Denial::KeyRefused(_) | Denial::OtherController(_) | Denial::KeyMissing | Denial::KeyUnused,
        ) => Err(JoinError::Denied { address: address() }),
        Outcome::Lost => Err(JoinError::Lost { address: address() }),
        Outcome::Silence => Err(JoinError::Silence { address: address(), waited: patience }),
        Outcome::Interrupted => Err(JoinError::Interrupted),
    }
}
