//! Tests of the logger as a whole; the global one is not touched.

use super::*;

use log::Level;

struct Fixture {
    folder: tempfile::TempDir,
    section: LogSection,
}

impl Fixture {
    fn new(format: &str) -> Self {
        let section = LogSection {
            dir: "log".into(),
            controller_name: "controller.log".into(),
            agent_name: "agent.log".into(),
            agent_name_is_set: false,
            level: log::LevelFilter::Info,
            layout: LogLayout::Fields(LogFormat::parse(format).expect("a format")),
            file_bytes_max: 1 << 20,
        };
        log::set_max_level(section.level);
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

/// The format determines the order and the brackets (docs/sources/controller.md, 4.3).
#[test]
fn the_format_of_the_document_gives_its_line() {
    assert_eq!(utc(Wall::from_micros(1_769_860_800_123_456)), "2026-01-31T12:00:00.123Z");
    let fixture = Fixture::new("%(asctime)s %(filename)s[line:%(lineno)d] %(levelname)s");
    say(&*fixture.logger(), Level::Warn, "hello");
    let text = fixture.text();
    let (time, rest) = text.split_once(' ').expect("a time");
    assert!(time.parse::<Timestamp>().is_ok() && time.ends_with('Z') && time.len() == 24, "{time}");
    assert_eq!(rest, "x.rs[line:7] WARN hello\n");
}

fn record<R>(level: Level, text: &str, show: impl FnOnce(&Record<'_>) -> R) -> R {
    let mut record = Record::builder();
    record.level(level).file(Some("src/deep/x.rs")).line(Some(7));
    show(&record.args(format_args!("{text}")).build())
}

#[test]
fn an_operator_reads_local_time_with_its_zone_the_level_and_words() {
    let _level = Fixture::new("");
    let at = Wall::from_micros(1_769_860_800_123_456);
    let zone = TimeZone::fixed(jiff::tz::offset(2));
    let shown = record(Level::Warn, "agent a is lost", |record| words(at, &zone, record));
    assert_eq!(shown, "2026-01-31 14:00:00.123 +02:00 WARN agent a is lost");
}

#[test]
fn an_event_is_a_json_object_or_an_entry_of_the_journal() {
    let fixture = Fixture::new("");
    let at = Wall::from_micros(1_769_860_800_123_456);
    let event: serde_json::Value =
        serde_json::from_str(&record(Level::Error, "it \"ends\"\nnow", |record| json(at, record))).expect("JSON");
    let expected = serde_json::json!({
        "time": "2026-01-31T12:00:00.123Z", "level": "error", "message": "it \"ends\"\\nnow", "process": std::process::id(),
    });
    assert_eq!(event, expected);
    let path = fixture.folder.path().join("journal");
    let journal = UnixDatagram::bind(&path).expect("bound");
    let mut lines = Lines { sink: Sink::Journal(journald::connect(&path).expect("connected")), lost: 0 };
    lines.write(&format!("{}\n", record(Level::Error, "a\nPRIORITY=0", journald::entry)));
    let mut received = [0; 256];
    let length = journal.recv(&mut received).expect("received");
    let expected = "SYSLOG_IDENTIFIER=llts\nPRIORITY=3\nMESSAGE=a\\nPRIORITY=0\n";
    assert_eq!(std::str::from_utf8(&received[..length]), Ok(expected));
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
