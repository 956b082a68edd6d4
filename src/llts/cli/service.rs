//! `llts service`: run the service under systemd, which starts it with the machine or the session, watches it and has its log.

mod unit;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use clap::{Args, Subcommand};
use nix::unistd::{Uid, User};
use serde_json::{Value, json};

use super::host;
use super::up::agents;
use crate::cli::make_home;
use api::transport;
use base::path_text;
use service::supervisor;
use term::exit::{FAILED, Failure};
use term::hints;
use term::output::{Output, note};
use term::session::Session;
use unit::{SYSTEM_HOME, Unit, Whose};

/// The folder that exists while systemd manages the machine.
const RUNNING: &str = "/run/systemd/system";

/// The names of all units that this command installs.
const UNITS: [&str; 2] = ["llts.service", "llts-agents.service"];

#[derive(Args, Debug)]
pub(super) struct ServiceArgs {
    #[command(subcommand)]
    command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
enum ServiceCommand {
    /// Write a unit, enable it and start it
    Install(InstallArgs),
    /// Show what systemd knows of the unit
    Status(ManagerArgs),
    /// Stop the unit, disable it and remove it; the home stays
    Remove(ManagerArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "\
The unit notifies systemd (Type=notify, WatchdogSec), may divide its control group (Delegate) and logs into the journal \
(`journalctl -u llts`, or `journalctl --user -u llts`). `llts restart` replaces its processes as those of `llts up`. A service of a user \
ends with the last session of that user, unless `loginctl enable-linger` keeps it.")]
struct InstallArgs {
    /// Number of agents [default: one for each processor]
    #[arg(value_name = "N", value_parser = agents(0))]
    agents: Option<u16>,
    /// Start no controller but this many agents, of the one that the configuration of the home names
    #[arg(long, value_name = "N", conflicts_with = "agents", value_parser = agents(1))]
    agents_only: Option<u16>,
    #[command(flatten)]
    manager: ManagerArgs,
    /// The user as whom a service of the machine runs [default: llts]
    #[arg(long, value_name = "NAME", requires = "system", conflicts_with = "user")]
    run_as: Option<String>,
    /// Print the unit and the commands instead
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args, Clone, Copy, Debug)]
struct ManagerArgs {
    /// A service of this user [default, unless this is root]
    #[arg(long, conflicts_with = "system")]
    user: bool,
    /// A service of the machine
    #[arg(long)]
    system: bool,
}

impl ManagerArgs {
    fn is_system(self) -> bool {
        self.system || (!self.user && Uid::effective().is_root())
    }

    /// The folder for the manager's units.
    fn folder(self) -> Result<PathBuf, Failure> {
        if self.is_system() {
            return Ok("/etc/systemd/system".into());
        }
        let path = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let config = path("XDG_CONFIG_HOME").or_else(|| Some(path("HOME")?.join(".config")));
        let config = config.ok_or_else(|| {
            Failure::usage(
                "HOME is not set, so this user has no folder for units; set HOME, or use --system".to_owned(),
            )
        })?;
        Ok(config.join("systemd/user"))
    }

    /// A command of systemd.
    fn systemctl(self, words: &[&str]) -> Vec<String> {
        let manager = if self.is_system() { None } else { Some("--user") };
        ["systemctl"].into_iter().chain(manager).chain(words.iter().copied()).map(str::to_owned).collect()
    }
}

pub(super) fn run(session: &mut Session, args: &ServiceArgs) -> Result<u8, Failure> {
    match &args.command {
        ServiceCommand::Install(args) => install(session, args),
        ServiceCommand::Status(manager) => status(&mut session.out, *manager),
        ServiceCommand::Remove(manager) => remove(&mut session.out, *manager),
    }
}

/// Runs the parts that need no home. The home of a machine-wide service belongs to its user, and root does not enter
/// it.
pub(super) fn without_home(out: &mut Output, args: &ServiceArgs) -> Option<Result<u8, Failure>> {
    match &args.command {
        ServiceCommand::Install(_) => None,
        ServiceCommand::Status(manager) => Some(status(out, *manager)),
        ServiceCommand::Remove(manager) => Some(remove(out, *manager)),
    }
}

fn install(session: &mut Session, args: &InstallArgs) -> Result<u8, Failure> {
    let unit = planned(session, args)?;
    let path = args.manager.folder()?.join(unit.name());
    let enable = ["enable", "--now", unit.name()];
    let mut commands: Vec<Vec<String>> = unit.folder_command().into_iter().collect();
    commands.extend([&["daemon-reload"][..], &enable].map(|words| args.manager.systemctl(words)));
    if args.dry_run {
        if let Whose::System { user } = &unit.whose
            && !matches!(User::from_name(user), Ok(Some(_)))
        {
            commands.insert(0, useradd(user));
        }
        if session.out.is_json() {
            session.out.value(&json!({ "path": path_text(&path), "unit": unit.text(), "commands": commands }));
        } else {
            session.out.text(&format!("# {}\n{}", path.display(), unit.text()));
            commands.iter().for_each(|command| session.out.line(format_args!("# {}", command.join(" "))));
        }
        return Ok(0);
    }
    if supervisor::holder(&unit.home.join("state")).is_some()
        || supervisor::holder(&session.config.paths.state_dir).is_some()
    {
        let home = unit.home.display();
        return Err(Failure::failed(format!(
            "a service runs in the home {home}; stop it with `llts down`, then install the unit"
        )));
    }
    if unit.whose == Whose::User {
        make_home(session)?;
    }
    write(&path, &unit.text())?;
    note(&format!("wrote {}", path.display()));
    carry_out(&commands)?;
    if session.out.is_json() {
        session.out.value(&json!({ "path": path_text(&path) }));
    } else {
        let installed = format!("{} is installed; `llts service status` shows it", unit.name());
        session.out.line(hints::typed(&installed));
    }
    Ok(0)
}

