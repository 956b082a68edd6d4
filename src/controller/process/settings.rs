//! The parts of the configuration for each part of the controller.

use std::net::SocketAddr;

use crate::history::HistoryLimits;
use api::config::{Config, Durability, LimitsSection};
use api::wire::page::PageBytes;
use api::wire::rules::{Rules, SubmitLimits};
use base::AddressPolicy;
use base::json::FieldLimits;
use base::lease::kill_budget;
use engine::{Settings, ToolSettings, silence_of_cut};
use zmtp::push::PushConfig;

/// The rules for requests; pushes to our own `endpoints` are refused.
pub(super) fn rules(config: &Config, endpoints: &[&str]) -> Rules {
    let own = endpoints.iter().filter_map(|endpoint| endpoint.strip_prefix("tcp://")?.parse::<SocketAddr>().ok());
    let allow = config.push.allow.iter().filter_map(|network| network.parse().ok()).collect();
    Rules {
        limits: field_limits(&config.limits),
        addresses: AddressPolicy { allow, own: own.collect() },
        wait_max: config.controller.wait_max,
        // An agent asks again after two intervals; an earlier answer would leave it idle until then.
        apply_wait_max: config.controller.wait_max.max(config.agent.heartbeat_interval * 2),
        defaults: config.task_defaults.policy.clone().into(),
        submits: SubmitLimits {
            bytes_max: config.limits.submit_bytes_max,
            tasks_max: config.controller.submit_many_max,
            terms_max: config.controller.after_terms_max,
        },
        graphs: config.graph,
        sources: config.source.allowed.clone(),
    }
}

/// The limits of the fields of a message.
#[must_use]
pub const fn field_limits(limits: &LimitsSection) -> FieldLimits {
    FieldLimits {
        message_bytes: limits.message_bytes_max,
        fields: limits.fields_max,
        name_bytes: limits.field_name_bytes_max,
        value_bytes: limits.field_value_bytes_max,
        command_bytes: limits.command_bytes_max,
    }
}

/// The limits of pushes.
pub(super) fn push(config: &Config, rules: &Rules) -> PushConfig {
    let push = &config.push;
    PushConfig {
        sockets_max: push.sockets_max,
        queue_max: push.queue_max,
        queue_bytes_max: push.queue_bytes_max,
        connect_timeout: push.connect_timeout,
        idle_timeout: push.idle_timeout,
        linger: push.linger,
        // The loop takes them in each turn; a receiver whose frame does not fit will confirm the next push.
        acknowledgements_max: 10_000,
        policy: rules.addresses.clone(),
    }
}

/// The limits of the history.
pub(super) const fn history(config: &Config) -> HistoryLimits {
    let controller = &config.controller;
    HistoryLimits {
        keep_days: controller.history_keep_days,
        keep_bytes_max: controller.history_keep_bytes_max,
        syncs: matches!(controller.durability, Durability::Disk),
        page_max: controller.details_limit_max,
        page_bytes: PageBytes(controller.details_bytes_max),
    }
}

/// The settings of the engine.
pub(super) fn engine(config: &Config) -> Settings {
    Settings {
        heartbeat_interval: config.agent.heartbeat_interval,
        lost_after: silence_of_cut(config.agent.lost_after, config.agent.heartbeat_interval),
        kill_budget: kill_budget(config.agent.kill_interval, config.agent.kill_count, config.agent.straggler_grace),
        waiting_max: config.controller.waiting_tasks_max,
        waiting_bytes_max: config.controller.waiting_bytes_max,
        needs_max: config.controller.waiting_needs_max,
        gates_max: config.controller.gates_max,
        defer_delay: config.task_defaults.defer_delay,
        retry_delay_max: config.task_defaults.retry_delay_max,
        push_again_interval: config.push.ack_interval,
        push_again_interval_max: config.push.ack_interval_max,
        push_again_max: config.push.ack_timeout,
        keep: config.controller.task_keep,
        keep_bytes_max: usize::try_from(config.controller.task_keep_bytes_max).unwrap_or(usize::MAX),
        keeps_history: config.controller.history_keep_days > 0,
        page_max: config.controller.details_limit_max,
        agents_max: config.controller.agents_max,
        parked_max: config.controller.parked_max,
        scans_max: config.controller.searches_max,
        part_bytes_max: part_bytes_max(config),
        step_grace: config.controller.step_grace,
        list_time_max: config.controller.list_time_max,
        list_tasks_max: config.controller.list_tasks_max,
        stay_wait_max: config.controller.stay_wait_max,
        job_receivers_max: config.controller.job_receivers_max,
        stores_first: config.store.server.is_some(),
        tools: ToolSettings {
            keep: config.tools.keep,
            archive_bytes_max: config.archive.packed_bytes,
            part_bytes: config.tools.part_bytes,
            parts_max: config.tools.parts_max,
            store_bytes_max: config.tools.store_bytes_max,
        },
    }
}

/// The bytes of an output that fit into one message of an agent, which has them in base 64 as the value of one field.
fn part_bytes_max(config: &Config) -> u64 {
    let limits = &config.limits;
    let value = limits.field_value_bytes_max.min(limits.message_bytes_max / 2);
    (value / 4 * 3) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn limits_are_those_of_the_configuration() {
        let file = "AGENTS_MAX = 11\nPARKED_MAX = 12\nSEARCHES_MAX = 13\nGATES_MAX = 14\nWAITING_NEEDS_MAX = 15";
        let settings = engine(&Config::from_parts(Some((Path::new("my.toml"), file)), []).unwrap());
        let found =
            [settings.agents_max, settings.parked_max, settings.scans_max, settings.gates_max, settings.needs_max];
        assert_eq!(found, [11, 12, 13, 14, 15]);
    }
}
