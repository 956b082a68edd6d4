//! Access rules for HTTP.
//!
//! | request | on loopback | off loopback |
//! |---|---|---|
//! | `/healthz`, `/readyz` | open | open |
//! | other read-only requests | open to the users that `LOOPBACK` admits, if the port for requests is as open; otherwise the token | the token |
//! | requests that change something, and unreadable ones | the token | the token |
//!
//! A caller without the token only asks. The loop decides about each request by its caller again, as for every door.
//!
//! A web page in a browser on this machine can send requests here too. It cannot read the token, and three checks keep its
//! requests out: `Host` must be a name of this machine (a page that resolves its own name to 127.0.0.1 has another one),
//! `Origin` must be absent or ours, and posted content must be JSON, which no page may send to another origin without a
//! permission that is never given.

use std::net::IpAddr;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};

use base::{Caller, CallerPlace, Loopback, is_loopback};
use proc::visitor::Visitor;

/// The header in which a browser states the origin of a request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The requirements of this door.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) token: String,
    /// Whether the door is open to this machine only.
    pub(super) is_local: bool,
    /// Whether read-only requests need no token.
    pub(super) may_ask: bool,
    /// The users of this machine that are served without the token.
    pub(super) loopback: Loopback,
}

/// The refusal of a request, for its sender.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Denied(pub(super) StatusCode, pub(super) String);

impl Access {
    /// Checks the origin of a request.
    pub(super) fn check_origin(&self, target: &Uri, headers: &HeaderMap) -> Result<(), Denied> {
        for name in [HOST, ORIGIN, AUTHORIZATION, CONTENT_TYPE] {
            if headers.get_all(&name).iter().count() > 1 {
                return Err(Denied(StatusCode::BAD_REQUEST, format!("there is more than one {name}; send one")));
            }
        }
        if !self.is_local {
            // Each significant request contains the token, which no page has.
            return Ok(());
        }
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("not a text"));
        let host = text(HOST).unwrap_or_default();
        // A target with a host of its own takes precedence over Host (RFC 9112, section 3.2.2).
        let host = target.authority().map_or(host, Authority::as_str);
        if !names_this_machine(host) {
            let why =
                format!("Host is {host:?}; only names of this machine such as localhost and 127.0.0.1 are served");
            return Err(Denied(StatusCode::MISDIRECTED_REQUEST, why));
        }
        let site = text(SEC_FETCH_SITE);
        if let Some(site) = site.filter(|site| !["same-origin", "none"].contains(site)) {
            return Err(Denied(
                StatusCode::FORBIDDEN,
                format!("Sec-Fetch-Site is {site}; pages of other sites are not served"),
            ));
        }
        match text(ORIGIN) {
            None => Ok(()),
            Some(origin) if origin.strip_prefix("http://") == Some(host) => Ok(()),
            Some(origin) => {
                let why = format!("Origin is {origin:?}; pages of other sites are not served");
                Err(Denied(StatusCode::FORBIDDEN, why))
            }
        }
    }

    /// The sender of a request with these headers, which may ask at least.
    pub(super) fn caller(&self, headers: &HeaderMap, visitor: Visitor) -> Result<Caller, Denied> {
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        match shown.map(bearer) {
            // Only the users of the unix socket may read the file of the token.
            Some(shown) if is_same(shown.as_bytes(), self.token.as_bytes()) => Ok(Caller::at(CallerPlace::Socket)),
            Some(_) => Err(no_token("the token is not the right one")),
            None => match visitor.refusal(self.loopback) {
                Some(why) => Err(Denied(StatusCode::FORBIDDEN, format!("{why}, or send the token of the service"))),
                None if self.may_ask => Ok(Caller { may_change: false, ..Caller::at(visitor.place) }),
                None => Err(needs_token()),
            },
        }
    }
}

/// The refusal of a request whose sender must show the token.
pub(super) fn needs_token() -> Denied {
    no_token("a token is needed for this")
}

fn no_token(what: &str) -> Denied {
    let why = format!("{what}: send \"Authorization: Bearer <the text of the controller's token file>\"");
    Denied(StatusCode::UNAUTHORIZED, why)
}

/// The token of an `Authorization` header, whose scheme is case-insensitive (RFC 9110, section 11.1).
fn bearer(shown: &str) -> &str {
    let token = shown.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    token.map_or("", |(_, token)| token.trim_start_matches(' '))
}

