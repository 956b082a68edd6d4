//! Telling a person: a command and a webhook for each prompt that has failed and for the end of a master, and a summary file. A thread of
//! its own runs them one by one, so that the master never waits for them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::End;
use crate::engine::master::FileName;
use crate::shell::prompt_create::TASKS;

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
    thread: Option<(SyncSender<Notice>, JoinHandle<()>)>,
}

#[derive(Debug)]
struct Notice {
    command: Option<String>,
    webhook: Option<String>,
    value: Value,
}

impl Notices {
    pub(super) fn new(audience: Audience) -> std::io::Result<Self> {
        let Audience { on_end, on_fail, webhook } = &audience;
        if on_end.is_none() && on_fail.is_none() && webhook.is_none() {
            return Ok(Self::default());
        }
        let (sender, notices) = sync_channel::<Notice>(QUEUE_MAX);
        let tell = move || notices.iter().for_each(|notice| notice.tell());
        let thread = std::thread::Builder::new().name("notices".into()).spawn(tell)?;
        Ok(Self { audience, thread: Some((sender, thread)) })
    }

    /// A prompt has failed for good.
    pub(super) fn tell_failed(&self, file: &FileName) {
        let value = json!({ "event": "failed", "prompt": file.to_string() });
        self.tell(self.audience.on_fail.clone(), value);
    }

    /// The master has ended. Waits for everything that is still to be told.
    pub(super) fn tell_end(&mut self, root: &Path, end: &End) {
        let totals = &end.totals;
        let value = json!({
            "event": "end",
            "running_seconds": totals.running_for.as_secs_f64(),
            "all": totals.all,
            "succeeded": totals.succeeded,
            "failed": totals.failed,
            "left": totals.left(),
        });
        let path = root.join(TASKS).join(SUMMARY);
        if let Err(error) = std::fs::write(&path, format!("{value:#}\n")) {
            log::warn!("cannot write {}: {error}", path.display());
        }
        self.tell(self.audience.on_end.clone(), value);
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            // A panic of the thread has already been reported by the thread.
            let _ = thread.join();
        }
    }

    fn tell(&self, command: Option<String>, value: Value) {
        let webhook = self.audience.webhook.clone();
        if let Some((sender, _)) = &self.thread
            && (command.is_some() || webhook.is_some())
            && sender.try_send(Notice { command, webhook, value }).is_err()
        {
            log::warn!("too many notices wait; one is not sent");
        }
    }
}

impl Notice {
    fn tell(&self) {
        if let Some(command) = &self.command {
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null());
            for (name, value) in self.value.as_object().into_iter().flatten() {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                shell.env(format!("PROMPT_{}", name.to_uppercase()), text);
            }
            for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LLTS_")) {
                shell.env_remove(name);
            }
            match shell.status() {
                Ok(status) if status.success() => {}
                Ok(status) => log::warn!("the command {command:?} has ended with {status}"),
                Err(error) => log::warn!("the command {command:?} cannot be run: {error}"),
            }
        }
        if let Some(webhook) = &self.webhook {
            let agent = ureq::Agent::config_builder().timeout_global(Some(WEBHOOK_TIMEOUT)).build().new_agent();
            let sent = agent.post(webhook).header("content-type", "application/json").send(self.value.to_string());
            if let Err(error) = sent {
                log::warn!("the webhook does not take a notice: {error}");
            }
        }
    }
}
