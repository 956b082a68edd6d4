//! `/session`: a page shows a token once, and has a session from then on.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::{Denied, check_content};
use super::server::{Answered, Connection, Server, denied, now};
use super::session::{Grant, SESSION};
use api::wire::version;
use base::{CallerPlace, words};

/// Bytes of a request for a session. A token has at most 1024.
const BODY_BYTES_MAX: usize = 4096;

/// The header in which a proxy in front of this door states the client's protocol.
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

#[derive(Deserialize)]
struct Shown {
    token: String,
}

/// `POST /session`
pub(super) async fn begin(
    State(server): State<Arc<Server>>,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    check_content(&headers).map_err(denied)?;
    let body = server.body(body, BODY_BYTES_MAX).await?;
    let too_long = || {
        let why = format!("a request for a session has at most {BODY_BYTES_MAX} bytes");
        denied(Denied(StatusCode::PAYLOAD_TOO_LARGE, why))
    };
    // The text is not repeated in the answer: it may hold a token.
    let bad = |_| denied(Denied(StatusCode::BAD_REQUEST, "send {\"token\": \"…\"}, a JSON object".to_owned()));
    let Shown { token } = serde_json::from_slice(&body.ok_or_else(too_long)?).map_err(bad)?;
    // `llts open` makes no tickets where other machines can reach the door.
    let is_of_the_user = connection.visitor.place == CallerPlace::SameUser;
    let grant = server.access.tokens.grant_of_any(token.trim(), is_of_the_user, now()).map_err(|refused| {
        server.note_refusal(&refused.1);
        denied(refused)
    })?;
    let session = server.access.tokens.begin(grant, now());
    let is_secure = is_secure(server.access.is_local, &headers);
    let cookie = set_cookie(&server.access.cookie, &session.cookie, SESSION.as_secs(), is_secure);
    Ok(answer(&[("may_change", json!(grant == Grant::Change)), ("key", json!(session.key))], cookie))
}

/// `GET /session`
pub(super) async fn show(
    State(server): State<Arc<Server>>,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
) -> Response {
    let caller = server.access.caller(&headers, connection.visitor, now()).ok();
    // A stranger learns nothing about the service.
    let version = caller.map(|_| version::program()).unwrap_or_default();
    let may_change = caller.is_some_and(|caller| caller.may_change);
    let facts = [("may_ask", json!(caller.is_some())), ("may_change", json!(may_change)), ("version", json!(version))];
    answer(&facts, None)
}

/// `DELETE /session`: the browser drops its half of the session. The page drops the other half itself.
pub(super) async fn end(State(server): State<Arc<Server>>) -> Response {
    answer(&[], set_cookie(&server.access.cookie, "", 0, false))
}

/// Whether the session cookie must never be sent without TLS.
///
/// A browser keeps such a cookie only if the page came over TLS. This door does not speak TLS itself, so a proxy must say that it did. A
/// client that falsely claims TLS only locks itself out.
fn is_secure(is_local: bool, headers: &HeaderMap) -> bool {
    !is_local && headers.get(X_FORWARDED_PROTO).is_some_and(|proto| proto == "https")
}

fn answer(facts: &[(&str, Value)], cookie: Option<HeaderValue>) -> Response {
    let mut all = serde_json::Map::from_iter([(words::CODE.to_owned(), json!(0))]);
    all.extend(facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let kept_nowhere = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    let mut response = (kept_nowhere, Value::from(all).to_string()).into_response();
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn set_cookie(name: &str, value: &str, seconds: u64, is_secure: bool) -> Option<HeaderValue> {
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&cookie).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_that_came_by_tls_stays_there() {
        let forwarded = |proto: &str| HeaderMap::from_iter([(X_FORWARDED_PROTO, proto.parse().unwrap())]);
        assert!(is_secure(false, &forwarded("https")));
        assert!(!is_secure(false, &forwarded("http")) && !is_secure(false, &HeaderMap::new()));
        assert!(!is_secure(true, &forwarded("https")), "no proxy is in front of a door on loopback");
        let cookie = |is_secure| set_cookie("llts-7", "a.b", 60, is_secure).unwrap().to_str().unwrap().to_owned();
        assert_eq!(cookie(false), "llts-7=a.b; HttpOnly; SameSite=Strict; Path=/; Max-Age=60");
        assert_eq!(cookie(true), cookie(false) + "; Secure");
    }
}
