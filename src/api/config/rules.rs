//! Rules between several keys.

use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::network::Exposure;
use super::{Config, HttpOpening, LocalSocket};
use base::{broadcast_socket, is_loopback};

/// Bytes of a report besides the three texts: ids, times and the names of its fields.
const REPORT_FRAME_BYTES: usize = 16_384;
/// The kernel's limit, without the final zero byte.
const SOCKET_PATH_BYTES_MAX: usize = 4095;
/// A control character of one byte takes six bytes in JSON: `\u0000`.
const JSON_BYTES_PER_BYTE: usize = 6;
/// A byte that is not UTF-8 becomes U+FFFD, which takes three bytes.
const TEXT_BYTES_PER_BYTE: usize = 3;

/// Refuses values that are invalid only in combination.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let found = insecure(config)
        .or_else(|| open_prompts(config))
        .or_else(|| open_lists(config))
        .or_else(|| open_http(config))
        .or_else(|| local(config))
        .or_else(|| no_way_in(config))
        .or_else(|| ports(config))
        .or_else(|| report(config))
        .or_else(|| silence(config))
        .or_else(|| folders(config));
    found.map_or(Ok(()), |sentence| Err(ConfigError::Contradiction(sentence)))
}

/// A single lost heartbeat must not make an agent lost.
fn silence(config: &Config) -> Option<String> {
    let [interval, lost_after] =
        [config.agent.heartbeat_interval, config.agent.lost_after].map(|time| time.as_millis());
    (lost_after < 2 * interval).then(|| {
        format!(
            "AGENT_LOST_AFTER is {lost_after}, which is less than two AGENT_HEARTBEAT_INTERVAL of {interval}, so that one lost \
             heartbeat would lose an agent; set it to {} or more, or to 0",
            2 * interval
        )
    })
}

fn insecure(config: &Config) -> Option<String> {
    let controller = &config.controller;
    let ip = controller.requests.or(controller.broadcasts)?.ip().to_string();
    let ip = if controller.hosts.is_empty() { ip } else { controller.hosts.join(", ") };
    // The keys of a client secure an agent that connects to that address, but not a controller.
    let is_open = config.exposure() == Exposure::Network && config.network.curve_client.is_none();
    (is_open && !controller.allow_insecure).then(|| {
        format!(
            "CONTROLLER_IP is {ip}, which other machines can reach, and the wire has no authentication: any client that reaches the \
             port can run tools as the user of the agents; use a loopback address such as 127.0.0.1, or CURVE keys, or \
             set ALLOW_INSECURE = true if you trust the whole network"
        )
    })
}

fn open_prompts(config: &Config) -> Option<String> {
    let prompt = &config.prompt;
    let has_keys = config.network.curve_server.is_some();
    let is_guarded = has_keys || prompt.secret.is_some() || config.controller.allow_insecure;
    (prompt.is_open() && !is_guarded).then(|| {
        format!(
            "prompt.BIND is {}, which other machines can reach, and any client that reaches the port can read prompts and report \
             them as done; use a loopback address such as 127.0.0.1, CURVE keys, set prompt.SECRET, or set ALLOW_INSECURE = true if \
             you trust the whole network",
            prompt.bind
        )
    })
}

fn open_lists(config: &Config) -> Option<String> {
    let lists = &config.lists;
    let is_guarded = lists.server.secret.is_some() || config.controller.allow_insecure;
    (!is_loopback(lists.bind) && !is_guarded).then(|| {
        format!(
            "lists.BIND is {}, which other machines can reach, and any client that reaches the port can take tasks and report \
             results; use a loopback address such as 127.0.0.1, set lists.SECRET, or set ALLOW_INSECURE = true if you trust \
             the whole network",
            lists.bind
        )
    })
}

fn open_http(config: &Config) -> Option<String> {
    let http = &config.http;
    let is_open = http.opening == HttpOpening::Always && http.is_open() && http.token_file.is_none();
    is_open.then(|| {
        format!(
            "http.BIND is {}, which other machines can reach, and no token protects it; name a token file in \
             http.TOKEN_FILE, or use a loopback address such as 127.0.0.1",
            http.address.ip()
        )
    })
}

fn local(config: &Config) -> Option<String> {
    let network = &config.network;
    let LocalSocket::At(path) = &network.local else { return None };
    let shown = path.display();
    let length = broadcast_socket(path).as_os_str().len();
    (length > SOCKET_PATH_BYTES_MAX).then(|| {
        format!(
            "CONTROLLER_IPC_FILE is {shown}, which with .pub appended is too long for a path: {length} bytes of at most \
             {SOCKET_PATH_BYTES_MAX}"
        )
    })
}

