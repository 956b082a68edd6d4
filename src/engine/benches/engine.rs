//! The controller's engine: one task from its submit to its end, with an agent parked, while 1,000 or 1,000,000 others wait; or
//! while tasks with so many different tools wait for another agent, which has those.
//!
//! Bytes in and bytes out as in the shell, but no socket and no store: what is left is parsing, deciding, and encoding.

use std::sync::Arc;
use std::time::Duration;

use api::wire::agent::ToAgent;
use api::wire::page::PageBytes;
use api::wire::reply::Reply;
use api::wire::requests::apply::TASK_APPLY;
use api::wire::requests::graph::GraphSubmit;
use api::wire::requests::heartbeat::{Heartbeat, ToldTools};
use api::wire::requests::report::Report;
use api::wire::requests::submit::Submission;
use api::wire::requests::{FromAgent, Message, Request, Sender, graph};
use api::wire::rules::Rules;
use api::wire::{agent, publish, reply, requests};
use base::json::FieldLimits;
use base::{
    AddressPolicy, AgentId, ExitCode, Labels, Mono, Now, Phase, PhaseTimes, RunResult, Session, TaskId, ToolSet, Wall,
};
use divan::counter::ItemsCount;
use engine::graph::Graph;
use engine::{Answer, ConnectionId, Controller, Effect, Settings, Ticket, ToolSettings};

fn main() {
    divan::main();
}

/// The number of waiting tasks while one more is submitted and finishes.
const WAITING: [u64; 2] = [1_000, 1_000_000];

/// A controller as its shell sees it, on a clock that advances with each message.
struct World {
    controller: Controller,
    rules: Rules,
    sender: Sender,
    submit: Vec<u8>,
    tickets: u64,
    micros: u64,
}

impl World {
    fn new(waiting: u64) -> Self {
        let submission =
            Submission::new("tool").with("alpha", "a value").with("beta", "another value").with("gamma", 7u32);
        let submission = Submission { address: Some("tcp://127.0.0.1:4000".to_owned()), ..submission };
        let agent = AgentId::new("agent-1").expect("a good name");
        let mut world = Self {
            controller: Controller::new(settings(), 1),
            rules: rules(),
            sender: Sender::new(agent, Session(1)),
            submit: submission.request().encode(),
            tickets: 0,
            micros: 0,
        };
        for _ in 0..waiting {
            world.submit();
        }
        let heartbeat = Heartbeat::default();
        world.say(&FromAgent::Heartbeat(heartbeat));
        world
    }

    fn now(&mut self) -> Now {
        self.micros += 1;
        let mono = Mono::from_nanos(self.micros * 1000);
        Now { mono, wall: Wall::from_micros(1_480_000_000_000_000 + self.micros) }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket { connection: ConnectionId::default(), number: self.tickets }
    }

    /// Passes one message through the engine and encodes the output, as the shell would. Returns the last answer.
    fn take(&mut self, body: &[u8]) -> Option<Vec<u8>> {
        let now = self.now();
        let ticket = self.ticket();
        let (kind, message) = requests::parse(body, &self.rules).expect("a good message");
        let answer = match message {
            Message::Client(request) => self.controller.handle_request(now, ticket, request),
            Message::Agent(sender, message) => self.controller.handle_agent(now, ticket, &sender, message),
        };
        let encode = |kind: &str, reply: &Reply| reply::encode(kind, reply, PageBytes(1 << 20));
        let mut last = match answer {
            Answer::Now(reply) | Answer::NowAndLater(reply) => Some(encode(kind, &reply)),
            Answer::Later => None,
        };
        self.controller.handle_timeout(now);
        while let Some(effect) = self.controller.poll_effect() {
            match effect {
                Effect::Reply(_, reply) => last = Some(encode(TASK_APPLY.word, &reply)),
                Effect::Push(record) | Effect::PushAgain(record) => {
                    divan::black_box(publish::encode_status(&record));
                }
                Effect::Publish(message) => {
                    divan::black_box(publish::encode(&message));
                }
                Effect::Record(record) => {
                    divan::black_box(record);
                }
                Effect::JobStatus(status) => {
                    divan::black_box(status);
                }
                Effect::Tool(order) => {
                    divan::black_box(order);
                }
                Effect::GraphStatus(change) => {
                    divan::black_box(change);
                }
            }
        }
        last
    }

