//! Tests of the logger as a whole; the global one is not touched.

use super::*;
use crate::config::{Config, LogParts};

use log::Level;

struct Fixture {
    folder: tempfile::TempDir,
    section: LogSection,
}

impl Fixture {
    fn new(time: bool, level: bool, place: bool) -> Self {
        let mut section = Config::default().log;
        section.parts = LogParts { time, level, place };
        Self { folder: tempfile::tempdir().expect("a folder"), section }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("a.log")
    }

    fn logger(&self) -> Box<dyn Log> {
        let file = Rotating::open(&self.path(), self.section.file_bytes_max).expect("open");
        logger(&self.section, Sink::File(file))
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.path()).expect("read")
    }
}

fn say(logger: &dyn Log, level: Level, text: &str) {
    let mut record = Record::builder();
    record.level(level).file(Some("src/x.rs")).line(Some(7));
    logger.log(&record.args(format_args!("{text}")).build());
}

#[test]
fn the_formatter_decides_which_parts_appear() {
    for (level, place, expected) in
        [(true, true, "[INFO] [src/x.rs:7] hello\n"), (true, false, "[INFO] hello\n"), (false, false, "hello\n")]
    {
        let fixture = Fixture::new(false, level, place);
        say(&*fixture.logger(), Level::Info, "hello");
        assert_eq!(fixture.text(), expected);
    }
}

#[test]
fn a_line_begins_with_its_time_in_utc() {
    assert_eq!(utc(Wall::from_micros(1_769_860_800_123_456)), "2026-01-31T12:00:00.123Z");
    let fixture = Fixture::new(true, false, false);
    say(&*fixture.logger(), Level::Info, "hello");
    let text = fixture.text();
    let (time, rest) = text.split_once(' ').expect("a time");
    assert!(DateTime::parse_from_rfc3339(time).is_ok() && time.ends_with('Z') && time.len() == 24, "{time}");
    assert_eq!(rest, "hello\n");
}

#[test]
fn a_text_from_outside_cannot_forge_a_line() {
    let fixture = Fixture::new(false, true, false);
    say(&*fixture.logger(), Level::Warn, "bad name x\n[INFO] all is well\r\u{1b}[2K\u{2028}");
    assert_eq!(fixture.text(), "[WARN] bad name x\\n[INFO] all is well\\r\\u{1b}[2K\\u{2028}\n");
}

#[test]
fn what_is_less_severe_than_the_level_is_left_out() {
    let fixture = Fixture::new(false, true, false);
    let logger = fixture.logger();
    for level in Level::iter() {
        say(&*logger, level, "x");
    }
    assert_eq!(fixture.text(), "[ERROR] x\n[WARN] x\n[INFO] x\n");
}

#[test]
fn lines_that_could_not_be_written_are_counted_in_the_next_that_can() {
    let fixture = Fixture::new(false, false, false);
    let mut lines = Lines {
        sink: Sink::File(Rotating::open(Path::new("/dev/full"), 100).expect("open")),
        line: Vec::new(),
        time: false,
        lost: 0,
    };
    lines.write_all(b"a\nb\nc").expect("never fails");
    assert_eq!(lines.lost, 2);
    lines.sink = Sink::File(Rotating::open(&fixture.path(), 100).expect("open"));
    lines.write_all(b"d\ne\n").expect("never fails");
    assert_eq!(fixture.text(), "2 lines could not be written\ncd\ne\n");
}

#[test]
fn a_file_in_use_is_named() {
    let fixture = Fixture::new(false, false, false);
    let _first = fixture.logger();
    let error = init(&fixture.section, Some(&fixture.path())).expect_err("in use").to_string();
    assert!(error.contains("a.log") && error.contains("another process"), "{error}");
}
