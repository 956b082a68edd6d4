//! `llts info`: the service that a command would use, where its parts are, and its state.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::http::{self, Grant};
use api::config::{Config, StoreServer};
use api::wire::requests::stats;
use api::wire::requests::stats::{AgentCounts, Stats};
use api::wire::version;
use base::{ToolName, Wall, path_text, words};
use controller::store::{Queue, ServerStore};
use llts_client::Client;
use llts_client::configured::{self, Configured};
use proc::clock;
use service::supervisor;
use service::supervisor::Service;
use term::exit::Failure;
use term::session::Session;
use term::table::Table;
use term::{hints, times};
use zmtp::sockets::absolute;

/// The answers of a controller.
struct Answer {
    endpoint: String,
    agents: AgentCounts,
    stats: Stats,
}

pub(super) fn run(session: &mut Session) -> Result<u8, Failure> {
    let answer = ask(session)?;
    let is_elsewhere = session.global.controller()?.is_some();
    let mut facts = Map::new();
    facts.insert("version".into(), version::program().into());
    if !is_elsewhere {
        place(session, &mut facts);
    }
    facts.insert("controller".into(), answer.as_ref().map(|answer| absolute(&answer.endpoint)).into());
    if let Some(Answer { agents, stats, .. }) = &answer {
        let is_orphaned = facts.get("dead_supervisor_pid").is_some_and(Value::is_u64);
        let well = if is_orphaned { "the supervisor was killed" } else { "good" };
        facts.insert("health".into(), stats.warning().unwrap_or(well).into());
        let AgentCounts { total, free, busy, lost } = agents;
        facts.insert("agents".into(), json!({ "total": total, "free": free, "busy": busy, "lost": lost }));
        let paused_until = stats.paused_until().map(Wall::unix_seconds);
        facts.insert("paused_until".into(), paused_until.into());
        let tasks = stats.counts().by_phase().map(|(phase, count)| (words::phase(phase).to_owned(), json!(count)));
        facts.insert("tasks".into(), tasks.collect::<Map<_, _>>().into());
    }
    if session.out.is_json() {
        session.out.value(&facts.into());
    } else {
        let ends = super::host::ends(&session.config, facts.get("idle_stop_seconds").and_then(Value::as_f64));
        session.out.table(&table(&facts, ends));
    }
    Ok(0)
}

/// The answers of the named controller or of the home's; `None` if none was named and the home's does not listen.
fn ask(session: &Session) -> Result<Option<Answer>, Failure> {
    let Session { global, config, .. } = session;
    let endpoint = match global.controller()? {
        Some(named) => named,
        None => match configured::find(config) {
            Configured::Listening(endpoint) => endpoint,
            Configured::At(endpoint) | Configured::Elsewhere(endpoint)
                if !configured::is_refused(&endpoint, config.client.reply_timeout) =>
            {
                endpoint
            }
            Configured::At(_) | Configured::Elsewhere(_) | Configured::Nowhere => return Ok(None),
        },
    };
    let client = Client::secured(config, &endpoint)?;
    match (client.ask(&stats::agents()), client.ask(&stats::service())) {
        (Ok(agents), Ok(stats)) => Ok(Some(Answer { agents, stats, endpoint })),
        // The queue tells which home leads, if one does.
        (Err(_), _) | (_, Err(_)) if config.store.server.is_some() && global.controller()?.is_none() => Ok(None),
        (Err(error), _) | (_, Err(error)) => Err(error.into()),
    }
}

