//! The sections of the configuration, each read by one part of the program. `defaults.toml` explains every key.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::error::ConfigError;
use super::reader::{DAY, GIB, HOUR, MIB, PIB, Reader};
use crate::tools::Limits;
use base::{AllowCommands, Host, Labels, is_loopback};

/// The point at which a stored task counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// An fsync: survives a power failure.
    Disk,
    /// The kernel's cache: survives the process.
    Process,
}

impl Durability {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "disk" => Some(Self::Disk),
            "process" => Some(Self::Process),
            _ => None,
        }
    }
}

/// Settings of the controller: addresses, limits, retention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSection {
    /// TCP address for requests, which agents and clients connect to; port 0 takes a free one. `None`: the unix socket
    /// only.
    pub requests: Option<SocketAddr>,
    /// The addresses and names at which agents and clients look for the controller, in this order; empty if the address in
    /// `requests` is the only one. Otherwise the address in `requests` is one of these, or the unspecified one (0.0.0.0).
    pub hosts: Vec<String>,
    /// TCP address for broadcasts; port 0 takes a free one. `None`: as for requests.
    pub broadcasts: Option<SocketAddr>,
    /// Whether both ports are the documented defaults, because no others are configured: if they are in use, a service takes free
    /// ones.
    pub ports_are_usual: bool,
    /// Whether the user allows an address other than loopback.
    pub allow_insecure: bool,
    /// Maximum number of waiting tasks.
    pub waiting_tasks_max: usize,
    /// Maximum bytes of the waiting tasks.
    pub waiting_bytes_max: usize,
    /// Maximum number of known agents.
    pub agents_max: usize,
    /// Maximum number of tasks in one page of details.
    pub details_limit_max: usize,
    /// Bytes after which a page of details ends early.
    pub details_bytes_max: usize,
    /// Maximum number of combinations of gates and tags among waiting tasks.
    pub waiting_needs_max: usize,
    /// Maximum number of tasks of one TASK/SUBMIT_MANY.
    pub submit_many_max: usize,
    /// Maximum number of terms that one task may wait for.
    pub after_terms_max: usize,
    /// Maximum number of addresses that the state of one job is pushed to.
    pub job_receivers_max: usize,
    /// The time that a run gets to finish when its step ends early.
    pub step_grace: Duration,
    /// The time in which an agent starts the tasks of a list; zero for no lists.
    pub list_time_max: Duration,
    /// Maximum number of tasks in a list.
    pub list_tasks_max: usize,
    /// How long an idle agent leaves a task to a busy agent whose tool for it is already running.
    pub stay_wait_max: Duration,
    /// Maximum number of known gates.
    pub gates_max: usize,
    /// The longest time that a request may be parked.
    pub wait_max: Duration,
    /// Maximum number of parked requests; one connection may have a tenth of them.
    pub parked_max: usize,
    /// Maximum number of waiting searches; one connection may have a tenth of them.
    pub searches_max: usize,
    /// The senders that may submit commands.
    pub allow_commands: AllowCommands,
    /// The point at which an accepted task counts as durable.
    pub durability: Durability,
    /// How long a finished family is kept.
    pub task_keep: Duration,
    /// Maximum bytes of finished tasks that are kept.
    pub task_keep_bytes_max: u64,
    /// Days that the history is kept; 0 for no history.
    pub history_keep_days: u32,
    /// Maximum bytes of the history, beside its present day.
    pub history_keep_bytes_max: u64,
}