/// The unit that the arguments ask for.
fn planned(session: &Session, args: &InstallArgs) -> Result<Unit, Failure> {
    let is_system = args.manager.is_system();
    let whose = if is_system { Whose::System { user: run_as(args)? } } else { Whose::User };
    let is_usual = session.home.by() == api::home::FoundBy::Default;
    let home = if is_system && is_usual { SYSTEM_HOME.into() } else { session.home.folder().to_owned() };
    let agents = host::processors(args.agents_only.or(args.agents).map(u32::from));
    let elsewhere = args.agents_only.map(|_| transport::agent_endpoint(&session.config));
    Ok(Unit { program: Session::program()?, home, agents, elsewhere, whose })
}

fn run_as(args: &InstallArgs) -> Result<String, Failure> {
    let name = args.run_as.clone().unwrap_or_else(|| "llts".to_owned());
    match User::from_name(&name) {
        Ok(Some(_)) => Ok(name),
        _ if args.dry_run => Ok(name),
        _ => Err(Failure::usage(format!(
            "there is no user {name:?}; make it with `{}`, or name another one with --run-as",
            useradd(&name).join(" ")
        ))),
    }
}

fn useradd(name: &str) -> Vec<String> {
    ["useradd", "--system", "--home-dir", SYSTEM_HOME, name].map(str::to_owned).to_vec()
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written.map_err(|error| {
        let hint = if error.kind() == io::ErrorKind::PermissionDenied { "; run it as root, or use --user" } else { "" };
        Failure::failed(format!("cannot write {}: {error}{hint}", path.display()))
    })
}

/// Runs the commands if systemd runs here, and prints them otherwise.
fn carry_out(commands: &[Vec<String>]) -> Result<(), Failure> {
    if !Path::new(RUNNING).exists() {
        let commands: Vec<_> = commands.iter().map(|command| format!("`{}`", command.join(" "))).collect();
        note(&format!(
            "systemd does not manage this machine, so nothing was started; where it does: {}",
            commands.join(", then ")
        ));
        return Ok(());
    }
    for command in commands {
        let shown = command.join(" ");
        let status = Command::new(&command[0]).args(&command[1..]).status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(Failure::failed(format!("`{shown}` has failed ({status})"))),
            Err(error) => return Err(Failure::failed(format!("cannot run `{shown}`: {error}"))),
        }
    }
    Ok(())
}

/// The installed units.
fn installed(manager: ManagerArgs) -> Result<Vec<PathBuf>, Failure> {
    let folder = manager.folder()?;
    Ok(UNITS.iter().map(|name| folder.join(name)).filter(|path| path.exists()).collect())
}

fn none(manager: ManagerArgs) -> Result<Failure, Failure> {
    let folder = manager.folder()?;
    Ok(Failure::failed(format!("no unit of llts is in {}; `llts service install` writes one", folder.display())))
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn status(out: &mut Output, manager: ManagerArgs) -> Result<u8, Failure> {
    let installed = installed(manager)?;
    if installed.is_empty() {
        return Err(none(manager)?);
    }
    let (mut code, mut values) = (0, Vec::new());
    for path in &installed {
        let mut state = "unknown: systemd does not manage this machine".to_owned();
        if Path::new(RUNNING).exists() {
            let command = manager.systemctl(&["is-active", name_of(path)]);
            let output = Command::new(&command[0]).args(&command[1..]).output();
            let output =
                output.map_err(|error| Failure::failed(format!("cannot run `{}`: {error}", command.join(" "))))?;
            state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        }
        if state != "active" {
            code = FAILED;
        }
        if out.is_json() {
            values.push(json!({ "unit": path_text(path), "state": state }));
        } else {
            out.line(format_args!("{}  {state}", path.display()));
        }
    }
    if out.is_json() {
        out.value(&Value::Array(values));
    }
    Ok(code)
}

fn remove(out: &mut Output, manager: ManagerArgs) -> Result<u8, Failure> {
    let installed = installed(manager)?;
    if installed.is_empty() {
        return Err(none(manager)?);
    }
    for path in &installed {
        if Path::new(RUNNING).exists() {
            carry_out(&[manager.systemctl(&["disable", "--now", name_of(path)])])?;
        }
        let failed = |error: io::Error| Failure::failed(format!("cannot remove {}: {error}", path.display()));
        fs::remove_file(path).map_err(failed)?;
        if !out.is_json() {
            out.line(format_args!("removed {}", path.display()));
        }
    }
    if Path::new(RUNNING).exists() {
        carry_out(&[manager.systemctl(&["daemon-reload"])])?;
    }
    if out.is_json() {
        let removed: Vec<String> = installed.iter().map(|path| path_text(path)).collect();
        out.value(&json!({ "removed": removed }));
    }
    Ok(0)
}
