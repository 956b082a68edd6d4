//! The agent's engine: one task from the controller's answer to the confirmed result, bytes in and bytes out, without a process.

use std::time::Duration;

use ::agent::slot::{Effect, Exited, Settings, Slot};
use api::wire::agent;
use api::wire::agent::ToAgent;
use api::wire::requests::Sender;
use api::wire::requests::apply::Dispatch;
use api::wire::requests::heartbeat::Heard;
use base::{AgentId, ExitCode, Fields, Labels, Mono, Now, Round, RunResult, Session, TaskId, ToolName, Wall};

fn main() {
    divan::main();
}

fn now(micros: u64) -> Now {
    Now { mono: Mono::from_nanos(micros * 1000), wall: Wall::from_micros(1_480_000_000_000_000 + micros) }
}

fn registered() -> (Slot, Sender) {
    let agent = AgentId::new("agent-1").expect("a good name");
    let settings = Settings {
        agent: agent.clone(),
        session: Session(1),
        replaces: None,
        epochs: Vec::new(),
        ip: "127.0.0.1".to_owned(),
        tags: Labels::default(),
        tools: None,
        heartbeat_interval: Duration::from_secs(3600),
        kill_interval: Duration::from_secs(3),
        kill_count: 3,
        straggler_grace: Duration::from_millis(500),
        foreign_process_timeout: Duration::from_mins(1),
        stop_timeout: Duration::from_secs(5),
    };
    let sender = Sender::new(agent, Session(1));
    let mut slot = Slot::new(settings, now(0));
    slot.handle_answer(
        now(1),
        ToAgent::Heard(Heard {
            controller: 1,
            wanted: None,
            parked: false,
            tools: None,
            beat: None,
            serving: None,
            folder: None,
            epoch: None,
            clock: None,
        }),
    );
    while let Some(effect) = slot.poll_effect(now(1)) {
        drop(divan::black_box(effect));
    }
    (slot, sender)
}

/// Continues until nothing is left to do, and encodes the output.
fn settle(slot: &mut Slot, sender: &Sender, now: Now) {
    while let Some(effect) = slot.poll_effect(now) {
        match effect {
            Effect::Send(message) => drop(divan::black_box(agent::encode(sender, &message))),
            Effect::Prepare(_) => slot.handle_prepared(now, Ok(())),
            Effect::Spawn => slot.handle_spawned(now, Ok(())),
            Effect::CheckTree => slot.handle_tree(now, false, 0),
            Effect::Remove => slot.handle_removed(now),
            other => panic!("nobody has asked for {other:?}"),
        }
    }
}

fn exited() -> Exited {
    let (cpu_seconds, max_rss_kib, report_tail) = (0.001, 1000, "done\n".to_owned());
    let result = RunResult { cpu_seconds, max_rss_kib, report_tail, ..RunResult::of(ExitCode(0), String::new()) };
    Exited { result, provided: None }
}

#[divan::bench]
fn a_task(bencher: divan::Bencher<'_, '_>) {
    let (mut slot, sender) = registered();
    let tool = ToolName::new("tool").expect("a good name");
    let fields = Fields::new().with("alpha", "a value").with("beta", "another value");
    let mut micros = 1;
    bencher.bench_local(|| {
        micros += 10;
        let now = now(micros);
        let (task, round) = (TaskId::new(now.wall, [0; TaskId::SUFFIX_LEN]), Round(0));
        slot.handle_answer(
            now,
            ToAgent::Dispatch(Box::new(Dispatch {
                files: None,
                pin: None,
                task,
                round,
                tool: tool.clone(),
                command: None,
                source: None,
                fields: fields.clone(),
                batch_delay: Duration::ZERO,
                lease: None,
                step: None,
            })),
        );
        settle(&mut slot, &sender, now);
        slot.handle_exited(now, exited());
        settle(&mut slot, &sender, now);
        slot.handle_answer(now, ToAgent::Reported { task, round, finished: true, accepted: true });
        settle(&mut slot, &sender, now);
    });
}
