//! Kills the controller and agents of a service with SIGKILL, at random moments, one of a kind at a time.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IteratorRandom as _;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::crash::load::Progress;
use crate::crash::sandbox::{eventually, found, kill};
use crate::crash::service::Service;

pub(crate) const AGENTS: u32 = 4;

/// Kills the controller so many times; each time it must be back, and answer.
pub(crate) fn kill_controllers(service: &Service, progress: &Progress, times: usize, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let client = service.client();
    for _ in 0..times {
        // Lets a handful of submits begin, so that some are on their way when it dies.
        progress.kills.fetch_add(1, Ordering::Relaxed);
        pause(&mut random, 150);
        let victim = kill_and_see_another(service, " controller");
        let is_back = || client.try_ask("TASK/STATISTIC", json!({})).is_some_and(|reply| reply["__CODE__"] == 0);
        eventually(&format!("another controller than {victim} answers"), is_back);
        pause(&mut random, 400);
    }
}

/// Kills any agent so many times; mostly it must first have found its controller.
pub(crate) fn kill_agents(service: &Service, progress: &Progress, times: usize, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..times {
        progress.kills.fetch_add(1, Ordering::Relaxed);
        pause(&mut random, 150);
        let name = format!("agent-{}", random.random_range(1..=AGENTS));
        let ready = times_ready(service, &name);
        kill_and_see_another(service, &format!("agent --name {name}"));
        if random.random_ratio(7, 8) {
            eventually(&format!("{name} is ready again"), || times_ready(service, &name) > ready);
        }
    }
}

/// Kills any tool that runs or waits for its next task so many times.
pub(crate) fn kill_tools(service: &Service, progress: &Progress, times: usize, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..times {
        progress.kills.fetch_add(1, Ordering::Relaxed);
        pause(&mut random, 500);
        let tools = || service.sandbox.processes().into_iter().filter(|(_, line)| line.contains(" ./run.sh"));
        kill(found("a tool", || tools().choose(&mut random)).0);
    }
}

/// Kills a process, and waits until there is another one in its place.
pub(crate) fn kill_and_see_another(service: &Service, end: &str) -> i32 {
    let victim = found(&format!("there is a process {end}"), || service.sandbox.pid(end));
    kill(victim);
    eventually(&format!("another process {end} than {victim}"), || {
        service.sandbox.pid(end).is_some_and(|pid| pid != victim)
    });
    victim
}

/// How often an agent of this name has found its controller.
fn times_ready(service: &Service, name: &str) -> usize {
    let log = fs::read(service.sandbox.path("log").join(format!("agent.log.{name}"))).unwrap_or_default();
    let end = format!("agent {name} ready");
    String::from_utf8_lossy(&log).lines().filter(|line| line.ends_with(&end)).count()
}

fn pause(random: &mut StdRng, millis_max: u64) {
    std::thread::park_timeout(Duration::from_millis(random.random_range(0..=millis_max)));
}
