//! A connection to Redis that is made when it is needed, and scripts by their digests.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{
    Client, Connection, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo as _, ProtocolVersion,
    RedisConnectionInfo, TlsCertificates, Value,
};

use super::error::RedisError;
use super::outage::patiently;
use super::scripts::Code;
use api::config::RedisSection;

/// Time limit for a connection, with its login.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for an answer: longer than any script takes, and short enough that a lease survives two lost answers.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(8);

/// A script with all of its arguments.
#[derive(Clone)]
pub(super) struct Call {
    code: Code,
    arguments: Vec<Vec<u8>>,
}

impl Call {
    pub(super) const fn new(code: Code) -> Self {
        Self { code, arguments: Vec::new() }
    }

    /// The name of the script.
    pub(super) const fn name(&self) -> &'static str {
        self.code.name
    }

    pub(super) fn arg(mut self, argument: impl AsRef<[u8]>) -> Self {
        self.arguments.push(argument.as_ref().to_vec());
        self
    }
}

/// How Redis is reached.
#[derive(Clone, Debug)]
pub(super) struct Address {
    client: Client,
    shown: String,
}

impl Address {
    pub(super) fn new(section: &RedisSection) -> Result<Self, RedisError> {
        let shown = format!("{}:{}", section.host, section.port);
        let failed = |error: redis::RedisError| failure(&shown, "connect", &error);
        let mut redis = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP2)
            .set_db(section.db.into())
            .set_skip_set_lib_name();
        if let Some(username) = &section.username {
            redis = redis.set_username(username);
        }
        if let Some(password) = &section.password {
            redis = redis.set_password(password.reveal());
        }
        let scheme = if section.tls.is_some() { "rediss" } else { "redis" };
        let host = if section.host.contains(':') { format!("[{}]", section.host) } else { section.host.clone() };
        // The URL is parsed for the kind of the address only; what is secret never stands in one.
        let address: ConnectionAddr = match &section.tls {
            None => ConnectionAddr::Tcp(section.host.clone(), section.port),
            Some(_) => {
                format!("{scheme}://{host}:{}", section.port).into_connection_info().map_err(failed)?.addr().clone()
            }
        };
        let info = |address: ConnectionAddr| -> Result<ConnectionInfo, redis::RedisError> {
            Ok(address
                .into_connection_info()?
                .set_redis_settings(redis)
                .set_tcp_settings(TcpSettings::default().set_nodelay(true)))
        };
        let info = info(address).map_err(failed)?;
        let Some(tls) = &section.tls else { return Ok(Self { client: Client::open(info).map_err(failed)?, shown }) };
        // Another part of the process may have chosen one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let root_cert = tls.ca_file.as_ref().map(|path| {
            std::fs::read(path)
                .map_err(|error| RedisError::Certificates { path: path.clone(), message: error.to_string() })
        });
        let certificates = TlsCertificates { client_tls: None, root_cert: root_cert.transpose()? };
        let client = Client::build_with_tls(info, certificates).map_err(|error| match &tls.ca_file {
            Some(path) => RedisError::Certificates { path: path.clone(), message: error.to_string() },
            None => failed(error),
        })?;
        Ok(Self { client, shown })
    }

    /// A new connection, which has been let in.
    pub(super) fn connect(&self) -> Result<Connection, RedisError> {
        let connect = || {
            let mut connection = self.client.get_connection_with_timeout(CONNECT_TIMEOUT)?;
            connection.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
            connection.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
            // Redis asks for its password after a short command; a long one would be a breach of its protocol.
            redis::cmd("PING").exec(&mut connection)?;
            Ok(connection)
        };
        connect().map_err(|error: redis::RedisError| failure(&self.shown, "connect", &error))
    }

    pub(super) fn shown(&self) -> &str {
        &self.shown
    }
}

/// A connection that is made again when it is needed after it broke.
pub(super) struct Link {
    address: Address,
    connection: Option<Connection>,
    /// The key of each script: the prefix of the namespace.
    prefix: String,
    digests: BTreeMap<&'static str, String>,
}

impl Link {
    /// A connection that breaks before it is of use is made again; one that is refused is not.
    pub(super) fn connect(address: Address, prefix: String) -> Result<Self, RedisError> {
        let connection = patiently(RedisError::is_passing_at_start, || address.connect())?;
        Ok(Self { connection: Some(connection), ..Self::new(address, prefix) })
    }

