//! The source of a program that a task names: `http://…`, `https://…` or `rsync:…`. Its ending says in which form the
//! program comes. Also the sources that the owner of a service allows: `[source] ALLOW_SCHEMES` and `ALLOW_HOSTS`.

mod allowed;
mod name;

use super::ToolName;
pub use allowed::{AllowedHost, AllowedSources, InvalidAllowedHost, SourceRefusal};
pub use name::{InvalidProgramName, ProgramName};

/// The valid endings, for people.
const ENDINGS: &str = ".zip, .tar, .tar.gz, .tar.bz, .tar.bz2, /run.sh or :run.sh";

const RSYNC: &str = "rsync:";

/// A valid source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The text in the task.
    text: String,
    scheme: SourceScheme,
    form: SourceForm,
}

/// The protocol of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceScheme {
    /// `http://`
    Http,
    /// `https://`
    Https,
    /// `rsync:`
    Rsync,
}

/// The format of the fetched bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceForm {
    /// A run.sh that is the whole program.
    Script,
    /// A zip archive. Like every archive, it has a run.sh at its top.
    Zip,
    /// A tar archive.
    Tar,
    /// A tar archive compressed with gzip.
    TarGz,
    /// A tar archive compressed with bzip2.
    TarBz2,
}

/// A program that the agent of a task fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSource {
    /// The name of the program.
    pub program: ToolName,
    /// Where it is fetched from.
    pub source: Source,
    /// The SHA-256 that the fetched bytes must have: 64 hexadecimal digits in lower case.
    pub sha256: Option<String>,
    /// The text after `./run.sh` in the line for `sh` that starts it, without a NUL byte; `None` to start run.sh directly.
    pub input: Option<Vec<u8>>,
    /// The sources that may be used, also after redirects; `None` for any.
    pub allowed: Option<AllowedSources>,
}

impl SourceScheme {
    const ALL: [Self; 3] = [Self::Http, Self::Https, Self::Rsync];

    /// Its word in a source and in the configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Rsync => "rsync",
        }
    }

    /// The scheme with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.word() == word)
    }
}

/// A text that names no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSource {
    /// It begins with none of the three.
    #[error("the source {0:?} is unknown: it must begin with http://, https:// or rsync:")]
    Scheme(String),
    /// It ends with none of the forms.
    #[error("the source {0:?} is of an unknown kind: it must end with {ENDINGS}")]
    Ending(String),
    /// rsync or ssh would take it for something other than a path or a host.
    #[error("the source {source_text:?} {why}")]
    Place {
        /// The text in the task.
        source_text: String,
        /// The rest of the sentence.
        why: &'static str,
    },
}

impl Source {
    /// Parses a source.
    ///
    /// # Errors
    /// [`InvalidSource`]
    pub fn new(text: &str) -> Result<Self, InvalidSource> {
        let scheme = if text.starts_with("http://") {
            SourceScheme::Http
        } else if text.starts_with("https://") {
            SourceScheme::Https
        } else if let Some(place) = text.strip_prefix(RSYNC) {
            check_place(place).map_err(|why| InvalidSource::Place { source_text: shown(text), why })?;
            SourceScheme::Rsync
        } else {
            return Err(InvalidSource::Scheme(shown(text)));
        };
        if text.chars().any(char::is_control) {
            return Err(InvalidSource::Place { source_text: shown(text), why: "holds a control character" });
        }
        let form = form(text).ok_or_else(|| InvalidSource::Ending(shown(text)))?;
        Ok(Self { text: text.to_owned(), scheme, form })
    }

    /// The text in the task.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its protocol.
    #[must_use]
    pub const fn scheme(&self) -> SourceScheme {
        self.scheme
    }

    /// The format of the fetched bytes.
    #[must_use]
    pub const fn form(&self) -> SourceForm {
        self.form
    }

    /// Whether rsync reaches this place through an rsync server, not through a remote shell.
    #[must_use]
    pub fn is_of_rsync_server(place: &str) -> bool {
        matches!(RsyncPeer::of(place), RsyncPeer::Server(_))
    }

    /// The place, as an argument for rsync.
    #[must_use]
    pub fn rsync_path(&self) -> &str {
        self.text.strip_prefix(RSYNC).unwrap_or_default()
    }
}

/// The form that an ending names. A source with a query after its path has none.
fn form(text: &str) -> Option<SourceForm> {
    [
        (".zip", SourceForm::Zip),
        (".tar", SourceForm::Tar),
        (".tar.gz", SourceForm::TarGz),
        (".tar.bz", SourceForm::TarBz2),
        (".tar.bz2", SourceForm::TarBz2),
        ("/run.sh", SourceForm::Script),
        (":run.sh", SourceForm::Script),
    ]
    .into_iter()
    .find_map(|(ending, form)| text.ends_with(ending).then_some(form))
}

/// The prefix of an rsync server's place. Case is ignored.
const SERVER: &str = "rsync://";

/// The peer of a place, as rsync parses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RsyncPeer<'a> {
    /// The place is on this machine.
    None,
    /// `[USER@]HOST:PATH`, reached through a remote shell. The first colon ends the host, unless a slash comes before it.
    Shell(&'a str),
    /// `rsync://[USER@]HOST[:PORT]/MODULE/PATH` or `[USER@]HOST::MODULE/PATH`: an rsync server.
    Server(&'a str),
}

impl<'a> RsyncPeer<'a> {
    fn of(place: &'a str) -> Self {
        if place.get(..SERVER.len()).is_some_and(|start| start.eq_ignore_ascii_case(SERVER)) {
            let authority = place[SERVER.len()..].split('/').next().unwrap_or_default();
            let digits = authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
            return Self::Server(digits.map_or(authority, |(host, _)| host));
        }
        match place.split_once(':').filter(|(host, _)| !host.contains('/')) {
            None => Self::None,
            Some((host, rest)) if rest.starts_with(':') => Self::Server(host),
            Some((host, _)) => Self::Shell(host),
        }
    }

    const fn host(self) -> Option<&'a str> {
        match self {
            Self::None => None,
            Self::Shell(host) | Self::Server(host) => Some(host),
        }
    }
}

