//! The storm: 500 tasks from 4 clients, while the controller is killed 20 times and agents 40 times.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::thread::scope;

use testkit::Receiver;

use crate::crash::killer::{AGENTS, kill_agents, kill_controllers};
use crate::crash::load::{Progress, TOOL, submit};
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
    let seed = number("CRASH_SEED", u64::from(rand::random::<u32>()));
    let tasks = usize::try_from(number("CRASH_TASKS", 500)).unwrap();
    let kills = usize::try_from(number("CRASH_KILLS", 20)).unwrap();
    // Captured, and shown if the test fails.
    writeln!(
        std::io::stderr(),
        "again: CRASH_SEED={seed} CRASH_TASKS={tasks} CRASH_KILLS={kills} cargo nextest run crash::storm"
    )
    .unwrap();

    let service = Service::new();
    service.sandbox.tool("append", TOOL);
    service.sandbox.ok(&format!("up {AGENTS}"));
    let pushes = Receiver::bind();
    let progress = Progress::new(3 * kills, tasks);
    let (service, progress, push_to) = (&service, &progress, pushes.address.as_str());
    let accepted: BTreeMap<usize, String> = scope(|threads| {
        threads.spawn(|| kill_controllers(service, progress, kills, seed));
        threads.spawn(|| kill_agents(service, progress, 2 * kills, seed ^ 1));
        let clients: Vec<_> = (2..CLIENTS + 2)
            .map(|client| threads.spawn(move || submit(&service.endpoint, progress, push_to, seed ^ client)))
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    writeln!(std::io::stderr(), "{} of {tasks} submits were accepted", accepted.len()).unwrap();

    let client = service.client();
    check_answers(service, &client, &accepted);
    check_pushes(&pushes.socket, &client);
    service.sandbox.ends_clean();
    check_store(&service.sandbox.path("state/tasks.sqlite"), &Runs::read(&service.sandbox.path("runs")), &accepted);
    assert!(2 * accepted.len() > tasks, "too few submits were accepted for the test to mean something");
}
