//! The rows of the present view: their answer, the cursor, and the visible part.

use std::time::Duration;

use super::listing::{Answer, Data, ROWS_MAX, Row};
use super::target::Target;
use base::Mono;

/// The least time between two requests for the same rows.
pub(super) const LOAD_PAUSE: Duration = Duration::from_secs(1);

/// The number of rows in the first request. More follow when the cursor comes near their end.
const ROWS: u64 = 200;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    pub(super) cursor: usize,
    /// Rows above the visible part, without the pinned ones.
    pub(super) top: usize,
    /// The number of rows that there are.
    pub(super) total: u64,
    pub(super) error: Option<String>,
    pub(super) data: Data,
    pub(super) wanted: u64,
    /// Whether the rows may have changed since their request.
    pub(super) is_stale: bool,
    pub(super) is_loading: bool,
    pub(super) loaded: Option<Mono>,
}

impl Default for Rows {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            cursor: 0,
            top: 0,
            total: 0,
            error: None,
            data: Data::default(),
            wanted: ROWS,
            is_stale: false,
            is_loading: false,
            loaded: None,
        }
    }
}

impl Rows {
    /// Requests other rows from now on.
    pub(super) fn reload(&mut self) {
        (self.is_stale, self.is_loading, self.loaded) = (true, false, None);
        (self.wanted, self.error) = (ROWS, None);
    }

    /// Takes an answer. One without a moment was requested before the view changed, and is dropped.
    pub(super) fn answered(&mut self, answer: Result<Answer, String>, at: Option<Mono>) {
        self.is_loading = false;
        if at.is_none() {
            return;
        }
        self.loaded = at;
        match answer {
            Ok(Answer { data, total }) => (self.data, self.total, self.error) = (data, total, None),
            Err(why) => self.error = Some(why),
        }
    }

    /// Rows at the top that do not scroll: the head of a table.
    pub(super) fn pinned(&self) -> usize {
        let is_table = !matches!(self.data, Data::Nothing | Data::Text(_));
        usize::from(is_table && !self.rows.is_empty())
    }

    /// Takes the rows as they are now. The cursor stays at its row.
    pub(super) fn replace(&mut self, rows: Vec<Row>, height: usize) {
        if let Some(name) = self.rows.get(self.cursor).map(|row| row.target.name()).filter(|name| !name.is_empty()) {
            // A task may appear as a problem and as a run: each of these rows is a place of its own.
            let same = |row: &&Row| row.target.name() == name;
            let above = self.rows[..self.cursor].iter().filter(same).count();
            let mut places = rows.iter().enumerate().filter(|(_, row)| same(row)).map(|(place, _)| place);
            let first = places.next();
            let place = if above == 0 { first } else { places.nth(above - 1).or(first) };
            self.cursor = place.unwrap_or(self.cursor);
        }
        self.rows = rows;
        self.settle(height);
    }

    /// Whether the cursor can stop at a row. If no row has a target, it can stop at all of them.
    fn is_stop(&self, place: usize) -> bool {
        let has_targets = self.rows.iter().any(|row| row.target != Target::Nothing);
        let is_one = |row: &Row| !has_targets || row.target != Target::Nothing;
        place >= self.pinned() && self.rows.get(place).is_some_and(is_one)
    }

    /// Moves the cursor to a row where it can stop, and makes that row visible.
    fn settle(&mut self, height: usize) {
        let (pinned, last) = (self.pinned(), self.rows.len().saturating_sub(1));
        let cursor = self.cursor.min(last);
        let down = (cursor..=last).find(|place| self.is_stop(*place));
        self.cursor = down.or_else(|| (0..cursor).rev().find(|place| self.is_stop(*place))).unwrap_or(pinned);
        let room = height.saturating_sub(pinned).max(1);
        let place = self.cursor.saturating_sub(pinned);
        self.top = self.top.clamp((place + 1).saturating_sub(room), place);
        // The rows above the first one with a target are shown with it.
        if (pinned..self.cursor).all(|above| !self.is_stop(above)) && place < room {
            self.top = 0;
        }
        let is_near_end = self.cursor + height >= self.rows.len();
        let has_more = self.total > self.wanted && self.wanted < ROWS_MAX;
        if is_near_end && has_more && matches!(self.data, Data::Tasks(_)) && !self.is_loading {
            self.wanted = (self.wanted * 2).min(ROWS_MAX);
            (self.is_stale, self.loaded) = (true, None);
        }
    }

    /// Moves the cursor by this number of rows.
    pub(super) fn scroll(&mut self, count: usize, is_down: bool, height: usize) {
        for _ in 0..count {
            let (cursor, last) = (self.cursor, self.rows.len());
            let next = if is_down {
                (cursor + 1..last).find(|place| self.is_stop(*place))
            } else {
                (0..cursor).rev().find(|place| self.is_stop(*place))
            };
            let Some(next) = next else { break };
            self.cursor = next;
        }
        self.settle(height);
    }
}