impl ControllerSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let ports = ["CONTROLLER_REP_PORT", "CONTROLLER_PUB_PORT"];
        let ports_are_usual = !ports.into_iter().any(|key| reader.is_set(key));
        let hosts = reader.hosts("CONTROLLER_IP")?;
        let ip = (!hosts.is_empty()).then(|| ip_of(&hosts));
        let mut address = |key| {
            let port = reader.port_or_off(key)?;
            Ok::<_, ConfigError>(ip.zip(port).map(|(ip, port)| SocketAddr::new(ip, port)))
        };
        let (requests, broadcasts) = (address(ports[0])?, address(ports[1])?);
        // One address needs no list.
        let hosts = if ip.is_some_and(|ip| hosts == [Host::Ip(ip).in_endpoint()]) { Vec::new() } else { hosts };
        Ok(Self {
            requests,
            hosts,
            broadcasts,
            ports_are_usual,
            allow_insecure: reader.boolean("ALLOW_INSECURE")?,
            waiting_tasks_max: reader.size("WAITING_TASKS_MAX", 1..=100_000_000, "tasks")?,
            waiting_bytes_max: reader.size("WAITING_BYTES_MAX", MIB..=PIB, "bytes")?,
            agents_max: reader.size("AGENTS_MAX", 1..=10_000_000, "agents")?,
            details_limit_max: reader.size("DETAILS_LIMIT_MAX", 1..=1_000_000, "tasks")?,
            details_bytes_max: reader.size("DETAILS_BYTES_MAX", 1024..=GIB, "bytes")?,
            submit_many_max: reader.size("SUBMIT_MANY_MAX", 1..=100_000, "tasks")?,
            // The number of a term has 16 bits.
            after_terms_max: reader.size("AFTER_TERMS_MAX", 1..=65_535, "terms")?,
            job_receivers_max: reader.size("JOB_RECEIVERS_MAX", 1..=10_000, "addresses")?,
            step_grace: reader.millis("STEP_GRACE", 0..=HOUR)?,
            list_time_max: reader.millis("LIST_TIME_MAX", 0..=10_000)?,
            list_tasks_max: reader.size("LIST_TASKS_MAX", 1..=64, "tasks")?,
            stay_wait_max: reader.millis("STAY_WAIT_MAX", 0..=HOUR)?,
            waiting_needs_max: reader.size("WAITING_NEEDS_MAX", 1..=100_000, "combinations")?,
            gates_max: reader.size("GATES_MAX", 1..=100_000, "gates")?,
            wait_max: reader.millis("WAIT_MAX", 1..=DAY)?,
            parked_max: reader.size("PARKED_MAX", 1..=10_000_000, "requests")?,
            searches_max: reader.size("SEARCHES_MAX", 1..=100_000, "requests")?,
            allow_commands: reader.parsed(
                "ALLOW_COMMANDS",
                "\"same-user\", \"loopback\", \"keys\" or \"no\"",
                AllowCommands::parse,
            )?,
            durability: reader.parsed("DURABILITY", "\"disk\" or \"process\"", Durability::parse)?,
            task_keep: Duration::from_secs(3600 * reader.number("TASK_KEEP_HOURS", 0..=876_000, "hours")?),
            history_keep_days: u32::try_from(reader.number("HISTORY_KEEP_DAYS", 0..=3650, "days")?).unwrap_or(3650),
            history_keep_bytes_max: reader.number("HISTORY_KEEP_BYTES_MAX", MIB..=PIB, "bytes")?,
            task_keep_bytes_max: reader.number("TASK_KEEP_BYTES_MAX", 0..=PIB, "bytes")?,
        })
    }

    /// The documented ports, if a service takes free ones when these are in use. Only a service on loopback does so, because
    /// other machines would not find it.
    #[must_use]
    pub fn usual_ports(&self) -> Option<[u16; 2]> {
        let (requests, broadcasts) = (self.requests?, self.broadcasts?);
        let is_here = is_loopback(requests.ip()) && self.hosts.is_empty();
        (self.ports_are_usual && is_here).then_some([requests.port(), broadcasts.port()])
    }

    /// The ZeroMQ endpoint for requests: `tcp://127.0.0.1:15555`; an IPv6 address is in brackets.
    #[must_use]
    pub fn rep_endpoint(&self) -> Option<String> {
        self.requests.map(|address| format!("tcp://{address}"))
    }

    /// The ZeroMQ endpoint for broadcasts.
    #[must_use]
    pub fn pub_endpoint(&self) -> Option<String> {
        self.broadcasts.map(|address| format!("tcp://{address}"))
    }

    /// The endpoints for requests that agents and clients try: `tcp://IP:PORT`, or `tcp://HOST:PORT,HOST:PORT`.
    #[must_use]
    pub fn ways_of_requests(&self) -> Option<String> {
        self.ways(self.requests?)
    }

    /// The endpoints for broadcasts, in the same form.
    #[must_use]
    pub fn ways_of_broadcasts(&self) -> Option<String> {
        self.ways(self.broadcasts?)
    }

    /// The first of `hosts` as an endpoint for requests, for programs that accept only one endpoint; `None` if `hosts` is empty.
    #[must_use]
    pub fn first_way(&self) -> Option<String> {
        let (host, port) = (self.hosts.first()?, self.requests?.port());
        Some(format!("tcp://{host}:{port}"))
    }

    /// Sets the hosts of the controller from `HOST:PORT,HOST:PORT`, with the ports of requests and of broadcasts. `None` if the
    /// text is not such a list.
    pub(super) fn find_at(&mut self, hosts: &str, (port, broadcasts): (u16, Option<u16>)) -> Option<()> {
        let host = |text: &str| Host::parse(text.rsplit_once(':')?.0).map(|host| host.in_endpoint());
        let hosts = hosts.split(',').map(host).collect::<Option<Vec<_>>>()?;
        let ip = ip_of(&hosts);
        self.requests = Some(SocketAddr::new(ip, port));
        self.broadcasts = broadcasts.map(|port| SocketAddr::new(ip, port));
        self.hosts = if hosts == [Host::Ip(ip).in_endpoint()] { Vec::new() } else { hosts };
        Some(())
    }

    fn ways(&self, address: SocketAddr) -> Option<String> {
        if self.hosts.is_empty() {
            return Some(format!("tcp://{address}"));
        }
        let hosts: Vec<String> = self.hosts.iter().map(|host| format!("{host}:{}", address.port())).collect();
        Some(format!("tcp://{}", hosts.join(",")))
    }
}

