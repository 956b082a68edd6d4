//! The state of the screen, without a terminal, a clock or a connection: takes events, gives orders.
//!
//! | the screen | event | consequence |
//! |---|---|---|
//! | a view | the state of the service has changed | its rows are requested, at most once a second; the overview is redrawn |
//! | a view | a digit, Tab | another view; its filter and its place are kept |
//! | a view | `/` and letters | each letter narrows its rows; Enter keeps the filter, Escape removes it |
//! | a view | Enter, `e`, `l` | a pane about the row at the cursor; on a row that stands for tasks, Enter shows those tasks |
//! | a view, a pane | `k`, `r`, `h`, `H`, `p` | a question with the number of things that would change |
//! | a question | `y` | the changes are made, and a line says how many were |
//! | a question | any other key | nothing is changed |
//! | anything | the controller does not answer | the head says since when; old data stays |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::listing::{self, Answer, Freshness, View, Wanted};
use super::pane::{About, Line, Pane};
use super::rows::{LOAD_PAUSE, Rows};
use super::target::{Act, Target, Verb};
use super::{filter, help};
use api::wire::requests::history::SortKey;
use api::wire::requests::status::Status;
use base::{Mono, Stream, Wall};
use term::style::{self, FAINT, Look, PLAIN};

/// Lines around the body: the head, the views, and the keys.
const FRAME: usize = 3;

/// An event for the screen.
#[derive(Debug)]
pub(super) enum Event {
    Key(KeyEvent),
    Resized,
    /// The state of the service.
    Status(Box<Status>),
    /// Why the controller does not answer.
    Lost(String),
    /// The requested rows.
    Loaded(Wanted, Result<Answer, String>),
    /// The lines of a pane.
    Shown(About, Result<Vec<Line>, String>),
    /// Lines of the followed log.
    Logged(u64, Vec<String>),
    /// The outcome of changes, as a sentence.
    Acted(String),
    /// A signal asks for the end.
    Quit,
}

/// An order from the screen.
#[derive(Debug)]
pub(super) enum Order {
    Load(Wanted),
    Show(About),
    Follow(u64, String, Stream),
    Act(Vec<Act>),
    /// Use another connection from now on.
    Reconnect,
    Suspend,
    Quit,
}

/// The use of the last line.
#[derive(Debug, Default)]
pub(super) enum Foot {
    #[default]
    Keys,
    Note(String),
    Filter,
    Question(String, Vec<Act>),
}

/// Whether the controller answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Link {
    #[default]
    Opening,
    Good,
    Lost {
        since: Mono,
        why: String,
    },
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct App {
    pub(super) view: View,
    pub(super) status: Status,
    pub(super) link: Link,
    pub(super) list: Rows,
    pub(super) pane: Option<Pane>,
    pub(super) foot: Foot,
    pub(super) marked: BTreeSet<String>,
    pub(super) sort: (SortKey, bool),
    pub(super) size: (u16, u16),
    pub(super) is_coloured: bool,
    filters: BTreeMap<usize, String>,
    /// The view with the row that led to these tasks.
    from: Option<View>,
    heard: Mono,
    reason: Arc<str>,
    logs: u64,
}

impl App {
    pub(super) fn new(now: Mono, size: (u16, u16), is_coloured: bool, reason: &str) -> Self {
        Self {
            view: View::default(),
            status: Status::default(),
            link: Link::default(),
            list: Rows::default(),
            pane: None,
            foot: Foot::default(),
            marked: BTreeSet::new(),
            sort: (SortKey::default(), false),
            size,
            is_coloured,
            filters: BTreeMap::new(),
            from: None,
            heard: now,
            reason: reason.into(),
            logs: 0,
        }
    }

    pub(super) fn look(&self) -> Look {
        Look { width: Some(usize::from(self.size.0)), is_terminal: true, is_coloured: self.is_coloured }
    }

    /// Lines of the body.
    pub(super) fn height(&self) -> usize {
        usize::from(self.size.1).saturating_sub(FRAME).max(1)
    }

    /// The filter of the present view.
    pub(super) fn filter(&self) -> &str {
        self.filters.get(&(self.view as usize)).map_or("", String::as_str)
    }

    /// When a timeout is due.
    pub(super) fn poll_timeout(&self, now: Mono) -> Mono {
        let second = now + LOAD_PAUSE;
        if !self.list.is_stale || self.list.is_loading {
            return second;
        }
        self.list.loaded.map_or(now, |loaded| loaded + LOAD_PAUSE).clamp(now, second)
    }

