//! One connection to the server, and the turns of its runtime.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::config::StoreServer;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Runtime;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls, Statement};

use crate::error::said;
use crate::tls::Secured;
use crate::{ANSWER_MAX, Error, schema};

/// Where the queue is, and how a connection to it is secured.
#[derive(Debug)]
pub(crate) struct Server(pub(crate) StoreServer);

impl Server {
    /// The server in sentences: host and database, without anything secret.
    fn place(&self) -> String {
        let Ok(config) = self.0.url.parse::<Config>() else { return self.0.url.clone() };
        let ports = config.get_ports();
        let hosts = config.get_hosts().iter().enumerate().map(|(number, host)| match host {
            Host::Tcp(name) => {
                let port = ports.get(number).or(ports.first()).copied().unwrap_or(5432);
                format!("{name}:{port}")
            }
            Host::Unix(path) => path.display().to_string(),
        });
        let hosts: Vec<String> = hosts.collect();
        let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
        let schema = &self.0.schema;
        let of = if schema == database { String::new() } else { format!(" (schema {schema})") };
        format!("postgresql://{}/{database}{of}", hosts.join(","))
    }

    fn config(&self) -> Result<Config, Error> {
        let url = |what: String| Error::Setting { key: "STORE", what };
        let mut config: Config =
            self.0.url.parse().map_err(|error| url(format!("{:?} is no URL of PostgreSQL: {error}", self.place())))?;
        if config.get_password().is_some() {
            return Err(url(
                "it has a password, which `llts config` and logs would show; put it into a file of mode 600, and name that with \
                 STORE_PASSWORD_FILE"
                    .to_owned(),
            ));
        }
        if let Some(file) = &self.0.password_file {
            let bad = |what: String| Error::Setting { key: "STORE_PASSWORD_FILE", what };
            let unreadable = |error| bad(format!("cannot read {}: {error}", file.display()));
            if fs::metadata(file).map_err(unreadable)?.mode() & 0o077 != 0 {
                return Err(bad(format!("other users can read {0}: `chmod 600 {0}`", file.display())));
            }
            config.password(fs::read_to_string(file).map_err(unreadable)?.trim_end_matches(['\r', '\n']));
        }
        config.application_name("llts");
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(self.0.lease.min(ANSWER_MAX));
        }
        config.tcp_user_timeout(self.0.lease.min(ANSWER_MAX)).keepalives_idle(self.0.lease);
        Ok(config)
    }

    fn tls(&self, config: &Config) -> Result<Option<Secured>, Error> {
        let is_remote = config.get_hosts().iter().any(|host| match host {
            Host::Tcp(name) => name != "localhost" && !name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback()),
            Host::Unix(_) => false,
        });
        let Some(file) = &self.0.ca_file else {
            if config.get_ssl_mode() == SslMode::Require || (is_remote && config.get_ssl_mode() != SslMode::Disable) {
                let what = format!(
                    "is empty, so the server at {} cannot be checked; name the file with the certificate of its authority, or let \
                     STORE end in `?sslmode=disable` where the network between is safe",
                    self.place()
                );
                return Err(Error::Setting { key: "STORE_CA_FILE", what });
            }
            return Ok(None);
        };
        let unreadable = |key, file: &PathBuf, error: &dyn std::fmt::Display| Error::Setting {
            key,
            what: format!("cannot read {}: {error}", file.display()),
        };
        let certificates = |key, file: &PathBuf| -> Result<Vec<_>, Error> {
            let found = CertificateDer::pem_file_iter(file).map_err(|error| unreadable(key, file, &error))?;
            found.collect::<Result<_, _>>().map_err(|error| unreadable(key, file, &error))
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates("STORE_CA_FILE", file)? {
            roots.add(certificate).map_err(|error| unreadable("STORE_CA_FILE", file, &error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| unreadable("STORE_CA_FILE", file, &error))?.with_root_certificates(roots);
        let config = match &self.0.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates("STORE_CERTIFICATE_FILE", certificate)?;
                let private = PrivateKeyDer::from_pem_file(key);
                let private = private.map_err(|error| unreadable("STORE_KEY_FILE", key, &error))?;
                builder.with_client_auth_cert(chain, private).map_err(|error| Error::Setting {
                    key: "STORE_CERTIFICATE_FILE",
                    what: format!("cannot use {} with {}: {error}", certificate.display(), key.display()),
                })?
            }
        };
        Ok(Some(Secured(Arc::new(config))))
    }
}

/// One connection, for one thread.
pub struct Session {
    pub(crate) server: Server,
    pub(crate) runtime: Runtime,
    /// None after a failure: the next use connects again.
    pub(crate) client: Option<Client>,
    /// The statements that this connection has prepared.
    pub(crate) prepared: BTreeMap<&'static str, Statement>,
    /// What this session knows of the row of the leader.
    pub(crate) leads: Option<crate::lead::Known>,
    pub(crate) standbys: usize,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(&self.server.place()).finish()
    }
}

