//! Checks the folders of the configuration. As ssh(1) does with its keys, llts refuses a folder that another user owns or may
//! write to: that user could decide what the agents run or which files a log is, or read submitted data.
//!
//! | the folder, or one above it, | result |
//! |---|---|
//! | belongs to our user or to root | used |
//! | belongs to the owner of the home, if root runs the service | used, with a warning: see below |
//! | belongs to another user | refused |
//! | is writable by the group or by others | refused |
//! | is reached by a link that belongs to another user | refused |
//! | is above it and writable by others, but sticky like `/tmp`, or writable by its group, but owned by root | used |
//!
//! A group whose only member is the owner of the folder counts as the owner: many systems give each user such a group, and make
//! folders group-writable.
//!
//! Root works in the folder of another user when a container mounts a clone. The configuration is read from that folder, and
//! relative paths start there, so its owner already decides what root runs.
//!
//! The component that needs a missing folder makes it with mode 700. In this case only the folders above it are checked.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group, Uid, User};

use crate::config::{Config, Exposure};
use base::{Loopback, quoted_path};

/// The mode bits for writing by others and by the group, and the sticky bit, which keeps users from renaming or removing the
/// files of others.
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITE: u32 = 0o020;
const STICKY: u32 = 0o1000;

const LOG_DIR: &str = "LOG_DIR";

/// The number of links on a path that the system follows.
const LINKS_MAX: usize = 40;

/// A folder that must not be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {}, and {}: anyone who can write there decides {}; run {remedy}, or configure another folder", .folder.display(), .what, power(key))]
pub struct Untrusted {
    key: &'static str,
    folder: PathBuf,
    what: String,
    /// The command that repairs it, in backticks, with what to do beside it.
    remedy: String,
}

/// A part of the service. It determines the folders to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It uses the store.
    Controller,
    /// It runs tools.
    Agent,
    /// It packs tools, and starts the others.
    Supervisor,
}

/// The users whose folders are trusted.
#[derive(Debug)]
struct Trust {
    us: Uid,
    /// The owner of the current folder, which is the home, if root has started this process.
    host: Option<Uid>,
    /// The user id that stands for all owners outside of the user namespace, including root.
    outside: Option<Uid>,
}

/// Checks the folders that a part of the service uses. Nothing is made or opened in them before.
///
/// # Errors
/// For the first folder that another user owns or may write to.
pub fn check(config: &Config, part: Part) -> Result<(), Untrusted> {
    let trust = Trust::of_this_process();
    let paths = &config.paths;
    let state = ("STATE_DIR", Some(paths.state_dir.as_path()));
    let log = (LOG_DIR, Some(config.log.dir.as_path()));
    let tools = ("AGENT_TOOLS_DIR", Some(paths.tools_dir.as_path()));
    let work = ("AGENT_WORK_DIR", Some(paths.work_dir.as_path()));
    let sources = ("TOOL_SOURCES_DIR", paths.tool_sources_dir.as_deref());
    let used: &[_] = match part {
        Part::Controller => &[state, log],
        Part::Agent => &[state, log, tools, work],
        Part::Supervisor => &[state, log, tools, work, sources],
    };
    used.iter().try_for_each(|(key, folder)| folder.map_or(Ok(()), |folder| trust.check(key, folder)))
}

/// What the owner of a folder decides.
fn power(key: &str) -> &'static str {
    // By a link in place of a log file.
    if key == LOG_DIR { "which files the service writes to" } else { "what runs here" }
}

/// Whether only trusted users can write to a folder that llts has made.
pub(crate) fn is_private(metadata: &Metadata) -> bool {
    let trust = Trust::of_this_process();
    trust.is_trusted(metadata) && metadata.mode() & (GROUP_WRITE | OTHERS_WRITE) == 0
}

/// Warnings about a part of a service that runs as root, each as a sentence. Other users get none. Agents open no port.
#[must_use]
pub fn warnings(config: &Config, part: Part) -> Vec<String> {
    let trust = Trust::of_this_process();
    if !trust.us.is_root() {
        return Vec::new();
    }
    let controller = &config.controller;
    let ports: Vec<&str> =
        [("CONTROLLER_REP_PORT", controller.requests), ("CONTROLLER_PUB_PORT", controller.broadcasts)]
            .into_iter()
            .filter_map(|(key, address)| address.map(|_| key))
            .collect();
    let is_exposed = match config.exposure() {
        Exposure::Network => true,
        Exposure::Machine => config.network.loopback == Loopback::Open,
        Exposure::Closed | Exposure::Keys => false,
    };
    let is_open = !matches!(part, Part::Agent) && is_exposed;
    let exposed = is_open.then(|| {
        let off: Vec<String> = ports.iter().map(|key| format!("{key} = \"off\"")).collect();
        format!(
            "llts runs as root with an open TCP port ({}): every user who can reach it can run the packed tools as root and read all \
             parameters and results; set {}, which leaves the unix socket, or use keys (`llts keys`) or another user",
            ports.join(", "),
            off.join(" and ")
        )
    });
    let hosted = trust
        .host
        .filter(|host| !host.is_root())
        .map(|host| format!("llts runs as root in a folder of {}, who thereby decides what root runs", name_of(host)));
    exposed.into_iter().chain(hosted).collect()
}

