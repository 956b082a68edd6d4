//! What a user sees, in three sizes.
#![cfg(test)]

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::Cell;
use ratatui_core::style::Modifier;
use ratatui_core::terminal::Terminal;

use super::app::{App, Event, Foot, Order};
use super::draw;
use super::listing::{Answer, Data, View};
use super::pane::About;
use api::wire::requests::agents::AgentRow;
use api::wire::requests::gate::GateRow;
use api::wire::requests::graph::GraphAnswer;
use api::wire::requests::history::{GroupRow, IncidentRow};
use api::wire::requests::job::JobAnswer;
use api::wire::requests::rows::RowView;
use api::wire::requests::stats::AgentCounts;
use api::wire::requests::status::{PaceStep, Problem, Status};
use base::{Fields, Mono, Outcome, ShownState, StateCounts, Wall, words};

const NOW: Wall = Wall::from_micros(1_480_010_800_000_000);
const START: Mono = Mono::from_nanos(1_000_000_000);

fn seconds_ago(seconds: f64) -> f64 {
    NOW.unix_seconds() - seconds
}

fn task(letters: &str, status: &str, what: &str, why: &str) -> Fields {
    let id = format!("TASK_1480000000.000000_{letters}");
    let fields = Fields::new().with(words::TASK_ID, id).with(words::STATUS, status).with(words::WHAT, what);
    fields.with(words::WHY, why).with(words::SUBMIT_TIME, seconds_ago(400.0)).with(words::RUN_TIME, seconds_ago(360.0))
}

fn failed(letters: &str, film: u32) -> RowView {
    let why = format!("corrupt header in /data/film{film}.mov\u{1b}[2J\u{202e}");
    let fields = task(letters, "FINISHED", &format!("convert film{film}.mov"), &why);
    fields
        .with(words::OUTCOME, "FAILED")
        .with(words::EXIT_CODE, 3)
        .with(words::END_TIME, seconds_ago(60.0))
        .with(words::FINISH_TIME, seconds_ago(60.0))
        .with(words::AGENT_ID, "agent-1")
        .into()
}

fn running() -> RowView {
    task("fMrzp", "RUNNING", "convert slow.mov", "40 %: tile 12")
        .with(words::USUAL, 0.1)
        .with(words::AGENT_ID, "agent-3")
        .into()
}

fn job(name: &str, total: u32, done: u32, failed: u32) -> JobAnswer {
    let fields = Fields::new().with(words::JOB, name).with(words::TOTAL, total).with("FINISHED", done);
    fields.with("FAILED", failed).with(words::SUBMIT_TIME, seconds_ago(10.0)).into()
}

fn status() -> Status {
    let mut states = StateCounts::default();
    states.set(ShownState::Running, 1);
    states.set(ShownState::Waiting, 8);
    states.set(ShownState::Finished(Outcome::Failed), 2);
    let step = |ends: u32| PaceStep { ends, run_p50: (ends > 0).then(|| Duration::from_millis(u64::from(ends))) };
    let problem =
        |text: &str, hint: &str| Problem { text: text.to_owned(), hint: hint.to_owned(), since: None, task: None };
    Status {
        now: NOW,
        started_at: NOW.before(Duration::from_secs(10_800)),
        states,
        agents: AgentCounts { total: 4, free: 3, busy: 1, lost: 0 },
        oldest_at: Some(NOW.before(Duration::from_secs(360))),
        rate: 2.1,
        run_p50: Some(Duration::from_millis(100)),
        changes: 7,
        pace: (0..60).map(|number| step(if number < 30 { 0 } else { number - 29 })).collect(),
        problems: vec![
            problem("2 tasks wait: no agent has tag gpu", "llts explain VnojQ"),
            problem("task fMrzp runs more than 10 times as long as usual", "llts show fMrzp"),
        ],
        jobs: vec![job("nightly", 500, 412, 5), job("backlog", 6, 0, 0)],
        running: vec![running()],
        waiting: vec![("agents are busy".to_owned(), 6), ("no agent has tag gpu".to_owned(), 2)],
        failed: vec![failed("aaaFv", 7), failed("bbbFv", 17)],
        ..Status::default()
    }
}

