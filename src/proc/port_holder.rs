//! Finds the process that listens on a TCP port of this machine, if this user may see it, for the error about a port in
//! use.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// A process that listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortHolder {
    /// Its number.
    pid: u32,
    /// The name of its program, which the kernel truncates.
    name: String,
    /// Its current folder. For a process of a service, that is the home.
    folder: Option<PathBuf>,
}

impl PortHolder {
    /// Whether it is a part of the service in this home.
    #[must_use]
    pub fn is_of(&self, home: &Path) -> bool {
        self.name == "llts" && self.folder.as_deref() == Some(home)
    }
}

impl fmt::Display for PortHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.folder {
            Some(home) if self.name == "llts" => {
                let home = home.display();
                write!(f, "the service in the home {home} (process {}) has it", self.pid)
            }
            _ => write!(f, "process {} ({}) has it", self.pid, self.name),
        }
    }
}

/// The process that listens on a port; `None` if there is none, or it belongs to another user.
#[must_use]
pub fn of(port: u16) -> Option<PortHolder> {
    let sockets: Vec<String> =
        ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().flat_map(|table| listeners(table, port)).collect();
    if sockets.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.find(|pid| has_one_of(*pid, &sockets))?;
    let about = Path::new("/proc").join(pid.to_string());
    let name = fs::read_to_string(about.join("comm")).unwrap_or_default().trim_end().to_owned();
    Some(PortHolder { pid, name, folder: fs::read_link(about.join("cwd")).ok() })
}

/// The sockets that listen on a port, as links in `/proc/PID/fd` name them.
fn listeners(table: &str, port: u16) -> Vec<String> {
    let end = format!(":{port:04X}");
    let text = fs::read_to_string(table).unwrap_or_default();
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.get(1)?.ends_with(&end) && *words.get(3)? == LISTENING;
        is_it.then_some(format!("socket:[{}]", words.get(9)?))
    };
    text.lines().filter_map(socket).collect()
}

fn has_one_of(pid: u32, sockets: &[String]) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_listens_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(of(port).unwrap().pid, std::process::id());
        drop(listener);
        assert_eq!(of(port), None);
    }

    #[test]
    fn a_part_of_a_service_is_known_by_its_home() {
        let holder = |name: &str| PortHolder { pid: 7, name: name.into(), folder: Some("/srv/x".into()) };
        let is_of = |name, home| holder(name).is_of(Path::new(home));
        assert!(is_of("llts", "/srv/x") && !is_of("llts", "/srv/y") && !is_of("nginx", "/srv/x"));
    }

    #[test]
    fn a_service_is_named_by_its_home() {
        let holder = |name: &str| PortHolder { pid: 7, name: name.into(), folder: Some("/srv/x".into()) }.to_string();
        assert!(holder("llts").contains("the home /srv/x (process 7)"));
        assert_eq!(holder("nginx"), "process 7 (nginx) has it");
    }
}
