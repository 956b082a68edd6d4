//! A program over http or https: one request, with the validators of the last answer, into a file.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use ureq::Agent;
use ureq::http::{HeaderMap, Response, StatusCode, header};
use ureq::unversioned::transport::DefaultConnector;

use super::record::{Digest, Validators};
use super::redirect::{Checked, Hop};
use super::{FetchOptions, SourceError, Timeouts};
use api::wire::version;
use base::{AllowedSources, Source, ToolDigest};
use proc::tls_roots;

/// Time limit for one address; a host that is up answers sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A page that was moved is one or two hops away; more is a circle.
const REDIRECTS_MAX: usize = 5;

/// Bytes of one read. The flag is checked after each.
const CHUNK_BYTES: usize = 64 * 1024;

/// A validator is a short text; a longer one is left out.
const VALIDATOR_BYTES_MAX: usize = 1024;

/// The answer of a source.
#[derive(Debug)]
pub(super) enum Answer {
    /// The source is as the validators say.
    Same,
    /// The program has arrived.
    New(Validators, Digest),
}

/// The client. The machine's certificates are trusted. With `allowed`, only addresses of allowed hosts are asked, and no proxy, which
/// would resolve their names by itself.
pub(super) fn agent(timeouts: &Timeouts, allowed: Option<&AllowedSources>) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        // Each redirect is checked first.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(timeouts.silence))
        .timeout_per_read(Some(timeouts.silence))
        .timeout_per_write(Some(timeouts.silence))
        .timeout_global(Some(timeouts.fetch))
        .user_agent(format!("llts/{}", version::program()))
        .tls_config(tls_roots::of_machine());
    match allowed {
        None => config.build().into(),
        Some(allowed) => {
            let resolver = Checked::new(allowed.clone());
            Agent::with_parts(config.proxy(None).build(), DefaultConnector::default(), resolver)
        }
    }
}

/// Fetches a source into an empty file, unless the server answers that `known` is up to date.
pub(super) fn fetch(
    agent: &Agent,
    source: &Source,
    known: &Validators,
    (into, path): (&mut File, &Path),
    bytes_max: u64,
    options: &FetchOptions<'_>,
) -> Result<Answer, SourceError> {
    let (url, stop) = (source.as_str(), options.stop);
    let failed = |reason: String| SourceError::Http { url: url.to_owned(), reason };
    let response = ask(agent, source, known, options)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_MODIFIED if known.are_any() => return Ok(Answer::Same),
        status => return Err(SourceError::Status { url: url.to_owned(), status: status.to_string() }),
    }
    let validators = Validators {
        etag: validator(response.headers(), &header::ETAG),
        last_modified: validator(response.headers(), &header::LAST_MODIFIED),
    };
    let too_long = || SourceError::TooLong { place: url.to_owned(), limit: bytes_max };
    let body = response.into_body();
    if body.content_length().is_some_and(|length| length > bytes_max) {
        return Err(too_long());
    }
    let (mut reader, mut chunk) = (body.into_reader(), vec![0; CHUNK_BYTES]);
    let (mut hasher, mut length) = (Sha256::new(), 0_u64);
    loop {
        stop.check()?;
        let read = match reader.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error.to_string())),
        };
        length += read as u64;
        if length > bytes_max {
            return Err(too_long());
        }
        let bytes = chunk.get(..read).unwrap_or_default();
        hasher.update(bytes);
        let unwritten = |error| SourceError::Io { action: "write", path: path.to_owned(), error };
        into.write_all(bytes).map_err(unwritten)?;
    }
    Ok(Answer::New(validators, Digest::of(ToolDigest::new(hasher.finalize().into()))))
}

/// The answer of the server to which the redirects lead.
fn ask(
    agent: &Agent,
    source: &Source,
    known: &Validators,
    options: &FetchOptions<'_>,
) -> Result<Response<ureq::Body>, SourceError> {
    let failed = |reason: String| SourceError::Http { url: source.as_str().to_owned(), reason };
    let mut hop = Hop::first(source);
    for _ in 0..=REDIRECTS_MAX {
        options.stop.check()?;
        let mut request = agent.get(hop.url());
        if let Some(etag) = &known.etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        } else if let Some(date) = &known.last_modified {
            request = request.header(header::IF_MODIFIED_SINCE, date);
        }
        let response = request.call().map_err(|error| failed(error.to_string()))?;
        let is_moved = response.status().is_redirection() && response.status() != StatusCode::NOT_MODIFIED;
        let Some(place) = response.headers().get(header::LOCATION).filter(|_| is_moved) else { return Ok(response) };
        hop = hop.next(&String::from_utf8_lossy(place.as_bytes()), options.allowed).map_err(failed)?;
    }
    Err(failed(format!("it was moved more than {REDIRECTS_MAX} times")))
}

fn validator(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    (!value.is_empty() && value.len() <= VALIDATOR_BYTES_MAX).then(|| value.to_owned())
}
