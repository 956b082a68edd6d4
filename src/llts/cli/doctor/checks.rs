//! The checks of `llts doctor`, in the order in which they are shown.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, access, statvfs};
use rustix::process::{Resource, getrlimit};

use super::super::{Session, info};
use super::Finding;
use api::config::Config;
use api::home::Home;
use api::transport;
use api::trust;
use api::trust::Part;
use api::wire::requests::history::{RoundFilter, incidents};
use api::wire::requests::stats;
use base::{IncidentKind, counted};
use controller::archives::{REMEDY, defective};
use controller::store;
use llts_client::Client;
use llts_client::configured::{self, Configured};
use proc::process::own_cgroup;
use proc::{clock, port_holder};
use service::supervisor;
use service::supervisor::Service;
use tdf::shell::reach;
use term::times;

/// With less free room than this, a service soon refuses tasks.
const ROOM_MIN: u64 = 64 << 20;

/// Open files that a service with some hundred clients needs, and processes that its agents and their tools need.
const FILES_MIN: u64 = 4096;
const PROCESSES_MIN: u64 = 1024;

/// Older incidents are not reported.
const RECENT: Duration = Duration::from_secs(86_400);

/// A check, with its name on the screen.
pub(super) struct Check {
    pub(super) name: &'static str,
    /// Returns the findings; none if there is nothing to check.
    pub(super) run: fn(&Session) -> Vec<Finding>,
}

pub(super) const CHECKS: &[Check] = &[
    Check { name: "configuration", run: configuration },
    Check { name: "home", run: home },
    Check { name: "service", run: service },
    Check { name: "ports", run: ports },
    Check { name: "keys", run: keys },
    Check { name: "store", run: stored },
    Check { name: "disk", run: disk },
    Check { name: "tools", run: tools },
    Check { name: "temporary", run: temporary },
    Check { name: "limits", run: limits },
    Check { name: "cgroups", run: cgroups },
    Check { name: "clocks", run: clocks },
    Check { name: "redis", run: redis },
];

/// The finding about a home that cannot be used.
fn refused_home(session: &Session) -> Option<Finding> {
    let refused = Home::find(session.global.home.as_deref(), session.global.config.as_deref()).err()?.to_string();
    let (what, remedy) = refused.split_once("; ").unwrap_or((&refused, "name another one with --home or LLTS_HOME"));
    Some(Finding::bad(what, remedy))
}

fn configuration(session: &Session) -> Vec<Finding> {
    if refused_home(session).is_some() {
        // The file would be in that home.
        return Vec::new();
    }
    let file = session.global.config.as_deref();
    vec![match Config::load(file, session.home.base()) {
        Err(damage) => {
            Finding::bad(damage.to_string(), "mend the file; `llts config --defaults` shows every key with its meaning")
        }
        Ok((_, sources)) => {
            let differing = sources.in_force().iter().filter(|key| key.origin.is_some()).count();
            let named = sources.file().map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
            match sources.warnings().first() {
                Some(warning) => Finding::note(warning.clone(), "unset the variable"),
                None => Finding::good(format!("{named}: {}", info::differing(differing as u64))),
            }
        }
    }]
}

fn home(session: &Session) -> Vec<Finding> {
    let folder = session.home.folder();
    let shown = format!("{} ({})", folder.display(), session.home.by().sentence());
    if let Some(refused) = refused_home(session) {
        return vec![refused];
    }
    if !folder.exists() {
        let above = existing(folder);
        if access(above, Access::WRITE_OK | Access::EXEC_OK).is_err() {
            return vec![Finding::bad(
                format!("{shown} cannot be made: nothing can be written to {}", above.display()),
                "name another one with --home or LLTS_HOME, or make it as a user who can",
            )];
        }
        return vec![Finding::note(
            format!("{shown} does not exist"),
            "nothing needs to be done: the first start makes it",
        )];
    }
    if access(folder, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return vec![Finding::bad(
            format!("nothing can be written to {shown}"),
            "name another one with --home or LLTS_HOME, or use --no-service",
        )];
    }
    vec![match trust::check(&session.config, Part::Supervisor) {
        Ok(()) => Finding::good(shown),
        Err(untrusted) => Finding::bad(untrusted.to_string(), "run that command"),
    }]
}