    /// The first call makes the connection.
    pub(super) const fn new(address: Address, prefix: String) -> Self {
        Self { address, connection: None, prefix, digests: BTreeMap::new() }
    }

    /// Another connection to the same keys, which its first call makes.
    pub(super) fn another(&self) -> Self {
        Self::new(self.address.clone(), self.prefix.clone())
    }

    /// Runs one script.
    pub(super) fn call(&mut self, call: Call) -> Result<Value, RedisError> {
        let name = call.name();
        let mut answers = self.call_all(&[call])?;
        answers.pop().ok_or_else(|| self.reply(name))
    }

    /// Runs scripts in this order, in one round trip. The first error is the answer.
    pub(super) fn call_all(&mut self, calls: &[Call]) -> Result<Vec<Value>, RedisError> {
        let mut answers = self.evaluate(calls, false)?;
        let unknown: Vec<usize> = (0..answers.len()).filter(|at| is_unknown_script(&answers[*at])).collect();
        if let Some(first) = unknown.first().copied() {
            // No later script has run before the failed one: all from there on are sent again, in order. Each is safe to send twice.
            answers.truncate(first);
            answers.extend(self.evaluate(&calls[first..], true)?);
        }
        for (answer, call) in answers.iter().zip(calls) {
            if let Value::ServerError(error) = answer {
                let error = redis::RedisError::from(error.clone());
                return Err(failure(&self.address.shown, call.code.name, &error));
            }
        }
        Ok(answers)
    }

    fn evaluate(&mut self, calls: &[Call], whole: bool) -> Result<Vec<Value>, RedisError> {
        let mut bytes = Vec::new();
        for call in calls {
            let mut command = redis::cmd(if whole { "EVAL" } else { "EVALSHA" });
            if whole {
                command.arg(call.code.text);
            } else {
                let digest = || redis::Script::new(call.code.text).get_hash().to_owned();
                command.arg(&*self.digests.entry(call.code.name).or_insert_with(digest));
            }
            command.arg(1).arg(&self.prefix);
            for argument in &call.arguments {
                command.arg(argument);
            }
            command.write_packed_command(&mut bytes);
        }
        self.send(&bytes, calls.len())
    }

    /// A plain command, for what needs no script.
    pub(super) fn command(&mut self, name: &'static str, command: &redis::Cmd) -> Result<Value, RedisError> {
        let answer = self.send(&command.get_packed_command(), 1)?.pop();
        match answer {
            Some(Value::ServerError(error)) => Err(failure(&self.address.shown, name, &redis::RedisError::from(error))),
            Some(value) => Ok(value),
            None => Err(self.reply(name)),
        }
    }

    fn send(&mut self, bytes: &[u8], count: usize) -> Result<Vec<Value>, RedisError> {
        use redis::ConnectionLike as _;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.address.connect()?,
        };
        match connection.req_packed_commands(bytes, 0, count) {
            Ok(values) => {
                self.connection = Some(connection);
                Ok(values)
            }
            // The next answer of this connection could belong to another call, so the connection is closed.
            Err(error) => Err(failure(&self.address.shown, "read an answer", &error)),
        }
    }

    pub(super) fn reply(&self, script: &'static str) -> RedisError {
        RedisError::Reply { address: self.address.shown.clone(), script }
    }
}

fn is_unknown_script(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

pub(super) fn failure(address: &str, script: &'static str, error: &redis::RedisError) -> RedisError {
    let address = address.to_owned();
    let code = error.code().unwrap_or_default().to_owned();
    let message = match error.detail() {
        Some(detail) if !code.is_empty() => format!("{code} {detail}"),
        _ => error.to_string(),
    };
    let is_denied = ["NOAUTH", "WRONGPASS", "NOPERM"].contains(&code.as_str())
        || error.kind() == ErrorKind::AuthenticationFailed
        || (script == "connect" && !code.is_empty() && !["LOADING", "BUSY", "MASTERDOWN"].contains(&code.as_str()));
    if message.contains("peer certificate") {
        RedisError::Untrusted { address, message }
    } else if is_denied {
        RedisError::Denied { address, message }
    } else if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() {
        let was_reached = error.is_connection_dropped() && !error.is_connection_refusal();
        RedisError::Away { address, message, was_reached }
    } else {
        RedisError::Failed { address, script, message }
    }
}
