//! Access rules for HTTP.
//!
//! | request | on loopback | off loopback |
//! |---|---|---|
//! | `/healthz`, `/readyz` | open | open |
//! | other read-only requests | open to the users that `LOOPBACK` admits, if the port for requests is as open; otherwise the token | the token |
//! | requests that change something, and unreadable ones | the token | the token |
//! | `/`, `/page/…`, `/session` | open: they tell nothing of the service | open |
//!
//! A session of our own page counts as the token that began it. A holder of the read-only token and a caller without a token may only
//! ask. As for every door, the loop checks each request against its caller again.
//!
//! A web page in a browser on this machine can send requests here too. It cannot read the token, and three checks keep its
//! requests out: `Host` must be a name of this machine (a page that resolves its own name to 127.0.0.1 has another one),
//! `Origin` must be absent or ours, and posted content must be JSON, which no page may send to another origin without a
//! permission that is never given. A link on another page leads to ours, which that page cannot read.

use std::net::IpAddr;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri};

use super::session::{Grant, Tokens};
use base::{Caller, CallerPlace, Loopback, is_loopback};
use proc::visitor::Visitor;

/// The header in which a browser states the origin of a request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The header with which a browser says how it will use the answer.
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Maximum number of cookies of one name that are tried.
const COOKIES_MAX: usize = 8;

/// The header with the key of a session.
pub(super) const LLTS_KEY: HeaderName = HeaderName::from_static("llts-key");

/// The access rules of this door.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) tokens: Tokens,
    /// The name of the cookies of its sessions. Browsers do not separate cookies by port.
    pub(super) cookie: String,
    /// Whether the door is open to this machine only.
    pub(super) is_local: bool,
    /// Whether read-only requests work without a token.
    pub(super) may_ask: bool,
    /// The users of this machine that need no token.
    pub(super) loopback: Loopback,
}

/// The refusal of a request, for its sender.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Denied(pub(super) StatusCode, pub(super) String);

