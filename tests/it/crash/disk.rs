//! A disk that is full, and a store that is damaged.

use std::fs;

use serde_json::json;
use testkit::{Client, id_of};

use crate::crash::sandbox::{Program, Start as _, eventually};
use crate::crash::service::{Service, UNFINISHED};

/// Bytes of a file that the controller may write: room for the log of some hundred submits.
const FILE_BYTES_MAX: usize = 2 << 20;

/// No submit needs less of the log than a quarter of a page.
const SUBMITS_MAX: usize = FILE_BYTES_MAX / 1024;

/// `llts controller` under a limit of the size of files. The default of SIGXFSZ would end it before it sees an error.
fn start_limited(service: &Service) -> Program {
    let blocks = FILE_BYTES_MAX / 512;
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    // The limit holds for logs as well.
    service.sandbox.command("controller").under(&["sh", "-c", &script]).env("LLTS_LOG_LEVEL", "off").start()
}

#[test]
fn a_full_disk_refuses_submits_and_loses_nothing() {
    let service = Service::new();
    let mut limited = start_limited(&service);
    let client = service.client();
    let keys = std::cell::Cell::new(0);
    // An answer that comes late is asked for again, and is that of the same task.
    let submit = |client: &Client| {
        keys.set(keys.get() + 1);
        client.ask("TASK/SUBMIT", json!({"__OPERATION__": "nothing", "__SUBMIT_KEY__": keys.get().to_string()}))
    };
    let mut accepted = Vec::new();
    let refused = loop {
        let answer = submit(&client);
        match id_of(&answer) {
            Some(id) => accepted.push(id),
            None => break answer,
        }
        assert!(accepted.len() < SUBMITS_MAX, "the disk was never full");
    };
    assert!(accepted.len() >= 50, "too few for the test to mean something: {}", accepted.len());
    let is_refusal = |answer: &serde_json::Value| {
        let sentence = answer["__ERROR_MSG__"].as_str().unwrap_or_default();
        answer["__CODE__"] == -1008 && sentence.contains("stored") && answer.get("__TASK_ID__").is_none()
    };
    assert!(is_refusal(&refused), "{refused}");
    let again = submit(&client);
    assert_eq!(again["__CODE__"], -1008, "{again}");
    for id in &accepted {
        assert_eq!(client.status(id), "WAITING");
    }
    assert_eq!(client.count(&["WAITING"]), accepted.len() as u64, "what was refused does not exist");

    limited.kill();
    let controller = service.sandbox.start("controller");
    assert_eq!(client.count(&UNFINISHED), accepted.len() as u64);
    for id in &accepted {
        assert_eq!(client.status(id), "WAITING");
    }
    accepted.push(id_of(&submit(&client)).unwrap());
    controller.stop();
}

#[test]
fn a_damaged_store_is_refused_and_left_as_it_is() {
    let service = Service::new();
    let controller = service.sandbox.start("controller");
    let client = service.client();
    let accepted: Vec<String> = (0..100).map(|_| client.submit("nothing", json!({}))).collect();
    controller.stop();
    let store = service.sandbox.path("state/tasks.sqlite");
    let whole = fs::read(&store).unwrap();
    // Not just any byte: the page in the middle may have unused space.
    let middle = accepted[50].as_bytes();
    let at = whole.windows(middle.len()).position(|bytes| bytes == middle).expect("the row of a task");

    let mut flipped = whole.clone();
    flipped[at + middle.len() / 2] ^= 1;
    let mut headless = whole.clone();
    headless[..100].fill(b'x');
    let cut = whole[..whole.len() / 2].to_vec();
    for damaged in [flipped, headless, cut] {
        fs::write(&store, &damaged).unwrap();
        for _ in 0..2 {
            let said = service.sandbox.llts("controller");
            assert!(said.code.is_some_and(|code| code != 0) && said.out.is_empty(), "{said:?}");
            assert!(said.err.contains("tasks.sqlite") && said.err.contains("damaged"), "{said:?}");
            assert!(said.err.starts_with("llts: ") && said.err.lines().count() == 1, "{said:?}");
        }
        assert!(fs::read(&store).unwrap() == damaged, "a refusal changes nothing");
    }

    fs::write(&store, &whole).unwrap();
    let controller = service.sandbox.start("controller");
    eventually("all tasks are there again", || client.count(&["WAITING"]) == accepted.len() as u64);
    controller.stop();
}
