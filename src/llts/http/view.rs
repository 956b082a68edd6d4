//! `/view`: the state of the service as a stream, for the page.
//!
//! Each event is the controller's answer to a request that has the cursor of the previous answer and the rights of the client. The next
//! request is sent once the client has taken the answer, so a client that does not read costs nothing. No state is kept here: a client
//! that reconnects with its last id continues from there, and the controller says whether that is possible.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse as _;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::StreamExt as _;
use futures_util::stream::{self, Stream};
use serde_json::value::RawValue;

use super::listener::LAST_EVENT_ID;
use super::server::{Answered, Connection, Server, denied, stopped};
use api::wire::requests::job::results::Cursor;
use api::wire::requests::status;
use base::{Caller, words};

/// How long the controller waits for a change. After a longer silence, the page says that the controller does not answer.
const WAIT_MILLIS: u64 = 5_000;

/// A client that views the service.
struct Viewer {
    server: Arc<Server>,
    connection: Connection,
    caller: Caller,
    /// The cursor of its last answer.
    cursor: Option<Cursor>,
    is_refused: bool,
}

/// `GET /view`
pub(super) async fn view(
    State(server): State<Arc<Server>>,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
) -> Answered {
    let caller = server.caller(&headers, &connection).map_err(denied)?;
    let place = server.places.take_events().map_err(denied)?;
    let (stopping, listening) = (server.stopping.clone(), server.events.listener());
    let last = headers.get(LAST_EVENT_ID).and_then(|last| last.to_str().ok());
    // A foreign id counts as missing: the first answer then says that it is complete.
    let cursor = last.and_then(|last| last.parse().ok());
    let viewer = Viewer { server, connection, caller, cursor, is_refused: false };
    let end = Box::pin(async move {
        stopped(stopping).await;
        drop((place, listening));
    });
    let stream = viewer.stream().take_until(end);
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()).into_response())
}

impl Viewer {
    fn stream(self) -> impl Stream<Item = Result<sse::Event, Infallible>> {
        stream::unfold(self, |mut viewer| async move {
            let event = viewer.next_event().await?;
            Some((Ok(event), viewer))
        })
    }

    /// The next answer; `None` at the end of the stream.
    async fn next_event(&mut self) -> Option<sse::Event> {
        if self.is_refused {
            return None;
        }
        let mut question = status::status();
        if let Some(cursor) = self.cursor {
            question = question.with(words::CURSOR, cursor.to_string()).with(words::WAIT, WAIT_MILLIS);
        }
        // The connection has gone, or the controller stops: there is no client to tell.
        let answer = self.server.ask(&self.connection, self.caller, question.encode()).await.ok()?;
        let text = String::from_utf8(answer).ok()?;
        self.cursor = cursor(&text);
        let event = match self.cursor {
            Some(cursor) => sse::Event::default().event("view").id(cursor.to_string()),
            None => {
                self.is_refused = true;
                sse::Event::default().event("refused")
            }
        };
        Some(event.data(text))
    }
}

/// The cursor of an answer; `None` for a refusal.
fn cursor(answer: &str) -> Option<Cursor> {
    let parts: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(answer).ok()?;
    let code: i64 = serde_json::from_str(parts.get(words::CODE)?.get()).ok()?;
    let cursor: String = serde_json::from_str(parts.get(words::CURSOR)?.get()).ok()?;
    cursor.parse().ok().filter(|_| code == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_cursor_and_a_refusal_ends_the_stream() {
        let with = |code: i64, cursor: &str| {
            format!("{{\"{}\": {code}, \"a b\": {{}}, \"{}\": {cursor}}}", words::CODE, words::CURSOR)
        };
        assert_eq!(cursor(&with(0, "\"7:12\"")), Some(Cursor { sequence: 7, position: 12 }));
        let no_cursor = format!("{{\"{}\":0}}", words::CODE);
        for refused in [&with(-1011, "\"7:12\""), &with(0, "7"), &with(0, "\"7\\n:12\""), &no_cursor, "{}", "x", ""] {
            assert_eq!(cursor(refused), None, "{refused}");
        }
    }
}