impl Session {
    /// Connects, and makes or migrates the tables.
    ///
    /// # Errors
    /// When the server cannot be reached, refuses, or has tables of a newer version.
    pub fn open(server: StoreServer) -> Result<Self, Error> {
        let server = Server(server);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::Connect { place: server.place(), why: error.to_string() })?;
        let mut session = Self { server, runtime, client: None, prepared: BTreeMap::new(), leads: None, standbys: 0 };
        session.connect()?;
        session.migrate()?;
        Ok(session)
    }

    /// The server in sentences.
    #[must_use]
    pub fn place(&self) -> String {
        self.server.place()
    }

    /// Connects where that is necessary.
    pub(crate) fn connect(&mut self) -> Result<(), Error> {
        if self.client.as_ref().is_some_and(|client| !client.is_closed()) {
            return Ok(());
        }
        let config = self.server.config()?;
        let tls = self.server.tls(&config)?;
        let schema = self.server.0.schema.clone();
        let place = self.server.place();
        let limit = self.patience();
        let connecting = async move {
            let client = match tls {
                Some(tls) => {
                    let mut config = config;
                    config.ssl_mode(SslMode::Require);
                    let (client, connection) = config.connect(tls).await?;
                    tokio::spawn(connection);
                    client
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    tokio::spawn(connection);
                    client
                }
            };
            // The lock of the tables' schema is waited for no longer than an answer.
            let settings = format!(
                "SET search_path TO {}; SET lock_timeout TO {}; SET statement_timeout TO 0",
                quoted(&schema),
                ANSWER_MAX.as_millis() / 2
            );
            client.batch_execute(&settings).await?;
            Ok::<_, tokio_postgres::Error>(client)
        };
        // One that is frozen takes connections all the same.
        let connected = self.runtime.block_on(async { tokio::time::timeout(limit, connecting).await });
        let connected = connected.map_err(|_| Error::Silent { place: place.clone(), seconds: limit.as_secs() })?;
        let client = connected.map_err(|error| Error::Connect { place: place.clone(), why: said(&error) })?;
        log::info!("connected to {place}");
        self.prepared.clear();
        self.client = Some(client);
        Ok(())
    }

    /// How long a leader leads after its last commit.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        self.server.0.lease
    }

    /// How long an answer is waited for: no longer than a lease, after which another controller may lead.
    pub(crate) fn patience(&self) -> Duration {
        self.server.0.lease.min(ANSWER_MAX)
    }

    /// Runs a future of this connection, as long as patience lasts; the connection is given up after that, and after an error that is
    /// not the server's own answer.
    pub(crate) fn ask<T>(
        &mut self,
        work: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Asked> {
        self.connect().map_err(Asked::Unconnected)?;
        let limit = self.patience();
        let Some(client) = &self.client else { unreachable!("it was just connected") };
        let answer = self.runtime.block_on(async { tokio::time::timeout(limit, work(client)).await });
        match answer {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => {
                if !crate::error::is_answer(&error) {
                    self.client = None;
                }
                Err(Asked::Failed(error))
            }
            Err(_) => {
                self.client = None;
                Err(Asked::Silent(limit))
            }
        }
    }

    /// The sentence of a question that was not answered.
    pub(crate) fn explain(&self, asked: Asked) -> Error {
        let place = self.place();
        match asked {
            Asked::Unconnected(error) => error,
            Asked::Failed(error) if error.as_db_error().is_some() => Error::Refused { place, why: said(&error) },
            Asked::Failed(error) => Error::Broken { place, why: said(&error) },
            Asked::Silent(limit) => Error::Silent { place, seconds: limit.as_secs() },
        }
    }

    /// Asks a question that needs no more care.
    pub(crate) fn query<T>(
        &mut self,
        work: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        self.ask(work).map_err(|asked| self.explain(asked))
    }

    fn migrate(&mut self) -> Result<(), Error> {
        let schema = self.server.0.schema.clone();
        let found = self.query(async |client| {
            let encoding: String = client.query_one("SHOW server_encoding", &[]).await?.get(0);
            let is_replica: bool = client.query_one("SELECT pg_is_in_recovery()", &[]).await?.get(0);
            let has_tables: bool = client.query_one(schema::HAS_VERSION, &[]).await?.get(0);
            let version = match has_tables {
                true => client.query_one(schema::GET_VERSION, &[]).await?.get(0),
                false => 0,
            };
            Ok((encoding, version, is_replica))
        });
        let (encoding, found, is_replica): (String, i32, bool) = found?;
        let place = self.place();
        if is_replica {
            let what = format!(
                "the server {place} is a replica: name the primary, or both with `?target_session_attrs=read-write`"
            );
            return Err(Error::Setting { key: "STORE", what });
        }
        if encoding != "UTF8" {
            let what = format!("the database {place} has the encoding {encoding}; make one with UTF8");
            return Err(Error::Setting { key: "STORE", what });
        }
        if found == schema::VERSION {
            return Ok(());
        }
        let Some(missing) = usize::try_from(found).ok().and_then(|done| schema::MIGRATIONS.get(done..)) else {
            return Err(Error::Newer { place, found, known: schema::VERSION });
        };
        self.query(async |client| {
            // A user that may not make schemas uses one that is there.
            let has_schema: bool =
                client.query_one("SELECT to_regnamespace(quote_ident($1)) IS NOT NULL", &[&schema]).await?.get(0);
            let make = if has_schema { String::new() } else { format!("CREATE SCHEMA {};", quoted(&schema)) };
            let (script, version) = (missing.join("\n"), schema::VERSION);
            // Two controllers may do this at once: the second one waits, fails, and finds it done.
            let lock = "SELECT pg_advisory_xact_lock(7812730511)";
            let script = format!("BEGIN; {lock}; {make}\n{script}\nUPDATE version SET number = {version}; COMMIT");
            let done = client.batch_execute(&script).await;
            if done.is_err() {
                client.batch_execute("ROLLBACK").await?;
                let is_there: bool = client.query_one(schema::HAS_VERSION, &[]).await?.get(0);
                if is_there && client.query_one(schema::GET_VERSION, &[]).await?.get::<_, i32>(0) == version {
                    return Ok(());
                }
            }
            done
        })
    }
}

/// Why there is no answer.
pub(crate) enum Asked {
    Unconnected(Error),
    Failed(tokio_postgres::Error),
    Silent(Duration),
}

/// An identifier in a statement.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
