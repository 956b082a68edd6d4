//! Answers questions from the files, one day after the other: a statement for each, with the terms of the filter as its values.
//!
//! A page of rounds keeps the keys of the first rows in the wanted order, and then reads the rows of the page. A summary keeps its
//! groups. Neither keeps the rows that it reads.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::path::PathBuf;
use std::sync::mpsc::Sender;

use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};

use super::folder::Folder;
use super::jobs::Job;
use super::tables::{self, FileError};
use crate::history::rules::{Day, Summaries};
use api::wire::page::{Page, PageOf};
use api::wire::requests::history::{GroupKey, HistoryAnswer, HistoryPage, Question, RoundFilter, SortKey, What};
use api::wire::{Code, Refusal};
use base::{FinishedRound, Incident, IncidentKind, Round, TaskId, words};

/// Maximum number of rows before and on a page. The keys of up to twice as many are kept while the files are read, 48 bytes each.
const KEYS_MAX: usize = 2_000_000;

/// Reads the files for one question.
pub(super) struct Reader<'a> {
    folder: &'a Folder,
    /// Maximum number of rows on a page.
    page_max: usize,
    /// For the writer, which repairs damaged files.
    jobs: &'a Sender<Job>,
    /// The files that were not read completely, each with the reason.
    damaged: BTreeMap<PathBuf, String>,
}

/// The terms of a filter, as SQL with a place for each of the values.
struct Terms {
    sql: String,
    values: Vec<Value>,
}

impl Terms {
    fn of_time(column: &str, filter: &RoundFilter) -> Self {
        let values = [filter.since, filter.until].map(tables::micros).map(Value::from).to_vec();
        Self { sql: format!("WHERE {column} >= ? AND {column} < ?"), values }
    }

    fn of_rounds(filter: &RoundFilter) -> Self {
        let mut terms = Self::of_time("ended_at", filter);
        let task = filter.task.map(|task| task.to_string());
        let letters = filter.letters.map(|letters| String::from_utf8_lossy(&letters).into_owned());
        let texts = [
            ("tool", &filter.tool),
            ("job", &filter.job),
            ("agent", &filter.agent),
            ("given_id", &filter.given_id),
            ("task", &task),
            ("substr(task, -5)", &letters),
        ];
        for (column, text) in texts {
            terms.add(column, text.iter().map(String::as_str));
        }
        if filter.is_last {
            terms.sql += " AND is_last";
        }
        if filter.text.is_some() {
            terms.sql += " AND finds(tool, command, given_id, line)";
        }
        let outcomes: BTreeSet<_> = filter.outcomes.iter().copied().collect();
        terms.add("outcome", outcomes.into_iter().map(words::round_outcome));
        terms
    }

    /// Adds the term that the column has one of these values, if there are any.
    fn add<'a>(&mut self, column: &str, wanted: impl Iterator<Item = &'a str>) {
        let before = self.values.len();
        self.values.extend(wanted.map(|text| Value::from(text.to_owned())));
        match self.values.len() - before {
            0 => {}
            count => self.sql += &format!(" AND {column} IN ({})", places(count)),
        }
    }

    fn count(&self, connection: &Connection, table: &str) -> Result<usize, FileError> {
        let sql = format!("SELECT count(*) FROM {table} {}", self.sql);
        let count: i64 = connection.query_row(&sql, params_from_iter(&self.values), |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or_default())
    }
}

/// Lets a statement call [`RoundFilter::finds`]. The functions of SQLite know no other capital letters than those of ASCII.
fn add_finds(connection: &Connection, filter: &RoundFilter) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    let filter = filter.clone();
    connection.create_scalar_function("finds", 4, flags, move |context| {
        let text = |at| context.get_raw(at).as_str().map_err(|error| rusqlite::Error::UserFunctionError(error.into()));
        Ok(filter.finds(text(0)?, text(1)?, text(2)?, text(3)?))
    })
}

/// Places for this many values in a statement.
pub(super) fn places(count: usize) -> String {
    vec!["?"; count].join(",")
}

/// The number that orders rounds, the largest first, and the fields that name a round.
type Key = (i64, TaskId, i64, Round);

impl<'a> Reader<'a> {
    pub(super) const fn new(folder: &'a Folder, page_max: usize, jobs: &'a Sender<Job>) -> Self {
        Self { folder, page_max, jobs, damaged: BTreeMap::new() }
    }

