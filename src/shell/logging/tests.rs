//! Tests of the logger as a whole; the global one is not touched.

use super::*;
use crate::config::Config;

use log::Level;

struct Fixture {
    folder: tempfile::TempDir,
    section: LogSection,
}

impl Fixture {
    fn new(format: &str) -> Self {
        let mut section = Config::default().log;
        log::set_max_level(section.level);
        section.format = LogFormat::parse(format).expect("a format");
        Self { folder: tempfile::tempdir().expect("a folder"), section }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("a.log")
    }

    fn logger(&self) -> Box<dyn Log> {
        let file = Rotating::open(&self.path(), self.section.file_bytes_max).expect("open");
        logger(&self.section, Arc::new(Mutex::new(Lines { sink: Sink::File(file), lost: 0 })))
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.path()).expect("read")
    }
}

fn say(logger: &dyn Log, level: Level, text: &str) {
    let mut record = Record::builder();
    record.level(level).file(Some("src/deep/x.rs")).line(Some(7)).target("llts::x");
    logger.log(&record.args(format_args!("{text}")).build());
}

#[test]
fn the_formatter_decides_what_a_line_is() {
    let process = std::process::id();
    for (format, expected) in [
        ("%(filename)s[line:%(lineno)d] %(levelname)s", "x.rs[line:7] INFO hello\n".to_owned()),
        ("%(levelname)s: %(message)s (%(name)s)", "INFO: hello (llts::x)\n".to_owned()),
        ("<%(levelname)-6s|%(lineno)3d|%(message)s>", "<INFO  |  7|hello>\n".to_owned()),
        ("%(pathname)s %(process)d%%", format!("src/deep/x.rs {process}% hello\n")),
        ("", "hello\n".to_owned()),
    ] {
        let fixture = Fixture::new(format);
        say(&*fixture.logger(), Level::Info, "hello");
        assert_eq!(fixture.text(), expected, "{format}");
    }
}

/// Document, section 4.3: its default gives its order and its brackets.
#[test]
fn the_default_is_the_line_of_the_document() {
    assert_eq!(utc(Wall::from_micros(1_769_860_800_123_456)), "2026-01-31T12:00:00.123Z");
    let mut fixture = Fixture::new("");
    fixture.section.format = Config::default().log.format;
    say(&*fixture.logger(), Level::Warn, "hello");
    let text = fixture.text();
    let (time, rest) = text.split_once(' ').expect("a time");
    assert!(time.parse::<Timestamp>().is_ok() && time.ends_with('Z') && time.len() == 24, "{time}");
    assert_eq!(rest, "x.rs[line:7] WARN hello\n");
}

#[test]
fn a_text_from_outside_cannot_forge_a_line() {
    let fixture = Fixture::new("[%(levelname)s]");
    say(&*fixture.logger(), Level::Warn, "bad name x\n[INFO] all is well\r\u{1b}[2K\u{2028}");
    assert_eq!(fixture.text(), "[WARN] bad name x\\n[INFO] all is well\\r\\u{1b}[2K\\u{2028}\n");
}

#[test]
fn what_is_less_severe_than_the_level_is_left_out() {
    let fixture = Fixture::new("[%(levelname)s]");
    let logger = fixture.logger();
    for level in Level::iter() {
        say(&*logger, level, "x");
    }
    assert_eq!(fixture.text(), "[ERROR] x\n[WARN] x\n[INFO] x\n");
}

#[test]
fn lines_that_could_not_be_written_are_counted_in_the_next_that_can() {
    let fixture = Fixture::new("");
    let full = || Sink::File(Rotating::open(Path::new("/dev/full"), 100).expect("open"));
    let mut lines = Lines { sink: full(), lost: 0 };
    lines.write("a\n");
    lines.write("b\n");
    assert_eq!(lines.lost, 2);
    lines.sink = Sink::File(Rotating::open(&fixture.path(), 100).expect("open"));
    lines.write("c\n");
    lines.write("d\n");
    assert_eq!(fixture.text(), "2 lines could not be written\nc\nd\n");
}

#[test]
fn a_file_in_use_is_named() {
    let fixture = Fixture::new("");
    let _first = fixture.logger();
    let error = init(&fixture.section, Some(&fixture.path())).expect_err("in use").to_string();
    assert!(error.contains("a.log") && error.contains("another process"), "{error}");
}