/// Checks the type of posted content.
pub(super) fn check_content(headers: &HeaderMap) -> Result<(), Denied> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let why = format!("Content-Type is {kind:?}; send JSON as application/json");
    Err(Denied(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
}

/// Whether `Host` is a loopback address or `localhost`, with or without a port.
fn names_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(is_loopback)
}

/// Compares in constant time, so that the position of a difference does not leak.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn path() -> Uri {
        Uri::from_static("/api")
    }

    fn access() -> Access {
        Access { token: "secret".to_owned(), is_local: true, may_ask: true, loopback: Loopback::SameUser }
    }

    #[test]
    fn a_page_of_another_site_is_turned_away() {
        for (host, origin, code) in [
            ("localhost", None, None),
            ("LOCALHOST:15557", None, None),
            ("127.0.0.1:15557", Some("http://127.0.0.1:15557"), None),
            ("127.1.2.3", None, None),
            ("[::1]:15557", None, None),
            ("[::1]", None, None),
            ("evil.example", None, Some(421)),
            ("evil.example:15557", None, Some(421)),
            ("localhost.evil.example", None, Some(421)),
            ("127.0.0.1.evil.example", None, Some(421)),
            ("192.168.0.1", None, Some(421)),
            ("", None, Some(421)),
            ("localhost", Some("http://evil.example"), Some(403)),
            ("localhost", Some("null"), Some(403)),
            ("localhost", Some("https://localhost"), Some(403)),
            ("localhost:1", Some("http://localhost:2"), Some(403)),
        ] {
            let mut list = vec![("host", host)];
            list.extend(origin.map(|origin| ("origin", origin)));
            let denied = access().check_origin(&path(), &headers(&list)).err().map(|Denied(code, _)| code.as_u16());
            assert_eq!(denied, code, "{host} {origin:?}");
        }
        let local = || headers(&[("host", "localhost")]);
        let two = headers(&[("host", "localhost"), ("host", "evil.example")]);
        assert!(access().check_origin(&path(), &two).is_err(), "two values are ambiguous");
        assert!(access().check_origin(&path(), &headers(&[])).is_err());
        assert!(access().check_origin(&"http://evil.example/api".parse().unwrap(), &local()).is_err());
        for (site, is_served) in [("none", true), ("same-origin", true), ("same-site", false), ("cross-site", false)] {
            let of_a_page = headers(&[("host", "localhost"), ("sec-fetch-site", site)]);
            assert_eq!(access().check_origin(&path(), &of_a_page).is_ok(), is_served, "{site}");
        }
    }

    #[test]
    fn only_a_caller_with_the_token_changes_anything() {
        let with = |text: &str| headers(&[("authorization", text)]);
        let visitors = [Some(1001), Some(0), Some(1002), None].map(|user| Visitor::on_this_machine(user, 1001));
        let without = visitors.map(|visitor| access().caller(&headers(&[]), visitor));
        let asks = |place| Ok(Caller { may_change: false, ..Caller::at(place) });
        assert_eq!(without[..2], [asks(CallerPlace::SameUser), asks(CallerPlace::SameUser)]);
        let is_forbidden = |denied: &Result<Caller, Denied>| matches!(denied, Err(Denied(StatusCode::FORBIDDEN, why)) if why.contains("LOOPBACK"));
        assert!(without[2..].iter().all(is_forbidden), "{without:?}");
        let open = Access { loopback: Loopback::Open, ..access() };
        assert_eq!(open.caller(&headers(&[]), visitors[2]), asks(CallerPlace::Loopback));
        let closed = Access { may_ask: false, ..access() };
        for visitor in visitors {
            for right in ["Bearer secret", "bearer secret", "BEARER  secret"] {
                assert_eq!(closed.caller(&with(right), visitor), Ok(Caller::at(CallerPlace::Socket)), "{right}");
            }
            for wrong in ["Bearer secre", "Bearer secrets", "Bearer ", "secret", "Basic secret"] {
                let denied = open.caller(&with(wrong), visitor).unwrap_err();
                assert_eq!(denied.0, StatusCode::UNAUTHORIZED, "a wrong token is a mistake: {wrong}");
            }
            assert!(closed.caller(&headers(&[]), visitor).is_err());
        }
    }

    #[test]
    fn only_json_is_taken() {
        for (kind, is_taken) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
            ("application/jsonp", false),
            ("", false),
        ] {
            assert_eq!(check_content(&headers(&[("content-type", kind)])).is_ok(), is_taken, "{kind}");
        }
        assert!(check_content(&headers(&[])).is_err());
    }
}
