//! The sources that the owner of a service allows. Three things are checked: the text of the source at the submit, the
//! URL of each redirect, and each address that a host name resolves to.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::{Source, SourceScheme};
use crate::address::embedded_v4;
use crate::{Cidr, CidrError};

/// The allowed sources. Without a scheme or without a host, none is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedSources {
    /// The allowed schemes.
    pub schemes: Vec<SourceScheme>,
    /// The allowed hosts.
    pub hosts: Vec<AllowedHost>,
}

/// One entry of `ALLOW_HOSTS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedHost {
    /// `*`: every host with a public address.
    Public,
    /// `example.org`: this host, whatever its address. In lower case.
    Name(String),
    /// `*.example.org`: every host below this name that has a public address. In lower case.
    Below(String),
    /// `10.0.0.0/8`: hosts given as addresses of this network, and hosts that other entries name if they are there.
    Network(Cidr),
}

/// A text that is not a valid entry of `ALLOW_HOSTS`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAllowedHost {
    /// It looks like an address.
    #[error(transparent)]
    Network(#[from] CidrError),
    /// It is not a name.
    #[error("{0:?} is no host: write a name, *.NAME, *, an address or a network such as 10.0.0.0/8")]
    Name(String),
}

/// Why a source is not allowed. Each message is a sentence that names the configuration key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceRefusal {
    /// No source is allowed.
    #[error(
        "this service fetches no programs: list the schemes and the hosts in source.ALLOW_SCHEMES and source.ALLOW_HOSTS of \
         its configuration"
    )]
    Off,
    /// Its scheme is not listed.
    #[error("{} is not in source.ALLOW_SCHEMES, so that {url:?} is not fetched", scheme.word())]
    Scheme {
        /// The beginning of the source, or of the redirect.
        url: String,
        /// Its scheme.
        scheme: SourceScheme,
    },
    /// Its host is not listed.
    #[error("the host {host:?} is not in source.ALLOW_HOSTS, so that {url:?} is not fetched")]
    Host {
        /// The beginning of the source, or of the redirect.
        url: String,
        /// Its host.
        host: String,
    },
    /// It has no host.
    #[error("{url:?} names no host in a form that can be checked; write http://HOST/…, https://HOST/… or rsync:HOST:…")]
    NoHost {
        /// The beginning of the source, or of the redirect.
        url: String,
    },
}

impl AllowedSources {
    /// Whether no source is allowed.
    #[must_use]
    pub const fn is_off(&self) -> bool {
        self.schemes.is_empty() || self.hosts.is_empty()
    }

    /// Checks the text of a source.
    ///
    /// # Errors
    /// The rule that refuses it.
    pub fn check(&self, source: &Source) -> Result<(), SourceRefusal> {
        if self.is_off() {
            return Err(SourceRefusal::Off);
        }
        self.check_url(source.scheme(), source.as_str())
    }

    /// Checks a URL of a redirect, or a source.
    ///
    /// # Errors
    /// The rule that refuses it.
    pub fn check_url(&self, scheme: SourceScheme, url: &str) -> Result<(), SourceRefusal> {
        let shown = || super::shown(url);
        if !self.schemes.contains(&scheme) {
            return Err(SourceRefusal::Scheme { url: shown(), scheme });
        }
        let host = host_of(scheme, url).ok_or_else(|| SourceRefusal::NoHost { url: shown() })?;
        // rsync and ssh resolve names by themselves, so that the address cannot be checked.
        let is_named = || self.hosts.iter().any(|entry| matches!(entry, AllowedHost::Name(name) if *name == host));
        let is_allowed = match host.parse::<IpAddr>() {
            Ok(ip) => is_named() || self.admits_address(&host, ip),
            Err(_) if scheme == SourceScheme::Rsync => is_named(),
            Err(_) => self.hosts.iter().any(|entry| entry.admits_name(&host)),
        };
        if is_allowed { Ok(()) } else { Err(SourceRefusal::Host { url: shown(), host }) }
    }

    /// Whether a host of an allowed URL may be contacted at this address.
    #[must_use]
    pub fn admits_address(&self, host: &str, ip: IpAddr) -> bool {
        let (host, ip) = (host.trim_matches(['[', ']']).to_ascii_lowercase(), ip.to_canonical());
        let is_listed = |entry: &AllowedHost| match entry {
            AllowedHost::Name(name) => *name == host,
            AllowedHost::Network(network) => network.contains(ip),
            AllowedHost::Public => is_public(ip),
            AllowedHost::Below(_) => entry.admits_name(&host) && is_public(ip),
        };
        self.hosts.iter().any(is_listed)
    }
}

impl AllowedHost {
    fn admits_name(&self, host: &str) -> bool {
        match self {
            Self::Public => true,
            Self::Name(name) => name == host,
            Self::Below(name) => {
                host.strip_suffix(name.as_str()).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
            }
            Self::Network(_) => false,
        }
    }
}

impl FromStr for AllowedHost {
    type Err = InvalidAllowedHost;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "*" {
            return Ok(Self::Public);
        }
        if text.contains([':', '/']) || text.parse::<IpAddr>().is_ok() {
            return Ok(Self::Network(text.parse()?));
        }
        let name = text.strip_prefix("*.").unwrap_or(text);
        let is_label = |label: &str| {
            !label.is_empty()
                && !label.starts_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if name.len() > 253 || !name.split('.').all(is_label) {
            return Err(InvalidAllowedHost::Name(super::shown(text)));
        }
        let lower = name.to_ascii_lowercase();
        Ok(if name.len() == text.len() { Self::Name(lower) } else { Self::Below(lower) })
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => f.write_str("*"),
            Self::Name(name) => f.write_str(name),
            Self::Below(name) => write!(f, "*.{name}"),
            Self::Network(network) => network.fmt(f),
        }
    }
}