    /// Acts on the passing of time.
    pub(super) fn handle_timeout(&mut self, now: Mono) -> Vec<Order> {
        if let Freshness::After(pause) = self.view.freshness() {
            self.list.is_stale |= self.list.loaded.is_none_or(|loaded| now.since(loaded) >= pause);
        }
        self.rebuild(now);
        self.load(now).into_iter().collect()
    }

    pub(super) fn handle(&mut self, event: Event, now: Mono) -> Vec<Order> {
        let mut orders = Vec::new();
        match event {
            Event::Quit => orders.push(Order::Quit),
            Event::Resized => {}
            Event::Key(key) if key.kind == KeyEventKind::Release => {}
            Event::Key(key) => orders.extend(self.key(key)),
            Event::Status(status) => {
                let has_changed = status.changes != self.status.changes || self.view != View::Tasks;
                self.list.is_stale |= has_changed || matches!(self.link, Link::Lost { .. });
                let is_another =
                    self.status.started_at != status.started_at && self.status.started_at != Wall::default();
                if is_another || matches!(self.link, Link::Lost { .. }) {
                    // Earlier requests to the controller will not be answered.
                    self.list.reload();
                    orders.push(Order::Reconnect);
                }
                (self.status, self.heard, self.link) = (*status, now, Link::Good);
                orders.extend(self.again());
            }
            Event::Lost(why) => {
                self.link = Link::Lost { since: self.heard, why };
            }
            Event::Loaded(wanted, answer) => {
                let is_wanted = wanted == self.wanted();
                self.list.answered(answer, is_wanted.then_some(now));
            }
            Event::Shown(about, lines) => {
                let height = self.height();
                if let Some(pane) = self.pane.as_mut().filter(|pane| pane.about == about) {
                    pane.show(lines, height);
                }
            }
            Event::Logged(number, lines) if self.is_followed(number) => {
                let height = self.height();
                if let Some(pane) = &mut self.pane {
                    pane.add(lines, height);
                }
            }
            Event::Logged(..) => {}
            Event::Acted(sentence) => {
                self.foot = Foot::Note(sentence);
                self.list.is_stale = true;
            }
        }
        self.rebuild(now);
        orders.extend(self.load(now));
        orders
    }

    fn wanted(&self) -> Wanted {
        let filter = if self.view == View::Tasks { self.filter().to_owned() } else { String::new() };
        Wanted { view: self.view, filter, sort: self.sort, rows: self.list.wanted }
    }

    fn load(&mut self, now: Mono) -> Option<Order> {
        let may = self.list.loaded.is_none_or(|loaded| now.since(loaded) >= LOAD_PAUSE);
        let is_lost = matches!(self.link, Link::Lost { .. }) && self.view.beside().is_none();
        if self.view == View::Overview || !self.list.is_stale || self.list.is_loading || !may || is_lost {
            return None;
        }
        (self.list.is_stale, self.list.is_loading) = (false, true);
        Some(Order::Load(self.wanted()))
    }

    /// Rebuilds the rows, with ages as of now. The cursor stays at its row.
    fn rebuild(&mut self, now: Mono) {
        let mut status = self.status.clone();
        if status.now != Wall::default() {
            status.now = status.now + now.since(self.heard);
        }
        let filter = if self.view == View::Tasks { "" } else { self.filter() };
        let rows = listing::rows(self.view, &self.list.data, &status, filter, self.look());
        self.list.replace(rows, self.height());
    }

    /// Moves by this number of rows or lines.
    fn scroll(&mut self, count: usize, is_down: bool) {
        let height = self.height();
        match &mut self.pane {
            Some(pane) => pane.scroll(count, is_down, height),
            None => self.list.scroll(count, is_down, height),
        }
    }

