//! Prepares children: packs tools, ends remains, builds command lines and environments. Also parses their ready lines.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use rustix::process::Pid;

use super::Options;
use crate::supervisor::child::ChildProcess;
use crate::supervisor::handover::Handover;
use crate::supervisor::launch::UNTIL_IDLE;
use crate::supervisor::{standby, stop};
use api::config::{Config, NetworkSection};
use api::service_file::Endpoints;
use api::transport;
use api::trust::Part;
use api::wire::info::CONTROLLER_ADDRESS;
use api::{kept_config, tools, trust};
use base::{IncidentKind, Role};
use proc::files::privacy::as_started;
use proc::lending::Lenders;
use proc::process::Ended;
use proc::supervised::MARK;
use proc::takeover::Successor;
use proc::{incidents, lending, limits, port_holder, systemd};
use zmtp::sockets::probe_unix;

/// The option that names the kept copy of the configuration: the environment of the old program does not have it.
const KEPT_CONFIG: &str = "--kept-config";

/// Letters of this machine's name in the ids of its agents: a full name is too long to read.
const HOST_NAME_MAX: usize = 32;

/// A program with its configuration.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) program: PathBuf,
    /// The [copy](kept_config) of its configuration; `None` if none could be written.
    kept: Option<PathBuf>,
}

/// Starts children.
pub(super) struct Starter {
    present: Setup,
    /// The setup under trial in the controller.
    tried: Option<Setup>,
    /// STATE_DIR.
    state_dir: PathBuf,
    config: Option<PathBuf>,
    /// The home, unless that is the current folder.
    home: Option<PathBuf>,
    agents: u16,
    /// Whether the service ends after a time without work, unless the configuration says otherwise.
    until_idle: bool,
    /// The mark of this service.
    mark: String,
    endpoints: Option<Endpoints>,
    /// The address of a controller outside of this service.
    elsewhere: Option<String>,
    /// Whether controllers of other machines may lead the same queue, so that their agents meet.
    is_shared: bool,
    /// The socket for the requests of agents, if the controller can make it.
    socket: Option<PathBuf>,
    /// Whether the controller listened on it when it became ready.
    socket_is_open: bool,
    /// Whether tasks that wait may lend their slots.
    lends: bool,
}

impl Starter {
    /// Prepares for a supervisor that has read this text of the configuration.
    pub(super) fn new(config: &Config, options: &Options, text: &str) -> io::Result<Self> {
        let keep = || {
            let kept = kept_config::keep(&config.paths.state_dir, text, None);
            let warn = |error: &io::Error| {
                log::warn!("a change of the configuration takes effect at once: cannot copy it: {error}");
            };
            kept.inspect_err(warn).ok()
        };
        Ok(Self {
            present: Setup {
                // Determined once: after a rebuild, the link would name a deleted file.
                program: std::env::current_exe()?,
                kept: options.kept_config.clone().or_else(keep),
            },
            tried: None,
            state_dir: config.paths.state_dir.clone(),
            config: options.config.clone(),
            home: options.home.clone(),
            agents: options.agents,
            until_idle: options.until_idle,
            mark: stop::mark(&config.paths.state_dir),
            endpoints: options.elsewhere.as_ref().map(|controller| endpoints_elsewhere(config, controller)),
            elsewhere: options.elsewhere.clone(),
            is_shared: config.store.server.is_some(),
            socket: config.network.socket(&config.paths.state_dir),
            socket_is_open: false,
            lends: false,
        })
    }

    /// Continues with the knowledge of the earlier program in this process.
    pub(super) fn adopt(&mut self, handover: &Handover) {
        self.endpoints.clone_from(&handover.endpoints);
        self.socket_is_open = handover.socket_is_open;
    }

    /// Begins to listen to tasks that wait, if slots may be lent.
    pub(super) fn lenders(&mut self, max: u16) -> Option<Lenders> {
        let lenders = (max > 0).then(|| Lenders::listen(&self.mark)).transpose();
        let lenders = lenders.inspect_err(|error| log::warn!("tasks that wait cannot lend their slots: {error}"));
        let lenders = lenders.ok().flatten();
        self.lends = lenders.is_some();
        lenders
    }

    /// The command for another supervisor of the same service.
    pub(super) fn supervisor(&self, setup: &Setup) -> Command {
        let mut command = self.command(setup);
        command.args(["supervise", "--agents", &self.agents.to_string()]);
        if self.until_idle {
            command.arg(UNTIL_IDLE);
        }
        if let Some(controller) = &self.elsewhere {
            command.args(["--of", controller]);
        }
        command
    }

