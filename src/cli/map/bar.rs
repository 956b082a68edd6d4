//! The progress of `llts map`: one line at the bottom of a terminal, or, with `--progress`, a line now and then.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use super::super::job::with_agents;
use super::super::output::{note, status_line};
use super::super::times;
use crate::engine::map::Map;
use crate::protocol::requests::job::JobAnswer;
use crate::types::Mono;

/// The time between two lines on a terminal.
const PAUSE: Duration = Duration::from_millis(100);

/// The time between two lines elsewhere.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// Characters of the bar itself.
const WIDTH: u64 = 15;

/// See the [module](self).
pub(super) struct Bar {
    kind: Kind,
    began: Mono,
    /// The moment from which on the next line may be drawn.
    rests_until: Mono,
    is_drawn: bool,
    /// The newest published state of the job.
    job: Option<JobAnswer>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Terminal { has_stdout: bool },
    Lines,
    None,
}

impl Bar {
    pub(super) fn new(now: Mono, is_wanted: bool) -> Self {
        let kind = match (io::stderr().is_terminal(), is_wanted) {
            (true, _) => Kind::Terminal { has_stdout: io::stdout().is_terminal() },
            (false, true) => Kind::Lines,
            (false, false) => Kind::None,
        };
        Self { kind, began: now, rests_until: now + PAUSE, is_drawn: false, job: None }
    }

    /// Whether it is drawn at all.
    pub(super) fn is_shown(&self) -> bool {
        self.kind != Kind::None
    }

    /// Whether the outputs of tasks share the terminal with it.
    pub(super) const fn shares_terminal(&self) -> bool {
        matches!(self.kind, Kind::Terminal { has_stdout: true })
    }

    pub(super) fn handle_status(&mut self, job: JobAnswer) {
        self.job = Some(job);
    }

    /// The next moment at which it is to be drawn, if it is shown.
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        self.is_shown().then_some(self.rests_until)
    }

    /// Draws the line, unless it was drawn a moment ago.
    pub(super) fn draw(&mut self, now: Mono, map: &Map) {
        if self.kind == Kind::None || now < self.rests_until {
            return;
        }
        let line = line(map, self.job.as_ref(), now.since(self.began));
        if let Kind::Terminal { .. } = self.kind {
            status_line(&line);
            (self.is_drawn, self.rests_until) = (true, now + PAUSE);
        } else {
            note(&line);
            self.rests_until = now + LONG_PAUSE;
        }
    }

    /// Makes room for another output.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            status_line("");
        }
    }

    /// Nothing more is drawn.
    pub(super) fn end(&mut self) {
        self.clear();
        self.kind = Kind::None;
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate for people")]
fn line(map: &Map, job: Option<&JobAnswer>, took: Duration) -> String {
    let tally = map.tally();
    let (done, open) = (tally.finished(), map.open() as u64);
    let total = done + open;
    let filled = (done * WIDTH).checked_div(total).unwrap_or_default();
    let bar: String = (0..WIDTH).map(|at| if at < filled { '#' } else { '-' }).collect();
    let more = if map.has_input() { "+" } else { "" };
    let running = job.map(|job| format!("  running {}", with_agents(job))).unwrap_or_default();
    let rate = tally.succeeded.saturating_add(tally.failed) as f64 / took.as_secs_f64().max(0.001);
    let left = Duration::try_from_secs_f64(open as f64 / rate).ok().filter(|_| !map.has_input());
    let left = left.map(|left| format!("  ETA {}", times::duration(left))).unwrap_or_default();
    format!(
        "[{bar}]  {done}/{total}{more}  ok {}  failed {}  retried {}{running}  {rate:.0}/s{left}",
        tally.succeeded + tally.before,
        tally.failed,
        tally.rounds
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::map::{Item, Plan};
    use crate::protocol::requests::submit::Submission;

    #[test]
    fn the_line_shows_what_is_known() {
        let mut map = Map::new(Plan::default());
        map.handle_bad_line(1);
        for number in 2..5 {
            map.handle_item(Item { number, submission: Submission::new("t"), tag: None });
        }
        let took = Duration::from_secs(2);
        assert_eq!(line(&map, None, took), "[###------------]  1/4+  ok 0  failed 1  retried 0  0/s");
        map.handle_input_end();
        assert!(line(&map, None, took).ends_with("  0/s  ETA 6.0 s"));
    }
}
