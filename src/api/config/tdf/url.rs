//! The URL of a Redis: `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]`, or `rediss://` for TLS.

use super::super::prompt::Secret;
use super::{RedisSection, TlsSettings};

const PORT: u16 = 6379;

/// Reads a URL.
pub(super) fn parse(url: &str) -> Option<RedisSection> {
    let (scheme, rest) = url.split_once("://")?;
    let tls = match scheme {
        "redis" => None,
        "rediss" => Some(TlsSettings::default()),
        _ => return None,
    };
    let (place, db) = rest.split_once('/').unwrap_or((rest, ""));
    let db = if db.is_empty() { 0 } else { number(db)? };
    let (login, address) = place.rsplit_once('@').map_or((None, place), |(login, address)| (Some(login), address));
    let (username, password) = match login {
        None => (None, None),
        Some(login) => {
            let (user, password) = login.split_once(':').unwrap_or(("", login));
            let (user, password) = (decoded(user)?, decoded(password)?);
            let some = |text: String| (!text.is_empty()).then_some(text);
            (some(user), some(password).map(Secret::new))
        }
    };
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Some(PORT), number)?;
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-._:%".contains(letter);
    let fits = !host.is_empty() && host.chars().all(is_name) && port > 0;
    fits.then(|| RedisSection { host: host.to_owned(), port, username, password, db, tls })
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A part of a URL without its escapes.
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?].map(|digit| char::from(digit).to_digit(16));
        let [Some(high), Some(low)] = digits else { return None };
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_redis_is_and_who_we_are() {
        let local = parse("redis://127.0.0.1").unwrap();
        assert_eq!((local.host.as_str(), local.port, local.db, &local.tls), ("127.0.0.1", 6379, 0, &None));
        let full = parse("rediss://me:a%3Ab%40c@redis.example:6380/3").unwrap();
        assert_eq!((full.host.as_str(), full.port, full.db), ("redis.example", 6380, 3));
        assert_eq!(full.username.as_deref(), Some("me"));
        assert_eq!(full.password.as_ref().map(Secret::reveal), Some("a:b@c"));
        assert!(full.tls.is_some());
        let alone = parse("redis://:secret@[::1]:7000/").unwrap();
        assert_eq!((alone.host.as_str(), alone.port, alone.username), ("::1", 7000, None));
        assert_eq!(alone.password.as_ref().map(Secret::reveal), Some("secret"));
    }

    #[test]
    fn other_texts_are_no_urls() {
        for text in [
            "redis",
            "http://a",
            "redis://",
            "redis://a:0",
            "redis://a:x",
            "redis://a:99999",
            "redis://a/b",
            "redis://a/-1",
            "redis://a b",
            "redis://%zz@a",
            "redis://[::1",
            "redis://[::1]x",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