impl Trust {
    fn of_this_process() -> Self {
        let us = Uid::effective();
        let host = us.is_root().then(|| fs::metadata(".").ok()).flatten();
        Self { us, host: host.map(|folder| Uid::from_raw(folder.uid())), outside: outside() }
    }

    fn is_trusted(&self, metadata: &Metadata) -> bool {
        let owner = Uid::from_raw(metadata.uid());
        owner == self.us || owner.is_root() || Some(owner) == self.host
    }

    fn check(&self, key: &'static str, folder: &Path) -> Result<(), Untrusted> {
        let Ok(written) = std::path::absolute(folder) else { return Ok(()) };
        // The path as written, and those with a link replaced by its target: write access to a folder on any of them, or to a link, is
        // enough to decide what runs.
        let mut next = Some(written);
        for _ in 0..=LINKS_MAX {
            let Some(path) = next.take() else { break };
            for above in path.ancestors() {
                let link = fs::symlink_metadata(above).ok().filter(Metadata::is_symlink);
                // The component that needs a missing or hidden folder makes or refuses it.
                let folder = || self.fault(above, &fs::metadata(above).ok()?, above == path);
                let fault = link.as_ref().and_then(|link| self.fault_of_link(above, link)).or_else(folder);
                if let Some((what, remedy)) = fault {
                    return Err(Untrusted { key, folder: path.clone(), what, remedy });
                }
                // The last one that is found is the first one on the path.
                if link.is_some()
                    && let (Some(parent), Ok(target), Ok(below)) =
                        (above.parent(), fs::read_link(above), path.strip_prefix(above))
                {
                    next = Some(parent.join(target).join(below));
                }
            }
        }
        Ok(())
    }

    /// The fault of a link: its owner may let it lead elsewhere at any time.
    fn fault_of_link(&self, path: &Path, link: &Metadata) -> Option<(String, String)> {
        let owner = Uid::from_raw(link.uid());
        let is_strange = !self.is_trusted(link) && Some(owner) != self.outside;
        let what = || format!("the link {} belongs to {}", path.display(), name_of(owner));
        is_strange.then(|| (what(), format!("`chown -h {} {}`", self.us, quoted_path(path))))
    }

    /// The fault of a folder, and the command that repairs it.
    fn fault(&self, folder: &Path, metadata: &Metadata, is_itself: bool) -> Option<(String, String)> {
        let (owner, mode) = (Uid::from_raw(metadata.uid()), metadata.mode());
        let place = if is_itself { "it".to_owned() } else { folder.display().to_string() };
        let quoted = quoted_path(folder);
        if !self.is_trusted(metadata) && (is_itself || Some(owner) != self.outside) {
            return Some((format!("{place} belongs to {}", name_of(owner)), format!("`chown {} {quoted}`", self.us)));
        }
        let is_shared = mode & GROUP_WRITE != 0 && (is_itself || !owner.is_root());
        let by = if mode & OTHERS_WRITE != 0 {
            "others"
        } else if is_shared && (!is_private_group(owner, Gid::from_raw(metadata.gid())) || has_access_list(folder)) {
            "its group"
        } else {
            return None;
        };
        // In a sticky folder other users cannot touch existing files, but they can add files of their own.
        let remedy = match mode & STICKY {
            0 => format!("`chmod go-w {quoted}`"),
            _ if is_itself => format!("`mkdir -m 700 {quoted}/llts` and configure that"),
            _ => return None,
        };
        Some((format!("{place} is writable by {by} (mode {:o})", mode & 0o7777), remedy))
    }
}

/// Whether the owner is the only member of a group, as far as this system can tell.
fn is_private_group(owner: Uid, group: Gid) -> bool {
    let user = User::from_uid(owner).ok().flatten();
    let found = Group::from_gid(group).ok().flatten();
    let is_of_the_owner = owner.as_raw() == group.as_raw()
        || user.as_ref().zip(found.as_ref()).is_some_and(|(user, group)| user.name == group.name);
    let is_owner = |member: &String| user.as_ref().is_some_and(|user| user.name == *member);
    is_of_the_owner && found.is_none_or(|found| found.mem.iter().all(is_owner))
}

/// An access list shows up as the permissions of the group, whatever it contains.
fn has_access_list(folder: &Path) -> bool {
    // Only the length of the attribute is requested.
    rustix::fs::getxattr(folder, c"system.posix_acl_access", &mut [0_u8; 0]).is_ok()
}

/// The user id that stands for all users that the user namespace does not know; `None` outside of one.
fn outside() -> Option<Uid> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    let knows_all = map.split_whitespace().eq(["0", "0", "4294967295"]);
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok()?;
    (!knows_all).then(|| Uid::from_raw(overflow))
}

