//! The progress of `llts map`: one line at the bottom of a terminal, or, with `--progress`, a line now and then.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use unicode_width::UnicodeWidthStr as _;

use super::super::job::with_agents;
use crate::map::Map;
use api::wire::requests::job::JobAnswer;
use base::Mono;
use term::output::note;
use term::{status_line, times};

/// The time between two lines on a terminal.
const PAUSE: Duration = Duration::from_millis(100);

/// The time between two lines elsewhere.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// Characters of the bar itself.
const WIDTH: u64 = 10;

/// See the [module](self).
pub(super) struct Bar {
    kind: Kind,
    began: Mono,
    /// No line is drawn before this moment.
    rests_until: Mono,
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
    /// None is drawn among lines that are typed.
    pub(super) fn new(now: Mono, is_wanted: bool, is_typed: bool) -> Self {
        let kind = match (io::stderr().is_terminal(), is_wanted) {
            (true, _) if !is_typed => Kind::Terminal { has_stdout: io::stdout().is_terminal() },
            (_, true) => Kind::Lines,
            (_, false) => Kind::None,
        };
        Self { kind, began: now, rests_until: now + PAUSE, job: None }
    }

    /// Whether it is drawn at all.
    pub(super) fn is_shown(&self) -> bool {
        self.kind != Kind::None
    }

    /// Whether tasks print to the same terminal.
    pub(super) const fn shares_terminal(&self) -> bool {
        matches!(self.kind, Kind::Terminal { has_stdout: true })
    }

    pub(super) fn handle_status(&mut self, job: JobAnswer) {
        self.job = Some(job);
    }

    /// The number of tasks with agents, if it is known.
    pub(super) fn running(&self) -> Option<u64> {
        self.job.as_ref().map(with_agents)
    }

    /// When the line is drawn next, if it is shown.
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        self.is_shown().then_some(self.rests_until)
    }

    /// Draws the line, unless it was drawn a moment ago.
    pub(super) fn draw(&mut self, now: Mono, map: &Map) {
        if self.kind == Kind::None || now < self.rests_until {
            return;
        }
        let took = now.since(self.began);
        if let Kind::Terminal { .. } = self.kind {
            let columns = status_line::columns().unwrap_or(usize::MAX);
            status_line::show(&line(map, self.running(), took, columns));
            self.rests_until = now + PAUSE;
        } else {
            note(&line(map, self.running(), took, usize::MAX));
            self.rests_until = now + LONG_PAUSE;
        }
    }

    /// Draws nothing from now on.
    pub(super) fn end(&mut self) {
        status_line::clear();
        self.kind = Kind::None;
    }
}

/// The time left, the bar and the count, then other parts as long as they fit. Numbers that are 0 are left out.
#[expect(clippy::cast_precision_loss, reason = "an estimate for people")]
fn line(map: &Map, running: Option<u64>, took: Duration, columns: usize) -> String {
    let tally = map.tally();
    let (done, open) = (tally.finished(), map.open() as u64);
    let total = done + open;
    let filled = (done * WIDTH).checked_div(total).unwrap_or_default();
    let bar: String = (0..WIDTH).map(|at| if at < filled { '#' } else { '-' }).collect();
    let more = if map.has_input() { "+" } else { "" };
    let rate = tally.succeeded.saturating_add(tally.failed) as f64 / took.as_secs_f64().max(0.001);
    // The rate tells nothing of the last runs, which may be the longest.
    let is_known = !map.has_input() && open > running.unwrap_or_default();
    let left = Duration::try_from_secs_f64(open as f64 / rate).ok().filter(|_| is_known);
    let number = |name, count: u64| (count > 0).then(|| format!("{name} {count}"));
    let rate = match rate {
        0.0 => None,
        rate if rate < 10.0 => Some(format!("{rate:.1}/s")),
        rate => Some(format!("{rate:.0}/s")),
    };
    let parts = [
        left.map(|left| format!("{} left", times::duration(left))),
        Some(format!("[{bar}]")),
        Some(format!("{done}/{total}{more}")),
        number("failed", tally.failed),
        rate,
        number("retried", tally.rounds),
        number("running", running.unwrap_or_default()),
    ];
    let mut shown = String::new();
    for part in parts.into_iter().flatten() {
        let gap = if shown.is_empty() { "" } else { "  " };
        if shown.width() + gap.len() + part.width() > columns {
            break;
        }
        shown.push_str(gap);
        shown.push_str(&part);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Item, Plan};
    use api::wire::requests::submit::Submission;

    fn map(failed: u64, tasks: u64) -> Map {
        let mut map = Map::new(Plan::default());
        (0..failed).for_each(|_| map.handle_bad_line());
        for number in 0..tasks {
            map.handle_item(Item { number, submission: Submission::new("t"), values: String::new() });
        }
        map
    }

    #[test]
    fn the_line_shows_what_is_known_and_no_zero() {
        let took = Duration::from_secs(2);
        assert_eq!(line(&map(0, 3), Some(0), took, 80), "[----------]  0/3+");
        let mut map = map(1, 3);
        assert_eq!(line(&map, None, took, 80), "[##--------]  1/4+  failed 1  0.5/s");
        map.handle_input_end();
        assert_eq!(line(&map, Some(3), took, 80), "[##--------]  1/4  failed 1  0.5/s  running 3");
        assert_eq!(line(&map, Some(2), took, 80), "6.0 s left  [##--------]  1/4  failed 1  0.5/s  running 2");
    }

    #[test]
    fn the_line_fits_the_terminal() {
        let mut map = map(120_000, 300_000);
        map.handle_input_end();
        let shown = |columns| line(&map, Some(4), Duration::from_secs(7_000), columns);
        assert_eq!(shown(120), "4 h 51 min left  [##--------]  120000/420000  failed 120000  17/s  running 4");
        assert_eq!(shown(80), shown(120));
        assert_eq!(shown(58), "4 h 51 min left  [##--------]  120000/420000");
        assert_eq!(shown(10), "");
    }
}
