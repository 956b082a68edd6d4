//! What an original component sends to Redis: the commands of the trace, in their order, from the facts that were measured.

use redis::{Commands as _, Connection, Pipeline};

use super::clock;
use super::ground::SETS;

/// The moment of an original's own clock, as its `repr` writes it.
pub(crate) fn now() -> String {
    let wall = clock::now().wall.micros();
    let text = format!("{}.{:06}", wall / 1_000_000, wall % 1_000_000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

pub(crate) struct Original {
    pub(crate) redis: Connection,
    pub(crate) namespace: String,
}

/// What an original manager is told of a task.
#[derive(Clone, Debug)]
pub(crate) struct Order<'a> {
    pub(crate) program: &'a str,
    pub(crate) source: &'a str,
    pub(crate) input: &'a [u8],
    pub(crate) start_after: &'a str,
    pub(crate) end_before: &'a str,
    pub(crate) timeout: &'a str,
    pub(crate) max_fails: &'a str,
    pub(crate) max_timeouts: &'a str,
}

impl Default for Order<'_> {
    fn default() -> Self {
        Self {
            program: "p",
            source: "http://127.0.0.1:1/run.sh",
            input: b"1 2",
            start_after: "0",
            end_before: "inf",
            timeout: "inf",
            max_fails: "0",
            max_timeouts: "0",
        }
    }
}

impl Original {
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.namespace)
    }

    pub(crate) fn task(&self, id: u64) -> String {
        self.key(&format!("task:{id}"))
    }

    pub(crate) fn get(&mut self, id: u64, field: &str) -> Option<String> {
        let key = self.task(id);
        self.redis.hget(key, field).unwrap()
    }

    pub(crate) fn open(&mut self, order: &Order<'_>) -> u64 {
        let id: u64 = self.redis.incr(self.key("task_id"), 1).unwrap();
        let (key, open) = (self.task(id), self.key("open"));
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("ZADD").arg(open).arg(order.start_after).arg(id);
        pipe.hset(&key, "input", order.input);
        for (field, value) in [
            ("program", order.program),
            ("source", order.source),
            ("id", &id.to_string()),
            ("start_after", order.start_after),
            ("end_before", order.end_before),
            ("timeout", order.timeout),
            ("max_fails", order.max_fails),
            ("max_timeouts", order.max_timeouts),
            ("state", "open"),
            ("round", "0"),
            ("fails", "0"),
            ("timeouts", "0"),
            ("log", ""),
            ("namespace", &self.namespace),
            ("0:open", &now()),
        ] {
            pipe.hset(&key, field, value);
        }
        pipe.exec(&mut self.redis).unwrap();
        id
    }

    pub(crate) fn register(&mut self, name: &str) {
        let key = self.key(&format!("worker_id:{name}"));
        if self.redis.get::<_, Option<String>>(&key).unwrap().is_none() {
            let id: u64 = self.redis.incr(self.key("worker_id"), 1).unwrap();
            self.redis.set::<_, _, ()>(&key, id).unwrap();
            self.redis.sadd::<_, _, ()>(self.key("worker"), name).unwrap();
        }
    }

    /// The first half of a move: what makes it an original's.
    pub(crate) fn leave(&mut self, id: u64, from: &str) -> bool {
        self.redis.zrem::<_, _, u32>(self.key(from), id).unwrap() == 1
    }

    /// The second half.
    pub(crate) fn enter(&mut self, id: u64, from: &str, to: &str, round: u32, fields: &[(&str, &str)]) {
        let (key, at) = (self.task(id), now());
        let log: String = self.redis.hget(&key, "log").unwrap();
        let line = format!("2026-11-22 12:00:00 - moving task {id}: {from} -> {to}");
        let log = if log.is_empty() { line } else { format!("{log}\n{line}") };
        let mut pipe: Pipeline = redis::pipe();
        pipe.atomic().hset(&key, "log", log).cmd("ZADD").arg(self.key(to)).arg(&at).arg(id);
        if to != "archived" {
            pipe.hset(&key, "state", to);
        }
        pipe.hset(&key, format!("{round}:{to}"), &at);
        for (field, value) in fields {
            pipe.hset(&key, field, value);
        }
        pipe.exec(&mut self.redis).unwrap();
    }

    pub(crate) fn r#move(&mut self, id: u64, from: &str, to: &str, round: u32, fields: &[(&str, &str)]) -> bool {
        let left = self.leave(id, from);
        if left {
            self.enter(id, from, to, round, fields);
        }
        left
    }

    /// Claims as an original worker: the lowest score, whatever it is. Its id and round.
    pub(crate) fn claim(&mut self, worker: &str) -> Option<(u64, u32)> {
        let first: Vec<u64> = self.redis.zrange(self.key("open"), 0, 0).unwrap();
        let id = *first.first()?;
        let round: u32 = self.redis.hget(self.task(id), "round").unwrap();
        let state: String = self.redis.hget(self.task(id), "state").unwrap();
        let field = format!("{round}:worker");
        self.r#move(id, &state, "running", round, &[(&field, worker)]).then_some((id, round))
    }

    pub(crate) fn report(&mut self, id: u64, round: u32, output: &str, error: &str) -> bool {
        let (out, err) = (format!("{round}:output"), format!("{round}:error"));
        self.r#move(id, "running", "executed", round, &[(&out, output), (&err, error)])
    }

    /// What an original server reads of every task of its page, and dies without.
    pub(crate) fn assert_readable(&mut self, id: u64) {
        let fields: std::collections::BTreeMap<String, String> = self.redis.hgetall(self.task(id)).unwrap();
        for field in ["program", "source", "input", "id", "namespace", "log", "state"] {
            assert!(fields.contains_key(field), "{field} is missing: {fields:?}");
        }
        for field in ["start_after", "end_before", "timeout", "0:open"] {
            assert!(fields[field].parse::<f64>().is_ok(), "{field}: {fields:?}");
        }
        for field in ["round", "max_fails", "max_timeouts", "fails", "timeouts"] {
            assert!(fields[field].parse::<i64>().is_ok(), "{field}: {fields:?}");
        }
        let round = &fields["round"];
        let is_in = |redis: &mut Connection, set: String| redis.zscore::<_, _, Option<f64>>(set, id).unwrap().is_some();
        let [running, executed] = ["running", "executed"].map(|set| self.key(set));
        if is_in(&mut self.redis, running) {
            assert!(fields[&format!("{round}:running")].parse::<f64>().is_ok(), "{fields:?}");
        }
        if is_in(&mut self.redis, executed) {
            assert!(fields.contains_key(&format!("{round}:output")), "{fields:?}");
            assert!(fields.contains_key(&format!("{round}:error")), "{fields:?}");
        }
        let known = |name: &str| ["worker", "output", "error"].contains(&name) || SETS.contains(&name);
        for name in fields.keys().filter_map(|field| field.split_once(':').map(|(_, name)| name)) {
            assert!(known(name), "an original does not write {name}");
        }
        let own: Vec<&String> = fields.keys().filter(|field| !field.contains(':')).collect();
        assert_eq!(own.len(), 15, "an original does not write all of {own:?}");
    }
}
