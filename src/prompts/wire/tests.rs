//! Tests of the prompt master's messages.

use proptest::prelude::*;

use super::*;
use zmtp::json::split::{FrameError, Splitter};

fn objects(bytes_max: usize, pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>, FrameError> {
    let mut splitter = Splitter::new(bytes_max);
    let mut found = Vec::new();
    for piece in pieces {
        splitter.push(piece);
        while let Some(object) = splitter.next_object()? {
            found.push(object.to_vec());
        }
    }
    Ok(found)
}

fn from_workers() -> Vec<FromWorker> {
    let retry_after = Some(Duration::from_millis(1500));
    let offer = Offer { resumes: true, run: Some("r".into()), gate: Some("claude".into()), tails: true };
    let part = |bytes: Vec<u8>| {
        FromWorker::Result(Box::new(ResultPart { run: "r".into(), file: ResultFile::Err, offset: 1 << 40, bytes }))
    };
    vec![
        FromWorker::Join { worker: "50123".into(), secret: None, splits: false, offer: Offer::default() },
        FromWorker::Join { worker: "あ\"}{\n".into(), secret: Some("s".into()), splits: true, offer },
        FromWorker::RequestAck("a".into()),
        FromWorker::CheckAck("b".into()),
        FromWorker::Done { text: "task_000.txt".into() },
        FromWorker::Failed { reason: String::new(), is_loss: false },
        FromWorker::Failed { reason: String::new(), is_loss: true },
        FromWorker::UsageLimited { retry_after, is_local: false, reason: "5 hours".into() },
        FromWorker::UsageLimited { retry_after: None, is_local: true, reason: String::new() },
        part(Vec::new()),
        part((0..RESULT_PART_BYTES_MAX).map(|n| (n % 251) as u8).collect()),
        FromWorker::Order { order: Order::Drain, secret: Some("s".into()) },
        FromWorker::Cost { run: "r".into(), cost: Usd::from_dollars(0.07).unwrap() },
        FromWorker::Budget { max: Usd::from_dollars(12.5).unwrap(), secret: Some("s".into()) },
        FromWorker::Tail {
            query: Box::new(TailQuery {
                file: "a b\n".into(),
                output: ResultFile::Err,
                offset: 7,
                run: Some("r".into()),
                next: true,
            }),
            secret: Some("s".into()),
        },
        FromWorker::TailPart(Box::new(TailPart {
            tail: 9,
            run: String::new(),
            offset: 7,
            bytes: vec![0xff, 0, 10],
            ended: true,
            again: true,
            note: "it waits".into(),
        })),
        FromWorker::Leave,
        FromWorker::Status { secret: None },
        FromWorker::Status { secret: Some("s".into()) },
    ]
}

fn status() -> Status {
    let worker = |id: &str, state, file: Option<&str>| WorkerStatus {
        id: id.into(),
        state,
        file: file.map(Into::into),
        age: Duration::from_millis(250),
        resting: file.map(|_| Duration::from_secs(9)),
        reason: file.map(|_| "\"limit\"".into()),
    };
    let workers = vec![
        worker("1", WorkerState::Idle, None),
        worker("\"{", WorkerState::Working, Some("a\\b.txt")),
        worker("", WorkerState::Requesting, Some("x")),
        worker("4", WorkerState::Disconnecting, None),
    ];
    Status {
        pending: 1,
        working: 2,
        done: 3,
        failed: 4,
        running_for: Duration::from_secs(60),
        workers,
        ..Status::default()
    }
}

fn from_masters() -> Vec<FromMaster> {
    let request =
        Request { id: RequestId::from_random(7), prompt: "do {\n\"it\"}\\".into(), file: None, timeout: None };
    let named = Request { file: Some("t.txt".into()), timeout: Some(Duration::from_secs(5)), ..request.clone() };
    vec![
        FromMaster::JoinAck,
        FromMaster::Request(request),
        FromMaster::Request(named),
        FromMaster::Check("c".into()),
        FromMaster::StatusAck(Box::new(status())),
        FromMaster::StatusAck(Box::new(Status { workers: Vec::new(), ..status() })),
        FromMaster::StatusAck(Box::new(Status {
            pace: Pace {
                median: Some(Duration::from_secs(2)),
                per_hour: Some(12.5),
                rest: Some(Duration::from_secs(7)),
            },
            paused: Some("by order".into()),
            gates: vec![("claude".into(), Duration::from_secs(5))],
            away: vec![("a.txt".into(), Duration::from_secs(6))],
            timed_out: 3,
            cost: Usd::from_dollars(1.5),
            cost_max: Usd::from_dollars(2.0),
            ..status()
        })),
        FromMaster::Welcome(Box::default()),
        FromMaster::Welcome(Box::new(Welcome {
            lease: Duration::from_secs(180),
            run: Some("r".into()),
            result_bytes_max: 1 << 26,
            root: "abc".into(),
        })),
        FromMaster::Tail(Box::new(TailOrder {
            tail: 9,
            run: None,
            file: "a".into(),
            output: ResultFile::Out,
            offset: 1 << 40,
        })),
        FromMaster::TailPart(Box::default()),
        FromMaster::ReportAck("r".into()),
        FromMaster::Refused("no".into()),
    ]
}

#[test]
fn what_is_written_reads_back() {
    for message in from_workers() {
        assert_eq!(FromWorker::parse(&message.encode()), Ok(message.clone()));
    }
    for message in from_masters() {
        assert_eq!(FromMaster::parse(&message.encode()), Ok(message.clone()));
    }
}

#[test]
fn messages_look_as_the_document_has_them() {
    let join = FromWorker::Join { worker: "50123".into(), secret: None, splits: false, offer: Offer::default() };
    assert_eq!(join.encode(), b"{\"type\":\"JOIN\",\"msg\":\"50123\"}\n");
    assert_eq!(FromMaster::JoinAck.encode(), b"{\"type\":\"JOIN_ACK\",\"msg\":\"\"}\n");
    assert_eq!(FromMaster::Check("x".into()).encode(), b"{\"type\":\"CHECK\",\"msg\":\"\",\"req_id\":\"x\"}\n");
    let id = RequestId::from_random(255);
    assert_eq!(id.as_str(), "000000000000000000000000000000ff");
}

#[test]
fn a_worker_that_says_more_than_we_know_is_understood() {
    let parse = |text: &str| FromWorker::parse(text.as_bytes());
    assert_eq!(parse(r#"{"type":"LEAVE","usage":{"tokens":[1,{}]}}"#), Ok(FromWorker::Leave));
    assert_eq!(parse(r#"{"msg":{},"type":"DONE"}"#), Ok(FromWorker::Done { text: String::new() }));
    assert_eq!(
        parse(r#"{"type":"JOIN","msg":5}"#),
        Ok(FromWorker::Join { worker: "5".into(), secret: None, splits: false, offer: Offer::default() })
    );
    for retry_after in ["-1", "\"x\"", "null", "[]"] {
        let limited = parse(&format!(r#"{{"type":"USAGE_LIMITED","retry_after":{retry_after}}}"#));
        assert_eq!(limited, Ok(FromWorker::UsageLimited { retry_after: None, is_local: false, reason: String::new() }));
    }
    let Ok(FromWorker::UsageLimited { retry_after: Some(time), .. }) =
        parse(r#"{"type":"USAGE_LIMITED","retry_after":1e18}"#)
    else {
        panic!("a long time is a year");
    };
    assert_eq!(time.as_secs(), 366 * 86_400);
}

#[test]
fn what_cannot_be_understood_is_refused_with_a_reason() {
    let parse = |text: &str| FromWorker::parse(text.as_bytes());
    assert_eq!(parse(r#"{"type":"EXIT"}"#), Err(MessageError::UnknownType("EXIT".into())));
    for bad in [
        "{}",
        r#"{"type":5}"#,
        r#"{"type":{}}"#,
        r#"{"type":"JOIN"}"#,
        r#"{"type":"JOIN","msg":[]}"#,
        r#"{"type":"REQUEST_ACK","req_id":null}"#,
        r#"{"type":"CHECK_ACK"}"#,
        r#"{"type":"LEAVE","type":"DONE"}"#,
        r#"{"type":"LEAVE",}"#,
        "{\"type\":\"\u{0}\"}",
        "",
        "[]",
    ] {
        assert!(matches!(parse(bad), Err(MessageError::Malformed(_))), "{bad}");
    }
    for bad in ["{\"type\":\"STATUS_ACK\"}", r#"{"type":"REQUEST","req_id":"x"}"#] {
        assert!(matches!(FromMaster::parse(bad.as_bytes()), Err(MessageError::Malformed(_))), "{bad}");
    }
}

#[test]
fn a_prompt_that_fits_makes_a_message_that_does() {
    for (letter, bytes) in [("\n", 2), ("\u{1}", 6), ("あ", 3)] {
        let longest = (MASTER_FRAME_BYTES_MAX - REQUEST_FRAME_BYTES) / bytes;
        assert!(!prompt_fits(&letter.repeat(longest + 1)), "{letter:?}");
        let prompt = letter.repeat(longest);
        assert!(prompt_fits(&prompt), "{letter:?}");
        let (id, file) = (RequestId::from_random(0), Some("\u{1}".repeat(255)));
        let bytes = FromMaster::Request(Request { id, prompt, file, timeout: Some(Duration::MAX) }).encode().len();
        assert!(bytes <= MASTER_FRAME_BYTES_MAX, "{letter:?}: {bytes}");
    }
}

#[test]
fn a_secret_is_not_shown() {
    let join =
        FromWorker::Join { worker: "w".into(), secret: Some("hunter2".into()), splits: false, offer: Offer::default() };
    assert!(!format!("{join:?}").contains("hunter2"));
    assert!(!format!("{:?}", FromWorker::Status { secret: Some("hunter2".into()) }).contains("hunter2"));
}

#[test]
fn objects_stand_on_lines_behind_each_other_and_across_lines() {
    let stream: &[u8] = b"\n{\"a\":\"}{\\\"\"}{} \r\n\t{\"b\":\n{}}\n{";
    let expected = [b"{\"a\":\"}{\\\"\"}".to_vec(), b"{}".to_vec(), b"{\"b\":\n{}}".to_vec()];
    assert_eq!(objects(100, &[stream]), Ok(expected.to_vec()));
}

#[test]
fn a_stream_that_cannot_be_read_stays_so() {
    let mut splitter = Splitter::new(100);
    splitter.push(b"{}x{}");
    assert_eq!(splitter.next_object(), Ok(Some(&b"{}"[..])));
    assert_eq!(splitter.next_object(), Err(FrameError::NoObject(b'x')));
    splitter.push(b"{}");
    assert_eq!(splitter.next_object(), Err(FrameError::NoObject(b'x')));
    assert_eq!(objects(100, &[b"{\"a\n"]), Err(FrameError::ControlInText(b'\n')));
    assert_eq!(objects(100, &[b"}"]), Err(FrameError::NoObject(b'}')));
    assert_eq!(objects(100, &[b"[1]"]), Err(FrameError::NoObject(b'[')));
    assert_eq!(objects(100, &[b"GET / HTTP/1.1\r\n"]), Err(FrameError::NoObject(b'G')));
}

#[test]
fn an_object_has_a_limit_and_the_space_between_objects_costs_nothing() {
    assert_eq!(objects(5, &[b"{\"a\"}"]), Ok(vec![b"{\"a\"}".to_vec()]));
    assert_eq!(objects(5, &[b"{\"ab\"}"]), Err(FrameError::TooLong(5)));
    assert_eq!(objects(5, &[b"{\"a", b"aaaaaaaa"]), Err(FrameError::TooLong(5)));
    let mut splitter = Splitter::new(5);
    for _ in 0..1000 {
        splitter.push(&[b' '; 1000]);
        assert_eq!(splitter.next_object(), Ok(None));
    }
    assert!(splitter.held_bytes() < 10_000, "{}", splitter.held_bytes());
}

fn cut(stream: &[u8], mut places: Vec<usize>) -> Vec<&[u8]> {
    places.extend([0, stream.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_stream_reads_the_same_however_it_is_cut(
        picked in prop::collection::vec((0usize..11, prop::sample::select(vec!["", "\n", " \r\n"])), 0..8),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let messages = from_workers();
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (index, separator) in picked {
            stream.extend(messages[index].encode().trim_ascii());
            stream.extend(separator.bytes());
            expected.push(messages[index].clone());
        }
        let places = places.iter().map(|place| place.index(stream.len() + 1)).collect();
        let found = objects(WORKER_FRAME_BYTES_MAX, &cut(&stream, places)).unwrap();
        let found: Vec<_> = found.iter().map(|object| FromWorker::parse(object).unwrap()).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_bytes_read_the_same_however_they_are_cut(
        stream in prop::collection::vec(prop::sample::select(b"{}[]\"\\\n a:,\x00\xff".to_vec()), 0..60),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let places = places.iter().map(|place| place.index(stream.len() + 1)).collect();
        let whole = objects(20, &[&stream]);
        prop_assert_eq!(&objects(20, &cut(&stream, places)), &whole);
        for object in whole.unwrap_or_default() {
            prop_assert!(object.len() <= 20);
        }
    }

    #[test]
    fn no_text_is_too_strange_for_a_message(worker in any::<String>(), secret in any::<Option<String>>()) {
        let message = FromWorker::Join { worker, secret, splits: false, offer: Offer::default() };
        let bytes = message.encode();
        let found = objects(1 << 20, &[&bytes]).unwrap();
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(FromWorker::parse(&found[0]), Ok(message));
    }

    #[test]
    fn no_bytes_break_the_parser(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = FromWorker::parse(&bytes);
        let _ = FromMaster::parse(&bytes);
    }
}

#[test]
fn a_part_that_cannot_be_compressed_fits_into_a_message_of_a_worker() {
    let mut noise = 1_u32;
    let bytes = std::iter::repeat_with(|| {
        noise ^= noise << 13;
        noise ^= noise >> 17;
        noise ^= noise << 5;
        noise.to_le_bytes()[0]
    });
    let bytes = bytes.take(RESULT_PART_BYTES_MAX).collect();
    let run = RequestId::from_random(u128::MAX);
    let part = FromWorker::Result(Box::new(ResultPart { run, file: ResultFile::Json, offset: 1 << 49, bytes }));
    assert!(part.encode().len() < WORKER_FRAME_BYTES_MAX, "{}", part.encode().len());
    assert_eq!(FromWorker::parse(&part.encode()), Ok(part));
}

#[test]
fn a_part_that_expands_beyond_its_limit_is_refused() {
    let part = |bytes| ResultPart { run: "r".into(), file: ResultFile::Out, offset: 0, bytes };
    let bomb = FromWorker::Result(Box::new(part(vec![0; RESULT_PART_BYTES_MAX + 1]))).encode();
    assert!(matches!(FromWorker::parse(&bomb), Err(MessageError::Malformed(_))));
}
