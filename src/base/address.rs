//! Parses push addresses. Whether an IP address may be reached is [`AddressPolicy`]'s concern.
//!
//! A receiver of libzmq may bind to nearly anything (ipc, inproc, a source address before the target). Pushes go to TCP
//! addresses only. The resolver and the sockets get text rebuilt from the parsed parts.

mod policy;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::PublicKey;
pub(crate) use policy::embedded_v4;
pub use policy::{AddressPolicy, Cidr, CidrError};

/// Maximum bytes of an address: a host name has at most 253, and the rest is scheme and port.
const ADDRESS_BYTES_MAX: usize = 300;

/// Whether only this machine can reach an address; an IPv4 address may be mapped into IPv6.
#[must_use]
pub const fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Maximum characters of a refused value that the error shows.
const SHOWN_CHARS_MAX: usize = 60;

/// An address that states are pushed to. Two texts of the same target with the same key compare equal, so that they share
/// one socket. The same target with another key, or with none, is a different receiver.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PushAddress {
    /// The host to connect to.
    pub host: Host,
    /// The TCP port on that host.
    pub port: u16,
    /// The receiver's CURVE key. With a key, the address is reached with CURVE or not at all.
    pub key: Option<PublicKey>,
}

/// The part before the port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// An IP address that the policy allows.
    Ip(IpAddr),
    /// A name in lower case. It is resolved and checked when a socket is opened.
    Name(String),
}

impl Host {
    /// Parses a host, as written before the port.
    pub fn parse(text: &str) -> Option<Self> {
        read_host(text).ok()
    }

    /// The host, as written before the port.
    pub fn in_endpoint(&self) -> String {
        match self {
            Self::Ip(IpAddr::V6(ip)) => format!("[{ip}]"),
            Self::Ip(ip) => ip.to_string(),
            Self::Name(name) => name.clone(),
        }
    }
}

/// An address that is refused, as a sentence for the submitter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("push address {value} {why}")]
pub struct AddressError {
    /// The value, quoted and shortened.
    pub value: String,
    /// The rule that refuses it.
    pub why: Refusal,
}

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Longer than any address can be.
    #[error("is longer than {ADDRESS_BYTES_MAX} bytes; use tcp://IP:PORT")]
    TooLong,
    /// Another transport, or no transport.
    #[error("is not a tcp address; use tcp://IP:PORT")]
    NotTcp,
    /// The form `tcp://source;target`, which chooses the interface of the controller.
    #[error("names a source address; use tcp://IP:PORT of the receiver alone")]
    Source,
    /// No `:port` at the end.
    #[error("has no port; use tcp://IP:PORT")]
    NoPort,
    /// A port that is not a number from 1 to 65535.
    #[error("has a bad port; use a number from 1 to 65535")]
    BadPort,
    /// Neither an IP address nor a name.
    #[error("has a bad host; use an IPv4 address, an IPv6 address in brackets, or a host name")]
    BadHost,
    /// `*`, which only a receiver can bind to.
    #[error("is a wildcard; name the IP address that the receiver can be reached at")]
    Wildcard,
    /// `0.0.0.0` and the like.
    #[error("is the unspecified address; name the IP address that the receiver can be reached at")]
    Unspecified,
    /// Multicast and broadcast.
    #[error("is a multicast or broadcast address; name the IP address of one receiver")]
    Multicast,
    /// Link-local addresses, where clouds keep the credentials of a machine.
    #[error("is link-local, which is never allowed; name another IP address of the receiver")]
    LinkLocal,
    /// A port of this controller.
    #[error("is a port of this controller; name the one that the receiver bound")]
    OwnPort,
    /// Outside the allowed networks.
    #[error("lies in no allowed network; name another, or have PUSH_ALLOW of the controller extended")]
    NotAllowed,
}

impl PushAddress {
    /// Reads `tcp://<IPv4>:<port>`, `tcp://[<IPv6>]:<port>` or `tcp://<name>:<port>`. `localhost` is 127.0.0.1.
    ///
    /// # Errors
    ///
    /// For any other text, with the value and the form to use instead. A name is checked again after it has been resolved.
    pub fn parse(text: &str, policy: &AddressPolicy) -> Result<Self, AddressError> {
        read(text, policy).map_err(|why| AddressError { value: shortened(text), why })
    }

