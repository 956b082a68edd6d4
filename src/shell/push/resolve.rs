//! Host names to IP addresses, on a thread of its own: a name server that does not answer blocks its caller for seconds.
//!
//! There is one such thread. Names are looked up one after the other, so that a slow one delays other names; numeric
//! addresses never come here. The time limit is that of the frames which wait for the answer.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::types::AddressPolicy;
use crate::types::Mono;

/// Names that wait for the thread.
const QUESTIONS_MAX: usize = 64;

/// Names that are remembered.
const CACHED_MAX: usize = 1024;

/// How long an answer is remembered. A failure is forgotten sooner: the name may be about to be registered.
const FOUND_TTL: Duration = Duration::from_secs(60);
const FAILED_TTL: Duration = Duration::from_secs(5);

/// What is known of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// The first of its addresses that the policy allows.
    Found(IpAddr),
    /// It is being looked up; [`Resolver::poll_answer`] names it then.
    Asked,
    /// It has no address, or none that is allowed, or too many names are being looked up.
    Failed(&'static str),
}

struct Cached {
    /// `None` while the question is open.
    answer: Option<Vec<IpAddr>>,
    until: Option<Mono>,
}

struct Answer {
    name: String,
    ips: Vec<IpAddr>,
}

/// The cache and the way to the thread.
pub(super) struct Resolver {
    questions: SyncSender<String>,
    answers: Receiver<Answer>,
    /// Counts the answers that were not taken over so far.
    ready: Arc<OwnedFd>,
    cache: HashMap<String, Cached>,
    policy: AddressPolicy,
}

impl Resolver {
    /// Starts the thread. It ends when the resolver is dropped and the lookup of the moment, if any, has returned.
    pub(super) fn start(policy: AddressPolicy) -> io::Result<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE;
        let ready = Arc::new(eventfd(0, flags)?);
        let (questions, incoming) = mpsc::sync_channel::<String>(QUESTIONS_MAX);
        let (outgoing, answers) = mpsc::channel();
        let bell = Arc::clone(&ready);
        std::thread::Builder::new().name("push-resolve".into()).spawn(move || {
            for name in incoming {
                let ips = look_up(&name);
                // The counter holds far more answers than there are places for questions.
                let ring = || rustix::io::write(&bell, &1u64.to_ne_bytes());
                if outgoing.send(Answer { name, ips }).is_err() || ring().is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { questions, answers, ready, cache: HashMap::new(), policy })
    }

    /// Says what is known of a name, and asks if nothing is.
    pub(super) fn look_up(&mut self, now: Mono, name: &str, port: u16) -> Lookup {
        if let Some(cached) = self.cache.get(name)
            && cached.until.is_none_or(|until| now < until)
        {
            return match &cached.answer {
                None => Lookup::Asked,
                Some(ips) => self.first_allowed(ips, port),
            };
        }
        if self.cache.len() >= CACHED_MAX {
            // Open questions stay, so that none is asked twice; QUESTIONS_MAX bounds them.
            self.cache.retain(|_, cached| cached.until.is_none());
        }
        match self.questions.try_send(name.to_owned()) {
            Ok(()) => {
                self.cache.insert(name.to_owned(), Cached { answer: None, until: None });
                Lookup::Asked
            }
            Err(_) => Lookup::Failed("too many host names are being looked up"),
        }
    }

    /// Takes over one answer and names the host that it is for.
    pub(super) fn poll_answer(&mut self, now: Mono) -> Option<String> {
        rustix::io::read(&self.ready, &mut [0; 8]).ok()?;
        let Answer { name, ips } = self.answers.try_recv().ok()?;
        let ttl = if ips.is_empty() { FAILED_TTL } else { FOUND_TTL };
        self.cache.insert(name.clone(), Cached { answer: Some(ips), until: Some(now + ttl) });
        Some(name)
    }

    fn first_allowed(&self, ips: &[IpAddr], port: u16) -> Lookup {
        if ips.is_empty() {
            return Lookup::Failed("its host name cannot be resolved");
        }
        let allowed = ips.iter().find_map(|ip| self.policy.check(*ip, port).ok());
        allowed.map_or(Lookup::Failed("its host name resolves to no allowed address"), Lookup::Found)
    }
}

/// Readable while there are answers.
impl AsFd for Resolver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

fn look_up(name: &str) -> Vec<IpAddr> {
    // The port is not looked at.
    (name, 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::shell::readable;

    fn resolver(allow: &[&str]) -> Resolver {
        let policy =
            AddressPolicy { allow: allow.iter().map(|network| network.parse().unwrap()).collect(), own: vec![] };
        Resolver::start(policy).unwrap()
    }

    /// Blocks until the thread has answered.
    fn answered(resolver: &mut Resolver, now: Mono) -> String {
        assert!(readable::is_readable(&*resolver, None));
        resolver.poll_answer(now).unwrap()
    }

    #[test]
    fn a_name_is_asked_for_once_and_remembered_for_a_minute() {
        let mut resolver = resolver(&["127.0.0.0/8", "::1"]);
        let now = Mono::default();
        assert_eq!(resolver.look_up(now, "localhost", 80), Lookup::Asked);
        assert_eq!(resolver.look_up(now, "localhost", 81), Lookup::Asked);
        assert_eq!(answered(&mut resolver, now), "localhost");
        assert_eq!(resolver.poll_answer(now), None, "the second question is the first one");
        assert!(matches!(resolver.look_up(now, "localhost", 80), Lookup::Found(ip) if ip.is_loopback()));
        assert_eq!(resolver.look_up(now + FOUND_TTL, "localhost", 80), Lookup::Asked);
    }

    #[test]
    fn the_policy_holds_for_what_a_name_resolves_to() {
        let mut resolver = resolver(&["10.0.0.0/8"]);
        let now = Mono::default();
        assert_eq!(resolver.look_up(now, "localhost", 80), Lookup::Asked);
        answered(&mut resolver, now);
        let lookup = resolver.look_up(now, "localhost", 80);
        assert_eq!(lookup, Lookup::Failed("its host name resolves to no allowed address"));
        let hidden = [Ipv4Addr::new(169, 254, 169, 254).into(), Ipv4Addr::new(10, 0, 0, 1).into()];
        assert_eq!(resolver.first_allowed(&hidden, 80), Lookup::Found(hidden[1]));
    }

    #[test]
    fn a_failure_is_forgotten_after_seconds() {
        let mut resolver = resolver(&["0.0.0.0/0"]);
        let now = Mono::default();
        resolver.cache.insert("nowhere".into(), Cached { answer: Some(vec![]), until: Some(now + FAILED_TTL) });
        assert_eq!(resolver.look_up(now, "nowhere", 80), Lookup::Failed("its host name cannot be resolved"));
        assert_eq!(resolver.look_up(now + FAILED_TTL, "nowhere", 80), Lookup::Asked);
    }
}