    /// Number of agents.
    pub(super) const fn agents(&self) -> u16 {
        self.agents
    }

    pub(super) const fn set_agents(&mut self, agents: u16) {
        self.agents = agents;
    }

    /// Lets the service stay up without work from now on.
    pub(super) const fn keep(&mut self) {
        self.until_idle = false;
    }

    /// How long the service stays up without work. Agents of a controller on another machine cannot know whether there is work.
    pub(super) fn limit(&self, config: &Config) -> Option<Duration> {
        let idle_stop = config.service.idle_stop;
        if self.elsewhere.is_some() { None } else { idle_stop.limit(!self.until_idle) }
    }

    /// A sentence for the user when the service has other ports than the usual ones, which another program holds.
    pub(super) fn moved(&self, config: &Config) -> Option<String> {
        let usual = config.controller.usual_ports()?;
        let endpoints = self.endpoints.as_ref().filter(|_| self.elsewhere.is_none())?;
        let port = |endpoint: &str| endpoint.rsplit_once(':')?.1.parse::<u16>().ok();
        let [requests, broadcasts] = [port(&endpoints.controller)?, port(&endpoints.publisher)?];
        if [requests, broadcasts] == usual {
            return None;
        }
        let holder =
            usual.into_iter().find_map(port_holder::of).map_or_else(String::new, |holder| format!(": {holder}"));
        Some(format!(
            "the port {} or {} is in use{holder}; this service has the ports {requests} and {broadcasts} instead (`llts info`)",
            usual[0], usual[1]
        ))
    }

    fn command(&self, setup: &Setup) -> Command {
        let mut command = Command::new(&setup.program);
        match &setup.kept {
            Some(kept) => command.env(kept_config::VARIABLE, kept_config::variable(kept)),
            None => command.env_remove(kept_config::VARIABLE),
        };
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        command
    }

    /// The program of the controller.
    pub(super) fn of_controller(&self) -> &Setup {
        self.tried.as_ref().unwrap_or(&self.present)
    }

    /// The request for the controller to become its program.
    pub(super) fn successor_of_controller(&self) -> Successor {
        let Setup { program, kept } = self.of_controller().clone();
        Successor { id: String::new(), program, kept_config: kept.as_deref().map(kept_config::variable) }
    }

    /// This program, with the present text of the configuration file.
    pub(super) fn next(&self, program: &Path) -> Result<Setup, String> {
        let text = Config::text(self.config.as_deref(), self.home.as_deref()).map_err(|error| error.to_string())?;
        let kept = kept_config::keep(&self.state_dir, &text.unwrap_or_default(), self.present.kept.as_deref());
        let kept =
            kept.map_err(|error| format!("cannot copy the configuration to {}: {error}", self.state_dir.display()))?;
        Ok(Setup { program: program.to_owned(), kept: Some(kept) })
    }

    /// Makes this setup the one of the controller, for a trial.
    pub(super) fn try_setup(&mut self, setup: Setup) {
        self.tried = Some(setup);
    }

    /// Lets the controller try this program with the present configuration.
    pub(super) fn try_program(&mut self, program: &Path) {
        self.tried = Some(Setup { program: program.to_owned(), ..self.present.clone() });
    }

    /// Goes back to the present program for the controller.
    pub(super) fn reject(&mut self) {
        self.tried = None;
        self.present = self.lasting();
    }

    /// The present program at a path that lasts.
    fn lasting(&self) -> Setup {
        Setup { program: standby::lasting_program(&self.present.program, &self.state_dir), ..self.present.clone() }
    }

    /// Removes the copy of an earlier program, unless it is the present one.
    pub(super) fn forget_copy(&self) {
        let copy = standby::program_before_restart(&self.state_dir);
        let is_present = copy.canonicalize().is_ok_and(|copy| copy == self.present.program);
        if !is_present
            && let Err(error) = fs::remove_file(&copy)
            && error.kind() != io::ErrorKind::NotFound
        {
            log::warn!("cannot remove {}: {error}", copy.display());
        }
    }

    /// Starts the standby, which goes back to the present program if this process dies as another one. The standby reads the messages of
    /// the other program from `said`. Also returns the command that continues with the present program in this process.
    pub(super) fn start_standby(&self, said: BorrowedFd<'_>) -> io::Result<(Pid, Command)> {
        let present = self.lasting();
        let again = || {
            let mut command = self.supervisor(&present);
            if let Some(kept) = &present.kept {
                command.arg(KEPT_CONFIG).arg(kept);
            }
            command
        };
        let standby = standby::start(limits::hand_on(again().arg("--standby")), said)?;
        let mut before = again();
        before.arg("--handover");
        Ok((standby, before))
    }