    /// The same target, which must prove that it owns this key.
    #[must_use]
    pub fn with_key(self, key: PublicKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// The key that the target must prove.
    #[must_use]
    pub const fn key(&self) -> Option<PublicKey> {
        self.key
    }
}

impl fmt::Display for PushAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(ip) => write!(f, "tcp://{}", std::net::SocketAddr::new(*ip, self.port)),
            Host::Name(name) => write!(f, "tcp://{name}:{}", self.port),
        }?;
        self.key.map_or(Ok(()), |key| write!(f, " with key {key}"))
    }
}

/// Quotes a text for an error: one line, and short, whatever its content.
pub(super) fn shortened(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    let rest = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown:?}{rest}")
}

fn read(text: &str, policy: &AddressPolicy) -> Result<PushAddress, Refusal> {
    if text.len() > ADDRESS_BYTES_MAX {
        return Err(Refusal::TooLong);
    }
    let (host, port) = split_tcp(text)?;
    let host = match host {
        Host::Ip(ip) => Host::Ip(policy.check(ip, port)?),
        Host::Name(name) => Host::Name(name),
    };
    Ok(PushAddress { host, port, key: None })
}

/// Host and port of `tcp://HOST:PORT`.
pub fn split_tcp(text: &str) -> Result<(Host, u16), Refusal> {
    let rest = text.strip_prefix("tcp://").ok_or(Refusal::NotTcp)?;
    if rest.contains(';') {
        return Err(Refusal::Source);
    }
    let (host, port) = split_port(rest)?;
    let port = read_port(port)?;
    Ok((read_host(host)?, port))
}

fn split_port(rest: &str) -> Result<(&str, &str), Refusal> {
    match rest.rsplit_once(':') {
        // The last colon belongs to an IPv6 address in brackets.
        Some((_, port)) if port.ends_with(']') => Err(Refusal::NoPort),
        Some((_, "")) | None => Err(Refusal::NoPort),
        Some(parts) => Ok(parts),
    }
}

fn read_port(text: &str) -> Result<u16, Refusal> {
    // `parse` alone accepts "+80".
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0).ok_or(Refusal::BadPort)
}

fn read_host(text: &str) -> Result<Host, Refusal> {
    if text == "*" {
        return Err(Refusal::Wildcard);
    }
    if let Some(inner) = text.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or(Refusal::BadHost)?;
        // A zone chooses an interface, and only link-local addresses have one.
        let address = inner.split_once('%').map_or(inner, |(address, _)| address);
        let ip: Ipv6Addr = address.parse().map_err(|_| Refusal::BadHost)?;
        return if address == inner { Ok(Host::Ip(ip.into())) } else { Err(Refusal::LinkLocal) };
    }
    if let Ok(ip) = text.parse::<Ipv4Addr>() {
        return Ok(Host::Ip(ip.into()));
    }
    let name = text.to_ascii_lowercase();
    match name.as_str() {
        "localhost" => Ok(Host::Ip(Ipv4Addr::LOCALHOST.into())),
        name if is_host_name(name) => Ok(Host::Name(name.to_owned())),
        _ => Err(Refusal::BadHost),
    }
}

