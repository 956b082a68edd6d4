//! The measurements of the controller, in the text format of Prometheus (OpenMetrics 1.0).
//!
//! Times of runs come from the changes of tasks, those of the store and of pushes from the code that spends them. A scrape
//! asks the engine for the present numbers of tasks and agents.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use api::wire::requests::stats::{AgentCounts, TaskCounts};
use api::wire::requests::status::QueueView;
use base::{Assignment, Outcome, PastRound, TaskRecord, TaskState, path_text, words};

type Labelled<M> = Family<[(&'static str, &'static str); 1], M>;

/// The metrics of one controller. All of them may be set from any thread.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// From the submit, or the end of the round before, to the dispatch.
    queued: Histogram,
    /// From the dispatch to the start of run.sh, by the clock of the agent.
    start: Histogram,
    /// From the start of run.sh to its end.
    run: Histogram,
    /// From the hand-over of records to the store to the end of their commit.
    commit: Histogram,
    finished: Labelled<Counter>,
    tasks: Labelled<Gauge>,
    agents: Labelled<Gauge>,
    gates: Gauge,
    connections: Gauge,
    store_bytes: Gauge,
    /// The room of the disk of each folder, by its path.
    disk_free: Family<[(&'static str, String); 1], Gauge>,
    store_writable: Gauge,
    leading_since: Gauge,
    standbys: Gauge,
    dropped_pushes: Counter,
}

/// From 0.1 ms to about half an hour, each bucket twice the one before.
fn times() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 25))
}

impl Metrics {
    /// Metrics without measurements, and the histogram of pushes: from the change of a task to its hand-over to the connection of
    /// its address.
    #[must_use]
    pub fn new() -> (Self, Histogram) {
        let mut metrics = Self {
            registry: Registry::with_prefix("llts"),
            queued: times(),
            start: times(),
            run: times(),
            commit: times(),
            finished: Family::default(),
            tasks: Family::default(),
            agents: Family::default(),
            gates: Gauge::default(),
            connections: Gauge::default(),
            store_bytes: Gauge::default(),
            disk_free: Family::default(),
            store_writable: Gauge::default(),
            leading_since: Gauge::default(),
            standbys: Gauge::default(),
            dropped_pushes: Counter::default(),
        };
        metrics.store_writable.set(1);
        // They exist from the start, so that the first event of each kind is an increase.
        for outcome in Outcome::ALL {
            let _ = metrics.finished.get_or_create(&[("outcome", words::outcome(outcome))]);
        }
        let pushed = times();
        metrics.register(&pushed);
        (metrics, pushed)
    }

