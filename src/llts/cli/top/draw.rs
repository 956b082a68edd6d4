//! Draws the state of the screen: a head, the views, the body, and a line for keys, filter, notes and questions.

use std::borrow::Cow;

use anstyle::{AnsiColor, Color, Effects, Style};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color as Ink, Modifier, Style as Cell};
use ratatui_core::terminal::Frame;
use ratatui_core::text::{Line as TextLine, Span};
use unicode_width::UnicodeWidthChar as _;

use super::app::{App, Foot, Link};
use super::listing::{ROWS_MAX, View};
use super::pane::{About, Line};
use super::{help, overview};
use base::{Mono, Stream};
use term::style::{BAD, FAINT, ODD, PLAIN, STRONG};
use term::table::grouped;
use term::times;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App, now: Mono) {
    let area = frame.area();
    let line = |y: u16| Rect { y, height: 1, ..area };
    if area.height == 0 {
        return;
    }
    put(frame, app, line(0), &head(app, now), Cell::default());
    if area.height > 2 {
        put(frame, app, line(1), &views(app, usize::from(area.width)), Cell::default());
    }
    if area.height > 3 {
        body(frame, app, Rect { y: 2, height: area.height - 3, ..area });
    }
    if area.height > 1 {
        put(frame, app, line(area.height - 1), &foot(app), Cell::default());
    }
}

/// Draws a line; `over` styles the whole row.
fn put(frame: &mut Frame<'_>, app: &App, area: Rect, line: &Line, over: Cell) {
    let spans = line.iter().map(|(style, text)| Span::styled(calm(text), cell(*style, app.is_coloured)));
    let buffer = frame.buffer_mut();
    buffer.set_line(area.x, area.y, &TextLine::from(spans.collect::<Vec<_>>()), area.width);
    buffer.set_style(area, over);
}

/// Maximum number of combining marks on a letter: with many, terminals lose count of the columns.
const MARKS_MAX: usize = 2;

/// A text with few combining marks per letter.
fn calm(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut marks = 0;
    let is_shown = |letter: &char| {
        marks = if letter.width() == Some(0) { marks + 1 } else { 0 };
        marks <= MARKS_MAX
    };
    Cow::Owned(text.chars().filter(is_shown).collect())
}

/// Converts a style of the tables into one of the screen.
fn cell(style: Style, is_coloured: bool) -> Cell {
    let mut cell = Cell::default();
    for (effect, modifier) in
        [(Effects::BOLD, Modifier::BOLD), (Effects::DIMMED, Modifier::DIM), (Effects::UNDERLINE, Modifier::UNDERLINED)]
    {
        if style.get_effects().contains(effect) {
            cell = cell.add_modifier(modifier);
        }
    }
    match style.get_fg_color() {
        Some(Color::Ansi(colour)) if is_coloured => cell.fg(ink(colour)),
        _ => cell,
    }
}

/// One of the sixteen colours in every terminal theme.
const fn ink(colour: AnsiColor) -> Ink {
    match colour {
        AnsiColor::Red | AnsiColor::BrightRed => Ink::Red,
        AnsiColor::Green | AnsiColor::BrightGreen => Ink::Green,
        AnsiColor::Yellow | AnsiColor::BrightYellow => Ink::Yellow,
        AnsiColor::Blue | AnsiColor::BrightBlue => Ink::Blue,
        AnsiColor::Magenta | AnsiColor::BrightMagenta => Ink::Magenta,
        AnsiColor::Cyan | AnsiColor::BrightCyan => Ink::Cyan,
        AnsiColor::Black | AnsiColor::BrightBlack | AnsiColor::White | AnsiColor::BrightWhite => Ink::Reset,
    }
}

fn head(app: &App, now: Mono) -> Line {
    match &app.link {
        Link::Opening => vec![(STRONG, "llts".to_owned()), (PLAIN, "  asking the controller".to_owned())],
        Link::Good => overview::head(&app.status, app.look()),
        Link::Lost { since, why } => {
            vec![(BAD, format!("! no answer for {}", times::short(now.since(*since)))), (PLAIN, format!("  {why}"))]
        }
    }
}

/// How many letters of their names the views have: those of tasks and their service, and those of the other systems.
#[derive(Clone, Copy)]
struct Letters {
    own: usize,
    others: usize,
}

/// The views with their keys, or only the present one if room is short.
fn views(app: &App, room: usize) -> Line {
    if let Some(pane) = &app.pane {
        return vec![(STRONG, title(&pane.about))];
    }
    let filter = if app.filter().is_empty() { 0 } else { app.filter().chars().count() + 2 };
    // Whole names if they fit, else those of the tasks and their service, else the beginnings of these, else the keys alone.
    let shown = |name: &'static str, letters: Letters, view: View| {
        let letters = match view {
            _ if view == app.view => usize::MAX,
            View::Prompts | View::Lists | View::Tdf => letters.others,
            _ => letters.own,
        };
        name.get(..letters).unwrap_or(name)
    };
    let gap_behind = |name: &str, gap: usize| if name.is_empty() { 0 } else { gap };
    let width = |(letters, gap): (Letters, usize)| {
        let names = View::ALL.iter().map(|(view, _, name)| shown(name, letters, *view));
        names.map(|name| name.len() + 2 + gap_behind(name, gap)).sum::<usize>() + filter
    };
    let (all, own) = (Letters { own: usize::MAX, others: usize::MAX }, Letters { own: usize::MAX, others: 0 });
    let ways = [(all, 2), (all, 1), (own, 1), (Letters { own: 4, others: 0 }, 1)];
    let none = (Letters { own: 0, others: 0 }, 0);
    let (letters, gap) = ways.into_iter().find(|way| width(*way) <= room).unwrap_or(none);
    let mut line = Line::new();
    for (view, key, name) in View::ALL {
        let is_here = view == app.view;
        let style = if is_here { STRONG | Effects::UNDERLINE } else { FAINT };
        let name = shown(name, letters, view);
        line.extend([(FAINT, format!("{key} ")), (style, name.to_owned())]);
        line.push((PLAIN, " ".repeat(if is_here { gap.max(1) } else { gap_behind(name, gap) })));
    }
    if !app.filter().is_empty() {
        line.push((ODD, format!("/{}", app.filter())));
    }
    line
}

