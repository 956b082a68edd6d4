//! `/beside/NAME`: the state of the prompts, the task lists and TDF for the page, as their commands print it.
//!
//! They are other programs and report no changes, so the page polls. However many pages poll, each command runs once at a time, and its
//! output is reused for a moment.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use tokio::sync::Mutex;

use super::access::Denied;
use super::server::{Answered, Connection, Server, denied};
use crate::beside::Beside;
use base::Mono;
use proc::clock;
use proc::own_program::OwnProgram;

/// How long the output of a command is reused.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// The commands, each with its last output.
pub(super) struct Commands {
    program: OwnProgram,
    printed: [Mutex<Option<(Mono, String)>>; Beside::ALL.len()],
}

impl Commands {
    pub(super) fn new(program: OwnProgram) -> Self {
        Self { program, printed: Default::default() }
    }

    async fn printed(&self, beside: Beside) -> String {
        let mut last = self.printed[beside as usize].lock().await;
        if let Some((_, text)) = last.as_ref().filter(|(at, _)| clock::now().mono.since(*at) < GOOD_FOR) {
            return text.clone();
        }
        let program = self.program.clone();
        let run = tokio::task::spawn_blocking(move || program.printed(beside.command()));
        // An error means that the runtime ends, and the connection with it.
        let text = run.await.unwrap_or_default();
        *last = Some((clock::now().mono, text.clone()));
        text
    }
}

/// `GET /beside/NAME`
pub(super) async fn beside(
    State(server): State<Arc<Server>>,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Answered {
    server.caller(&headers, &connection).map_err(denied)?;
    let beside = Beside::ALL.into_iter().find(|beside| beside.name() == name).ok_or_else(|| {
        let names = Beside::ALL.map(Beside::name).join(", ");
        denied(Denied(
            StatusCode::NOT_FOUND,
            format!("there is nothing beside the controller that is named {name:?}, only {names}"),
        ))
    })?;
    let text = server.commands.printed(beside).await;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}
