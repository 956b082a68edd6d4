//! Tokens, and the sessions of pages that have shown one.
//!
//! A session has two halves, each worthless without the other. Scripts cannot read the cookie, but a browser sends it to every port of
//! this host, where any service can read it. The page keeps the key, in storage that browsers separate by port, and sends it in a header
//! that no page of another site can set.
//!
//! The door keeps nothing of a session. Each half is signed with the token that began it, so that sessions outlast a restart, and end
//! with their token.
//!
//! A ticket stands for a token in the address that `llts open` hands to a browser. Other users of the machine can see that address in the
//! list of processes, and the browser keeps it in its history. So a ticket is valid only for a short time, and only for the user of the
//! service.

use std::fmt;
use std::time::Duration;

use axum::http::StatusCode;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::access::Denied;
use api::config::is_secret;

/// How long a session lasts. A page used now and then stays logged in.
pub(super) const SESSION: Duration = Duration::from_secs(30 * 86_400);

/// How long a ticket is good: a browser may take a while to start.
const TICKET: Duration = Duration::from_secs(300);

/// The first part of a ticket.
const TICKET_MARK: &str = "ticket";

/// Bytes of randomness in a session.
const NONCE_BYTES: usize = 16;

/// The rights of a token's holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// To see what the owner of the service sees.
    Read,
    /// To do what the owner of the service may do.
    Change,
}

/// A token. It is all that a process needs to act for the owner, so it is never shown.
#[derive(Clone)]
pub(crate) struct Token(String);

/// The tokens of a door.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    pub(super) change: Token,
    pub(super) read: Token,
}

/// The two halves of a session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) cookie: String,
    pub(super) key: String,
}

/// The purpose of a signature. A signature made for another purpose is invalid.
#[derive(Clone, Copy)]
enum Purpose {
    Cookie,
    Key,
    Ticket,
}

impl Grant {
    const ALL: [Self; 2] = [Self::Read, Self::Change];

    const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Change => "change",
        }
    }
}

impl Purpose {
    const fn word(self) -> &'static str {
        match self {
            Self::Cookie => "llts session cookie",
            Self::Key => "llts session key",
            Self::Ticket => "llts ticket",
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    pub(crate) const fn new(text: String) -> Self {
        Self(text)
    }

    /// A ticket, which a process of the service's user can show in place of the token for a short time. `now` is in unix seconds.
    pub(crate) fn ticket(&self, grant: Grant, now: u64) -> String {
        let body = body(grant, now, TICKET);
        format!("{TICKET_MARK}.{body}.{}", self.sign(Purpose::Ticket, &body))
    }

    fn is(&self, shown: &str) -> bool {
        is_secret(&self.0, shown)
    }

    fn sign(&self, purpose: Purpose, body: &str) -> String {
        // HMAC takes a key of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()) else { return String::new() };
        // No body has a zero byte, so two different pairs of purpose and body never give the same bytes.
        for part in [purpose.word().as_bytes(), &[0], body.as_bytes()] {
            mac.update(part);
        }
        hex(&mac.finalize().into_bytes())
    }

    fn has_signed(&self, purpose: Purpose, body: &str, signature: &str) -> bool {
        is_secret(&self.sign(purpose, body), signature)
    }
}

impl Tokens {
    /// The grant of a token; `None` if it is none of ours.
    pub(super) fn grant(&self, shown: &str) -> Option<Grant> {
        // Both are always compared, so that the time does not tell which one matched.
        let is = Grant::ALL.map(|grant| self.of(grant).is(shown));
        Grant::ALL.into_iter().zip(is).find_map(|(grant, is)| is.then_some(grant))
    }

    /// The same for a token or a ticket. `is_of_the_user`: the sender is a process of the service's user, or of root.
    pub(super) fn grant_of_any(&self, shown: &str, is_of_the_user: bool, now: u64) -> Result<Grant, Denied> {
        if let Some(grant) = self.grant(shown) {
            return Ok(grant);
        }
        let denied = |status, why: &str| Err(Denied(status, why.to_owned()));
        let Some((grant, is_over)) = self.of_ticket(shown, now) else {
            return denied(
                StatusCode::UNAUTHORIZED,
                "the token is not the right one; `llts open` shows an address with one",
            );
        };
        if is_over {
            return denied(StatusCode::UNAUTHORIZED, "the address is too old; `llts open` makes a new one");
        }
        if !is_of_the_user {
            let why = "an address of `llts open` is for the user of the service on its own machine; end the address with #token= and \
                       the token, which is in STATE_DIR/http.token, or in http.read.token for reading only";
            return denied(StatusCode::FORBIDDEN, why);
        }
        Ok(grant)
    }

    /// Begins a session of a page that has shown a token.
    pub(super) fn begin(&self, grant: Grant, now: u64) -> Session {
        let body = body(grant, now, SESSION);
        let token = self.of(grant);
        let key = token.sign(Purpose::Key, &body);
        let signature = token.sign(Purpose::Cookie, &body);
        Session { cookie: format!("{body}.{signature}"), key }
    }

    /// The grant of a session; `None` unless the two are halves of the same session and it has not expired.
    pub(super) fn grant_of_session(&self, cookie: &str, key: &str, now: u64) -> Option<Grant> {
        let (body, signature) = cookie.rsplit_once('.')?;
        let (grant, until) = read(body)?;
        let token = self.of(grant);
        let is_ours = token.has_signed(Purpose::Cookie, body, signature) & token.has_signed(Purpose::Key, body, key);
        (is_ours && until > now).then_some(grant)
    }

