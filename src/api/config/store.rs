//! Where the queue is kept: in STATE_DIR, or in PostgreSQL.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::ConfigError;
use super::reader::Reader;

/// The word for the file in STATE_DIR.
const FILE: &str = "sqlite";

/// The prefixes of the URLs of servers.
const SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];

/// The values of the key.
const ALLOWED: &str = "\"sqlite\", or a URL such as postgresql://llts@db.example/llts";

/// Milliseconds.
const MINUTE: u64 = 60_000;

/// The store of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSection {
    /// The server; `None` for the file in STATE_DIR.
    pub server: Option<StoreServer>,
    /// The other keys of the store, for a server that a command names.
    beside: Box<StoreServer>,
}

/// A server of PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreServer {
    /// `postgresql://USER@HOST:PORT/DATABASE`.
    pub url: String,
    /// The schema of the tables.
    pub schema: String,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
    /// The file with the certificates that are trusted to identify the server.
    pub ca_file: Option<PathBuf>,
    /// The certificate of the controller, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// How long a controller that has fallen silent remains the leader.
    pub lease: Duration,
}

impl StoreSection {
    /// The place of the store, for messages.
    #[must_use]
    pub fn place(&self, state_dir: &Path) -> String {
        match &self.server {
            None => std::path::absolute(state_dir).unwrap_or_else(|_| state_dir.to_owned()).display().to_string(),
            Some(server) => server.url.clone(),
        }
    }

    /// All paths of files in this section.
    pub(super) fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let servers = self.server.iter_mut().chain([&mut *self.beside]);
        servers.flat_map(|server| {
            let certificate = server.certificate.iter_mut().flat_map(|(certificate, key)| [certificate, key]);
            server.password_file.iter_mut().chain(&mut server.ca_file).chain(certificate)
        })
    }

    /// Another store that a user names: `sqlite`, or a URL. All other keys stay as configured.
    ///
    /// # Errors
    /// With the permitted names.
    pub fn named(&self, text: &str) -> Result<Self, String> {
        if text != FILE && !is_url(text) {
            return Err(format!("{text:?} is no store; allowed: {ALLOWED}"));
        }
        let server = (text != FILE).then(|| StoreServer { url: text.to_owned(), ..StoreServer::clone(&self.beside) });
        Ok(Self { server, ..self.clone() })
    }

    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let url = reader.parsed("STORE", ALLOWED, |text| (is_url(text) || text == FILE).then(|| text.to_owned()))?;
        let is_name = |text: &str| {
            let fits = text.len() <= 63 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            (fits && !text.is_empty()).then(|| text.to_owned())
        };
        let schema = reader.parsed("STORE_SCHEMA", "letters, digits and _, at most 63", is_name)?;
        let password_file = reader.path_or_none("STORE_PASSWORD_FILE")?;
        let ca_file = reader.path_or_none("STORE_CA_FILE")?;
        let files = ["STORE_CERTIFICATE_FILE", "STORE_KEY_FILE"];
        let certificate = match (reader.path_or_none(files[0])?, reader.path_or_none(files[1])?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (found, _) => {
                let [set, missing] = if found.is_some() { files } else { [files[1], files[0]] };
                return Err(ConfigError::Contradiction(format!(
                    "{set} is set and {missing} is not; set both, or neither"
                )));
            }
        };
        let lease = reader.millis("STORE_LEASE", 1000..=10 * MINUTE)?;
        let server = StoreServer { url, schema, password_file, ca_file, certificate, lease };
        Ok(Self { server: (server.url != FILE).then(|| server.clone()), beside: Box::new(server) })
    }
}

fn is_url(text: &str) -> bool {
    SCHEMES.iter().any(|scheme| text.len() > scheme.len() && text.starts_with(scheme))
}