    fn key(&mut self, key: KeyEvent) -> Vec<Order> {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return vec![Order::Quit],
            KeyCode::Char('z') if is_control => return vec![Order::Suspend],
            _ => {}
        }
        match std::mem::take(&mut self.foot) {
            Foot::Question(question, acts) => {
                if key.code == KeyCode::Char('y') {
                    self.foot = Foot::Note(format!("{question}: asked for"));
                    self.marked.clear();
                    return vec![Order::Act(acts)];
                }
                self.foot = Foot::Note(format!("{question}: not done"));
                Vec::new()
            }
            Foot::Filter => {
                self.type_filter(key.code);
                Vec::new()
            }
            Foot::Keys | Foot::Note(_) => self.browse(key.code),
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        let filter = self.filters.entry(self.view as usize).or_default();
        self.foot = Foot::Filter;
        match code {
            KeyCode::Char(letter) => filter.push(letter),
            KeyCode::Backspace => {
                filter.pop();
            }
            KeyCode::Enter | KeyCode::Down | KeyCode::Up => self.foot = Foot::Keys,
            KeyCode::Esc => {
                filter.clear();
                self.foot = Foot::Keys;
            }
            _ => return,
        }
        self.list.reload();
    }

    /// The invalid word of a filter.
    pub(super) fn filter_error(&self) -> Option<String> {
        if self.view != View::Tasks {
            return None;
        }
        filter::parse(self.filter(), self.sort, self.status.now).err()
    }

    fn browse(&mut self, code: KeyCode) -> Vec<Order> {
        let page = self.height().saturating_sub(1).max(1);
        match code {
            KeyCode::Down => self.scroll(1, true),
            KeyCode::Up => self.scroll(1, false),
            KeyCode::PageDown => self.scroll(page, true),
            KeyCode::PageUp => self.scroll(page, false),
            KeyCode::Home => self.scroll(usize::MAX, false),
            KeyCode::End => self.scroll(usize::MAX, true),
            KeyCode::Char('?') => self.open(About::Keys, help::lines(usize::from(self.size.0))),
            KeyCode::Char('q') if self.pane.is_none() => return vec![Order::Quit],
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.back(),
            KeyCode::Enter | KeyCode::Right => return self.enter(),
            KeyCode::Char('e') => return self.about_task(About::Reason),
            KeyCode::Char('l') => return self.follow(Stream::Stdout),
            KeyCode::Char('L') => return self.follow(Stream::Stderr),
            KeyCode::Char('k') => self.ask(Verb::Kill),
            KeyCode::Char('r') => self.ask(Verb::Retry),
            KeyCode::Char('h') => self.ask(Verb::Hold),
            KeyCode::Char('H') => self.ask(Verb::Release),
            KeyCode::Char('p') => self.ask(Verb::Pause),
            KeyCode::Tab => self.turn(true),
            KeyCode::BackTab => self.turn(false),
            KeyCode::Char(letter) => self.letter(letter),
            _ => {}
        }
        Vec::new()
    }

    /// Handles letters that have no meaning in a pane.
    fn letter(&mut self, letter: char) {
        if let Some((view, ..)) = View::ALL.iter().find(|(_, key, _)| *key == letter) {
            return self.go(*view);
        }
        if self.pane.is_some() {
            return;
        }
        match letter {
            '/' => self.foot = Foot::Filter,
            ' ' => {
                let row = self.list.rows.get(self.list.cursor).map(|row| row.target.clone());
                if let Some(target) = row.filter(|target| *target != Target::Nothing) {
                    if !self.marked.remove(target.name()) {
                        self.marked.insert(target.name().to_owned());
                    }
                    self.scroll(1, true);
                }
            }
            'a' if self.marked.is_empty() => {
                let targets = self.list.rows.iter().map(|row| &row.target);
                self.marked = targets.map(|target| target.name().to_owned()).filter(|name| !name.is_empty()).collect();
            }
            'a' => self.marked.clear(),
            's' if self.view == View::Tasks => {
                let keys = [SortKey::Submitted, SortKey::Ended, SortKey::Ran, SortKey::Waited];
                let place = keys.iter().position(|key| *key == self.sort.0).unwrap_or_default();
                self.sort = (keys[(place + 1) % keys.len()], false);
                self.list.reload();
            }
            'S' if self.view == View::Tasks => {
                self.sort.1 = !self.sort.1;
                self.list.reload();
            }
            _ => {}
        }
    }

    fn turn(&mut self, is_forward: bool) {
        let count = View::ALL.len();
        let step = if is_forward { 1 } else { count - 1 };
        self.go(View::ALL[(self.view as usize + step) % count].0);
    }

    fn go(&mut self, view: View) {
        (self.pane, self.from) = (None, None);
        if self.view != view {
            self.view = view;
            self.marked.clear();
            self.list = Rows { is_stale: true, ..Rows::default() };
        }
    }