    pub(super) const fn socket_is_open(&self) -> bool {
        self.socket_is_open
    }

    /// The socket of this service's controller, if the controller listens on it.
    pub(super) fn open_socket(&self) -> Option<&Path> {
        self.socket.as_deref().filter(|_| self.socket_is_open && self.elsewhere.is_none())
    }

    pub(super) const fn endpoints(&self) -> Option<&Endpoints> {
        self.endpoints.as_ref()
    }

    pub(super) fn start(&self, role: Role) -> io::Result<ChildProcess> {
        let mut command = self.command(match role {
            Role::Controller => self.of_controller(),
            Role::Agent(_) => &self.present,
        });
        match role {
            Role::Controller => command.arg("controller"),
            Role::Agent(_) => command.args(["agent", "--name", &self.name(role)]),
        };
        if let Some(controller) = &self.elsewhere {
            command.args(["--controller", controller]);
        }
        command.env(MARK, &self.mark);
        systemd::hide(&mut command);
        if self.lends {
            command.env(lending::VARIABLE, lending::name_of(&self.mark));
        } else {
            command.env_remove(lending::VARIABLE);
        }
        // A tool may have started this service: remove the address of that tool's own service.
        command.env_remove(CONTROLLER_ADDRESS);
        // Agents use the ports that the first controller found, and a restarted controller takes the same ones, whatever
        // the configuration leaves open.
        if let (Some(Endpoints { controller, publisher, .. }), None) = (&self.endpoints, &self.elsewhere) {
            for (key, endpoint) in [("CONTROLLER_REP_PORT", controller), ("CONTROLLER_PUB_PORT", publisher)] {
                if let Some((_, port)) = endpoint.strip_prefix("tcp://").and_then(|address| address.rsplit_once(':')) {
                    command.env(format!("LLTS_{key}"), port);
                }
            }
        }
        if let (Role::Agent(_), Some(socket)) = (role, self.socket.as_ref().filter(|_| self.socket_is_open)) {
            let (name, path) = NetworkSection::socket_variable(socket);
            command.env(name, path);
        }
        ChildProcess::start(limits::hand_on(&mut command))
    }

    /// Handles a line of a child; `true` if it reports that the child is ready.
    pub(super) fn handle_line(&mut self, role: Role, line: &str) -> bool {
        match role {
            Role::Controller => match endpoints(line) {
                Some(endpoints) => {
                    self.endpoints = Some(endpoints);
                    // The existence of the file proves nothing: an earlier controller may have left it where this one
                    // cannot remove it.
                    self.socket_is_open = self.socket.as_ref().is_some_and(|path| probe_unix(path).is_ok());
                    true
                }
                None => false,
            },
            Role::Agent(_) => line.strip_prefix("llts agent ready: ") == Some(&self.name(role)),
        }
    }

    /// The id of an agent. Agents of several machines may meet at a controller elsewhere, or at one that shares a
    /// queue.
    fn name(&self, role: Role) -> String {
        if self.elsewhere.is_some() || self.is_shared { format!("{}-{role}", host_name()) } else { role.to_string() }
    }
}

/// The name of this machine, reduced to characters that are allowed in the id of an agent.
#[must_use]
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let plain = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    plain.take(HOST_NAME_MAX).collect()
}

/// The addresses of a controller on another machine. Its broadcasts come from the same host.
fn endpoints_elsewhere(config: &Config, controller: &str) -> Endpoints {
    let there = config.clone().at_controller(controller).ok();
    let publisher = there.and_then(|there| there.controller.ways_of_broadcasts());
    Endpoints {
        controller: controller.to_owned(),
        publisher: publisher.unwrap_or_else(|| "off".to_owned()),
        http: None,
    }
}

fn endpoints(line: &str) -> Option<Endpoints> {
    let words = line.strip_prefix("llts controller ready: ")?;
    let (controller, rest) = words.strip_prefix("rep ")?.split_once(" pub ")?;
    let (publisher, http) = rest.split_once(" http ").map_or((rest, None), |(publisher, http)| (publisher, Some(http)));
    let [controller, publisher] = [controller, publisher].map(str::to_owned);
    Some(Endpoints { controller, publisher, http: http.map(str::to_owned) })
}

/// Packs the tools. Failures do not prevent the start: they are returned as warnings.
pub(super) fn prepare(config: &Config, part: Part) -> Vec<String> {
    // Archives get the permissions of the starter's umask, as with `llts tool pack`.
    let mut warnings = as_started(|| pack_tools(config));
    warnings.extend(trust::warnings(config, part));
    warnings.extend(transport::warning(config));
    for warning in &warnings {
        log::warn!("{warning}");
    }
    warnings
}