/// The address that represents some hosts: the first one that is not loopback. If there is none, a name among them may be any
/// address (0.0.0.0), and otherwise it is the first host.
fn ip_of(hosts: &[String]) -> IpAddr {
    let ips: Vec<Option<IpAddr>> = hosts.iter().map(|host| host.trim_matches(['[', ']']).parse().ok()).collect();
    let is_outside = |ip: &&IpAddr| !ip.to_canonical().is_loopback();
    let any = || IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    match ips.iter().flatten().find(is_outside) {
        Some(ip) => *ip,
        None => ips.first().copied().flatten().filter(|_| ips.iter().all(Option::is_some)).unwrap_or_else(any),
    }
}

/// Settings of a client besides the controller's endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSection {
    /// How long it waits for a reply.
    pub reply_timeout: Duration,
}

impl ClientSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self { reply_timeout: reader.millis("ZMQ_RECV_TIMEOUT", 1..=DAY)? })
    }
}

/// Limits for the messages and the speed of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsSection {
    /// Maximum bytes of one message.
    pub message_bytes_max: usize,
    /// Maximum bytes of a submit that its first bytes announce as such.
    pub submit_bytes_max: usize,
    /// Maximum fields of one message.
    pub fields_max: usize,
    /// Maximum bytes of a field's name.
    pub field_name_bytes_max: usize,
    /// Maximum bytes of a field's value.
    pub field_value_bytes_max: usize,
    /// Maximum bytes of the words of a command, and of its environment.
    pub command_bytes_max: usize,
    /// Time limit for the ZMTP handshake.
    pub handshake_timeout: Duration,
    /// Maximum number of messages queued for a peer that does not read.
    pub send_queue_max: usize,
    /// Maximum bytes queued for it.
    pub send_queue_bytes_max: usize,
    /// How long a peer may leave its queue unread.
    pub send_timeout: Duration,
    /// Maximum frames of one message.
    pub frames_max: usize,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Maximum number of connections of one IP address.
    pub connections_per_address_max: usize,
    /// Descriptors that are reserved for other purposes than connections.
    pub descriptors_reserved: usize,
    /// Maximum bytes that the controller holds for all connections together.
    pub held_bytes_max: usize,
    /// Maximum number of prefixes of all subscribers together.
    pub subscriptions_max: usize,
    /// Silence after which a peer is probed; `None` never probes.
    pub ping_interval: Option<Duration>,
}