/// A screen with a terminal of this size.
struct Screen {
    app: App,
    terminal: Terminal<TestBackend>,
    now: Mono,
}

impl Screen {
    fn new(width: u16, height: u16) -> Self {
        let app = App::new(START, (width, height), false, "ada@box (llts top)");
        let mut screen = Self { app, terminal: Terminal::new(TestBackend::new(width, height)).unwrap(), now: START };
        screen.send(Event::Status(Box::new(status())));
        screen
    }

    fn send(&mut self, event: Event) -> Vec<Order> {
        self.app.handle(event, self.now)
    }

    fn key(&mut self, code: KeyCode) -> Vec<Order> {
        self.send(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    fn keys(&mut self, text: &str) -> Vec<Order> {
        text.chars().flat_map(|letter| self.key(KeyCode::Char(letter))).collect()
    }

    /// Shows a view, whose rows are answered with these.
    fn view(&mut self, key: char, data: Data, total: u64) {
        let orders = self.keys(&key.to_string());
        self.answer(orders, data, total);
    }

    fn answer(&mut self, orders: Vec<Order>, data: Data, total: u64) {
        let wanted = orders
            .into_iter()
            .rev()
            .find_map(|order| if let Order::Load(wanted) = order { Some(wanted) } else { None });
        self.send(Event::Loaded(wanted.expect("its rows are asked for"), Ok(Answer { data, total })));
    }

    fn text(&mut self) -> String {
        let (app, now) = (&self.app, self.now);
        self.terminal.draw(|frame| draw::draw(frame, app, now)).unwrap();
        let buffer = self.terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let lines = buffer.content.chunks(width).map(|line| {
            let text: String = line.iter().map(Cell::symbol).collect();
            // The row at the cursor is the reversed one.
            let is_cursor = line.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED));
            format!("{}{}", if is_cursor { ">" } else { " " }, text.trim_end())
        });
        lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }
}

fn tasks() -> Data {
    let waiting = task("VnojQ", "WAITING", "train model", "no agent has tag gpu").into();
    Data::Tasks(vec![waiting, running(), failed("aaaFv", 7), failed("bbbFv", 17)])
}