    /// The agent reports its tools.
    fn tell(&mut self, tools: &str) {
        let set = Some(ToolSet::parse(tools).expect("good names"));
        let tools = Some(ToldTools { generation: Some(1), set });
        let tags = Labels::default();
        let heartbeat = Heartbeat { tags, tools, ..Heartbeat::default() };
        self.say(&FromAgent::Heartbeat(heartbeat));
    }

    fn submit(&mut self) {
        let body = std::mem::take(&mut self.submit);
        divan::black_box(self.take(&body));
        self.submit = body;
    }

    fn say(&mut self, message: &FromAgent) -> Option<ToAgent> {
        let body = agent::encode(&self.sender, message);
        agent::decode(&self.take(&body)?)
    }

    /// The agent asks and gets the next task.
    fn dispatch(&mut self) -> (TaskId, base::Round) {
        match self.say(&FromAgent::Apply(Some(Duration::from_secs(6)))) {
            Some(ToAgent::Dispatch(dispatch)) => (dispatch.task, dispatch.round),
            other => panic!("no task: {other:?}"),
        }
    }

    fn report(&mut self, (task, round): (TaskId, base::Round), phase: Phase) {
        let result = (phase == Phase::Finished).then(|| RunResult::of(ExitCode(0), String::new()));
        let times = PhaseTimes::default();
        let report = Report {
            task,
            round: Some(round),
            phase,
            times,
            ran: None,
            result,
            provided: None,
            progress: None,
            let_go: None,
            wait: None,
        };
        self.say(&FromAgent::Report(Box::new(report)));
    }
}

fn settings() -> Settings {
    Settings {
        heartbeat_interval: Duration::from_secs(3600),
        lost_after: Duration::from_secs(7200),
        kill_budget: Duration::from_secs(4),
        waiting_max: 2_000_000,
        waiting_bytes_max: usize::MAX,
        needs_max: 1000,
        gates_max: 1000,
        list_time_max: Duration::from_millis(50),
        list_tasks_max: 8,
        stay_wait_max: Duration::from_millis(500),
        defer_delay: Duration::from_secs(10),
        retry_delay_max: Duration::from_secs(60),
        push_again_interval: Duration::from_secs(1),
        push_again_interval_max: Duration::from_secs(60),
        push_again_max: Duration::from_secs(600),
        // Finished tasks are removed at once, so that the number of tasks stays constant.
        keep: Duration::ZERO,
        keeps_history: true,
        keep_bytes_max: 1 << 30,
        page_max: 1000,
        agents_max: 1000,
        parked_max: 1000,
        scans_max: 10,
        part_bytes_max: 4096,
        job_receivers_max: 16,
        stores_first: false,
        step_grace: Duration::from_secs(5),
        tools: ToolSettings::default(),
    }
}

fn rules() -> Rules {
    let wait_max = Duration::from_secs(3600);
    Rules {
        limits: FieldLimits::TRUSTED,
        addresses: AddressPolicy::everything(),
        wait_max,
        apply_wait_max: wait_max,
        submits: api::wire::rules::SubmitLimits::DEFAULT,
        graphs: base::GraphLimits::DEFAULT,
        sources: base::AllowedSources::default(),
        defaults: api::wire::rules::DefaultPolicies::default(),
    }
}

/// Submit, dispatch, RUNNING, FINISHED: all work of the engine for a short task.
#[divan::bench(args = WAITING, sample_count = 200, sample_size = 10)]
fn submit_dispatch_report(bencher: divan::Bencher<'_, '_>, waiting: u64) {
    let mut world = World::new(waiting);
    bencher.counter(ItemsCount::new(1u32)).bench_local(|| {
        world.submit();
        let run = world.dispatch();
        world.report(run, Phase::Running);
        world.report(run, Phase::Finished);
    });
}