/// Whether a name consists of letters, digits, `-` and `_`. A name whose last label begins with a digit is refused, because
/// resolvers read `127.1`, `0x7f000001` and `2130706433` as an IPv4 address.
fn is_host_name(name: &str) -> bool {
    let label_ok = |label: &str| {
        let bytes = label.as_bytes();
        (1..=63).contains(&bytes.len())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && bytes[0] != b'-'
            && bytes[bytes.len() - 1] != b'-'
    };
    let last_begins_with_digit =
        name.rsplit('.').next().is_some_and(|label| label.starts_with(|first: char| first.is_ascii_digit()));
    name.len() <= 253 && name.split('.').all(label_ok) && !last_begins_with_digit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> AddressPolicy {
        AddressPolicy {
            allow: vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()],
            own: vec!["0.0.0.0:15555".parse().unwrap(), "10.0.0.5:15556".parse().unwrap()],
        }
    }

    fn refusal(text: &str, policy: &AddressPolicy) -> Refusal {
        PushAddress::parse(text, policy).expect_err(text).why
    }

    // Addresses that a submitter may name (docs/design/hazards.md, F3, W10).
    #[test]
    fn the_forms_that_are_taken_are_written_anew() {
        let name = format!("tcp://{}.example:9", "a".repeat(63));
        for (text, written) in [
            ("tcp://127.0.0.1:1", "tcp://127.0.0.1:1"),
            ("tcp://10.1.2.3:65535", "tcp://10.1.2.3:65535"),
            ("tcp://[::1]:9000", "tcp://[::1]:9000"),
            ("tcp://[2001:DB8:0::1]:9000", "tcp://[2001:db8::1]:9000"),
            ("tcp://[::ffff:10.1.2.3]:80", "tcp://10.1.2.3:80"),
            ("tcp://localhost:80", "tcp://127.0.0.1:80"),
            ("tcp://LocalHost:80", "tcp://127.0.0.1:80"),
            ("tcp://Example.ORG:80", "tcp://example.org:80"),
            ("tcp://my_service-1:00080", "tcp://my_service-1:80"),
            (&name, &name),
            // Our own port only under another address.
            ("tcp://10.0.0.6:15556", "tcp://10.0.0.6:15556"),
        ] {
            assert_eq!(PushAddress::parse(text, &policy()).expect(text).to_string(), written, "{text}");
        }
    }

    const REFUSED: [(&str, Refusal); 66] = [
        ("", Refusal::NotTcp),
        ("ipc:///var/run/docker.sock", Refusal::NotTcp),
        ("inproc://zeromq.zap.01", Refusal::NotTcp),
        ("ws://127.0.0.1:80", Refusal::NotTcp),
        ("udp://127.0.0.1:80", Refusal::NotTcp),
        ("pgm://eth0;239.192.1.1:5555", Refusal::NotTcp),
        ("TCP://127.0.0.1:80", Refusal::NotTcp),
        (" tcp://127.0.0.1:80", Refusal::NotTcp),
        ("127.0.0.1:80", Refusal::NotTcp),
        ("tcp://eth0:0;host:1", Refusal::Source),
        ("tcp://127.0.0.1:0;127.0.0.1:80", Refusal::Source),
        ("tcp://127.0.0.1", Refusal::NoPort),
        ("tcp://127.0.0.1:", Refusal::NoPort),
        ("tcp://[::1]", Refusal::NoPort),
        ("tcp://", Refusal::NoPort),
        ("tcp://127.0.0.1:0", Refusal::BadPort),
        ("tcp://127.0.0.1:70000", Refusal::BadPort),
        ("tcp://127.0.0.1:65536", Refusal::BadPort),
        ("tcp://127.0.0.1:+80", Refusal::BadPort),
        ("tcp://127.0.0.1:-1", Refusal::BadPort),
        ("tcp://127.0.0.1:80/", Refusal::BadPort),
        ("tcp://127.0.0.1:80 ", Refusal::BadPort),
        ("tcp://127.0.0.1:*", Refusal::BadPort),
        ("tcp://127.0.0.1:!", Refusal::BadPort),
        ("tcp://127.0.0.1:80\n", Refusal::BadPort),
        ("tcp://127.0.0.1:8\u{0}0", Refusal::BadPort),
        ("tcp://*:80", Refusal::Wildcard),
        ("tcp://:80", Refusal::BadHost),
        ("tcp://a\nb:80", Refusal::BadHost),
        ("tcp://a\u{0}b:80", Refusal::BadHost),
        ("tcp://user@host:80", Refusal::BadHost),
        ("tcp://host.:80", Refusal::BadHost),
        ("tcp://-host:80", Refusal::BadHost),
        ("tcp://ho st:80", Refusal::BadHost),
        ("tcp://höst:80", Refusal::BadHost),
        ("tcp://::1:80", Refusal::BadHost),
        ("tcp://[::1:80", Refusal::BadHost),
        ("tcp://[127.0.0.1]:80", Refusal::BadHost),
        ("tcp://127.1:80", Refusal::BadHost),
        ("tcp://2130706433:80", Refusal::BadHost),
        ("tcp://0x7f000001:80", Refusal::BadHost),
        ("tcp://0177.0.0.1:80", Refusal::BadHost),
        ("tcp://0.0.0.0:80", Refusal::Unspecified),
        ("tcp://0.1.2.3:80", Refusal::Unspecified),
        ("tcp://[::]:80", Refusal::Unspecified),
        ("tcp://[::ffff:0.0.0.0]:80", Refusal::Unspecified),
        ("tcp://224.0.0.1:80", Refusal::Multicast),
        ("tcp://255.255.255.255:80", Refusal::Multicast),
        ("tcp://[ff02::1]:80", Refusal::Multicast),
        ("tcp://169.254.169.254:80", Refusal::LinkLocal),
        ("tcp://[fe80::1]:80", Refusal::LinkLocal),
        ("tcp://[fe80::1%eth0]:80", Refusal::LinkLocal),
        ("tcp://[::ffff:169.254.169.254]:80", Refusal::LinkLocal),
        ("tcp://[::169.254.169.254]:80", Refusal::LinkLocal),
        ("tcp://[64:ff9b::169.254.169.254]:80", Refusal::LinkLocal),
        ("tcp://[fd00:ec2::254]:80", Refusal::LinkLocal),
        ("tcp://[2002:a9fe:a9fe::1]:80", Refusal::LinkLocal),
        ("tcp://100.100.100.200:80", Refusal::LinkLocal),
        ("tcp://[64:ff9b::100.100.100.200]:80", Refusal::LinkLocal),
        ("tcp://127.0.0.1:15555", Refusal::OwnPort),
        ("tcp://127.9.9.9:15555", Refusal::OwnPort),
        ("tcp://localhost:15555", Refusal::OwnPort),
        ("tcp://[::1]:15555", Refusal::OwnPort),
        ("tcp://[::ffff:127.0.0.1]:15555", Refusal::OwnPort),
        ("tcp://10.0.0.5:15556", Refusal::OwnPort),
        ("tcp://[::ffff:10.0.0.5]:15556", Refusal::OwnPort),
    ];

    #[test]
    fn each_other_form_is_refused_for_its_own_reason() {
        assert_eq!(refusal(&format!("tcp://{}:1", "a".repeat(5000)), &policy()), Refusal::TooLong);
        for (text, why) in REFUSED {
            assert_eq!(refusal(text, &policy()), why, "{text:?}");
        }
    }

    #[test]
    fn only_the_allowed_networks_are_reached() {
        let policy = AddressPolicy { allow: vec!["127.0.0.0/8".parse().unwrap()], own: vec![] };
        assert!(PushAddress::parse("tcp://127.0.0.1:80", &policy).is_ok());
        assert!(PushAddress::parse("tcp://[::ffff:127.0.0.1]:80", &policy).is_ok());
        assert_eq!(refusal("tcp://10.0.0.1:80", &policy), Refusal::NotAllowed);
        assert_eq!(refusal("tcp://[::1]:80", &policy), Refusal::NotAllowed);
        assert_eq!(refusal("tcp://127.0.0.1:80", &AddressPolicy::default()), Refusal::NotAllowed);
    }

    #[test]
    fn the_sentence_names_the_value_on_one_short_line() {
        let error = PushAddress::parse("tcp://127.0.0.1:70000", &policy()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "push address \"tcp://127.0.0.1:70000\" has a bad port; use a number from 1 to 65535"
        );
        let error = PushAddress::parse(&format!("ipc://\n\u{1b}{}", "é".repeat(5000)), &policy()).unwrap_err();
        assert!(error.to_string().len() < 300, "{error}");
        assert!(!error.to_string().contains(['\n', '\u{1b}']), "{error}");
    }
}
