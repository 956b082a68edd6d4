//! The keys, for the pane that lists them and for the line at the bottom.

use super::filter;
use super::listing::View;
use super::pane::Line;
use term::style::{FAINT, PLAIN, STRONG, wrapped};

/// The keys, each with its effect.
const KEYS: [(&str, &str); 17] = [
    ("1 to 9, 0, -", "another view; Tab and Shift-Tab turn through them"),
    ("arrows", "move; so do PgUp, PgDn, Home, End and the wheel"),
    ("Enter", "show a task, a graph or a whole sentence; of a job, agent or hour, its tasks"),
    ("Esc", "back; without a pane it unmarks, then removes the filter"),
    ("/", "narrow down as you type"),
    ("s, S", "tasks: another order; the other direction"),
    ("space, a", "mark a row; mark all rows, or none"),
    ("e", "explain why a task waits, or ended as it did"),
    ("l, L", "follow the output of a task; its stderr"),
    ("k", "kill tasks, jobs or graphs"),
    ("r", "retry failed tasks or jobs; of failures that are alike, all"),
    ("h", "hold tasks or jobs, of which those that run go on; release a held task"),
    ("H", "release the held tasks of a job, or marked ones"),
    ("p", "pause an agent, close a gate, in the overview pause the service; again ends it"),
    ("?", "these keys"),
    ("Ctrl-Z", "suspend; fg brings it back"),
    ("q, Ctrl-C", "leave"),
];

/// The names in a filter of tasks.
pub(super) const fn filter_names() -> &'static str {
    filter::NAMES
}

/// The width of the column with the keys.
const KEY_WIDTH: usize = 13;

/// The pane, for a screen of this width.
pub(super) fn lines(width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for (key, what) in &KEYS {
        let room = width.saturating_sub(KEY_WIDTH).max(KEY_WIDTH);
        let keys = std::iter::once(*key).chain(std::iter::repeat(""));
        let wrapped = wrapped(what, Some(room)).into_iter().zip(keys);
        lines.extend(wrapped.map(|(what, key)| vec![(STRONG, format!("{key:KEY_WIDTH$}")), (PLAIN, what)]));
    }
    let filter = format!("A filter of tasks has words such as {}.", filter::NAMES);
    for sentence in [&*filter, "A change is asked about first, with the number of things that it will touch."] {
        lines.push(Vec::new());
        lines.extend(wrapped(sentence, Some(width)).into_iter().map(|line| vec![(PLAIN, line)]));
    }
    lines
}

/// The keys of a view, the most important first, as many as fit.
pub(super) fn hints(view: View, is_pane: bool, room: usize) -> Line {
    let keys: &[(&str, &str)] = match view {
        _ if is_pane => {
            &[("Esc", "back"), ("e", "explain"), ("l", "log"), ("k", "kill"), ("r", "retry"), ("h", "hold")]
        }
        View::Overview | View::Tasks => &[
            ("?", "keys"),
            ("q", "quit"),
            ("Enter", "show"),
            ("/", "filter"),
            ("e", "explain"),
            ("l", "log"),
            ("k", "kill"),
            ("r", "retry"),
            ("h", "hold"),
            ("space", "mark"),
            ("s", "sort"),
        ],
        View::Jobs => &[
            ("?", "keys"),
            ("q", "quit"),
            ("Enter", "tasks"),
            ("k", "kill"),
            ("r", "retry"),
            ("h", "hold"),
            ("/", "filter"),
        ],
        View::Agents => &[("?", "keys"), ("q", "quit"), ("Enter", "tasks"), ("p", "pause"), ("/", "filter")],
        View::Graphs => &[("?", "keys"), ("q", "quit"), ("Enter", "steps"), ("k", "kill"), ("/", "filter")],
        View::Gates => &[("?", "keys"), ("q", "quit"), ("p", "close/open"), ("/", "filter")],
        View::Incidents | View::History => &[("?", "keys"), ("q", "quit"), ("Enter", "show"), ("/", "filter")],
        View::Prompts | View::Lists | View::Tdf => &[("?", "keys"), ("q", "quit"), ("/", "filter")],
    };
    let mut left = room;
    let fits = |(key, what): &&(&str, &str)| {
        let width = key.len() + 1 + what.len();
        let fits = width <= left;
        left = left.saturating_sub(width + 2);
        fits
    };
    let shown = keys.iter().take_while(fits);
    shown.flat_map(|(key, what)| [(STRONG, format!("{key} ")), (FAINT, format!("{what}  "))]).collect()
}
