//! `llts doctor`: find the faults of this machine and this home that keep a service from working, and say how to fix
//! them.

mod checks;
mod screen;

use serde_json::json;

use checks::CHECKS;
use screen::screen;
use term::exit::{FAILED, Failure};
use term::session::Session;

/// The verdict of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// As it should be.
    Good,
    /// It works, with less than it could.
    Note,
    /// It does not work.
    Bad,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Bad => "bad",
        }
    }
}

/// The finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    verdict: Verdict,
    /// The state of the thing, as a sentence.
    what: String,
    /// What to do about it, unless it is good.
    remedy: Option<String>,
}

impl Finding {
    fn good(what: impl Into<String>) -> Self {
        Self { verdict: Verdict::Good, what: what.into(), remedy: None }
    }

    fn note(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: Verdict::Note, what: what.into(), remedy: Some(remedy.into()) }
    }

    fn bad(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, what: what.into(), remedy: Some(remedy.into()) }
    }
}

pub(super) fn run(session: &mut Session) -> Result<u8, Failure> {
    let found: Vec<(&str, Finding)> =
        CHECKS.iter().flat_map(|check| (check.run)(session).into_iter().map(|finding| (check.name, finding))).collect();
    if session.out.is_json() {
        let rows = found.iter().map(|(name, Finding { verdict, what, remedy })| {
            json!({ "check": name, "verdict": verdict.word(), "what": what, "remedy": remedy })
        });
        let rows: Vec<_> = rows.collect();
        session.out.value(&json!({ "checks": rows }));
    } else {
        let width = session.out.columns();
        session.out.text(&screen(&found, width));
    }
    let is_bad = found.iter().any(|(_, finding)| finding.verdict == Verdict::Bad);
    Ok(if is_bad { FAILED } else { 0 })
}
