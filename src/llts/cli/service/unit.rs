//! The text of a systemd unit.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base::{counted, path_text};

/// The contents of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) program: PathBuf,
    pub(super) home: PathBuf,
    pub(super) agents: u16,
    /// The address of the agents' controller, if none is started here.
    pub(super) elsewhere: Option<String>,
    pub(super) whose: Whose,
}

/// The manager of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The manager of the machine; the service runs as this user.
    System { user: String },
    /// The manager of the user.
    User,
}

/// The home of a machine-wide service, which systemd creates (StateDirectory).
pub(super) const SYSTEM_HOME: &str = "/var/lib/llts";

/// Restrictions that fit every part of a service and that a user's manager can apply.
const HARDENED: &str = "\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
UMask=0077
";

/// Restrictions that only the manager of the machine can apply. Control groups stay writable, because agents make their
/// own (Delegate).
const HARDENED_SYSTEM: &str = "\
ProtectSystem=full
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
PrivateMounts=yes
CapabilityBoundingSet=
";

impl Unit {
    /// Its name.
    pub(super) const fn name(&self) -> &'static str {
        if self.elsewhere.is_some() { "llts-agents.service" } else { "llts.service" }
    }

    /// The command that creates the home, if systemd does not.
    pub(super) fn folder_command(&self) -> Option<Vec<String>> {
        let Whose::System { user } = &self.whose else { return None };
        if self.home == Path::new(SYSTEM_HOME) {
            return None;
        }
        let home = path_text(&self.home);
        Some(["install", "-d", "-m", "700", "-o", user, &home].map(str::to_owned).to_vec())
    }

    /// The text of its file.
    pub(super) fn text(&self) -> String {
        let Self { agents, elsewhere, whose, .. } = self;
        let (program, home) = (word(&self.program), word(&self.home));
        let what = match elsewhere {
            Some(controller) => format!("llts: {} of {controller}", counted(agents, "agent")),
            None => format!("llts: a task service with {}", counted(agents, "agent")),
        };
        let of = elsewhere.as_ref().map_or_else(String::new, |controller| format!(" --of {controller}"));
        let mut text = format!(
            "\
# Written by `llts service install`; `llts service remove` removes it.
[Unit]
Description={what}
Documentation=man:llts(1)
"
        );
        if matches!(whose, Whose::System { .. }) {
            text += "Wants=network-online.target\nAfter=network-online.target\n";
        }
        // Writing into a string cannot fail.
        let _ = write!(
            text,
            "
[Service]
Type=notify
ExecStart={program} supervise --agents {agents}{of}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory={home}
Environment=\"LLTS_HOME={}\" LLTS_LOG_FORMAT=journald LLTS_IDLE_STOP=off
Restart=on-failure
RestartSec=1
WatchdogSec=30
TimeoutStartSec=180
TimeoutStopSec=180
KillMode=mixed
Delegate=yes
OOMPolicy=continue
",
            quoted(&path_text(&self.home))
        );
        if let Whose::System { user } = whose {
            let _ = writeln!(text, "User={user}");
            if self.home == Path::new(SYSTEM_HOME) {
                text += "StateDirectory=llts\nStateDirectoryMode=0700\n";
            } else {
                let _ = writeln!(text, "ReadWritePaths={home}");
            }
        }
        text += HARDENED;
        if matches!(whose, Whose::System { .. }) {
            text += HARDENED_SYSTEM;
        }
        let target = if matches!(whose, Whose::User) { "default.target" } else { "multi-user.target" };
        text + &format!("\n[Install]\nWantedBy={target}\n")
    }
}

/// A path as a word of a unit.
fn word(path: &Path) -> String {
    let text = quoted(&path_text(path));
    if text.contains([' ', '\'', '\\']) { format!("\"{text}\"") } else { text }
}

/// Escapes the characters that systemd would replace: `%` begins a specifier, and `$` a variable.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(whose: Whose) -> Unit {
        Unit { program: "/usr/bin/llts".into(), home: SYSTEM_HOME.into(), agents: 4, elsewhere: None, whose }
    }

    #[test]
    fn a_unit_of_the_machine_is_hardened_and_has_its_home() {
        insta::assert_snapshot!(unit(Whose::System { user: "llts".to_owned() }).text(), @r#"
        # Written by `llts service install`; `llts service remove` removes it.
        [Unit]
        Description=llts: a task service with 4 agents
        Documentation=man:llts(1)
        Wants=network-online.target
        After=network-online.target

        [Service]
        Type=notify
        ExecStart=/usr/bin/llts supervise --agents 4
        ExecReload=/bin/kill -HUP $MAINPID
        WorkingDirectory=/var/lib/llts
        Environment="LLTS_HOME=/var/lib/llts" LLTS_LOG_FORMAT=journald LLTS_IDLE_STOP=off
        Restart=on-failure
        RestartSec=1
        WatchdogSec=30
        TimeoutStartSec=180
        TimeoutStopSec=180
        KillMode=mixed
        Delegate=yes
        OOMPolicy=continue
        User=llts
        StateDirectory=llts
        StateDirectoryMode=0700
        NoNewPrivileges=yes
        LockPersonality=yes
        RestrictRealtime=yes
        RestrictSUIDSGID=yes
        SystemCallArchitectures=native
        RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
        UMask=0077
        ProtectSystem=full
        ProtectClock=yes
        ProtectHostname=yes
        ProtectKernelLogs=yes
        ProtectKernelModules=yes
        ProtectKernelTunables=yes
        PrivateMounts=yes
        CapabilityBoundingSet=

        [Install]
        WantedBy=multi-user.target
        "#);
    }

    /// The unit of the Debian package.
    #[test]
    fn the_package_has_the_same_unit() {
        let unit = unit(Whose::System { user: "llts".to_owned() });
        assert_eq!(unit.text(), include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/llts.service")));
    }

    #[test]
    fn agents_of_another_controller_have_a_unit_of_their_own() {
        let home = "/home/u/a b/50%".into();
        let unit = Unit { elsewhere: Some("tcp://10.0.0.1:15555".into()), home, ..unit(Whose::User) };
        let text = unit.text();
        assert_eq!(unit.name(), "llts-agents.service");
        assert!(text.contains("\nExecStart=/usr/bin/llts supervise --agents 4 --of tcp://10.0.0.1:15555\n"), "{text}");
        assert!(text.contains("\nWorkingDirectory=\"/home/u/a b/50%%\"\n"), "{text}");
        assert!(text.ends_with("WantedBy=default.target\n") && !text.contains("User=") && !text.contains("Protect"));
    }
}