/// As above, while a task waits for each of many tools that this agent lacks and another one has.
#[divan::bench(args = [1, 10_000], sample_count = 200, sample_size = 10)]
fn beside_tools_of_another_agent(bencher: divan::Bencher<'_, '_>, tools: u64) {
    let mut world = World::new(0);
    let names: Vec<_> = (0..tools).map(|number| format!("other-{number}")).collect();
    let own = std::mem::replace(&mut world.sender.agent, AgentId::new("agent-2").expect("a good name"));
    world.tell(&names.join(","));
    world.sender.agent = own;
    world.tell("tool");
    for name in names {
        let body = Submission::new(&name).request().encode();
        divan::black_box(world.take(&body));
    }
    bencher.counter(ItemsCount::new(1u32)).bench_local(|| {
        world.submit();
        let run = world.dispatch();
        world.report(run, Phase::Running);
        world.report(run, Phase::Finished);
    });
}

/// Only the submit.
#[divan::bench(args = WAITING, sample_count = 200, sample_size = 10)]
fn submit(bencher: divan::Bencher<'_, '_>, waiting: u64) {
    let mut world = World::new(waiting);
    bencher.counter(ItemsCount::new(1u32)).bench_local(|| world.submit());
}

/// A heartbeat of an agent.
#[divan::bench]
fn heartbeat(bencher: divan::Bencher<'_, '_>) {
    let mut world = World::new(0);
    let heartbeat = Heartbeat::default();
    let message = FromAgent::Heartbeat(heartbeat);
    bencher.bench_local(|| world.say(&message));
}

/// The submit of a graph of 10,000 steps without connections, each with one task.
fn graph_of_many_steps() -> Vec<u8> {
    let step = |number: u32| format!(r#""step-{number}":{{"operation":"tool","parameters":{{"number":{number}}}}}"#);
    let steps: Vec<String> = (0..10_000).map(step).collect();
    graph::submit(&format!(r#"{{"steps":{{{}}}}}"#, steps.join(","))).encode()
}

/// Reading such a graph, which the shell leaves to a thread.
#[divan::bench(sample_count = 10)]
fn read_a_graph(bencher: divan::Bencher<'_, '_>) {
    let (body, rules) = (graph_of_many_steps(), rules());
    bencher.bench_local(|| requests::parse(&body, &rules).expect("a good document"));
}

/// Connecting its steps, which the shell leaves to the same thread.
#[divan::bench(sample_count = 10)]
fn connect_a_graph(bencher: divan::Bencher<'_, '_>) {
    let submit = planned().0;
    bencher.bench_local(|| Graph::new(&submit.graph.document).expect("no circle"));
}

/// The first turn with such a graph: it is accepted, and a slice of its tasks starts.
#[divan::bench(sample_count = 10)]
fn accept_a_graph(bencher: divan::Bencher<'_, '_>) {
    let input = || (World::new(0), planned());
    bencher.with_inputs(input).bench_local_values(|(mut world, (submit, plan))| {
        let now = world.now();
        let ticket = world.ticket();
        let _ = divan::black_box(world.controller.handle_planned(now, ticket, submit, plan));
        world.drain();
        world
    });
}

/// One more turn: a slice of its tasks.
#[divan::bench(sample_count = 10)]
fn continue_a_graph(bencher: divan::Bencher<'_, '_>) {
    let input = || {
        let (mut world, (submit, plan)) = (World::new(0), planned());
        let now = world.now();
        let ticket = world.ticket();
        let _ = divan::black_box(world.controller.handle_planned(now, ticket, submit, plan));
        world.drain();
        world
    };
    bencher.with_inputs(input).bench_local_values(|mut world| {
        let now = world.now();
        world.controller.handle_timeout(now);
        world.drain();
        world
    });
}

fn planned() -> (GraphSubmit, Arc<Graph>) {
    let Ok((_, Message::Client(Request::GraphSubmit(submit)))) = requests::parse(&graph_of_many_steps(), &rules())
    else {
        unreachable!("it is the submit of a graph");
    };
    let plan = Arc::new(Graph::new(&submit.graph.document).expect("no circle"));
    (*submit, plan)
}

impl World {
    fn drain(&mut self) {
        self.controller.handle_push_room(|_| 1000);
        while let Some(effect) = self.controller.poll_effect() {
            drop(divan::black_box(effect));
        }
    }
}