    /// The answer to a question.
    pub(super) fn answer(mut self, question: &Question) -> Result<HistoryAnswer, Refusal> {
        let filter = &question.filter;
        let (found, total, page) = match &question.what {
            What::Rounds { sort, is_reversed, page } => {
                let end = self.end_of(*page)?;
                let (keys, total) = readable(self.keys(filter, *sort, *is_reversed, end))?;
                let rounds = readable(self.resolve(keys.get(page.offset..).unwrap_or_default()))?;
                (HistoryPage::Rounds(rounds), total, page)
            }
            What::Summary { by, clock_ahead, page } => {
                let summaries = self.summarise(filter, by, *clock_ahead)?;
                let total = summaries.len();
                let groups = summaries.into_page(by, page.offset, self.len_of(*page));
                (HistoryPage::Summary(groups), total, page)
            }
            What::Incidents { kind, page } => {
                let len = self.len_of(*page);
                let (incidents, total) = readable(self.incidents(filter, *kind, page.offset, len))?;
                (HistoryPage::Incidents(incidents), total, page)
            }
        };
        let page = PageOf { offset: page.offset, asked: page.limit, total };
        Ok(HistoryAnswer { found, page, damaged: self.damage() })
    }

    fn len_of(&self, page: Page) -> usize {
        page.limit.unwrap_or(usize::MAX).min(self.page_max)
    }

    fn end_of(&self, page: Page) -> Result<usize, Refusal> {
        let end = page.offset.saturating_add(self.len_of(page));
        if end > KEYS_MAX {
            let message = format!(
                "a page that ends at row {end} of the history is too far: at most {KEYS_MAX}; shorten the time"
            );
            return Err(Refusal::new(Code::LimitReached, message));
        }
        Ok(end)
    }

    /// The damage that was found on the way, in a sentence.
    fn damage(&self) -> Option<String> {
        let (path, what) = self.damaged.first_key_value()?;
        let others = match self.damaged.len() - 1 {
            0 => String::new(),
            1 => ", and of another file,".to_owned(),
            others => format!(", and of {others} other files,"),
        };
        Some(format!("{} {what}; what cannot be read of it{others} is left out", path.display()))
    }

    /// Allows a damaged file, because its readable rows have been read. Any other error fails the question.
    fn allow(&mut self, day: Day, read: Result<(), FileError>) -> Result<(), FileError> {
        let what = match read {
            Err(FileError::Damaged(why)) => {
                let _ = self.jobs.send(Job::Damaged(day));
                format!("is damaged: {why}")
            }
            Err(FileError::Newer(version)) => format!("is of a newer program: it has version {version}"),
            read => return read,
        };
        self.damaged.insert(self.folder.path_of(day), what);
        Ok(())
    }

    /// Calls `each` for the files that may have a row of the filter, newest first.
    fn each_file(
        &mut self,
        filter: &RoundFilter,
        mut each: impl FnMut(&Connection) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let days = self.folder.days()?.into_iter().rev();
        for (day, aside) in days.filter(|(day, _)| day.begin() < filter.until && *day >= Day::of(filter.since)) {
            self.damaged.extend(aside.into_iter().map(|path| (path, "was set aside".to_owned())));
            let found = tables::open_to_read(&self.folder.path_of(day));
            let read = found.and_then(|found| match found {
                Some(connection) => {
                    if filter.text.is_some() {
                        add_finds(&connection, filter)?;
                    }
                    each(&connection)
                }
                None => Ok(()),
            });
            self.allow(day, read)?;
        }
        Ok(())
    }

    /// The keys of the first rounds in an order, and the number of all.
    fn keys(
        &mut self,
        filter: &RoundFilter,
        sort: SortKey,
        is_reversed: bool,
        end: usize,
    ) -> Result<(Vec<Key>, usize), FileError> {
        let terms = Terms::of_rounds(filter);
        let value = match sort {
            SortKey::Ended => "ended_at",
            // A run that does not exist is shorter than any other.
            SortKey::Ran => "coalesce(ran_micros, -1)",
            SortKey::Waited => "waited_micros",
            SortKey::Submitted => "submitted_at",
        };
        let order = if is_reversed { "ASC" } else { "DESC" };
        let sql = format!(
            "SELECT {value}, task, ended_at, round FROM rounds {} ORDER BY {value} {order}, task {order}, ended_at {order}, \
             round {order} LIMIT {end}",
            terms.sql
        );
        let (mut keys, mut total) = (Vec::new(), 0);
        self.each_file(filter, |connection| {
            let count = terms.count(connection, "rounds")?;
            total += count;
            // All rounds of an earlier day are behind those of a later one.
            if count == 0 || (sort, is_reversed) == (SortKey::Ended, false) && keys.len() >= end {
                return Ok(());
            }
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query(params_from_iter(&terms.values))?;
            while let Some(row) = rows.next()? {
                keys.push((row.get(0)?, tables::task(row, 1)?, row.get(2)?, Round(row.get(3)?)));
            }
            keys.sort_unstable();
            if !is_reversed {
                keys.reverse();
            }
            keys.truncate(end);
            Ok(())
        })?;
        Ok((keys, total))
    }

