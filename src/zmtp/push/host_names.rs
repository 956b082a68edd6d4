//! Host names: known answers and pending lookups. The lookup itself is the shell's concern.
//!
//! A lookup has no time limit of its own: the frames that wait for it expire.

use std::collections::HashMap;
use std::time::Duration;

use base::{AddressPolicy, IpAddr, Mono};

/// Maximum number of names that are being looked up at the same time.
const QUESTIONS_MAX: usize = 64;

/// Maximum number of names that are remembered.
const CACHED_MAX: usize = 1024;

/// How long the addresses of a name are remembered.
const FOUND_TTL: Duration = Duration::from_secs(60);

/// How long a failure is remembered: shorter, because the name may be about to be registered.
const FAILED_TTL: Duration = Duration::from_secs(5);

/// The result of asking for a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// The first of its addresses that the policy allows.
    Found(IpAddr),
    /// The name is unknown and must be looked up.
    Ask,
    /// It is being looked up.
    Asked,
    /// It has no address, or no allowed one, or too many names are being looked up.
    Failed(&'static str),
}

/// The known answers and the pending lookups.
#[derive(Debug)]
pub(super) struct HostNames {
    policy: AddressPolicy,
    known: HashMap<String, Entry>,
    questions: usize,
}

#[derive(Debug)]
enum Entry {
    Asked,
    Answered { ips: Vec<IpAddr>, until: Mono },
}

impl HostNames {
    pub(super) fn new(policy: AddressPolicy) -> Self {
        Self { policy, known: HashMap::new(), questions: 0 }
    }

    /// The known state of a name. After [`Lookup::Ask`] the name counts as being looked up.
    pub(super) fn look_up(&mut self, now: Mono, name: &str, port: u16) -> Lookup {
        match self.known.get(name) {
            Some(Entry::Asked) => return Lookup::Asked,
            Some(Entry::Answered { ips, until }) if now < *until => return self.first_allowed(ips, port),
            Some(Entry::Answered { .. }) | None => {}
        }
        if self.questions >= QUESTIONS_MAX {
            return Lookup::Failed("too many host names are being looked up");
        }
        if self.known.len() >= CACHED_MAX {
            // Pending lookups stay, so that no name is looked up twice at a time.
            self.known.retain(|_, entry| matches!(entry, Entry::Asked));
        }
        self.known.insert(name.to_owned(), Entry::Asked);
        self.questions += 1;
        Lookup::Ask
    }

    /// Takes an answer. An empty list means that the name has no address.
    pub(super) fn handle_resolved(&mut self, now: Mono, name: &str, ips: Vec<IpAddr>) {
        let until = now + if ips.is_empty() { FAILED_TTL } else { FOUND_TTL };
        let before = self.known.insert(name.to_owned(), Entry::Answered { ips, until });
        self.questions -= usize::from(matches!(before, Some(Entry::Asked)));
    }

    /// Whether the name is being looked up.
    pub(super) fn is_asked(&self, name: &str) -> bool {
        matches!(self.known.get(name), Some(Entry::Asked))
    }

    fn first_allowed(&self, ips: &[IpAddr], port: u16) -> Lookup {
        if ips.is_empty() {
            return Lookup::Failed("its host name cannot be resolved");
        }
        let allowed = ips.iter().find_map(|ip| self.policy.check(*ip, port).ok());
        allowed.map_or(Lookup::Failed("its host name resolves to no allowed address"), Lookup::Found)
    }

    pub(super) fn sanity_check(&self) {
        let asked = self.known.keys().filter(|name| self.is_asked(name)).count();
        assert_eq!(self.questions, asked);
        assert!(asked <= QUESTIONS_MAX && self.known.len() <= CACHED_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const NOW: Mono = Mono::from_nanos(5);
    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn names(allow: &[&str]) -> HostNames {
        let allow = allow.iter().map(|network| network.parse().unwrap()).collect();
        HostNames::new(AddressPolicy { allow, own: vec![] })
    }

    #[test]
    fn a_name_is_asked_for_once_and_remembered_for_a_minute() {
        let mut names = names(&["127.0.0.0/8"]);
        assert_eq!(names.look_up(NOW, "host", 80), Lookup::Ask);
        assert_eq!(names.look_up(NOW, "host", 81), Lookup::Asked);
        names.handle_resolved(NOW, "host", vec![LOCAL]);
        assert_eq!(names.look_up(NOW + FOUND_TTL.mul_f64(0.99), "host", 80), Lookup::Found(LOCAL));
        assert_eq!(names.look_up(NOW + FOUND_TTL, "host", 80), Lookup::Ask);
        names.sanity_check();
    }

    #[test]
    fn the_policy_holds_for_what_a_name_resolves_to() {
        let mut names = names(&["10.0.0.0/8"]);
        let denied = Lookup::Failed("its host name resolves to no allowed address");
        assert_eq!(names.look_up(NOW, "host", 80), Lookup::Ask);
        names.handle_resolved(NOW, "host", vec![LOCAL]);
        assert_eq!(names.look_up(NOW, "host", 80), denied);
        let metadata = Ipv4Addr::new(169, 254, 169, 254).into();
        let inside = IpAddr::from(Ipv4Addr::new(10, 0, 0, 1));
        names.handle_resolved(NOW, "host", vec![metadata, inside]);
        assert_eq!(names.look_up(NOW, "host", 80), Lookup::Found(inside));
    }

    #[test]
    fn a_failure_is_forgotten_after_seconds() {
        let mut names = names(&["0.0.0.0/0"]);
        assert_eq!(names.look_up(NOW, "nowhere", 80), Lookup::Ask);
        names.handle_resolved(NOW, "nowhere", vec![]);
        assert_eq!(names.look_up(NOW, "nowhere", 80), Lookup::Failed("its host name cannot be resolved"));
        assert_eq!(names.look_up(NOW + FAILED_TTL, "nowhere", 80), Lookup::Ask);
    }

    #[test]
    fn questions_and_answers_are_bounded() {
        let mut names = names(&["127.0.0.0/8"]);
        for number in 0..QUESTIONS_MAX {
            assert_eq!(names.look_up(NOW, &format!("slow{number}"), 80), Lookup::Ask);
        }
        assert_eq!(names.look_up(NOW, "next", 80), Lookup::Failed("too many host names are being looked up"));
        names.handle_resolved(NOW, "slow0", vec![LOCAL]);
        for number in 0..2 * CACHED_MAX {
            let name = number.to_string();
            assert_eq!(names.look_up(NOW, &name, 80), Lookup::Ask);
            names.handle_resolved(NOW, &name, vec![LOCAL]);
            names.sanity_check();
        }
        assert_eq!(names.look_up(NOW, "slow1", 80), Lookup::Asked, "an open question is not forgotten");
    }
}