/// Without a TCP port for requests, the controller must have a unix socket.
fn no_way_in(config: &Config) -> Option<String> {
    let network = &config.network;
    let has_socket = network.local != LocalSocket::None;
    (config.controller.requests.is_none() && !has_socket).then(|| {
        "the TCP port for requests is closed (CONTROLLER_REP_PORT or CONTROLLER_IP), and there is no unix socket in \
         its place, which needs a CONTROLLER_IPC_FILE"
            .to_owned()
    })
}

fn ports(config: &Config) -> Option<String> {
    let controller = &config.controller;
    let port = controller.requests?.port();
    (port != 0 && port == controller.broadcasts?.port()).then(|| {
        format!(
            "CONTROLLER_REP_PORT and CONTROLLER_PUB_PORT are both {port}; give them different ports, or 0 for free ones"
        )
    })
}

/// A report that the controller refuses as too long would leave its task running forever. The error names all bounds that
/// are too low at once.
fn report(config: &Config) -> Option<String> {
    let (agent, limits) = (&config.agent, &config.limits);
    let kept = [
        ("REPORT_LOG_KEEP_BYTES", agent.report_keep_bytes),
        ("STDOUT_KEEP_BYTES", agent.stdout_keep_bytes),
        ("STDERR_KEEP_BYTES", agent.stderr_keep_bytes),
    ];
    let mut found = Vec::new();
    for (key, bytes) in kept {
        let needed = bytes.saturating_mul(TEXT_BYTES_PER_BYTE);
        if needed > limits.field_value_bytes_max {
            found.push(format!(
                "{key} is {bytes}, so its text may need {needed} bytes, more than FIELD_VALUE_BYTES_MAX = {}; \
                 lower the former or raise the latter",
                limits.field_value_bytes_max
            ));
        }
    }
    let value = agent.value_bytes_max;
    if value > limits.field_value_bytes_max {
        found.push(format!(
            "VALUE_BYTES_MAX is {value}, more than FIELD_VALUE_BYTES_MAX = {}; lower the former or raise the latter",
            limits.field_value_bytes_max
        ));
    }
    let sum = kept.iter().fold(0, |sum: usize, (_, bytes)| sum.saturating_add(*bytes));
    // In a text, JSON needs at most twice its bytes: quotes and backslashes are doubled, and no other character grows.
    let fixed = value.saturating_mul(2).saturating_add(REPORT_FRAME_BYTES);
    let needed = sum.saturating_mul(JSON_BYTES_PER_BYTE).saturating_add(fixed);
    if needed > limits.message_bytes_max {
        found.push(format!(
            "REPORT_LOG_KEEP_BYTES, STDOUT_KEEP_BYTES and STDERR_KEEP_BYTES are {sum} together, and VALUE_BYTES_MAX is {value}, so a \
             report may need {needed} bytes, more than MESSAGE_BYTES_MAX = {}; lower them or raise that",
            limits.message_bytes_max
        ));
    }
    (!found.is_empty()).then(|| found.join(". Also: "))
}

/// Work folders are deleted with their tasks, and tools are replaced: neither folder may contain anything else.
fn folders(config: &Config) -> Option<String> {
    let paths = &config.paths;
    let named = [
        ("AGENT_WORK_DIR", Some(&paths.work_dir)),
        ("AGENT_TOOLS_DIR", Some(&paths.tools_dir)),
        ("TOOL_SOURCES_DIR", paths.tool_sources_dir.as_ref()),
        ("STATE_DIR", Some(&paths.state_dir)),
    ];
    let named = named.map(|(key, path)| (key, path.map(|path| (path, identity(path)))));
    for (i, (key, path)) in named.iter().enumerate() {
        for (other_key, other) in &named[i + 1..] {
            if let (Some((path, identity)), Some((_, other))) = (path, other)
                && identity == other
            {
                return Some(format!("{key} and {other_key} are both {}; give them different folders", path.display()));
            }
        }
    }
    None
}

/// The place to which a path leads, however it is written. A folder that does not exist yet is identified by the folder in which
/// it will be made.
fn identity(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut missing = Vec::new();
    for above in path.ancestors() {
        if let Ok(found) = above.canonicalize() {
            return missing.into_iter().rev().fold(found, |folder, name| folder.join(name));
        }
        missing.extend(above.file_name());
    }
    path
}