    fn register(&mut self, pushed: &Histogram) {
        let registry = &mut self.registry;
        for (name, help, histogram) in [
            ("task_queued", "From the submit, or the end of the round before, to the dispatch", &self.queued),
            ("task_start", "From the dispatch to the start of run.sh", &self.start),
            ("task_run", "From the start of run.sh to its end", &self.run),
            ("push", "From the change of a task to its hand-over to the connection of its address", pushed),
            ("commit", "From the hand-over of records to the store to the end of their commit", &self.commit),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        registry.register("tasks_finished", "Tasks that have finished since the start", self.finished.clone());
        registry.register("tasks", "Tasks in each phase", self.tasks.clone());
        registry.register("agents", "Agents in each state", self.agents.clone());
        registry.register("gates", "Known gates", self.gates.clone());
        registry.register("connections", "Open connections of the ports for requests", self.connections.clone());
        let help = "Pushes that could not be delivered since the start";
        registry.register("pushes_dropped", help, self.dropped_pushes.clone());
        let size = self.store_bytes.clone();
        registry.register_with_unit("store", "The files of the store", Unit::Bytes, size);
        registry.register_with_unit(
            "disk_free",
            "The room of the disk of a folder",
            Unit::Bytes,
            self.disk_free.clone(),
        );
        let help = "1 while the store takes commits, 0 while submits are refused because it does not";
        registry.register("store_writable", help, self.store_writable.clone());
        let help =
            "When this controller began to lead a queue that others share, in unix seconds; 0 for a queue of its own";
        registry.register("leading_since", help, self.leading_since.clone());
        registry.register("standbys", "Homes that wait to lead the queue", self.standbys.clone());
    }

    /// The state of the queue that other machines share.
    pub fn leads(&self, queue: &QueueView) {
        self.leading_since.set(i64::try_from(queue.since.micros() / 1_000_000).unwrap_or_default());
        self.standbys.set(i64::try_from(queue.standbys.len()).unwrap_or_default());
    }

    /// A task has changed. A run counts when it has ended.
    pub fn changed(&self, record: &TaskRecord) {
        match &record.state {
            TaskState::Finished { outcome, run, .. } => {
                self.finished.get_or_create(&[("outcome", words::outcome(*outcome))]).inc();
                if let Some((run, _)) = run {
                    self.ran(record, &record.past, run);
                }
            }
            TaskState::Waiting { .. } => {
                if let Some((last, past)) = record.past.split_last()
                    && let Some(run) = &last.assignment
                {
                    self.ran(record, past, run);
                }
            }
            TaskState::OutOfContact { .. }
            | TaskState::Dispatched(_)
            | TaskState::Preparing(_)
            | TaskState::Running(_)
            | TaskState::Ended { .. } => {}
        }
    }

    /// A run has ended; `past` are the rounds before it.
    fn ran(&self, record: &TaskRecord, past: &[PastRound], run: &Assignment) {
        let entered = past.last().map_or(record.submitted_at, |before| before.at);
        let eligible = record.policy.start_after.map_or(entered, |after| after.max(entered));
        observe(&self.queued, run.dispatched_at.since(eligible));
        let Some(started) = run.times.run else { return };
        observe(&self.start, started.since(run.dispatched_at));
        if let Some(ended) = run.times.end {
            observe(&self.run, ended.since(started));
        }
    }

    /// A commit has ended after `took`, successfully or not.
    pub fn committed(&self, took: Duration, is_stored: bool) {
        observe(&self.commit, took);
        self.store_writable.set(i64::from(is_stored));
    }

    /// Whether the last commit was stored.
    #[must_use]
    pub fn is_store_writable(&self) -> bool {
        self.store_writable.get() == 1
    }

    /// Updates the number of open connections, and of pushes dropped since the start.
    pub fn measured(&self, connections: usize, dropped_pushes: u64) {
        self.connections.set(i64::try_from(connections).unwrap_or(i64::MAX));
        self.dropped_pushes.inner().store(dropped_pushes, Ordering::Relaxed);
    }

    /// The disk of a folder has this room.
    pub fn has_room(&self, folder: &Path, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.disk_free.get_or_create(&[("path", path_text(folder))]).set(bytes);
    }

    /// Updates the present numbers, with the names of the engine.
    pub fn counted(&self, tasks: TaskCounts, agents: AgentCounts, gates: u64, store_bytes: u64) {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        for (phase, count) in tasks.by_phase() {
            self.tasks.get_or_create(&[("phase", words::phase(phase))]).set(number(count as u64));
        }
        for (state, count) in [("free", agents.free), ("busy", agents.busy), ("lost", agents.lost)] {
            self.agents.get_or_create(&[("state", state)]).set(number(count as u64));
        }
        self.gates.set(number(gates));
        self.store_bytes.set(number(store_bytes));
    }

    /// All metrics as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a text cannot fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

/// The same in the older text format of Prometheus, which names counters by their samples and has no units and no end mark.
#[must_use]
pub fn classic(text: &str) -> String {
    let counters: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut out = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let named = ["# HELP ", "# TYPE "].into_iter().find_map(|kind| Some((kind, line.strip_prefix(kind)?)));
        match named.and_then(|(kind, rest)| Some((kind, rest.split_once(' ')?))) {
            Some((kind, (name, rest))) if counters.contains(&name) => {
                out.extend([kind, name, "_total ", rest]);
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

fn observe(histogram: &Histogram, took: Duration) {
    histogram.observe(took.as_secs_f64());
}
