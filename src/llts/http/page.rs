//! The page for a browser, and its assets, which are built into the program.
//!
//! Without JavaScript, the page shows the numbers of tasks and agents. With it, the page requests everything else
//! itself.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

use super::access::{Denied, is_of_another_site};
use super::server::{Connection, Server, denied};
use api::wire::requests::stats::AgentCounts;
use api::wire::requests::status::{self, Status};

/// The place of the numbers in the page.
const MARKER: &str = "<!--counts-->";

/// How long the page waits for the numbers. It is useful without them, and a person should not have to wait for it.
const COUNTS_MAX: Duration = Duration::from_millis(100);

/// The page may load its own scripts, styles and images, and send requests to this door. Nothing is inline, and no frame may contain it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const CROSS_ORIGIN_OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// A file of the page.
struct Asset {
    /// Its path below `/page/`.
    path: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($path:literal)*) => {
        [$(Asset { path: $path, bytes: include_bytes!(concat!("page/", $path)) }),*]
    };
}

const ASSETS: &[Asset] = &assets! {
    "acts.js"
    "agents.js"
    "api.js"
    "beside.js"
    "dialog.js"
    "graph.js"
    "history.js"
    "icon.svg"
    "keys.js"
    "life.js"
    "list.js"
    "lists.js"
    "main.js"
    "output.js"
    "overview.js"
    "router.js"
    "rows.js"
    "store.js"
    "style.css"
    "task.js"
    "tasks.js"
    "text.js"
    "theme.js"
    "vendor/htm-preact.js"
    "widgets.js"
};

const INDEX: &str = include_str!("page/index.html");

/// The tag of each asset, in the order of the table.
static TAGS: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| ASSETS.iter().map(|asset| tag(asset.bytes)).collect());

/// `GET /page/NAME`
pub(super) async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    let found = ASSETS.iter().zip(TAGS.iter()).find(|(asset, _)| asset.path == path);
    match found {
        Some((asset, tag)) => page(&headers, asset.path, tag, || asset.bytes.into_response()),
        None => denied(Denied(StatusCode::NOT_FOUND, "the page has no such file".to_owned())),
    }
}

/// `GET /`
pub(super) async fn index(
    State(server): State<Arc<Server>>,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
) -> Response {
    let counts = counts(&server, &connection, &headers).await;
    let text = INDEX.replacen(MARKER, &counts, 1);
    page(&headers, "index.html", &tag(text.as_bytes()), || text.into_response())
}

/// The answer to a request for a file with this tag.
fn page(headers: &HeaderMap, path: &str, tag: &HeaderValue, body: impl FnOnce() -> Response) -> Response {
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| names(known, tag));
    let mut response = if is_known { StatusCode::NOT_MODIFIED.into_response() } else { body() };
    for (name, value) in [
        (CONTENT_TYPE, kind_of(path)),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        // A page that opened ours in a window cannot reach that window.
        (CROSS_ORIGIN_OPENER_POLICY, "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response.headers_mut().insert(ETAG, tag.clone());
    response
}

/// Whether a list of tags has this one. A proxy that compresses makes it a weak one.
fn names(list: &HeaderValue, tag: &HeaderValue) -> bool {
    let (Ok(list), Ok(tag)) = (list.to_str(), tag.to_str()) else { return false };
    list.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}

fn tag(bytes: &[u8]) -> HeaderValue {
    let hash: String = Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    // Quotes and hexadecimal digits are a header.
    HeaderValue::from_str(&format!("\"{hash}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

fn kind_of(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" | "webmanifest" => "application/json",
        _ => "application/octet-stream",
    }
}

/// The numbers for the page, or a sentence that says why there are none. A link on another site gets no numbers: the page must be loaded
/// again.
async fn counts(server: &Server, connection: &Connection, headers: &HeaderMap) -> String {
    if is_of_another_site(headers) {
        return sentence(
            "This page was opened from another site. Load it again to see the numbers of tasks and agents.",
        );
    }
    if server.caller(headers, connection).is_err() {
        return sentence("A token is needed to see this service. `llts open` on its machine opens this page with one.");
    }
    match server.ask_self(connection, &status::status(), COUNTS_MAX).await {
        Ok(status) => table(&status),
        Err(Denied(_, why)) => sentence(&format!("The numbers of tasks and agents are not known: {why}.")),
    }
}

fn sentence(text: &str) -> String {
    format!("<p class=\"counts\">{}</p>", escaped(text))
}

fn table(status: &Status) -> String {
    let states = status.states.by_state().map(|(state, count)| (format!("{} tasks", state.word()), count));
    let AgentCounts { free, busy, lost, total: _ } = status.agents;
    let agents =
        [("free", free), ("busy", busy), ("lost", lost)].map(|(word, count)| (format!("{word} agents"), count));
    let row =
        |(name, count): (String, usize)| format!("<tr><th scope=\"row\">{}</th><td>{count}</td></tr>", escaped(&name));
    let rows: String = states.chain(agents).filter(|(_, count)| *count > 0).map(row).collect();
    let counts = if rows.is_empty() {
        sentence("The service has neither tasks nor agents.")
    } else {
        format!("<table class=\"counts\"><tbody>{rows}</tbody></table>")
    };
    counts + &status.warning.as_deref().map(sentence).unwrap_or_default()
}

/// Escapes a text for HTML.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            letter => html.push(letter),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The files below a folder, by their paths, but those that are about the others.
    fn files(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_dir() {
                files(&entry.path(), &format!("{prefix}{name}/"), found);
            } else if !["README", "LICENSE", "LICENCE"].iter().any(|about| name.to_uppercase().starts_with(about)) {
                found.insert(format!("{prefix}{name}"));
            }
        }
    }

    #[test]
    fn every_file_of_the_page_is_served_and_no_other() {
        let mut found = BTreeSet::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/llts/http/page"), "", &mut found);
        assert!(found.remove("index.html"), "it is the page itself");
        let served: BTreeSet<String> = ASSETS.iter().map(|asset| asset.path.to_owned()).collect();
        assert_eq!(served, found, "the table of assets is in src/llts/http/page.rs");
        for path in served {
            assert_ne!(kind_of(&path), "application/octet-stream", "{path} has no known type");
        }
    }

    #[test]
    fn the_page_has_a_place_for_the_numbers() {
        assert_eq!(INDEX.matches(MARKER).count(), 1);
    }

    #[test]
    fn a_text_cannot_be_markup() {
        assert_eq!(escaped("<a href='x' b=\"&\">"), "&lt;a href=&#39;x&#39; b=&quot;&amp;&quot;&gt;");
        let status = Status { warning: Some("<script>alert(1)</script>".to_owned()), ..Status::default() };
        assert!(!table(&status).contains("<script>"));
        let agents = AgentCounts { lost: 2, ..AgentCounts::default() };
        let shown = table(&Status { agents, ..status });
        assert!(
            shown.contains("<th scope=\"row\">lost agents</th><td>2</td>") && !shown.contains("<script>"),
            "{shown}"
        );
    }

    #[test]
    fn a_browser_that_knows_the_file_gets_none() {
        let tag = tag(b"x");
        let text = tag.to_str().unwrap().to_owned();
        let known = |list: &str| names(&list.parse().unwrap(), &tag);
        assert!(known(&text) && known("*") && known(&format!("\"a\", W/{text}")));
        assert!(!known("\"a\"") && !known("") && !known("W/\"\""));
    }
}
