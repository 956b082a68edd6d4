//! The target of a redirect, and whether it may be asked: by its text, and by each address of its host.

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use base::{AllowedSources, Source, SourceScheme};

/// One URL on the way to a program.
pub(super) struct Hop {
    url: String,
}

impl Hop {
    pub(super) fn first(source: &Source) -> Self {
        Self { url: source.as_str().to_owned() }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The URL that the header Location of the answer names, or the reason why it is not asked.
    pub(super) fn next(&self, place: &str, allowed: Option<&AllowedSources>) -> Result<Self, String> {
        let was_secure = self.url.starts_with("https://");
        let url = self.joined(place).ok_or_else(|| format!("it was moved to {:?}, which is no URL", shown(place)))?;
        let scheme = match url.split_once("://").map(|(scheme, _)| scheme) {
            Some("https") => SourceScheme::Https,
            Some("http") if was_secure => {
                return Err(format!("it was moved from https to {:?}, which is not encrypted", shown(&url)));
            }
            Some("http") => SourceScheme::Http,
            _ => return Err(format!("it was moved to {:?}, which is neither http nor https", shown(&url))),
        };
        if let Some(allowed) = allowed {
            allowed.check_url(scheme, &url).map_err(|error| format!("it was moved: {error}"))?;
        }
        Ok(Self { url })
    }

    /// A place may be a URL, or only the end of one.
    fn joined(&self, place: &str) -> Option<String> {
        let (scheme, rest) = self.url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let path = rest.strip_prefix(authority)?.split(['?', '#']).next()?;
        let scheme_end = place.find("://").filter(|at| place.bytes().take(*at).all(|byte| byte.is_ascii_alphabetic()));
        Some(if let Some(end) = scheme_end {
            let (given, rest) = place.split_at(end);
            given.to_ascii_lowercase() + rest
        } else if place.starts_with("//") {
            format!("{scheme}:{place}")
        } else if place.starts_with('/') {
            format!("{scheme}://{authority}{place}")
        } else if place.split(['/', '?', '#']).next().is_some_and(|first| first.contains(':')) || place.is_empty() {
            return None;
        } else {
            let folder = path.rfind('/').map_or("", |at| path.get(..at).unwrap_or_default());
            format!("{scheme}://{authority}{folder}/{place}")
        })
    }
}

fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    text.chars().take(CHARS_MAX).collect()
}

/// Leaves out the addresses that the lists do not admit: no answer of a name server leads to such a connection.
#[derive(Debug)]
pub(super) struct Checked {
    allowed: AllowedSources,
    resolver: DefaultResolver,
}

impl Checked {
    pub(super) fn new(allowed: AllowedSources) -> Self {
        Self { allowed, resolver: DefaultResolver::default() }
    }
}

impl Resolver for Checked {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.resolver.resolve(uri, config, timeout)?;
        let host = uri.host().unwrap_or_default();
        let mut admitted = self.empty();
        for address in found.iter().filter(|address| self.allowed.admits_address(host, address.ip())) {
            admitted.push(*address);
        }
        if admitted.is_empty() {
            let ip = found.first().map(|address| address.ip().to_string()).unwrap_or_default();
            let reason = format!(
                "{host} is at {ip}, a private address, and neither is in source.ALLOW_HOSTS; list the name or its network"
            );
            return Err(Error::Io(std::io::Error::other(reason)));
        }
        Ok(admitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(from: &str, place: &str, lists: Option<&str>) -> Result<String, String> {
        let lists = lists.map(|text| AllowedSources::parse(text).unwrap());
        Hop { url: from.to_owned() }.next(place, lists.as_ref()).map(|hop| hop.url)
    }

    #[test]
    fn a_place_is_a_url_or_the_end_of_one() {
        let from = "http://a.org:8080/x/y.zip?q#f";
        for (place, url) in [
            ("http://b.org/z", "http://b.org/z"),
            ("HTTPS://b.org/z", "https://b.org/z"),
            ("//b.org/z", "http://b.org/z"),
            ("/z?r", "http://a.org:8080/z?r"),
            ("z.zip", "http://a.org:8080/x/z.zip"),
        ] {
            assert_eq!(moved(from, place, None).as_deref(), Ok(url), "{place}");
        }
        assert_eq!(moved("http://a.org", "z", None).as_deref(), Ok("http://a.org/z"));
    }

    /// docs/design/hazards.md, X8.
    #[test]
    fn a_redirect_stays_with_http_and_with_the_allowed_hosts() {
        let lists = Some("http,https a.org,b.org");
        for (from, place, why) in [
            ("http://a.org/x", "file:///etc/passwd", "neither http nor https"),
            ("http://a.org/x", "ftp://a.org/x", "neither http nor https"),
            ("http://a.org/x", "javascript:x", "no URL"),
            ("https://a.org/x", "http://a.org/x", "not encrypted"),
            ("http://a.org/x", "http://169.254.169.254/x", "source.ALLOW_HOSTS"),
            ("http://a.org/x", "//evil.org/x", "source.ALLOW_HOSTS"),
        ] {
            let reason = moved(from, place, lists).unwrap_err();
            assert!(reason.contains(why), "{place}: {reason}");
        }
        assert!(moved("http://a.org/x", "https://b.org/x", lists).is_ok());
        let only_https = moved("https://a.org/x", "https://b.org/x", Some("https a.org")).unwrap_err();
        assert!(only_https.contains("\"b.org\""), "{only_https}");
    }
}