/// The schemes, a blank, and the hosts: `http,https example.org,10.0.0.0/8`.
impl fmt::Display for AllowedSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schemes: Vec<&str> = self.schemes.iter().map(|scheme| scheme.word()).collect();
        let hosts: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        write!(f, "{} {}", schemes.join(","), hosts.join(","))
    }
}

impl AllowedSources {
    /// Reads the text of [`fmt::Display`]; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (schemes, hosts) = text.split_once(' ')?;
        let parts = |list: &str| list.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        Some(Self {
            schemes: parts(schemes).iter().map(|word| SourceScheme::parse(word)).collect::<Option<_>>()?,
            hosts: parts(hosts).iter().map(|host| host.parse().ok()).collect::<Option<_>>()?,
        })
    }
}

/// The host of a URL in lower case, an IPv6 address without brackets; `None` for a form that two parsers could take for
/// two hosts.
fn host_of(scheme: SourceScheme, url: &str) -> Option<String> {
    let host = if scheme == SourceScheme::Rsync {
        let host = super::RsyncPeer::of(url.strip_prefix(super::RSYNC)?).host()?;
        host.rsplit('@').next().unwrap_or(host)
    } else {
        let rest = url.split_once("://")?.1;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => Some(host).filter(|_| is_port(port))?,
            None => {
                let (host, port) = authority.find(':').map_or((authority, ""), |at| authority.split_at(at));
                Some(host).filter(|_| is_port(port))?
            }
        }
    };
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    (!host.is_empty() && host.bytes().all(is_allowed)).then(|| host.trim_end_matches('.').to_owned())
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether an address is a public one: not one of this machine or of a private network, and not one that a translator
/// would turn into such an address.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            let is_shared = a == 100 && (64..128).contains(&b);
            let is_special = a == 0 || a >= 240 || (a == 192 && b == 0 && c == 0) || (a == 198 && (b == 18 || b == 19));
            !(ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_multicast()
                || ip.is_documentation()
                || is_shared
                || is_special)
        }
        IpAddr::V6(v6) => {
            let is_global_unicast = v6.segments()[0] & 0xe000 == 0x2000;
            is_global_unicast && embedded_v4(ip).is_none_or(|inner| is_public(inner.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(schemes: &str, hosts: &str) -> AllowedSources {
        AllowedSources::parse(&format!("{schemes} {hosts}")).unwrap()
    }

    fn is_allowed(allowed: &AllowedSources, source: &str) -> bool {
        allowed.check(&Source::new(source).unwrap()).is_ok()
    }

    #[test]
    fn nothing_is_allowed_by_default_and_the_keys_are_named() {
        let source = Source::new("https://example.org/a.zip").unwrap();
        let sentence = AllowedSources::default().check(&source).unwrap_err().to_string();
        assert!(sentence.contains("source.ALLOW_SCHEMES and source.ALLOW_HOSTS"), "{sentence}");
        let sentence = allowed("http", "example.org").check(&source).unwrap_err().to_string();
        assert_eq!(
            sentence,
            "https is not in source.ALLOW_SCHEMES, so that \"https://example.org/a.zip\" is not fetched"
        );
    }

    #[test]
    fn a_host_is_allowed_by_its_name_its_domain_or_its_network() {
        let lists = allowed("http,https,rsync", "Example.org,*.trusted.net,10.0.0.0/8,::1");
        for source in [
            "http://example.org/a.zip",
            "https://EXAMPLE.org:8443/a.zip",
            "http://example.org./a.zip",
            "http://a.b.trusted.net/a.zip",
            "http://10.1.2.3:80/a.zip",
            "http://[::1]:80/a.zip",
            "rsync:me@example.org:a.zip",
            "rsync:10.1.2.3:a.zip",
        ] {
            assert!(is_allowed(&lists, source), "{source}");
        }
        for source in [
            "http://example.org.evil.net/a.zip",
            "http://evil.net/example.org/a.zip",
            "http://evil.net?example.org/a.zip",
            "http://example.org@evil.net/a.zip",
            "http://evil.net\\@example.org/a.zip",
            "http://trusted.net/a.zip",
            "http://eviltrusted.net/a.zip",
            "http://11.1.2.3/a.zip",
            "http://2130706433/a.zip",
            "http://[::2]/a.zip",
            "rsync:a.trusted.net:a.zip",
            "rsync:/etc/a.zip",
            "rsync:local/a.zip",
            "http:///a.zip",
        ] {
            assert!(!is_allowed(&lists, source), "{source}");
        }
    }

    #[test]
    fn a_private_address_is_asked_only_if_its_host_or_its_network_is_listed() {
        let lists = allowed("http", "*,named.org,10.0.0.0/8");
        let admits = |host: &str, ip: &str| lists.admits_address(host, ip.parse().unwrap());
        for ip in ["93.184.216.34", "2606:2800::1", "10.0.0.1"] {
            assert!(admits("any.org", ip), "{ip}");
        }
        for ip in [
            "127.0.0.1",
            "192.168.0.1",
            "172.16.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "224.0.0.1",
        ] {
            assert!(!admits("any.org", ip), "{ip}");
            assert!(admits("named.org", ip), "{ip}");
        }
    }

    #[test]
    fn the_lists_survive_their_text() {
        for text in ["http,https,rsync *,a.org,*.b.org,10.0.0.0/8,fd00::/8", " ", "http "] {
            assert_eq!(AllowedSources::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "ftp a", "http a b", "http a/b", "http -a", "http 10.0.0.1/8", "http *a"] {
            assert!(AllowedSources::parse(text).is_none(), "{text:?}");
        }
    }
}
