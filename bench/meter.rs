//! The resources that processes have used: processor time in nanoseconds, memory as counted by the kernel.

use std::fs;
use std::time::Duration;

use super::BenchError;

/// Processor time of all present threads of a process. A thread that has ended is not counted; the threads of llts do not
/// end.
pub(crate) fn processor_time(pid: u32) -> Result<Duration, BenchError> {
    let folder = format!("/proc/{pid}/task");
    let mut nanos = 0;
    for thread in fs::read_dir(&folder).map_err(BenchError::io(format!("read {folder}")))?.flatten() {
        let path = thread.path().join("schedstat");
        let text = fs::read_to_string(&path).map_err(BenchError::io(format!("read {}", path.display())))?;
        nanos += text.split_whitespace().next().and_then(|first| first.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}

/// As for one process, for several together.
pub(crate) fn processor_time_of(pids: &[u32]) -> Result<Duration, BenchError> {
    pids.iter().map(|&pid| processor_time(pid)).sum()
}

/// Resident bytes of a process, including shared pages.
pub(crate) fn resident(pid: u32) -> Result<f64, BenchError> {
    kibibytes(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Resident bytes of several processes together: pages that several share are divided among them.
pub(crate) fn resident_together(pids: &[u32]) -> Result<f64, BenchError> {
    pids.iter().map(|pid| kibibytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:")).sum()
}

fn kibibytes(path: &str, name: &str) -> Result<f64, BenchError> {
    let text = fs::read_to_string(path).map_err(BenchError::io(format!("read {path}")))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    number.map(|kib| kib * 1024.0).ok_or_else(|| BenchError::Unexpected(format!("{path} has no line {name}")))
}

/// The children of a process, each with the words of its command line.
pub(crate) fn children(of: u32) -> Result<Vec<(u32, Vec<String>)>, BenchError> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").map_err(BenchError::io("read /proc"))?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // Processes may end while the list is read.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name, in brackets, may contain any character.
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        if parent == Some(of) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
            found.push((pid, words.collect()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_measured() {
        let own = std::process::id();
        assert!(resident(own).unwrap() > 1e5);
        assert!(resident_together(&[own]).unwrap() > 1e4);
        assert!(processor_time_of(&[own]).unwrap() >= Duration::ZERO);
        assert!(processor_time(u32::MAX).is_err());
    }

    #[test]
    fn a_child_is_found_by_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = children(std::process::id()).unwrap();
        assert!(found.iter().any(|(pid, _)| *pid == child.id()), "{found:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
