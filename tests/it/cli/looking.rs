//! The screens for people: short ids, the table of tasks, one task, and the whole service.

use std::fs;

use serde_json::json;

use crate::cli::sandbox::{Sandbox, Start as _, eventually};

fn short(id: &str) -> &str {
    id.rsplit_once('_').map_or(id, |(_, letters)| letters)
}

#[test]
fn the_letters_of_an_id_stand_for_the_task() {
    let sandbox = Sandbox::up(1);
    let first = sandbox.ok("submit --given-id film7 -- false").line().to_owned();
    let id = sandbox.ok("submit -- sleep 600").line().to_owned();
    let after = sandbox.ok(&format!("submit --after {} -- true", short(&id))).line().to_owned();
    sandbox.llts(&format!("wait {}", short(&first)));

    assert_eq!(sandbox.ok(&format!("query {} --output wire", short(&id))).json()["__TASK_ID__"], id);
    eventually("it runs", || sandbox.ok(&format!("show {}", short(&id))).out.contains("running"));
    let shown = sandbox.ok(&format!("show {}", short(&after))).out;
    assert!(shown.contains(&format!("it waits for task {id} to succeed")), "{shown}");
    let listed = sandbox.ok("list --columns id,state,what,why").out;
    let row = format!("{}\twaiting\ttrue\tafter {}\n", short(&after), short(&id));
    assert!(listed.starts_with("ID\tSTATE\tWHAT\tWHY\n") && listed.contains(&row), "{listed}");
    let failed = sandbox.ok("list --state failed --columns id,what").out;
    assert_eq!(failed, format!("ID\tWHAT\n{}\tfilm7\n", short(&first)));

    sandbox.llts("show abcde").failed(5, "no task has the short id abcde");
    for (verb, place) in [("show", ""), ("logs", ""), ("wait", "/task"), ("kill", "/tasks/0"), ("explain", "")] {
        let said = sandbox.llts(&format!("{verb} abcde --output json"));
        let error = said.json().pointer(&format!("{place}/error")).cloned().unwrap_or_default();
        assert_eq!((said.code, error), (Some(5), "no task has the short id abcde".into()), "{verb}: {said:?}");
    }
    for verb in ["query", "explain"] {
        let said = sandbox.llts(&format!("{verb} {id} abcde --output json"));
        let tasks = said.json()["tasks"].clone();
        assert_eq!((said.code, &tasks[0]["task_id"]), (Some(5), &id.as_str().into()), "{verb}: {said:?}");
        let unknown = json!({ "task_id": "abcde", "error": "no task has the short id abcde" });
        assert_eq!(tasks[1], unknown, "{verb}: {said:?}");
    }
    assert_eq!(sandbox.llts("list --state odd").code, Some(2));

    sandbox.ok(&format!("kill {}", short(&id)));
    sandbox.llts(&format!("wait {}", short(&after)));
    assert!(sandbox.ok(&format!("show {}", short(&id))).out.contains("killed"));
}