fn title(about: &About) -> String {
    match about {
        About::Task(id) => format!("task {id}"),
        About::Reason(id) => format!("why {id}"),
        About::Graph(id) => format!("graph {id}"),
        About::Log(_, id, Stream::Stderr) => format!("stderr of {id}"),
        About::Log(_, id, _) => format!("stdout of {id}; L shows its stderr"),
        About::Sentence => "the whole sentence".to_owned(),
        About::Keys => "keys".to_owned(),
    }
}

fn body(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let row = |place: usize| Rect { y: area.y + u16::try_from(place).unwrap_or(u16::MAX), height: 1, ..area };
    let height = usize::from(area.height);
    if let Some(pane) = &app.pane {
        let none = vec![(FAINT, "nothing was written yet".to_owned())];
        if pane.lines.is_empty() {
            put(frame, app, row(0), &none, Cell::default());
        }
        for (place, line) in pane.lines.iter().skip(pane.top).take(height).enumerate() {
            put(frame, app, row(place), line, Cell::default());
        }
        return;
    }
    if let Some(why) = empty(app) {
        return put(frame, app, row(0), &why, Cell::default());
    }
    let pinned = app.list.pinned();
    let shown = app.list.rows.iter().enumerate();
    let moving = shown.clone().skip(pinned).skip(app.list.top);
    for (place, (number, line)) in shown.take(pinned).chain(moving).take(height).enumerate() {
        let mut over = Cell::default();
        if app.marked.contains(line.target.name()) {
            over = over.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        }
        if number == app.list.cursor && number >= pinned {
            over = over.add_modifier(Modifier::REVERSED);
        }
        put(frame, app, row(place), &line.parts, over);
    }
    let below = app.list.rows.len().saturating_sub(app.list.top + height);
    if below > 0 && height > 1 {
        let mark = vec![(FAINT, format!(" ↓ {} more", grouped(below as u64)))];
        let width = u16::try_from(mark[0].1.chars().count()).unwrap_or(u16::MAX).min(area.width);
        let last = row(height - 1);
        put(frame, app, Rect { x: area.x + area.width - width, width, ..last }, &mark, Cell::default());
    }
}

/// A sentence in place of missing rows.
fn empty(app: &App) -> Option<Line> {
    if let Some(why) = app.filter_error() {
        return Some(vec![(BAD, why)]);
    }
    if let Some(why) = &app.list.error {
        return Some(vec![(BAD, why.clone())]);
    }
    let sentence = match app.view {
        _ if app.list.is_loading && app.list.loaded.is_none() => "asking the controller",
        _ if app.list.rows.len() > app.list.pinned() => return None,
        View::Tasks if app.filter().is_empty() => "no task; `llts run -- echo hi` runs one",
        View::Jobs if app.filter().is_empty() => "no job; submit with --job NAME, or use `llts map`",
        View::Graphs if app.filter().is_empty() => "no graph; `llts graph run FILE` runs one",
        View::Gates if app.filter().is_empty() => "no gate; submit with --gate NAME",
        View::Agents if app.filter().is_empty() => "no agent; `llts up` starts some",
        _ if app.filter().is_empty() => "nothing yet",
        _ => "nothing matches the filter; Esc removes it",
    };
    Some(vec![(FAINT, term::hints::typed(sentence).into_owned())])
}

fn foot(app: &App) -> Line {
    match &app.foot {
        Foot::Question(question, _) => {
            vec![
                (ODD, format!("{question}? ")),
                (STRONG, "y".to_owned()),
                (PLAIN, " does it, any other key does not".to_owned()),
            ]
        }
        Foot::Note(note) => vec![(PLAIN, base::printable(note))],
        Foot::Filter => {
            let help = if app.view == View::Tasks { help::filter_names() } else { "" };
            vec![
                (STRONG, format!("/{}", base::printable(app.filter()))),
                (PLAIN, "▏".to_owned()),
                (FAINT, format!("  {help}")),
            ]
        }
        Foot::Keys => {
            let mut line = Line::new();
            if !app.marked.is_empty() {
                line.push((ODD, format!("{} marked  ", app.marked.len())));
            }
            if app.view == View::Tasks && app.pane.is_none() {
                line.push((PLAIN, counted(app)));
            }
            let used: usize = line.iter().map(|(_, text)| text.chars().count()).sum();
            line.extend(help::hints(app.view, app.pane.is_some(), usize::from(app.size.0).saturating_sub(used)));
            line
        }
    }
}

/// How many tasks there are, and their order.
fn counted(app: &App) -> String {
    let (sort, is_reversed) = app.sort;
    let total = app.list.total;
    let shown = (app.list.rows.len() as u64).saturating_sub(1);
    let all = if shown < total && shown >= ROWS_MAX {
        format!("{} of {} tasks", grouped(shown), grouped(total))
    } else {
        base::counted(grouped(total), "task")
    };
    format!("{all} by {}{}  ", sort.word(), if is_reversed { " reversed" } else { "" })
}
