//! Answers questions from the files.

use std::fs::File;
use std::io;

use super::folder::Folder;
use super::frames::{self, Damage, Frame};
use crate::engine::history::{Day, Matcher, Place, Summaries, Top, WriteKind};
use crate::protocol::page::{Page, PageOf};
use crate::protocol::requests::history::{HistoryAnswer, HistoryPage, Question, RoundFilter, What};
use crate::protocol::rounds::block::{Block, read_incidents};
use crate::protocol::{Code, Refusal};
use crate::types::{FinishedRound, Incident, IncidentKind, Wall};

/// Rows before and on a page: the places of so many are kept while the files are read, 32 bytes each.
const PLACES_MAX: usize = 2_000_000;

/// Reads the files for one question.
pub(super) struct Reader<'a> {
    pub(super) folder: &'a Folder,
    /// Maximum number of rows on a page.
    pub(super) page_max: usize,
}

/// The damage that was found on the way.
#[derive(Default)]
struct Damages {
    first: Option<String>,
    /// Damaged blocks with a readable header.
    blocks: u64,
    /// Rows in these blocks.
    rows: u64,
    /// Places without a readable header, each with one block or more.
    places: u64,
}

impl Damages {
    fn note(&mut self, folder: &Folder, day: Day, damage: Damage) {
        // The writer may be writing it at this moment.
        if damage.is_torn {
            return;
        }
        // All of its rows were added again.
        if damage.header.is_some_and(|header| header.count == 0) {
            return;
        }
        match damage.header {
            Some(header) => (self.blocks, self.rows) = (self.blocks + 1, self.rows + u64::from(header.count)),
            None => self.places += 1,
        }
        let path = folder.path_of(day);
        self.first.get_or_insert_with(|| format!("{} is damaged at byte {}", path.display(), damage.at));
    }

    fn sentence(self) -> Option<String> {
        let Self { first, blocks, rows, places } = self;
        let counted = format!("{rows} rows in {blocks} damaged block(s)");
        let uncounted = format!("the rows in {places} place(s) without a readable header");
        let left_out = match (blocks, places) {
            (_, 0) => counted,
            (0, _) => uncounted,
            _ => format!("{counted}, and {uncounted},"),
        };
        Some(format!("{}; {left_out} are left out", first?))
    }
}