/// Ends the remains of the previous service.
pub(super) fn end_earlier(config: &Config, standby: Option<&str>) {
    let Some(why) = standby else {
        end_remains(config, "an earlier service was killed");
        return;
    };
    let why = format!("restart: {why}; the service is started again with the earlier program");
    log::error!("{why}");
    leave_incident(config, &why);
    end_remains(config, &why);
}

/// Leaves the failure of a restart as an incident, for the controller's history.
pub(super) fn leave_incident(config: &Config, why: &str) {
    if let Err(error) = incidents::leave(&config.paths.state_dir, IncidentKind::RestartFailed, why) {
        log::error!("cannot leave an incident for the controller: {error}");
    }
}

/// Ends the remains of a service of this STATE_DIR; returns whether all of its processes have gone.
pub(super) fn end_remains(config: &Config, why: &str) -> bool {
    match stop::sweep(config) {
        Ok(Ended { killed: 0, left }) if left.is_empty() => true,
        Ok(Ended { killed, left }) => {
            log::warn!("{why}: ended {killed} of its processes, {} are left", left.len());
            left.is_empty()
        }
        Err(error) => {
            log::error!("{why}: {error}");
            false
        }
    }
}

/// Packs the sources of tools whose archive is missing or different.
fn pack_tools(config: &Config) -> Vec<String> {
    let Some(sources) = config.paths.tool_sources_dir.as_deref() else { return Vec::new() };
    let mut dirs: Vec<PathBuf> = match fs::read_dir(sources) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_tool(path)).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => return vec![format!("cannot read {}: {error}", sources.display())],
    };
    dirs.sort();
    if let (false, Err(error)) = (dirs.is_empty(), tools::make_tools_dir(&config.paths.tools_dir)) {
        return vec![format!("cannot make {}: {error}", config.paths.tools_dir.display())];
    }
    let limits = &config.archive;
    let mut warnings = Vec::new();
    for dir in dirs {
        let Some(name) = dir.file_name().map(|name| format!("{}.tar.gz", name.to_string_lossy())) else { continue };
        match tools::pack(&dir, &config.paths.tools_dir.join(name), limits) {
            Ok(packed) if packed.changed => log::info!("packed {}", dir.display()),
            Ok(_) => {}
            Err(error) => warnings.push(error.to_string()),
        }
    }
    warnings
}

/// A folder without run.sh holds files that the tools share.
fn is_tool(dir: &Path) -> bool {
    dir.join(tools::RUN_SCRIPT).is_file()
}

/// Time limit for the start: a process is up in some milliseconds, but a busy machine takes longer.
pub(super) fn start_max(agents: u16) -> Duration {
    Duration::from_secs(30) + Duration::from_millis(200) * u32::from(agents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starter() -> Starter {
        Starter {
            present: Setup { program: PathBuf::new(), kept: None },
            tried: None,
            state_dir: PathBuf::new(),
            config: None,
            home: None,
            agents: 1,
            until_idle: false,
            mark: String::new(),
            endpoints: None,
            elsewhere: None,
            is_shared: false,
            socket: None,
            socket_is_open: false,
            lends: false,
        }
    }

    /// Its controller uses TCP if it can neither use nor remove the socket of an earlier one.
    #[test]
    fn agents_are_told_of_a_socket_at_which_the_controller_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut starter = Starter { socket: Some(path.clone()), ..starter() };
        let ready = "llts controller ready: rep tcp://[::1]:15 pub tcp://[::1]:16";
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(starter.handle_line(Role::Controller, ready) && starter.socket_is_open);
        drop(listener);
        assert!(path.exists() && starter.handle_line(Role::Controller, ready) && !starter.socket_is_open);
    }

    #[test]
    fn ready_lines_are_understood() {
        let mut starter = starter();
        assert!(!starter.handle_line(Role::Controller, "hello"));
        assert!(!starter.handle_line(Role::Agent(1), "llts agent ready: agent-12"));
        assert!(starter.handle_line(Role::Agent(1), "llts agent ready: agent-1"));
        assert_eq!(starter.endpoints(), None);
        assert!(starter.handle_line(Role::Controller, "llts controller ready: rep tcp://[::1]:15 pub tcp://[::1]:16"));
        let endpoints = starter.endpoints().unwrap();
        assert_eq!([endpoints.controller.as_str(), &endpoints.publisher], ["tcp://[::1]:15", "tcp://[::1]:16"]);
    }
}