pub(crate) fn name_of(uid: Uid) -> String {
    User::from_uid(uid).ok().flatten().map_or_else(|| format!("user {uid}"), |user| format!("user {}", user.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// A user id that most likely has no account, and is known in most user namespaces.
    const OTHER: Uid = Uid::from_raw(1234);

    fn ours() -> Trust {
        Trust { us: Uid::effective(), host: None, outside: None }
    }

    /// A folder of ours below another one of ours, both private.
    fn nested() -> (tempfile::TempDir, PathBuf) {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("it");
        fs::create_dir(&folder).unwrap();
        chmod(&folder, 0o755);
        (above, folder)
    }

    fn chmod(folder: &Path, mode: u32) {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_may_write_is_refused_with_the_command_that_mends_it() {
        let (above, folder) = nested();
        let checked = |folder: &Path| ours().check("STATE_DIR", folder).map_err(|refused| refused.to_string());
        assert_eq!(checked(&folder), Ok(()));
        for mode in [0o777, 0o757] {
            chmod(&folder, mode);
            let path = folder.display();
            let expected = format!(
                "STATE_DIR is {path}, and it is writable by others (mode {mode:o}): anyone who can write there decides what \
                 runs here; run `chmod go-w {path}`, or configure another folder"
            );
            assert_eq!(checked(&folder), Err(expected));
        }
        chmod(&folder, 0o1777);
        let refused = checked(&folder).unwrap_err();
        assert!(
            refused.contains(&format!("run `mkdir -m 700 {}/llts` and configure that, or", folder.display())),
            "{refused}"
        );
        chmod(&folder, 0o700);
        chmod(above.path(), 0o777);
        let refused = checked(&folder).unwrap_err();
        assert!(refused.contains(&format!("{} is writable by others", above.path().display())), "{refused}");
        assert!(refused.contains(&format!("`chmod go-w {}`, or", above.path().display())), "{refused}");
        assert!(checked(&folder.join("not/yet/made")).is_err());
        chmod(above.path(), 0o1777);
        assert_eq!(checked(&folder), Ok(()), "as below /tmp");
        // A link leads out of a good folder into a bad one.
        let (elsewhere, target) = nested();
        chmod(elsewhere.path(), 0o777);
        symlink(&target, folder.join("link")).unwrap();
        assert!(checked(&folder.join("link")).is_err());
    }

    #[test]
    fn a_link_of_another_user_is_refused_wherever_it_stands() {
        let (above, folder) = nested();
        fs::create_dir(folder.join("tools")).unwrap();
        // The path leads over a link of ours, which leads over another one.
        let (outer, inner) = (above.path().join("outer"), above.path().join("inner"));
        symlink("it", &inner).unwrap();
        symlink("inner/../inner", &outer).unwrap();
        let path = outer.join("tools");
        assert_eq!(ours().check("AGENT_TOOLS_DIR", &path), Ok(()));
        if !ours().us.is_root() {
            return println!("skipped: this user cannot give a link away");
        }
        for link in [&inner, &outer] {
            std::os::unix::fs::lchown(link, Some(OTHER.as_raw()), None).unwrap();
            let refused = ours().check("AGENT_TOOLS_DIR", &path).unwrap_err().to_string();
            let (name, owner) = (link.file_name().unwrap().to_str().unwrap(), name_of(OTHER));
            assert!(
                refused.contains(&format!("{name} belongs to {owner}: ")) && refused.contains("`chown -h 0 "),
                "{refused}"
            );
            std::os::unix::fs::lchown(link, Some(0), None).unwrap();
        }
        fs::remove_file(&inner).unwrap();
        symlink("inner", &inner).unwrap();
        assert_eq!(ours().check("AGENT_TOOLS_DIR", &path), Ok(()), "a loop leads nowhere, which others refuse");
    }

    #[test]
    fn a_group_is_let_in_only_if_it_is_its_owner() {
        assert!(is_private_group(OTHER, Gid::from_raw(OTHER.as_raw())), "a number that no other user has");
        assert!(!is_private_group(OTHER, Gid::from_raw(OTHER.as_raw() + 1)));
        let (_above, folder) = nested();
        chmod(&folder, 0o775);
        let metadata = fs::metadata(&folder).unwrap();
        let is_ours = is_private_group(Uid::effective(), Gid::from_raw(metadata.gid()));
        assert_eq!(ours().fault(&folder, &metadata, true).is_none(), is_ours);
    }

    #[test]
    fn what_belongs_to_another_user_is_refused_unless_root_stands_in_a_folder_of_his() {
        let (_above, folder) = nested();
        let mut trust = ours();
        if trust.us.is_root() {
            nix::unistd::chown(&folder, Some(OTHER), None).unwrap();
        } else {
            trust.us = OTHER;
        }
        let metadata = fs::metadata(&folder).unwrap();
        let owner = Uid::from_raw(metadata.uid());
        let (what, remedy) = trust.fault(&folder, &metadata, true).unwrap();
        assert_eq!(what, format!("it belongs to {}", name_of(owner)));
        assert_eq!(remedy, format!("`chown {} {}`", trust.us, folder.display()));
        assert!(trust.fault(&folder, &metadata, false).is_some(), "also above");
        assert_eq!(Trust { outside: Some(owner), ..trust }.fault(&folder, &metadata, false), None);
        assert_eq!(Trust { host: Some(owner), ..ours() }.fault(&folder, &metadata, true), None);
    }
}