impl Reader<'_> {
    /// The answer to a question.
    pub(super) fn answer(&self, question: &Question) -> Result<HistoryAnswer, Refusal> {
        let mut damages = Damages::default();
        let filter = &question.filter;
        let found = match &question.what {
            What::Rounds { sort, is_reversed, page } => {
                let len_max = self.end_of(*page)?;
                let top = Top::new(*sort, *is_reversed, len_max);
                self.rounds(filter, top, *page, &mut damages).map_err(|error| unreadable(&error))?
            }
            What::Summary { by, clock_ahead, page } => {
                let mut summaries = Summaries::new(by.clone(), *clock_ahead);
                self.summarise(filter, &mut summaries, &mut damages)?;
                let rows = summaries.page(page.offset, self.len_of(*page));
                (HistoryPage::Summary(rows), summaries.len(), *page)
            }
            What::Incidents { kind, page } => {
                self.incidents(filter, *kind, *page, &mut damages).map_err(|error| unreadable(&error))?
            }
        };
        let (found, total, page) = found;
        let page = PageOf { offset: page.offset, asked: page.limit, total };
        Ok(HistoryAnswer { found, page, damaged: damages.sentence() })
    }

    fn len_of(&self, page: Page) -> usize {
        page.limit.unwrap_or(usize::MAX).min(self.page_max)
    }

    fn end_of(&self, page: Page) -> Result<usize, Refusal> {
        let end = page.offset.saturating_add(self.len_of(page));
        if end > PLACES_MAX {
            let message = format!(
                "a page that ends at row {end} of the history is too far: at most {PLACES_MAX}; shorten the time"
            );
            return Err(Refusal::new(Code::LimitReached, message));
        }
        Ok(end)
    }

    fn rounds(
        &self,
        filter: &RoundFilter,
        mut top: Top,
        page: Page,
        damages: &mut Damages,
    ) -> io::Result<(HistoryPage, usize, Page)> {
        self.each_block(filter, damages, |day, frame, mut block| {
            let Some(matcher) = Matcher::new(filter, &block) else { return Ok(()) };
            for (number, row) in (0..).zip(block.by_ref()) {
                if matcher.matches(&row) {
                    top.add(&row, Place { day, block: frame.at, row: number });
                }
            }
            Ok(())
        })?;
        let total = top.total();
        let rows = self.resolve(&top.into_places(page.offset))?;
        Ok((HistoryPage::Rounds(rows), total, page))
    }

    /// The rows at these places, in their order.
    fn resolve(&self, places: &[Place]) -> io::Result<Vec<FinishedRound<'static>>> {
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|at| places.get(*at));
        let mut rows = vec![None; places.len()];
        let of_one_block = |a: &usize, b: &usize| {
            let block = |at: &usize| places.get(*at).map(|place| (place.day, place.block));
            block(a) == block(b)
        };
        for of_block in order.chunk_by(of_one_block) {
            let Some(first) = of_block.first().and_then(|at| places.get(*at)) else { continue };
            let Some(file) = self.folder.open(first.day)? else { continue };
            let Some(frame) = frames::frame_at(&file, first.block)? else { continue };
            let Some(bytes) = frame.bytes(&file)? else { continue };
            let Some(mut block) = Block::new(&bytes, frame.format) else { continue };
            let found: Vec<_> = block.by_ref().collect();
            for at in of_block {
                let row = places.get(*at).and_then(|place| found.get(place.row as usize));
                rows[*at] = row.and_then(|row| block.resolve(row)).map(FinishedRound::into_owned);
            }
        }
        Ok(rows.into_iter().flatten().collect())
    }

    fn summarise(&self, filter: &RoundFilter, summaries: &mut Summaries, damages: &mut Damages) -> Result<(), Refusal> {
        let mut refused = None;
        let read = self.each_block(filter, damages, |_, _, mut block| {
            let Some(matcher) = Matcher::new(filter, &block) else { return Ok(()) };
            summaries.begin_block();
            while let Some(row) = block.next() {
                if matcher.matches(&row)
                    && let Err(why) = summaries.add(&block, &row)
                {
                    refused = Some(Refusal::new(Code::LimitReached, why.to_string()));
                    return Err(io::ErrorKind::Other.into());
                }
            }
            Ok(())
        });
        match (read, refused) {
            (_, Some(refusal)) => Err(refusal),
            (Err(error), None) => Err(unreadable(&error)),
            (Ok(()), None) => Ok(()),
        }
    }

    fn incidents(
        &self,
        filter: &RoundFilter,
        kind: Option<IncidentKind>,
        page: Page,
        damages: &mut Damages,
    ) -> io::Result<(HistoryPage, usize, Page)> {
        let mut found: Vec<Incident> = Vec::new();
        self.each_frame(filter, WriteKind::Incidents, damages, |_, _, bytes| {
            let of_kind = |incident: &Incident| kind.is_none_or(|kind| kind == incident.kind);
            let is_wanted =
                |incident: &Incident| (filter.since..filter.until).contains(&incident.at) && of_kind(incident);
            found.extend(read_incidents(bytes).into_iter().filter(is_wanted));
            Ok(())
        })?;
        found.sort_by_key(|incident| incident.at);
        let total = found.len();
        let rows = found.into_iter().rev().skip(page.offset).take(self.len_of(page)).collect();
        Ok((HistoryPage::Incidents(rows), total, page))
    }

    /// The blocks of rounds that may contain a row of the filter, oldest day first.
    fn each_block(
        &self,
        filter: &RoundFilter,
        damages: &mut Damages,
        mut each: impl FnMut(Day, &Frame, Block<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.each_frame(filter, WriteKind::Rounds, damages, |day, frame, bytes| match Block::new(bytes, frame.format) {
            Some(block) => each(day, frame, block),
            None => Ok(()),
        })
    }

    fn each_frame(
        &self,
        filter: &RoundFilter,
        kind: WriteKind,
        damages: &mut Damages,
        mut each: impl FnMut(Day, &Frame, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        // A range of days must not end before it begins.
        if filter.since >= filter.until {
            return Ok(());
        }
        for day in self.folder.days()?.range(Day::of(filter.since)..=Day::of(filter.until)) {
            let Some(file) = self.folder.open(*day)? else { continue };
            frames_of(&file, kind, filter.since, filter.until, |found| {
                match found {
                    Ok((frame, bytes)) => each(*day, &frame, &bytes)?,
                    Err(damage) => damages.note(self.folder, *day, damage),
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The blocks of a kind in a file that have a moment between two others, the later one excluded.
pub(super) fn frames_of(
    file: &File,
    kind: WriteKind,
    since: Wall,
    until: Wall,
    mut each: impl FnMut(Result<(Frame, Vec<u8>), Damage>) -> io::Result<()>,
) -> io::Result<()> {
    let is_wanted = |frame: &Frame| frame.kind == kind && frame.span.last >= since && frame.span.first < until;
    frames::frames(file, |found| match found {
        Ok(frame) if is_wanted(&frame) => each(frame.bytes(file)?.map(|bytes| (frame, bytes)).ok_or(frame.damage())),
        Err(damage) if damage.header.as_ref().is_none_or(is_wanted) => each(Err(damage)),
        _ => Ok(()),
    })
}

fn unreadable(error: &io::Error) -> Refusal {
    Refusal::new(Code::NotAllowed, format!("the history cannot be read: {error}"))
}