    /// The rounds with these keys, in their order.
    fn resolve(&mut self, keys: &[Key]) -> Result<Vec<FinishedRound<'static>>, FileError> {
        let mut files = BTreeMap::new();
        let mut found = Vec::with_capacity(keys.len());
        for (_, task, ended_at, round) in keys {
            let day = Day::of(tables::wall(*ended_at));
            let mut read = || {
                let file = match files.entry(day) {
                    Entry::Occupied(file) => file.into_mut(),
                    Entry::Vacant(file) => file.insert(tables::open_to_read(&self.folder.path_of(day))?),
                };
                // The day was removed meanwhile.
                let Some(connection) = file else { return Ok(()) };
                let key = (ended_at, task.to_string(), round.0);
                tables::rounds(connection, "WHERE ended_at = ? AND task = ? AND round = ?", key, |round| {
                    found.push(round);
                    Ok(())
                })
            };
            let read = read();
            self.allow(day, read)?;
        }
        Ok(found)
    }

    fn summarise(&mut self, filter: &RoundFilter, by: &[GroupKey], clock_ahead: i32) -> Result<Summaries, Refusal> {
        let terms = Terms::of_rounds(filter);
        let columns: Vec<_> = by.iter().map(|key| column(*key, clock_ahead)).collect();
        let sql =
            format!("SELECT outcome, waited_micros, ran_micros, {} FROM rounds {}", columns.join(", "), terms.sql);
        let mut summaries = Summaries::default();
        let mut refused = None;
        let read = self.each_file(filter, |connection| {
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query(params_from_iter(&terms.values))?;
            let mut key = Vec::new();
            while let Some(row) = rows.next()? {
                key.clear();
                for column in 3..3 + by.len() {
                    match row.get_ref(column)? {
                        ValueRef::Integer(number) => key.extend(number.to_le_bytes()),
                        value => {
                            let text = value.as_bytes().unwrap_or_default();
                            key.extend(text.len().to_le_bytes());
                            key.extend(text);
                        }
                    }
                }
                let of = |(column, key)| row.get_ref(column).map_or_else(|_| String::new(), |value| shown(key, value));
                let shared = || (3..).zip(by.iter().copied()).map(of).collect();
                let ran = row.get::<_, Option<i64>>(2)?.map(tables::duration);
                if let Err(why) = summaries.add(
                    &key,
                    shared,
                    tables::meaning(row, 0, words::round_outcome_of)?,
                    tables::duration(row.get(1)?),
                    ran,
                ) {
                    refused = Some(Refusal::new(Code::LimitReached, why.to_string()));
                    return Err(FileError::Unusable(why.to_string()));
                }
            }
            Ok(())
        });
        refused.map_or_else(|| readable(read).map(|()| summaries), Err)
    }

    /// The newest incidents after the first `offset` ones, and the number of all.
    fn incidents(
        &mut self,
        filter: &RoundFilter,
        kind: Option<IncidentKind>,
        offset: usize,
        len: usize,
    ) -> Result<(Vec<Incident>, usize), FileError> {
        let mut terms = Terms::of_time("at", filter);
        terms.add("kind", kind.into_iter().map(words::incident));
        let (mut found, mut total) = (Vec::new(), 0);
        self.each_file(filter, |connection| {
            let (skipped, wanted) = (offset.saturating_sub(total), len - found.len());
            let count = terms.count(connection, "incidents")?;
            total += count;
            if skipped < count && wanted > 0 {
                let selection = format!("{} ORDER BY at DESC, rowid DESC LIMIT {wanted} OFFSET {skipped}", terms.sql);
                found.extend(tables::incidents(connection, &selection, params_from_iter(&terms.values))?);
            }
            Ok(())
        })?;
        Ok((found, total))
    }
}

/// The column or the number that the rounds of a group share. `clock_ahead` is how many seconds the clocks of the reader are ahead
/// of UTC.
fn column(key: GroupKey, clock_ahead: i32) -> String {
    match key {
        GroupKey::Day => format!("(ended_at + {clock_ahead} * 1000000) / 86400000000"),
        GroupKey::Hour => "ended_at / 3600000000 * 3600".to_owned(),
        GroupKey::Tool | GroupKey::Outcome | GroupKey::Job | GroupKey::Agent | GroupKey::Host => key.word().to_owned(),
    }
}

fn shown(key: GroupKey, value: ValueRef<'_>) -> String {
    match (key, value) {
        (GroupKey::Day, ValueRef::Integer(day)) => Day(u64::try_from(day).unwrap_or_default()).to_string(),
        (_, ValueRef::Integer(number)) => number.to_string(),
        (_, value) => value.as_str().unwrap_or_default().to_owned(),
    }
}

fn readable<T>(read: Result<T, FileError>) -> Result<T, Refusal> {
    read.map_err(|error| Refusal::new(Code::NotAllowed, format!("the history cannot be read: {error}")))
}
