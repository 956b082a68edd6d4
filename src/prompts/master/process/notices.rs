//! Notices for people: a command and a webhook for each prompt that has failed and for the end of a master, and a summary file. A thread
//! of its own runs them one by one, so that the master waits for them only at its end: for at most two time limits and two webhooks, one
//! for the remaining notices of failures and one for that of the end.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde_json::{Value, json};

use super::End;
use crate::files::create::TASKS;
use crate::master::engine::FileName;
use base::{Mono, Usd};
use proc::signals::with_clean_mask;
use proc::{clock, limits, readable, tls_roots};

/// Notices that wait while a command runs; further failures are only in the log and in `failed/`.
const QUEUE_MAX: usize = 256;

const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(15);

const SUMMARY: &str = "summary.json";

/// The receivers of notices.
#[derive(Clone, Debug, Default)]
pub struct Audience {
    /// A shell command at the end.
    pub on_end: Option<String>,
    /// A shell command for each failed prompt.
    pub on_fail: Option<String>,
    /// An address that gets a POST with JSON for both.
    pub webhook: Option<String>,
}

/// The thread and its queue.
#[derive(Debug, Default)]
pub(super) struct Notices {
    audience: Audience,
    timeout: Duration,
    /// Set at the end: the moment until which notices of failures are delivered.
    until: Arc<OnceLock<Mono>>,
    thread: Option<(SyncSender<Notice>, JoinHandle<()>)>,
}

#[derive(Debug)]
struct Notice {
    command: Option<String>,
    webhook: Option<String>,
    value: Value,
    is_end: bool,
}

impl Notices {
    /// Each command may take `timeout`.
    pub(super) fn new(audience: Audience, timeout: Duration) -> io::Result<Self> {
        let Audience { on_end, on_fail, webhook } = &audience;
        if on_end.is_none() && on_fail.is_none() && webhook.is_none() {
            return Ok(Self::default());
        }
        let (sender, notices) = sync_channel::<Notice>(QUEUE_MAX);
        let until = Arc::<OnceLock<Mono>>::default();
        let their_until = Arc::clone(&until);
        let deliver = move || deliver_all(&notices, timeout, &their_until);
        let thread = std::thread::Builder::new().name("notices".into()).spawn(deliver)?;
        Ok(Self { audience, timeout, until, thread: Some((sender, thread)) })
    }

    /// A prompt has failed for good.
    pub(super) fn report_failed(&self, file: &FileName) {
        let value = json!({ "event": "failed", "prompt": file.to_string() });
        self.enqueue(self.audience.on_fail.clone(), value, false);
    }

    /// The master has ended. Waits for the remaining notices, within the time limits.
    pub(super) fn report_end(&mut self, root: &Path, end: &End) {
        let totals = &end.totals;
        let value = json!({
            "event": "end",
            "running_seconds": totals.running_for.as_secs_f64(),
            "all": totals.all,
            "succeeded": totals.succeeded,
            "failed": totals.failed,
            "left": totals.left(),
            "timed_out": totals.timed_out,
            "cost_usd": totals.cost.map(Usd::dollars),
        });
        let path = root.join(TASKS).join(SUMMARY);
        if let Err(error) = std::fs::write(&path, format!("{value:#}\n")) {
            log::warn!("cannot write {}: {error}", path.display());
        }
        // The master ends once.
        let _ = self.until.set(clock::now().mono + self.timeout);
        self.enqueue(self.audience.on_end.clone(), value, true);
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            // A panic of the thread has already been reported by the thread.
            let _ = thread.join();
        }
    }

    fn enqueue(&self, command: Option<String>, value: Value, is_end: bool) {
        let webhook = self.audience.webhook.clone();
        let Some((sender, _)) = self.thread.as_ref().filter(|_| command.is_some() || webhook.is_some()) else { return };
        let notice = Notice { command, webhook, value, is_end };
        // A full queue is emptied from here on, within the time limit.
        let sent = if is_end { sender.send(notice).is_ok() } else { sender.try_send(notice).is_ok() };
        if !sent {
            log::warn!("too many notices wait; one is not sent");
        }
    }
}

fn deliver_all(notices: &Receiver<Notice>, timeout: Duration, until: &OnceLock<Mono>) {
    let mut late = 0;
    for notice in notices {
        let left = until.get().map(|until| until.since(clock::now().mono));
        match left.filter(|_| !notice.is_end) {
            Some(Duration::ZERO) => late += 1,
            left => notice.deliver(left.unwrap_or(timeout).min(timeout)),
        }
    }
    if late > 0 {
        log::warn!("{late} notices of failures were not sent: those before them took all of the time (NOTICE_TIMEOUT)");
    }
}

impl Notice {
    fn deliver(&self, timeout: Duration) {
        if let Some(command) = &self.command {
            let mut shell = Command::new("sh");
            // In a group of its own, so that everything that it has started can be killed.
            let line = match limits::for_programs().and_then(|limit| limit.current) {
                Some(soft) => format!("ulimit -Sn {soft}\n{command}"),
                None => command.clone(),
            };
            shell.args(["-c", &line]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
            for (name, value) in self.value.as_object().into_iter().flatten() {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                shell.env(format!("PROMPT_{}", name.to_uppercase()), text);
            }
            for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LLTS_")) {
                shell.env_remove(name);
            }
            match status(&mut shell, timeout) {
                Ok(None) => log::warn!(
                    "the command {command:?} has not ended within {:.1} s and was killed (NOTICE_TIMEOUT)",
                    timeout.as_secs_f64()
                ),
                Ok(Some(status)) if status.success() => {}
                Ok(Some(status)) => log::warn!("the command {command:?} has ended with {status}"),
                Err(error) => log::warn!("the command {command:?} cannot be run: {error}"),
            }
        }
        if let Some(webhook) = &self.webhook {
            let config = ureq::Agent::config_builder()
                .timeout_global(Some(WEBHOOK_TIMEOUT))
                .tls_config(tls_roots::of_machine())
                .build();
            let sent = config
                .new_agent()
                .post(webhook)
                .header("content-type", "application/json")
                .send(self.value.to_string());
            if let Err(error) = sent {
                log::warn!("the webhook does not take a notice: {error}");
            }
        }
    }
}

/// Runs a command; `None` if it was killed because it took too long.
fn status(command: &mut Command, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let until = clock::now().mono + timeout;
    let mut child: Child = with_clean_mask(|| command.spawn())?;
    let end = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    loop {
        let left = until.since(clock::now().mono);
        if readable::is_readable(&end, Some(left)) {
            return child.wait().map(Some);
        }
        if left.is_zero() {
            // The child is not reaped yet, so its group is still its own.
            kill_process_group(Pid::from_child(&child), Signal::KILL)?;
            return child.wait().map(|_| None);
        }
    }
}