fn service(session: &Session) -> Vec<Finding> {
    let state_dir = &session.config.paths.state_dir;
    if let Some(controller) = session.config.joined_controller() {
        return vec![match supervisor::holder(state_dir) {
            Some(_) => Finding::good(format!("agents of the controller at {controller} run")),
            None => Finding::note(
                "not running",
                format!("`llts up --agents-only N` starts agents of the controller at {controller}"),
            ),
        }];
    }
    let Some(holder) = supervisor::holder(state_dir) else {
        if let Some(pid) = configured::dead_supervisor(&session.config) {
            let found = format!("the supervisor (process {pid}) was killed: what dies now is not started again");
            return vec![Finding::bad(found, "`llts up` starts a service anew; running tasks start over")];
        }
        return vec![Finding::note("not running", "`llts up` starts it; `llts run` and `llts map` do, too")];
    };
    let process = holder.pid.map_or_else(|| "a process".to_owned(), |pid| format!("process {pid}"));
    let Some(service) = Service::read(state_dir) else {
        return vec![Finding::note(format!("{process} is starting or stopping"), "wait a moment, and look again")];
    };
    let Configured::Listening(endpoint) = configured::find(&session.config) else {
        let log = supervisor::log_file(&session.config);
        return vec![Finding::bad(
            format!("{process} runs, and its controller does not listen"),
            format!("see {}, then `llts down` and `llts up`", log.display()),
        )];
    };
    let asked = Client::secured(&session.config, &endpoint).and_then(|client| client.ask(&stats::service()));
    vec![match asked {
        Err(error) => Finding::bad(error.to_string(), "see controller.log in LOG_DIR"),
        Ok(stats) => match stats.warning() {
            Some(warning) => {
                let remedy = match &session.config.store.server {
                    None => "make room on the disk of STATE_DIR",
                    Some(_) => "see to the server of STORE",
                };
                Finding::bad(times::readable(warning), remedy)
            }
            None => Finding::good(format!(
                "{process} runs with {}, version {}",
                counted(service.agents, "agent"),
                service.version
            )),
        },
    }]
}

fn ports(session: &Session) -> Vec<Finding> {
    let controller = &session.config.controller;
    // A controller with several addresses binds one that its machine has.
    if session.config.joined_controller().is_some() || controller.first_way().is_some() {
        return Vec::new();
    }
    let ours = Service::read(&session.config.paths.state_dir)
        .filter(|_| supervisor::holder(&session.config.paths.state_dir).is_some());
    let named = [("CONTROLLER_REP_PORT", controller.requests), ("CONTROLLER_PUB_PORT", controller.broadcasts)];
    let mut found = Vec::new();
    for (key, address) in named {
        let Some(address) = address.filter(|address| address.port() != 0) else { continue };
        let is_ours = |endpoint: &str| endpoint.strip_prefix("tcp://") == Some(address.to_string().as_str());
        let own = || Finding::good(format!("{address} ({key}) is that of this service"));
        if ours.as_ref().is_some_and(|service| is_ours(&service.controller) || is_ours(&service.publisher)) {
            found.push(own());
            continue;
        }
        if TcpListener::bind(address).is_ok() {
            found.push(Finding::good(format!("{address} ({key}) is free")));
            continue;
        }
        let holder = port_holder::of(address.port());
        // Its supervisor was killed, which is a finding of its own.
        if holder.as_ref().is_some_and(|holder| holder.is_of(session.home.folder())) {
            found.push(own());
            continue;
        }
        let holder =
            holder.map_or_else(|| "a process of another user may have it".to_owned(), |holder| holder.to_string());
        let what = format!("{address} ({key}) cannot be used: {holder}");
        found.push(if controller.usual_ports().is_some() {
            Finding::note(what, "nothing needs to be done: this service takes free ports, which `llts info` shows")
        } else {
            Finding::bad(
                what,
                format!("set {key} to another port, to 0 for a free one, or to \"off\" for the unix socket alone"),
            )
        });
    }
    if found.is_empty() {
        found.push(Finding::good("none is configured: the service is reached by its unix socket or by free ports"));
    }
    found
}

fn keys(session: &Session) -> Vec<Finding> {
    let network = &session.config.network;
    if network.curve_server.is_none() && network.curve_client.is_none() {
        return vec![Finding::good("none: only this machine is let in")];
    }
    vec![match transport::check_keys(&session.config) {
        Ok(()) => Finding::good("the files of the keys can be used, and others cannot read the secret ones"),
        Err(error) => Finding::bad(error.to_string(), "do that, or make a pair with `llts keys new`"),
    }]
}

fn stored(session: &Session) -> Vec<Finding> {
    let (state_dir, section) = (&session.config.paths.state_dir, &session.config.store);
    if section.server.is_none() && !state_dir.join(store::FILE_NAME).exists() {
        return vec![Finding::good(format!("none yet in {}", state_dir.display()))];
    }
    vec![match store::inspect_at(section, state_dir, |_| {}) {
        Ok(tasks) => Finding::good(format!("{} in {}", counted(tasks, "task"), section.place(state_dir))),
        Err(error) if section.server.is_some() => {
            Finding::bad(error.to_string(), "start the database, or correct the STORE keys of the configuration")
        }
        Err(error) => Finding::bad(
            error.to_string(),
            "`llts store check` reads all of it, `llts store repair` keeps what can be read",
        ),
    }]
}

/// The folder, or the nearest one above it that exists.
fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder)
}