impl LimitsSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            message_bytes_max: reader.size("MESSAGE_BYTES_MAX", 1024..=GIB, "bytes")?,
            submit_bytes_max: reader.size("SUBMIT_BYTES_MAX", 1024..=GIB, "bytes")?,
            fields_max: reader.size("FIELDS_MAX", 32..=65_536, "fields")?,
            field_name_bytes_max: reader.size("FIELD_NAME_BYTES_MAX", 32..=65_536, "bytes")?,
            field_value_bytes_max: reader.size("FIELD_VALUE_BYTES_MAX", 256..=GIB, "bytes")?,
            command_bytes_max: reader.size("COMMAND_BYTES_MAX", 256..=GIB, "bytes")?,
            handshake_timeout: reader.millis("HANDSHAKE_TIMEOUT", 1..=HOUR)?,
            // In ZeroMQ, 0 means no limit.
            send_queue_max: reader.size("SEND_QUEUE_MAX", 1..=1_000_000, "messages")?,
            send_queue_bytes_max: reader.size("SEND_QUEUE_BYTES_MAX", 1024..=GIB, "bytes")?,
            send_timeout: reader.millis("SEND_TIMEOUT", 1..=DAY)?,
            // A request has two frames: the delimiter and the body.
            frames_max: reader.size("MESSAGE_FRAMES_MAX", 2..=1024, "frames")?,
            connections_max: reader.size("CONNECTIONS_MAX", 1..=1_000_000, "connections")?,
            connections_per_address_max: reader.size("CONNECTIONS_PER_ADDRESS_MAX", 1..=1_000_000, "connections")?,
            descriptors_reserved: reader.size("DESCRIPTORS_RESERVED", 16..=1_000_000, "descriptors")?,
            held_bytes_max: reader.size("HELD_BYTES_MAX", 1_048_576..=64 * GIB, "bytes")?,
            subscriptions_max: reader.size("SUBSCRIPTIONS_MAX", 1..=1_000_000, "prefixes")?,
            ping_interval: Some(reader.millis("PING_INTERVAL", 0..=DAY)?).filter(|interval| !interval.is_zero()),
        })
    }
}

/// Pushes of states to the addresses that submitters name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushSection {
    /// Maximum number of open sockets.
    pub sockets_max: usize,
    /// Maximum number of messages queued for one address.
    pub queue_max: usize,
    /// Maximum bytes queued for one address.
    pub queue_bytes_max: usize,
    /// How long messages wait for an unreachable address.
    pub connect_timeout: Duration,
    /// Idle time after which a socket is closed.
    pub idle_timeout: Duration,
    /// How long a stopping controller continues to deliver.
    pub linger: Duration,
    /// The first pause before an unconfirmed end of a task is pushed again.
    pub ack_interval: Duration,
    /// The longest such pause.
    pub ack_interval_max: Duration,
    /// How long an unconfirmed end is pushed.
    pub ack_timeout: Duration,
    /// Networks that an address may lie in, as CIDR; only their form is checked here.
    pub allow: Vec<String>,
}