    fn back(&mut self) {
        if self.pane.take().is_some() {
            return;
        }
        if !self.marked.is_empty() {
            return self.marked.clear();
        }
        if self.filters.remove(&(self.view as usize)).is_some_and(|filter| !filter.is_empty()) {
            self.list.reload();
        }
        if let Some(from) = self.from.take() {
            self.go(from);
        }
    }

    fn open(&mut self, about: About, lines: Vec<Line>) {
        self.pane = Some(Pane::new(about, lines));
    }

    fn at_cursor(&self) -> Target {
        if let Some(Pane { about: About::Task(id) | About::Reason(id) | About::Log(_, id, _), .. }) = &self.pane {
            let is_held = self.list.rows.iter().any(|row| row.target == Target::Task { id: id.clone(), is_held: true });
            return Target::Task { id: id.clone(), is_held };
        }
        self.list.rows.get(self.list.cursor).map(|row| row.target.clone()).unwrap_or_default()
    }

    /// The task at the cursor; for similar failures, the newest one.
    fn task_at_cursor(&self) -> Option<String> {
        match self.at_cursor() {
            Target::Task { id, .. } => Some(id),
            Target::Alike(ids) => ids.into_iter().next(),
            _ => None,
        }
    }

    fn enter(&mut self) -> Vec<Order> {
        if self.pane.is_some() {
            return Vec::new();
        }
        let filter = match self.at_cursor() {
            Target::Nothing | Target::Gate { .. } | Target::Service { .. } => return Vec::new(),
            Target::Task { .. } | Target::Alike(_) => return self.about_task(About::Task),
            Target::Graph(id) => return self.show(About::Graph(id)),
            Target::Text { text, hint } => {
                let lines = style::wrapped(&text, Some(usize::from(self.size.0)));
                let mut lines: Vec<Line> = lines.into_iter().map(|line| vec![(PLAIN, line)]).collect();
                lines.extend([Vec::new(), vec![(FAINT, hint)]]);
                self.open(About::Sentence, lines);
                return Vec::new();
            }
            Target::Job { name, .. } => format!("job={name}"),
            Target::Agent { name, .. } => format!("agent={name}"),
            Target::Tasks(filter) => filter,
        };
        let from = self.view;
        self.go(View::Tasks);
        self.from = Some(from).filter(|from| *from != View::Tasks);
        self.filters.insert(View::Tasks as usize, filter);
        self.list.reload();
        Vec::new()
    }

    fn show(&mut self, about: About) -> Vec<Order> {
        self.open(about.clone(), vec![vec![(PLAIN, "asking the controller".to_owned())]]);
        vec![Order::Show(about)]
    }

    fn about_task(&mut self, about: impl Fn(String) -> About) -> Vec<Order> {
        self.task_at_cursor().map(|id| self.show(about(id))).unwrap_or_default()
    }

    fn follow(&mut self, stream: Stream) -> Vec<Order> {
        let Some(id) = self.task_at_cursor() else { return Vec::new() };
        self.logs += 1;
        self.open(About::Log(self.logs, id.clone(), stream), Vec::new());
        vec![Order::Follow(self.logs, id, stream)]
    }

    /// Asks whether to change the marked rows, or else the one at the cursor.
    fn ask(&mut self, verb: Verb) {
        let targets: Vec<Target> = if verb == Verb::Pause && self.view == View::Overview && self.pane.is_none() {
            vec![Target::Service { is_paused: self.status.paused_until.is_some() }]
        } else if self.marked.is_empty() || self.pane.is_some() {
            vec![self.at_cursor()]
        } else {
            let targets = self.list.rows.iter().map(|row| &row.target);
            targets.filter(|target| self.marked.contains(target.name())).cloned().collect()
        };
        self.foot = match Target::acts(&targets, verb, &self.reason) {
            Some((question, acts)) => Foot::Question(question, acts),
            None => Foot::Note("that key changes nothing here; ? lists the keys".to_owned()),
        };
    }

    /// Requests a pane again, if its subject can still change.
    fn again(&self) -> Option<Order> {
        match &self.pane {
            Some(Pane { about: about @ (About::Task(_) | About::Reason(_) | About::Graph(_)), .. }) => {
                Some(Order::Show(about.clone()))
            }
            _ => None,
        }
    }

    /// Whether this log is still shown.
    pub(super) fn is_followed(&self, number: u64) -> bool {
        matches!(&self.pane, Some(Pane { about: About::Log(present, ..), .. }) if *present == number)
    }
}