    /// The grant of a ticket, and whether it has expired; `None` if it is none of ours.
    fn of_ticket(&self, shown: &str, now: u64) -> Option<(Grant, bool)> {
        let (body, signature) = shown.strip_prefix(TICKET_MARK)?.strip_prefix('.')?.rsplit_once('.')?;
        let (grant, until) = read(body)?;
        self.of(grant).has_signed(Purpose::Ticket, body, signature).then_some((grant, until <= now))
    }

    const fn of(&self, grant: Grant) -> &Token {
        match grant {
            Grant::Read => &self.read,
            Grant::Change => &self.change,
        }
    }
}

/// The part of a session or ticket that is signed: its grant, its end in unix seconds, and a random number.
fn body(grant: Grant, now: u64, validity: Duration) -> String {
    let nonce: [u8; NONCE_BYTES] = rand::random();
    format!("{}.{}.{}", grant.word(), now + validity.as_secs(), hex(&nonce))
}

fn read(body: &str) -> Option<(Grant, u64)> {
    let (word, rest) = body.split_once('.')?;
    let (until, _) = rest.split_once('.')?;
    let grant = Grant::ALL.into_iter().find(|grant| grant.word() == word)?;
    Some((grant, until.parse().ok()?))
}

/// Two hexadecimal digits for each byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn tokens(change: &str, read: &str) -> Tokens {
        Tokens { change: Token::new(change.to_owned()), read: Token::new(read.to_owned()) }
    }

    fn ours() -> Tokens {
        tokens("the token of the owner", "the token of a reader")
    }

    #[test]
    fn a_session_is_good_with_both_halves_until_its_end() {
        for grant in Grant::ALL {
            let Session { cookie, key } = ours().begin(grant, NOW);
            let found = |cookie: &str, key: &str, now| ours().grant_of_session(cookie, key, now);
            let end = NOW + SESSION.as_secs();
            assert_eq!(found(&cookie, &key, NOW), Some(grant));
            assert_eq!(found(&cookie, &key, end - 1), Some(grant));
            assert_eq!(found(&cookie, &key, end), None, "it has expired");
            let other = ours().begin(grant, NOW);
            for (cookie, key) in [
                (cookie.as_str(), ""),
                (cookie.as_str(), other.key.as_str()),
                (other.cookie.as_str(), key.as_str()),
                ("", key.as_str()),
                (key.as_str(), key.as_str()),
                (cookie.as_str(), cookie.as_str()),
                (&cookie[..cookie.len() - 1], key.as_str()),
            ] {
                assert_eq!(found(cookie, key, NOW), None, "{cookie} {key}");
            }
            let (body, signature) = cookie.rsplit_once('.').unwrap();
            let later = format!("{}.{signature}", body.replace(&end.to_string(), &(end + 1).to_string()));
            assert_eq!(found(&later, &key, NOW), None, "its end is signed");
            assert_eq!(found(&format!("{body}.{key}"), &key, NOW), None, "a key is no cookie");
            assert_eq!(found(&cookie, signature, NOW), None, "a cookie has no key in it");
        }
    }

    #[test]
    fn a_session_for_reading_cannot_be_made_one_for_changes() {
        let Session { cookie, key } = ours().begin(Grant::Read, NOW);
        assert_eq!(ours().grant_of_session(&cookie.replace("read.", "change."), &key, NOW), None);
        let forged = tokens("the token of a reader", "").begin(Grant::Change, NOW);
        assert_eq!(ours().grant_of_session(&forged.cookie, &forged.key, NOW), None);
    }

    #[test]
    fn a_token_that_is_replaced_ends_its_sessions_and_no_others() {
        let (read, change) = (ours().begin(Grant::Read, NOW), ours().begin(Grant::Change, NOW));
        let replaced = tokens("another token of the owner", "the token of a reader");
        assert_eq!(replaced.grant_of_session(&change.cookie, &change.key, NOW), None);
        assert_eq!(replaced.grant_of_session(&read.cookie, &read.key, NOW), Some(Grant::Read));
    }

    #[test]
    fn a_ticket_is_for_a_short_time_and_for_one_user() {
        for grant in Grant::ALL {
            let ticket = ours().of(grant).ticket(grant, NOW);
            let shown = |ticket: &str, is_of_the_user, now| {
                ours().grant_of_any(ticket, is_of_the_user, now).map_err(|Denied(status, _)| status.as_u16())
            };
            assert_eq!(shown(&ticket, true, NOW), Ok(grant));
            assert_eq!(shown(&ticket, true, NOW + TICKET.as_secs()), Err(401), "it has expired");
            assert_eq!(shown(&ticket, false, NOW), Err(403));
            assert_eq!(shown(&ticket[..ticket.len() - 1], true, NOW), Err(401));
            assert_eq!(ours().grant(&ticket), None, "it is no token");
            let token = ours().of(grant).0.clone();
            assert_eq!(shown(&token, false, NOW), Ok(grant), "a token is good anywhere");
        }
        let of_a_reader = ours().read.ticket(Grant::Change, NOW);
        assert!(ours().grant_of_any(&of_a_reader, true, NOW).is_err());
    }

    #[test]
    fn a_token_is_not_shown() {
        assert!(!format!("{:?}", ours()).contains("owner"));
    }
}