fn shown(name: &str, text: &str) {
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "a task drives the terminal: {text:?}");
    insta::with_settings!({ filters => vec![(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[DATE TIME      ]")] }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn the_overview_has_problems_first_in_every_size() {
    for (width, height) in [(40, 10), (80, 24), (200, 50)] {
        shown(&format!("overview_{width}"), &Screen::new(width, height).text());
    }
}

#[test]
fn tasks_are_listed_in_every_size() {
    for (width, height) in [(40, 10), (80, 24), (200, 50)] {
        let mut screen = Screen::new(width, height);
        screen.view('2', tasks(), 4);
        shown(&format!("tasks_{width}"), &screen.text());
    }
}

#[test]
fn every_other_view_shows_its_table() {
    let agent = |name: &str, status: &str, task: &str| -> AgentRow {
        let fields = Fields::new().with(words::AGENT_ID, name).with(words::AGENT_STATUS, status);
        fields.with(words::TASK_ID, task).with(words::HEARD_TIME, seconds_ago(1.0)).into()
    };
    let agents = vec![agent("agent-1", "FREE", ""), agent("agent-3", "BUSY", running().id())];
    let graph = Fields::new().with(words::GRAPH_ID, "GRAPH_1").with(words::STATUS, "RUNNING").with(words::TOTAL, 3);
    let gate = Fields::new().with(words::GATE, "api").with(words::STATUS, "CLOSED").with(words::RUNNING, 1);
    let incident = Fields::new().with(words::INCIDENT, "AGENT_LOST").with(words::REASON, "agent-4 is lost");
    let hour = Fields::new().with("hour", "1480010400").with(words::COUNT, 12).with("SUCCEEDED", 10);
    for (key, name, data) in [
        ('3', "jobs", Data::Jobs(status().jobs)),
        ('4', "agents", Data::Agents(agents)),
        ('5', "graphs", Data::Graphs(vec![GraphAnswer::from(graph)])),
        ('6', "gates", Data::Gates(vec![GateRow::from(gate.with(words::WAITING, 2))])),
        ('7', "incidents", Data::Incidents(vec![IncidentRow::from(incident.with(words::TIME, seconds_ago(9.0)))])),
        ('8', "history", Data::History(vec![GroupRow::from(hour)])),
        ('9', "prompts", Data::Text("no prompt master answers at localhost:34567\n".to_owned())),
    ] {
        let mut screen = Screen::new(80, 24);
        screen.view(key, data, 2);
        let text = screen.text();
        shown(name, text.trim_end());
    }
}

#[test]
fn a_filter_narrows_down_with_every_letter() {
    let mut screen = Screen::new(80, 12);
    screen.view('2', tasks(), 4);
    screen.keys("/");
    let orders = screen.keys("state=failed");
    let Some(Order::Load(wanted)) = orders.last() else { panic!("{orders:?}") };
    assert_eq!(wanted.filter, "state=failed");
    let orders = screen.keys(" corr");
    screen.answer(orders, Data::Tasks(vec![failed("aaaFv", 7)]), 1);
    shown("filter", &screen.text());
    screen.keys(" since=x");
    assert!(screen.text().contains("since=x: it is not a time"), "{}", screen.text());
    screen.key(KeyCode::Esc);
    assert_eq!(screen.app.filter(), "");
}

#[test]
fn a_change_is_asked_about_and_made_only_then() {
    let mut screen = Screen::new(80, 12);
    screen.view('2', tasks(), 4);
    screen.key(KeyCode::Down);
    screen.keys("k");
    shown("question", &screen.text());
    assert!(screen.keys("n").is_empty());
    assert!(screen.text().contains("kill task fMrzp: not done"), "{}", screen.text());
    screen.keys("  r");
    assert!(screen.text().contains("retry 2 tasks?"), "{}", screen.text());
    let orders = screen.keys("y");
    let Some(Order::Act(acts)) = orders.first() else { panic!("{orders:?}") };
    assert_eq!(acts.len(), 2, "{acts:?}");
    assert!(screen.app.marked.is_empty());
    screen.send(Event::Acted("done, 2 times".to_owned()));
    assert!(screen.text().ends_with("done, 2 times"));
}

#[test]
fn failures_that_are_alike_are_retried_together() {
    let mut screen = Screen::new(80, 40);
    screen.key(KeyCode::End);
    screen.keys("r");
    assert!(
        matches!(&screen.app.foot, Foot::Question(question, acts) if question == "retry 2 tasks" && acts.len() == 2)
    );
}

#[test]
fn enter_shows_a_task_and_the_tasks_of_a_job() {
    let mut screen = Screen::new(80, 24);
    screen.view('3', Data::Jobs(status().jobs), 2);
    let orders = screen.key(KeyCode::Enter);
    assert_eq!((screen.app.view, screen.app.filter()), (View::Tasks, "job=nightly"));
    screen.answer(orders, tasks(), 4);
    let orders = screen.key(KeyCode::Enter);
    let Some(Order::Show(About::Task(id))) = orders.first() else { panic!("{orders:?}") };
    assert!(id.ends_with("VnojQ"));
    let lines = (0..100).map(|number| vec![(term::style::PLAIN, format!("line {number}"))]).collect();
    screen.send(Event::Shown(About::Task(id.clone()), Ok(lines)));
    screen.key(KeyCode::PageDown);
    shown("pane", &screen.text());
    screen.key(KeyCode::Esc);
    assert!(screen.app.pane.is_none());
}

#[test]
fn a_log_stays_at_its_end_until_one_scrolls() {
    let mut screen = Screen::new(40, 10);
    screen.view('2', tasks(), 4);
    let orders = screen.keys("l");
    let Some(Order::Follow(number, ..)) = orders.first() else { panic!("{orders:?}") };
    let lines = |from: u32| (from..from + 10).map(|line| format!("out {line}")).collect();
    screen.send(Event::Logged(*number, lines(0)));
    assert!(screen.text().contains("out 9"));
    screen.key(KeyCode::Up);
    screen.send(Event::Logged(*number, lines(10)));
    assert!(!screen.text().contains("out 19"), "{}", screen.text());
    screen.key(KeyCode::End);
    screen.send(Event::Logged(*number, lines(20)));
    assert!(screen.text().contains("out 29"));
    screen.send(Event::Logged(number + 1, vec!["of another".to_owned()]));
    assert!(!screen.text().contains("of another"));
}

#[test]
fn a_lost_controller_leaves_what_was_known() {
    let mut screen = Screen::new(80, 12);
    screen.now = START + Duration::from_secs(8);
    screen.send(Event::Lost("no controller answers at ipc:///home/ada/llts.sock".to_owned()));
    shown("lost", &screen.text());
    let orders = screen.keys("2");
    assert!(orders.is_empty(), "it is not asked: {orders:?}");
    let orders = screen.send(Event::Status(Box::new(status())));
    assert!(matches!(orders[..], [Order::Reconnect, Order::Load(_)]), "{orders:?}");
}

#[test]
fn the_cursor_stays_at_its_row_when_others_come() {
    let mut screen = Screen::new(80, 12);
    screen.view('2', tasks(), 4);
    screen.key(KeyCode::End);
    let at = |screen: &Screen| screen.app.list.rows[screen.app.list.cursor].target.name().to_owned();
    let before = at(&screen);
    screen.now = screen.now + Duration::from_secs(2);
    let orders = screen.send(Event::Status(Box::new(Status { changes: 8, ..status() })));
    let Data::Tasks(mut rows) = tasks() else { unreachable!() };
    rows.insert(0, task("NewXX", "WAITING", "true", "").into());
    screen.answer(orders, Data::Tasks(rows), 5);
    assert_eq!(at(&screen), before);
}

/// A stuck task is a problem and a run.
#[test]
fn the_cursor_passes_a_row_whose_task_has_another_row() {
    let mut screen = Screen::new(80, 40);
    let mut stuck = status();
    stuck.problems[1].task = Some(running().id().to_owned());
    screen.send(Event::Status(Box::new(stuck)));
    let end = |screen: &mut Screen| {
        screen.key(KeyCode::End);
        screen.app.list.cursor
    };
    let last = end(&mut screen);
    screen.key(KeyCode::Home);
    for _ in 0..10 {
        screen.key(KeyCode::Down);
    }
    assert_eq!(screen.app.list.cursor, last);
}

#[test]
fn rows_are_asked_for_at_most_once_a_second_and_only_after_a_change() {
    let mut screen = Screen::new(80, 12);
    screen.view('2', tasks(), 4);
    let changed = |changes| Event::Status(Box::new(Status { changes, ..status() }));
    assert!(screen.send(changed(7)).is_empty(), "nothing has changed");
    assert!(screen.send(changed(8)).is_empty(), "they were asked for just now");
    screen.now = screen.now + Duration::from_secs(1);
    let orders = screen.app.handle_timeout(screen.now);
    assert!(matches!(orders[..], [Order::Load(_)]), "{orders:?}");
    assert!(screen.app.handle_timeout(screen.now + Duration::from_secs(9)).is_empty(), "the answer has not come");
}

/// Every size, every view, every key: nothing panics, and no line is wider than the terminal.
#[test]
fn any_size_and_any_keys_are_drawn() {
    let keys = [
        KeyCode::Down,
        KeyCode::Up,
        KeyCode::PageDown,
        KeyCode::End,
        KeyCode::Home,
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Backspace,
    ];
    let letters = "?/ aesSlLkrhHpynq1234567890-x".chars().map(KeyCode::Char);
    let keys: Vec<_> = keys.into_iter().chain(letters).collect();
    for (width, height) in [(1, 1), (2, 2), (3, 3), (5, 4), (40, 10), (300, 100)] {
        let mut screen = Screen::new(width, height);
        let mut random = 12_345_u32;
        for _ in 0..400 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            for order in screen.key(keys[(random >> 16) as usize % keys.len()]) {
                if let Order::Load(wanted) = order {
                    let data = if wanted.view == View::Tasks { tasks() } else { Data::Jobs(status().jobs) };
                    screen.send(Event::Loaded(wanted, Ok(Answer { data, total: 10_000 })));
                }
            }
            screen.text();
        }
    }
}