/// Checks the place of an rsync source. rsync passes the host to ssh as a separate argument, where a leading `-` would
/// make it an option.
fn check_place(place: &str) -> Result<(), &'static str> {
    if place.starts_with('-') {
        return Err("begins its path with -, which would be an option");
    }
    let Some(host) = RsyncPeer::of(place).host() else { return Ok(()) };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-[]".contains(&byte);
    let is_address = |part: &str| {
        let inner = part.strip_prefix('[').and_then(|part| part.strip_suffix(']'));
        inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
    };
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('-') && part.bytes().all(is_allowed);
    let fits = host.split('@').count() <= 2 && host.split('@').all(|part| is_part(part) || is_address(part));
    if fits { Ok(()) } else { Err("has no host that ssh could be given: use A-Z a-z 0-9 . _ - only, not - in front") }
}

/// The beginning of a source, for a message. A source may have any length.
fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    text.chars().take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sources_of_the_document_are_read() {
        for (text, scheme, form) in [
            ("http://bla.fasel/program-v1.zip", SourceScheme::Http, SourceForm::Zip),
            ("https://bla.fasel/program-v2.tar", SourceScheme::Https, SourceForm::Tar),
            ("http://bla.fasel/crawler-1.tar.gz", SourceScheme::Http, SourceForm::TarGz),
            ("http://bla.fasel/crawler.tar.bz", SourceScheme::Http, SourceForm::TarBz2),
            ("http://bla.fasel/run.sh", SourceScheme::Http, SourceForm::Script),
            ("rsync:bla.fasel:program-v1.zip", SourceScheme::Rsync, SourceForm::Zip),
            ("rsync:me@bla.fasel:program-v2.tar.bz2", SourceScheme::Rsync, SourceForm::TarBz2),
            ("rsync:/local/crawler-1.tar.gz", SourceScheme::Rsync, SourceForm::TarGz),
            ("rsync:also-local/fasel/bla/run.sh", SourceScheme::Rsync, SourceForm::Script),
            ("rsync:bla.fasel:run.sh", SourceScheme::Rsync, SourceForm::Script),
            ("rsync:/a folder/it's; a $(name)/run.sh", SourceScheme::Rsync, SourceForm::Script),
        ] {
            let source = Source::new(text).unwrap();
            assert_eq!((source.scheme(), source.form()), (scheme, form), "{text}");
        }
        assert_eq!(Source::new("rsync:host:a/run.sh").unwrap().rsync_path(), "host:a/run.sh");
    }

    #[test]
    fn an_rsync_server_is_told_from_a_host_with_a_shell() {
        for (place, peer) in [
            ("/local/run.sh", RsyncPeer::None),
            ("folder/a:b/run.sh", RsyncPeer::None),
            ("me@host:a/run.sh", RsyncPeer::Shell("me@host")),
            ("rsync://host/module/run.sh", RsyncPeer::Server("host")),
            ("RSYNC://me@host:8873/module/run.sh", RsyncPeer::Server("me@host")),
            ("rsync://[2001:db8::1]:873/module/run.sh", RsyncPeer::Server("[2001:db8::1]")),
            ("me@host::module/run.sh", RsyncPeer::Server("me@host")),
        ] {
            assert_eq!(RsyncPeer::of(place), peer, "{place}");
            assert!(Source::new(&format!("rsync:{place}")).is_ok(), "{place}");
        }
        for place in ["rsync://-oX/m/run.sh", "rsync:///m/run.sh", "rsync://a;b/m/run.sh", "-x::m/run.sh"] {
            assert!(Source::new(&format!("rsync:{place}")).is_err(), "{place}");
        }
        let allowed = |hosts: &str| AllowedSources::parse(&format!("rsync {hosts}")).unwrap();
        for place in ["rsync:rsync://me@Host:8873/m/run.sh", "rsync:host::m/run.sh"] {
            let source = Source::new(place).unwrap();
            assert!(allowed("host").check(&source).is_ok() && allowed("rsync").check(&source).is_err(), "{place}");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_refused_with_a_sentence() {
        for (text, why) in [
            ("", "must begin with"),
            ("ftp://x/run.sh", "must begin with"),
            ("/local/run.sh", "must begin with"),
            ("HTTP://x/run.sh", "must begin with"),
            ("http://x/program.zip?x=1", "must end with .zip, .tar"),
            ("http://x/program.rar", "must end with"),
            ("rsync:x", "must end with"),
            ("rsync:--rsh=touch pwned/run.sh", "would be an option"),
            ("rsync:-oProxyCommand=touch pwned:/run.sh", "would be an option"),
            ("rsync:me@-oProxyCommand=x:/run.sh", "no host"),
            ("rsync:a;b:/run.sh", "no host"),
            ("rsync::/run.sh", "no host"),
            ("http://x/a\nb/run.sh", "control character"),
        ] {
            let sentence = Source::new(text).unwrap_err().to_string();
            assert!(sentence.contains(why), "{text}: {sentence}");
        }
    }
}