impl PushSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            // Each socket may take two of the DESCRIPTORS_RESERVED.
            sockets_max: reader.size("PUSH_SOCKETS_MAX", 1..=1000, "sockets")?,
            queue_max: reader.size("PUSH_QUEUE_MAX", 1..=1_000_000, "messages")?,
            queue_bytes_max: reader.size("PUSH_QUEUE_BYTES_MAX", 1024..=16 * GIB, "bytes")?,
            connect_timeout: reader.millis("PUSH_CONNECT_TIMEOUT", 1..=DAY)?,
            idle_timeout: reader.millis("PUSH_IDLE_TIMEOUT", 1..=DAY)?,
            linger: reader.millis("PUSH_LINGER", 0..=HOUR)?,
            ack_interval: reader.millis("PUSH_ACK_INTERVAL", 1..=HOUR)?,
            ack_interval_max: reader.millis("PUSH_ACK_INTERVAL_MAX", 1..=DAY)?,
            ack_timeout: reader.millis("PUSH_ACK_TIMEOUT", 0..=30 * DAY)?,
            allow: reader.networks("PUSH_ALLOW")?,
        })
    }
}

/// Agents, each with one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSection {
    /// Interval of heartbeats.
    pub heartbeat_interval: Duration,
    /// The time after which a silent agent is lost: two intervals, unless it is configured.
    pub lost_after: Duration,
    /// Time between two signals to a task that is being ended.
    pub kill_interval: Duration,
    /// Number of signals to such a task, at least 1; the last one is SIGKILL.
    pub kill_count: u32,
    /// Time between SIGTERM and SIGKILL for processes that run.sh left behind.
    pub straggler_grace: Duration,
    /// How long a process that the agent is not permitted to signal may delay the result.
    pub foreign_process_timeout: Duration,
    /// How long a stopping agent waits for the confirmation of its last result.
    pub stop_timeout: Duration,
    /// Whether an agent and its tools get a cgroup of their own, where that is possible.
    pub cgroup: bool,
    /// `RLIMIT_NPROC` of a tool; `None` sets none.
    pub processes_max: Option<u64>,
    /// The longest pause between two attempts to reach the controller.
    pub reconnect_interval_max: Duration,
    /// Maximum number of extra agents that a supervisor starts, in place of agents whose tasks wait for others.
    pub lend_max: u16,
    /// Bytes of the end of report.log that come back.
    pub report_keep_bytes: usize,
    /// Bytes of the end of stdout that come back.
    pub stdout_keep_bytes: usize,
    /// Bytes of the end of stderr that come back.
    pub stderr_keep_bytes: usize,
    /// Bytes of the value that a tool that stays answers for a task.
    pub value_bytes_max: usize,
    /// Bytes of memory that tools that stay may use while they have no task.
    pub stay_memory_max: u64,
    /// Bytes of each output of a run that are kept on the machine of the agent.
    pub output_keep_bytes: u64,
    /// Bytes of all outputs that an agent keeps, compressed.
    pub output_budget_bytes: u64,
    /// Bytes that the tasks of step graphs keep for later steps, on one machine.
    pub out_keep_bytes: u64,
    /// Bytes of unpacked tools that are kept.
    pub tool_cache_bytes_max: u64,
    /// Maximum number of folders that are kept for later tasks of the same tools.
    pub spare_folders_max: usize,
    /// Features of an agent that tasks may require.
    pub tags: Labels,
}