/// The facts about the home and its service that need no request to the controller.
fn place(session: &Session, facts: &mut Map<String, Value>) {
    let Session { config, sources, home, .. } = session;
    let state_dir = &config.paths.state_dir;
    // A relative path of a home begins at the current folder.
    let shown = |path: &Path| path_text(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let holder = supervisor::holder(state_dir);
    let service = holder.and_then(|_| Service::read(state_dir));
    let uptime = service.as_ref().map(|service| clock::now().wall.unix_seconds() - service.started);
    let differing = sources.in_force().iter().filter(|key| key.origin.is_some()).count();
    let http = service.as_ref().and_then(|service| service.http.as_ref());
    let of_service = json!({
        "running": holder.is_some(),
        "dead_supervisor_pid": configured::dead_supervisor(config),
        "joined": config.joined_controller(),
        "pid": holder.and_then(|holder| holder.pid),
        "uptime_seconds": uptime,
        "service_version": service.as_ref().map(|service| service.version.clone()).filter(|version| !version.is_empty()),
        "home": path_text(home.folder()),
        "home_is": home.by().sentence(),
        "config": sources.file().map(shown),
        "keys_that_differ": differing,
        "publisher": service.as_ref().map(|service| service.publisher.clone()),
        "tcp": service.as_ref().map(|service| service.controller.clone()),
        "idle_stop_seconds": service.as_ref().and_then(|service| service.idle_stop),
        "http": http,
        "http_token_file": http.map(|_| shown(&http::token_file(config, Grant::Change))),
        "curve": curve(config),
        "tools_dir": shown(&config.paths.tools_dir),
        "tools": tools(&config.paths.tools_dir),
        "work_dir": shown(&config.paths.work_dir),
        "log_dir": shown(&config.log.dir),
        "state_dir": shown(state_dir),
        "state_bytes": bytes(state_dir),
        "queue": config.store.server.as_ref().map(|server| queue(server, state_dir)),
    });
    if let Value::Object(of_service) = of_service {
        facts.extend(of_service);
    }
}

/// The facts about a queue that several machines share.
fn queue(server: &StoreServer, state_dir: &Path) -> Value {
    let queue = ServerStore::open(server, state_dir).and_then(|mut store| store.queue());
    let Queue { place, leader, standbys, survives } = match queue {
        Ok(queue) => queue,
        Err(error) => return json!({ "error": error.to_string() }),
    };
    let leader = leader.map(|leader| {
        json!({
            "home": leader.home(),
            "address": leader.address,
            "since_time": leader.since.unix_seconds(),
            "epoch": leader.epoch.number,
        })
    });
    json!({ "at": place, "leader": leader, "standbys": standbys, "survives": survives })
}

fn curve(config: &Config) -> Value {
    let network = &config.network;
    json!({
        "server": network.curve_server.as_ref().map(|files| path_text(&files.secret_key)),
        "authorised": network.curve_server.as_ref().map(|files| path_text(&files.authorised_keys)),
        "client": network.curve_client.as_ref().map(|files| path_text(&files.secret_key)),
    })
}

/// The names of the packed tools in a folder, sorted.
fn tools(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".tar.gz")?.to_owned()));
    let mut names: Vec<String> = names.filter(|name| ToolName::new(name).is_ok()).collect();
    names.sort();
    names
}

/// Size in bytes of the files directly in a folder, among them the store.
fn bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file).map(|file| file.len()).sum()
}

fn table(facts: &Map<String, Value>, ends: Option<String>) -> Table {
    let text = |key: &str| facts.get(key).map(plain).unwrap_or_default();
    let is_here = facts.contains_key("home");
    let mut table = Table::pairs();
    if is_here {
        let service = service_line(facts, ends);
        table.row(["service", &hints::typed(&service)]);
        if let Some(controller) = facts["joined"].as_str() {
            table.row(["joined", &format!("this home belongs to the controller at {controller}")]);
        }
    }
    let versions = versions(facts.get("service_version").and_then(Value::as_str), &text("version"));
    table.row(["version", &hints::typed(&versions)]);
    if facts.contains_key("health") {
        table.row(["health", &times::readable(&text("health"))]);
    }
    let controller = match facts["controller"].as_str() {
        Some(endpoint) => [Some(endpoint), facts.get("tcp").and_then(Value::as_str)]
            .into_iter()
            .flatten()
            .fold(String::new(), |all, one| if all.contains(one) { all } else { join(&all, one) }),
        None => "none listens".to_owned(),
    };
    table.row(["controller", &controller]);
    if is_here {
        for (name, key) in [("publisher", "publisher"), ("http", "http"), ("token", "http_token_file")] {
            if facts[key].is_string() {
                table.row([name, &text(key)]);
            }
        }
        table.row(["home", &format!("{} ({})", text("home"), text("home_is"))]);
        let differing = differing(facts["keys_that_differ"].as_u64().unwrap_or_default());
        let differing = hints::typed(&format!("{differing}: llts config --diff")).into_owned();
        table.row(["config", &format!("{} ({differing})", text("config"))]);
        let keys = facts["curve"].as_object().into_iter().flatten().filter(|(_, file)| file.is_string());
        let keys = keys.fold(String::new(), |all, (name, file)| join(&all, &format!("{name} {}", plain(file))));
        table.row(["keys", if keys.is_empty() { "none: only this machine is let in" } else { &keys }]);
        let tools: Vec<String> = facts["tools"].as_array().into_iter().flatten().map(plain).collect();
        let tools = if tools.is_empty() { "none yet".to_owned() } else { tools.join(", ") };
        table.row(["tools", &format!("{} ({tools})", text("tools_dir"))]);
        table.row(["work", &text("work_dir")]);
        table.row(["logs", &text("log_dir")]);
        table.row(["store", &format!("{} ({} bytes)", text("state_dir"), text("state_bytes"))]);
        if let Some(queue) = facts["queue"].as_object() {
            show_queue(&mut table, queue);
        }
    }
    if let Some(Value::Object(agents)) = facts.get("agents") {
        table.row(["agents", &counts(agents)]);
    }
    if let Some(Value::Object(tasks)) = facts.get("tasks") {
        table.row(["tasks", &counts(tasks)]);
    }
    if let Some(until) = facts.get("paused_until").and_then(Value::as_f64).and_then(Wall::from_unix_seconds) {
        table.row(["paused", &hints::typed(&times::paused(until))]);
    }
    table
}