#[test]
fn a_forgotten_task_stays_in_the_table_and_is_shown_by_its_history() {
    let sandbox = Sandbox::up(1);
    let id = sandbox.ok("submit --given-id film7 -- true").line().to_owned();
    sandbox.ok(&format!("wait {id}"));
    eventually("the history has it", || sandbox.ok("list --since 1h --output wire").json()["total"] == 1);
    sandbox.ok(&format!("forget {id}"));
    eventually("it is gone", || sandbox.ok("list --output wire").json()["total"] == 0);
    let listed = sandbox.ok("list --columns id,state,what").out;
    assert_eq!(listed, format!("ID\tSTATE\tWHAT\n{}\tok\tfilm7\n", short(&id)));
    let shown = sandbox.ok(&format!("show {}", short(&id))).out;
    assert!(shown.contains("forgotten by the service") && shown.contains(&id), "{shown}");
    sandbox.ok("run -- true");
    sandbox.ok("run -- true");
    let forgotten = |line: &str| {
        let listed = sandbox.ok(&format!("list --output json {line}")).json();
        (listed["total"].clone(), listed["tasks"].as_array().unwrap().last().unwrap()["given_id"] == "film7")
    };
    assert_eq!(forgotten(""), (3.into(), true));
    assert_eq!(forgotten("--limit 1 --offset 2"), (3.into(), true));
    assert_eq!(forgotten("--state ok --limit 2"), (3.into(), false));
    assert_eq!(forgotten("--limit 1"), (2.into(), false), "the history is not read for the first page");
    let rounds = |line: &str| sandbox.ok(&format!("list --since 1h --output json {line}")).json()["total"].clone();
    assert_eq!(
        (forgotten("--text FILM").0, forgotten("--text true").0, rounds("--text odd")),
        (1.into(), 3.into(), 0.into())
    );
    assert_eq!(sandbox.ok("list --failed --state ok").out.lines().count(), 1, "the head alone");
    assert_eq!((rounds(""), rounds("--text Film"), rounds("--longer")), (3.into(), 1.into(), 0.into()));
    let last = |line: &str| sandbox.ok(line).err.trim().replace("llts: ", "");
    assert_eq!(last("list --limit 2"), "2 of 3 tasks; --offset 2 shows the next");
    assert_eq!(last("list --limit 1 --offset 1"), "2 to 2 of 3 tasks; --offset 2 shows the next");
    assert_eq!(last("list --limit 1"), "1 of 2 known tasks; --offset 1 shows the next");
}

/// The words of a command may be files, which the engine of completions does not offer behind `--`.
#[test]
fn a_shell_is_offered_files_for_the_words_of_a_command() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("basket"), "").expect("written");
    let offered = |line: &str| {
        let index = line.split_whitespace().count();
        let mut command = sandbox.command(&format!("-- llts {line}"));
        command.env("LLTS_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", index.to_string()).env("_CLAP_IFS", "\n");
        command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "true");
        command.said().out
    };
    for line in ["run -- ls bas", "map -- bas", "submit -- ls -l -- bas", "map -a bas"] {
        assert_eq!(offered(line), "basket", "{line}");
    }
    assert_eq!(offered("run bas"), "");
    assert_eq!(offered("list --state fai"), "failed");
    assert_eq!((offered("lo"), offered("ls --state fai")), ("logs".to_owned(), "failed".to_owned()));
    sandbox.ok("up 1");
    let ended = sandbox.ok("submit -- true").line().to_owned();
    sandbox.ok(&format!("wait {ended}"));
    let waiting = sandbox.ok("submit --start-after +600 -- true").line().to_owned();
    let ids = |line: &str| offered(line).lines().map(str::to_owned).collect::<Vec<_>>();
    let has = |ids: &[String], id: &str| ids.iter().any(|line| line.starts_with(id));
    // A shell does not wait for a service that is slow to answer.
    eventually("an ended task can be shown", || has(&ids("show TASK_"), &ended));
    eventually("a waiting task can be ended", || {
        let of_kill = ids("kill TASK_");
        assert!(!has(&of_kill, &ended), "it has ended: {of_kill:?}");
        has(&of_kill, &waiting)
    });
}

#[test]
fn the_whole_service_is_on_one_screen() {
    let sandbox = Sandbox::new();
    let none = sandbox.llts("status").ended(3);
    assert!(none.out.is_empty() && none.err.contains("start one with `llts up`"), "{none:?}");
    assert!(sandbox.ok("status --alone").out.contains("llts run -- echo hi"), "for `llts` on a terminal");
    let long = sandbox.llts(&format!("list --limit {}", "a".repeat(70_000)));
    assert!(long.err.len() < 600 && long.err.contains("[70000 characters]"), "{long:?}");
    sandbox.ok("up 1");
    sandbox.llts("run -- false");
    sandbox.ok("submit --job nightly -- sleep 600");
    eventually("it runs", || sandbox.ok("status --output wire").json()["tasks"]["running"] == 1);
    let screen = sandbox.ok("status").out;
    for part in ["1/1 agents busy", "nightly", "RUNNING", "sleep 60", "FAILED", "false"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    assert!(!screen.contains('\u{1b}'), "a pipe has no colours");
    assert!(sandbox.ok("status --color always").out.contains("\u{1b}[1m"));
    assert_eq!(sandbox.llts("top").code, Some(2), "a pipe has no live screen");
}