fn disk(session: &Session) -> Vec<Finding> {
    let Config { paths, log, .. } = &session.config;
    let mut seen = Vec::new();
    let folders =
        [("STATE_DIR", &paths.state_dir), ("AGENT_WORK_DIR", &paths.work_dir), ("LOG_DIR", &log.dir)].into_iter();
    let checked = folders.filter_map(|(key, folder)| {
        let disk = statvfs(existing(folder)).ok()?;
        let is_new = !seen.contains(&disk.f_fsid);
        seen.push(disk.f_fsid);
        let (free, inodes) = (disk.f_bavail.saturating_mul(disk.f_frsize), disk.f_favail);
        let what = format!("{key} {} has {} MiB free", folder.display(), free >> 20);
        let remedy = || format!("make room there, or name another folder with {key}");
        if disk.f_blocks > 0 && free < ROOM_MIN {
            return Some(Finding::bad(what, remedy()));
        }
        if disk.f_files > 0 && inodes < 1000 {
            return Some(Finding::bad(
                format!("{key} {} has room for {inodes} more files only", folder.display()),
                remedy(),
            ));
        }
        is_new.then(|| Finding::good(what))
    });
    checked.collect()
}

fn tools(session: &Session) -> Vec<Finding> {
    let paths = &session.config.paths;
    let packed = || {
        let entries = fs::read_dir(&paths.tools_dir).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".tar.gz")).count()
    };
    let folder = paths.tools_dir.display();
    if paths.tools_dir.exists() && fs::read_dir(&paths.tools_dir).is_err() {
        return vec![Finding::bad(
            format!("AGENT_TOOLS_DIR {folder} cannot be read"),
            "let the user of the service read it",
        )];
    }
    let defective = defective(&paths.tools_dir, &session.config.archive, |_, _| false);
    let of_all = match packed() {
        0 => Finding::note(
            format!("none is packed in {folder}; commands need none"),
            "`llts tool new NAME` makes one, and the next start packs it",
        ),
        count => Finding::good(format!("{} in {folder}", count - defective.len())),
    };
    let bad = defective.iter().map(|one| Finding::bad(one, REMEDY));
    [of_all].into_iter().chain(bad).collect()
}

fn temporary(_: &Session) -> Vec<Finding> {
    let folder = std::env::temp_dir();
    let is_usable = folder.is_dir() && access(&folder, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    vec![if is_usable {
        Finding::good(folder.display().to_string())
    } else {
        Finding::bad(
            format!("nothing can be written to {}", folder.display()),
            "name a folder for temporary files with the variable TMPDIR",
        )
    }]
}

fn limits(_: &Session) -> Vec<Finding> {
    let of = |resource: Resource| getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let (files, processes) = (of(Resource::Nofile), of(Resource::Nproc));
    let shown = |limit: u64| if limit == u64::MAX { "no limit".to_owned() } else { limit.to_string() };
    let what = format!("{} open files, {} processes", shown(files), shown(processes));
    vec![if files < FILES_MIN || processes < PROCESSES_MIN {
        Finding::note(
            what,
            format!(
                "raise the hard limits to {FILES_MIN} (nofile) and {PROCESSES_MIN} (nproc) in /etc/security/limits.conf or the unit"
            ),
        )
    } else {
        Finding::good(what)
    }]
}

fn cgroups(session: &Session) -> Vec<Finding> {
    if !session.config.agent.cgroup {
        return vec![Finding::good("not used (AGENT_CGROUP)")];
    }
    vec![match own_cgroup() {
        Ok(folder) => Finding::good(format!("agents get their own below {}", folder.display())),
        Err(why) => Finding::note(
            format!("agents get none of their own: {why}"),
            "nothing needs to be done: processes of tasks are found in another way; a unit of `llts service install` has Delegate",
        ),
    }]
}

/// Agents with wrong clocks: the controller notes each of them once.
fn clocks(session: &Session) -> Vec<Finding> {
    let Configured::Listening(endpoint) = configured::find(&session.config) else { return Vec::new() };
    let now = clock::now().wall;
    let filter = RoundFilter::between(now.before(RECENT), now);
    let asked = Client::secured(&session.config, &endpoint)
        .and_then(|client| client.ask(&incidents(&filter, Some(IncidentKind::ClockSkew), 0, 5)));
    match asked {
        Ok(found) if found.listing.rows.is_empty() => {
            vec![Finding::good("no agent has told of another time within a day")]
        }
        Ok(found) => found
            .listing
            .rows
            .iter()
            .map(|incident| Finding::note(incident.text().to_owned(), "set the clock of that machine by NTP"))
            .collect(),
        // The check of the service reports it.
        Err(_) => Vec::new(),
    }
}

fn redis(session: &Session) -> Vec<Finding> {
    let Some(pool) = &session.config.tdf.pool else { return Vec::new() };
    vec![match reach(&pool.redis) {
        Ok(()) => Finding::good(format!("{}:{} answers", pool.redis.host, pool.redis.port)),
        Err(error) => Finding::bad(error.to_string(), "start it, or correct tdf.REDIS_URL"),
    }]
}