impl Access {
    /// Checks the origin of a request.
    pub(super) fn check_origin(&self, method: &Method, target: &Uri, headers: &HeaderMap) -> Result<(), Denied> {
        for name in [HOST, ORIGIN, AUTHORIZATION, CONTENT_TYPE, LLTS_KEY] {
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
        let is_link = is_of_another_site(headers) && leads_to_the_page(method, target, headers);
        if let Some(site) = text(SEC_FETCH_SITE).filter(|_| is_of_another_site(headers) && !is_link) {
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

    /// The sender of a request with these headers, which may ask at least. `now` is in unix seconds.
    pub(super) fn caller(&self, headers: &HeaderMap, visitor: Visitor, now: u64) -> Result<Caller, Denied> {
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let grant = match shown.map(bearer) {
            Some(shown) => Some(self.tokens.grant(shown).ok_or_else(|| no_token("the token is not the right one"))?),
            None => self.session(headers, now),
        };
        if let Some(grant) = grant {
            // The token files are readable only for users of the unix socket, so the caller counts as one of them.
            return Ok(Caller { may_change: grant == Grant::Change, ..Caller::at(CallerPlace::Socket) });
        }
        match visitor.refusal(self.loopback) {
            Some(why) => Err(Denied(StatusCode::FORBIDDEN, format!("{why}, or send the token of the service"))),
            None if self.may_ask => Ok(Caller { may_change: false, ..Caller::at(visitor.place) }),
            None => Err(needs_token()),
        }
    }

    /// The grant of the session in these headers. An expired session counts as none: its page continues as one without a session.
    fn session(&self, headers: &HeaderMap, now: u64) -> Option<Grant> {
        let key = headers.get(LLTS_KEY)?.to_str().ok()?;
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        // A service on another port can add cookies of the same name, so each is tried.
        let ours = pairs.filter(|(name, _)| *name == self.cookie).map(|(_, value)| value);
        ours.take(COOKIES_MAX).find_map(|cookie| self.tokens.grant_of_session(cookie, key, now))
    }
}

/// Whether a browser says that a page of another site sends the request.
pub(super) fn is_of_another_site(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none")
}

/// Whether the request follows a link to our page and fills a window of its own.
fn leads_to_the_page(method: &Method, target: &Uri, headers: &HeaderMap) -> bool {
    let is = |name, value: &str| headers.get(name).is_some_and(|found| found == value);
    method == Method::GET && target.path() == "/" && is(SEC_FETCH_MODE, "navigate") && is(SEC_FETCH_DEST, "document")
}

/// The refusal of a change by a holder of the token for reading only.
pub(super) fn only_reads() -> Denied {
    let why = "the token for reading only does not let you change anything; the one in STATE_DIR/http.token does";
    Denied(StatusCode::FORBIDDEN, why.to_owned())
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

#[cfg(test)]
mod tests {
    use super::super::session::{Session, Token};
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    const NOW: u64 = 1_800_000_000;

    fn access() -> Access {
        let [change, read] = ["secret", "reader"].map(|token| Token::new(token.to_owned()));
        Access {
            tokens: Tokens { change, read },
            cookie: "llts-7".to_owned(),
            is_local: true,
            may_ask: true,
            loopback: Loopback::SameUser,
        }
    }

    fn checked(access: &Access, target: &str, headers: &HeaderMap) -> Result<(), Denied> {
        access.check_origin(&Method::GET, &target.parse().unwrap(), headers)
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
            let denied = checked(&access(), "/api", &headers(&list)).err().map(|Denied(code, _)| code.as_u16());
            assert_eq!(denied, code, "{host} {origin:?}");
        }
        let local = || headers(&[("host", "localhost")]);
        let two = headers(&[("host", "localhost"), ("host", "evil.example")]);
        assert!(checked(&access(), "/api", &two).is_err(), "two values are ambiguous");
        assert!(checked(&access(), "/api", &headers(&[])).is_err());
        assert!(checked(&access(), "http://evil.example/api", &local()).is_err());
        for (site, is_served) in [("none", true), ("same-origin", true), ("same-site", false), ("cross-site", false)] {
            let of_a_page = headers(&[("host", "localhost"), ("sec-fetch-site", site)]);
            assert_eq!(checked(&access(), "/api", &of_a_page).is_ok(), is_served, "{site}");
        }
    }

    #[test]
    fn only_a_caller_with_the_token_changes_anything() {
        let with = |text: &str| headers(&[("authorization", text)]);
        let visitors = [Some(1001), Some(0), Some(1002), None].map(|user| Visitor::on_this_machine(user, 1001));
        let without = visitors.map(|visitor| access().caller(&headers(&[]), visitor, NOW));
        let asks = |place| Ok(Caller { may_change: false, ..Caller::at(place) });
        assert_eq!(without[..2], [asks(CallerPlace::SameUser), asks(CallerPlace::SameUser)]);
        let is_forbidden = |denied: &Result<Caller, Denied>| matches!(denied, Err(Denied(StatusCode::FORBIDDEN, why)) if why.contains("LOOPBACK"));
        assert!(without[2..].iter().all(is_forbidden), "{without:?}");
        let open = Access { loopback: Loopback::Open, ..access() };
        assert_eq!(open.caller(&headers(&[]), visitors[2], NOW), asks(CallerPlace::Loopback));
        let closed = Access { may_ask: false, ..access() };
        for visitor in visitors {
            for right in ["Bearer secret", "bearer secret", "BEARER  secret"] {
                assert_eq!(closed.caller(&with(right), visitor, NOW), Ok(Caller::at(CallerPlace::Socket)), "{right}");
            }
            for wrong in ["Bearer secre", "Bearer secrets", "Bearer ", "secret", "Basic secret"] {
                let denied = open.caller(&with(wrong), visitor, NOW).unwrap_err();
                assert_eq!(denied.0, StatusCode::UNAUTHORIZED, "a wrong token is a mistake: {wrong}");
            }
            assert!(closed.caller(&headers(&[]), visitor, NOW).is_err());
        }
    }

    #[test]
    fn a_link_of_another_site_leads_to_the_page_and_to_nothing_else() {
        let link = |method: &Method, target: &str, mode: &str, dest: &str| {
            let all = [("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode)];
            let list: Vec<_> = all.into_iter().chain([("sec-fetch-dest", dest)]).collect();
            access().check_origin(method, &target.parse().unwrap(), &headers(&list)).is_ok()
        };
        assert!(link(&Method::GET, "/", "navigate", "document"));
        assert!(link(&Method::GET, "/?x", "navigate", "document"));
        for (method, target, mode, dest) in [
            (Method::GET, "/api", "navigate", "document"),
            (Method::GET, "/events", "navigate", "document"),
            (Method::GET, "/page/style.css", "navigate", "document"),
            (Method::POST, "/", "navigate", "document"),
            (Method::GET, "/", "navigate", "iframe"),
            (Method::GET, "/", "no-cors", "document"),
            (Method::GET, "/", "cors", "empty"),
        ] {
            assert!(!link(&method, target, mode, dest), "{method} {target} {mode} {dest}");
        }
        let elsewhere = [("host", "evil.example"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        assert!(checked(&access(), "/", &headers(&elsewhere)).is_err());
    }

    #[test]
    fn a_session_counts_as_its_token() {
        let access = Access { may_ask: false, ..access() };
        let visitor = Visitor::on_this_machine(Some(1002), 1001);
        let caller = |list: &[(&'static str, &str)]| {
            access.caller(&headers(list), visitor, NOW).map(|caller| (caller.place, caller.may_change)).ok()
        };
        assert_eq!(caller(&[("authorization", "Bearer reader")]), Some((CallerPlace::Socket, false)));
        for (grant, may_change) in [(Grant::Read, false), (Grant::Change, true)] {
            let Session { cookie, key } = access.tokens.begin(grant, NOW);
            let ours = format!("llts-7={cookie}");
            let found = Some((CallerPlace::Socket, may_change));
            assert_eq!(caller(&[("cookie", &ours), ("llts-key", &key)]), found);
            let tossed = format!("a=b; llts-7=x;{ours}; llts-7=y");
            assert_eq!(caller(&[("cookie", &tossed), ("llts-key", &key)]), found, "others may set cookies, too");
            assert_eq!(caller(&[("cookie", "llts-7=x"), ("cookie", &ours), ("llts-key", &key)]), found);
            assert_eq!(caller(&[("cookie", &ours)]), None, "a cookie without the key");
            assert_eq!(caller(&[("llts-key", &key)]), None, "a key without the cookie");
            let other = format!("llts-8={cookie}");
            assert_eq!(caller(&[("cookie", &other), ("llts-key", &key)]), None, "of another port");
            let wrong = [("cookie", ours.as_str()), ("llts-key", &key), ("authorization", "Bearer wrong")];
            assert_eq!(caller(&wrong), None, "what is shown first counts");
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
