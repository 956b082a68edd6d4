//! The storm: 500 tasks from 4 clients, while the controller is killed 8 times and agents 16 times; tools that stay as well, 16 times.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::thread::scope;

use testkit::Receiver;

use crate::crash::killer::{AGENTS, kill_agents, kill_controllers, kill_tools};
use crate::crash::load::{Progress, STAYING_TOOL, TOOL, submit};
use crate::crash::runs::Runs;
use crate::crash::service::Service;
use crate::crash::verdict::{check_answers, check_pushes, check_store};

const CLIENTS: u64 = 4;

fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|error| panic!("{variable}: {error}")))
}

#[test]
fn whoever_is_killed_what_was_accepted_is_done() {
    let service = Service::new();
    service.sandbox.tool("append", TOOL);
    storm(&service, false);
}

#[test]
fn what_a_tool_that_stays_was_given_is_done() {
    // A tool that dies within a task fails it.
    let service = Service::with_defaults("MAX_FAILS = 1000");
    service.sandbox.write("tools/append/run.sh", STAYING_TOOL);
    let run = service.sandbox.path("tools/append/run.sh");
    fs::set_permissions(run, fs::Permissions::from_mode(0o755)).expect("its own file");
    service.sandbox.write("tools/append/tool.toml", "[stay]\n");
    storm(&service, true);
}

fn storm(service: &Service, stays: bool) {
    let seed = number("CRASH_SEED", u64::from(rand::random::<u32>()));
    let [tasks, kills] =
        [("CRASH_TASKS", 500), ("CRASH_KILLS", 8)].map(|(name, default)| number(name, default) as usize);
    // Captured, and shown if the test fails.
    writeln!(
        std::io::stderr(),
        "again: CRASH_SEED={seed} CRASH_TASKS={tasks} CRASH_KILLS={kills} cargo nextest run crash::storm"
    )
    .expect("stderr");

    service.sandbox.ok(&format!("up {AGENTS}"));
    let pushes = Receiver::bind();
    let progress = Progress::new(if stays { 5 } else { 3 } * kills, tasks);
    let (progress, push_to) = (&progress, pushes.address.as_str());
    let accepted: BTreeMap<usize, String> = scope(|threads| {
        threads.spawn(|| kill_controllers(service, progress, kills, seed));
        threads.spawn(|| kill_agents(service, progress, 2 * kills, seed ^ 1));
        if stays {
            threads.spawn(|| kill_tools(service, progress, 2 * kills, seed ^ 1 << 32));
        }
        let clients: Vec<_> = (2..CLIENTS + 2)
            .map(|client| threads.spawn(move || submit(&service.endpoint, progress, push_to, seed ^ client)))
            .collect();
        clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
    });
    writeln!(std::io::stderr(), "{} of {tasks} submits were accepted", accepted.len()).expect("stderr");

    let client = service.client();
    check_answers(service, &client, &accepted);
    check_pushes(&pushes.socket, &client);
    service.sandbox.ends_clean();
    check_store(&service.sandbox.path("state/tasks.sqlite"), &Runs::read(&service.sandbox.path("runs")), &accepted);
    assert!(2 * accepted.len() > tasks, "too few submits were accepted for the test to mean something");
}