/// A service whose supervisor was killed.
pub(super) fn without_supervisor(pid: &str) -> String {
    format!(
        "the supervisor (process {pid}) was killed: what dies now is not started again; `llts up` starts a service anew"
    )
}

/// Whether a service runs, and since when.
fn service_line(facts: &Map<String, Value>, ends: Option<String>) -> String {
    let pid = |key: &str| facts.get(key).map(plain).unwrap_or_default();
    let uptime = facts["uptime_seconds"].as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let uptime = uptime.map(|time| format!(", up {}", times::duration(time)));
    if facts["running"] == true {
        let ends = ends.map(|ends| format!("; {ends}")).unwrap_or_default();
        return format!("running, process {}{}{ends}", pid("pid"), uptime.unwrap_or_default());
    }
    if facts["joined"].is_string() {
        return "no agents run here; `llts up --agents-only N` starts some".to_owned();
    }
    if facts["dead_supervisor_pid"].is_u64() {
        return without_supervisor(&pid("dead_supervisor_pid"));
    }
    "not running; `llts up` starts it".to_owned()
}

/// The leader of a shared queue, the standbys, and the possible loss.
fn show_queue(table: &mut Table, queue: &Map<String, Value>) {
    if let Some(error) = queue.get("error").and_then(Value::as_str) {
        table.row(["queue", error]);
        return;
    }
    let text = |value: &Value, key: &str| value.get(key).map(plain).unwrap_or_default();
    table.row(["queue", &plain(&queue["at"])]);
    let leader = &queue["leader"];
    let since = leader["since_time"].as_f64().and_then(Wall::from_unix_seconds);
    let led = match since {
        Some(since) => {
            let time = times::duration(clock::now().wall.since(since));
            format!(
                "{} at {} for {time}, in epoch {}",
                text(leader, "home"),
                text(leader, "address"),
                text(leader, "epoch")
            )
        }
        None => "by no controller at this moment".to_owned(),
    };
    table.row(["led", &led]);
    let standbys: Vec<String> = queue["standbys"].as_array().into_iter().flatten().map(plain).collect();
    let standbys = if standbys.is_empty() {
        "none: without the machine that leads, no task starts; `llts up --standby` on another one waits to take over"
            .to_owned()
    } else {
        standbys.join(", ")
    };
    table.row(["standby", &hints::typed(&standbys)]);
    table.row(["survives", &format!("an accepted task survives {}", plain(&queue["survives"]))]);
}

/// How many settings differ from the built-in values.
pub(super) fn differing(settings: u64) -> String {
    match settings {
        0 => "all settings are the defaults".to_owned(),
        1 => "1 setting differs from its default".to_owned(),
        _ => format!("{settings} settings differ from their defaults"),
    }
}

/// The version of the running service, and that of this program if it differs.
fn versions(service: Option<&str>, program: &str) -> String {
    match service {
        Some(service) if service == program => service.to_owned(),
        Some(service) => format!("{service} (this llts is version {program}; `llts restart` gives it to the service)"),
        None => format!("{program} (this llts)"),
    }
}

/// The text of a value in a sentence.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn join(all: &str, one: &str) -> String {
    if all.is_empty() { one.to_owned() } else { format!("{all}, {one}") }
}

fn counts(counts: &Map<String, Value>) -> String {
    counts.iter().fold(String::new(), |all, (name, count)| join(&all, &format!("{count} {}", name.to_lowercase())))
}