impl AgentSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let kill_count = reader.number("AGENT_KILL_COUNT", 1..=1000, "signals")?;
        // Linux has at most 2^22 process ids.
        let processes_max = reader.number("AGENT_PROCESSES_MAX", 0..=1 << 22, "processes")?;
        let heartbeat_interval = reader.millis("AGENT_HEARTBEAT_INTERVAL", 1..=HOUR)?;
        let lost_after = reader.millis("AGENT_LOST_AFTER", 0..=30 * DAY)?;
        Ok(Self {
            heartbeat_interval,
            lost_after: if lost_after.is_zero() { heartbeat_interval * 2 } else { lost_after },
            kill_interval: reader.millis("AGENT_KILL_INTERVAL", 1..=HOUR)?,
            kill_count: u32::try_from(kill_count).unwrap_or(u32::MAX),
            straggler_grace: reader.millis("AGENT_STRAGGLER_GRACE", 0..=HOUR)?,
            foreign_process_timeout: reader.millis("AGENT_FOREIGN_PROCESS_TIMEOUT", 0..=DAY)?,
            stop_timeout: reader.millis("AGENT_STOP_TIMEOUT", 0..=HOUR)?,
            cgroup: reader.parsed("AGENT_CGROUP", "\"auto\" or \"off\"", |text| match text {
                "auto" => Some(true),
                "off" => Some(false),
                _ => None,
            })?,
            processes_max: (processes_max > 0).then_some(processes_max),
            // The first pause is 100 ms.
            reconnect_interval_max: reader.millis("AGENT_RECONNECT_INTERVAL_MAX", 100..=HOUR)?,
            lend_max: u16::try_from(reader.number("AGENT_LEND_MAX", 0..=1000, "agents")?).unwrap_or(u16::MAX),
            report_keep_bytes: reader.size("REPORT_LOG_KEEP_BYTES", 0..=64 * MIB, "bytes")?,
            stdout_keep_bytes: reader.size("STDOUT_KEEP_BYTES", 0..=64 * MIB, "bytes")?,
            stderr_keep_bytes: reader.size("STDERR_KEEP_BYTES", 0..=64 * MIB, "bytes")?,
            value_bytes_max: reader.size("VALUE_BYTES_MAX", 0..=64 * MIB, "bytes")?,
            stay_memory_max: reader.number("STAY_MEMORY_MAX", 0..=PIB, "bytes")?,
            output_keep_bytes: reader.number("OUTPUT_KEEP_BYTES", 0..=PIB, "bytes")?,
            out_keep_bytes: reader.number("OUT_KEEP_BYTES", 0..=PIB, "bytes")?,
            output_budget_bytes: reader.number("OUTPUT_BUDGET_BYTES", 0..=PIB, "bytes")?,
            tool_cache_bytes_max: reader.number("TOOL_CACHE_BYTES_MAX", 0..=PIB, "bytes")?,
            spare_folders_max: reader.size("AGENT_SPARE_FOLDERS_MAX", 0..=1000, "folders")?,
            tags: reader.labels("AGENT_TAGS")?,
        })
    }
}

/// Reads the limits of a tool's archive.
pub(super) fn archive(reader: &mut Reader) -> Result<Limits, ConfigError> {
    Ok(Limits {
        packed_bytes: reader.number("ARCHIVE_BYTES_MAX", 1..=PIB, "bytes")?,
        unpacked_bytes: reader.number("UNPACKED_BYTES_MAX", 1..=PIB, "bytes")?,
        entries: reader.number("ARCHIVE_ENTRIES_MAX", 1..=100_000_000, "entries")?,
        ratio: reader.number("ARCHIVE_RATIO_MAX", 1..=1_000_000, "unpacked bytes per packed byte")?,
        ratio_free_bytes: Limits::RATIO_FREE_BYTES,
        // Linux does not accept longer paths.
        path_bytes: reader.number("ARCHIVE_PATH_BYTES_MAX", 1..=4096, "bytes")?,
        depth: reader.number("ARCHIVE_DEPTH_MAX", 1..=2048, "folders")?,
        timeout: reader.millis("UNPACK_TIMEOUT", 1..=DAY)?,
    })
}

/// Folders; relative ones begin in the current folder, which is the home in every part of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathsSection {
    /// Folder with a folder for each task.
    pub work_dir: PathBuf,
    /// Folder of the packed tools.
    pub tools_dir: PathBuf,
    /// Folder of the sources of tools; `None` packs nothing.
    pub tool_sources_dir: Option<PathBuf>,
    /// Folder for data that outlives a process.
    pub state_dir: PathBuf,
}

impl PathsSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            work_dir: reader.path("AGENT_WORK_DIR")?,
            tools_dir: reader.path("AGENT_TOOLS_DIR")?,
            tool_sources_dir: reader.path_or_none("TOOL_SOURCES_DIR")?,
            state_dir: reader.path("STATE_DIR")?,
        })
    }
}
