//! Where a program comes from, as a task says it: `http://…`, `https://…` or `rsync:…`, and by its ending in which form.

use crate::shell::tools::archive::{Format, Packing};

/// The endings, for people.
const ENDINGS: &str = ".zip, .tar, .tar.gz, .tar.bz, .tar.bz2, /run.sh or :run.sh";

/// A source that can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// As the task says it.
    text: String,
    way: Way,
    form: Form,
}

/// How it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Http,
    Rsync,
}

/// The format of the fetched bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A run.sh that is the whole program.
    Script,
    /// An archive with a run.sh at its top.
    Archive(Format),
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
    /// What rsync or ssh would take for something else than a path or a host.
    #[error("the source {source_text:?} {why}")]
    Place {
        /// As the task says it.
        source_text: String,
        /// The rest of the sentence.
        why: &'static str,
    },
}

impl Source {
    /// Reads a source.
    ///
    /// # Errors
    /// [`InvalidSource`]
    pub fn new(text: &str) -> Result<Self, InvalidSource> {
        let way = if text.starts_with("http://") || text.starts_with("https://") {
            Way::Http
        } else if let Some(place) = text.strip_prefix(RSYNC) {
            check_place(place).map_err(|why| InvalidSource::Place { source_text: shown(text), why })?;
            Way::Rsync
        } else {
            return Err(InvalidSource::Scheme(shown(text)));
        };
        if text.chars().any(char::is_control) {
            return Err(InvalidSource::Place { source_text: shown(text), why: "holds a control character" });
        }
        let form = form(text).ok_or_else(|| InvalidSource::Ending(shown(text)))?;
        Ok(Self { text: text.to_owned(), way, form })
    }

    /// As the task says it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) const fn way(&self) -> Way {
        self.way
    }

    pub(super) const fn form(&self) -> Form {
        self.form
    }

    /// What rsync is called with.
    pub(super) fn rsync_path(&self) -> &str {
        self.text.strip_prefix(RSYNC).unwrap_or_default()
    }
}

const RSYNC: &str = "rsync:";

/// A query behind the path is no part of an ending: such a source is of an unknown kind.
fn form(text: &str) -> Option<Form> {
    let tar = |packing| Form::Archive(Format::Tar(packing));
    [
        (".zip", Form::Archive(Format::Zip)),
        (".tar", tar(Packing::None)),
        (".tar.gz", tar(Packing::Gzip)),
        (".tar.bz", tar(Packing::Bzip2)),
        (".tar.bz2", tar(Packing::Bzip2)),
        ("/run.sh", Form::Script),
        (":run.sh", Form::Script),
    ]
    .into_iter()
    .find_map(|(ending, form)| text.ends_with(ending).then_some(form))
}

/// rsync hands the host to ssh as an argument of its own, where one that begins with `-` would be an option. A first colon
/// without a slash before it ends the host.
fn check_place(place: &str) -> Result<(), &'static str> {
    if place.starts_with('-') {
        return Err("begins its path with -, which would be an option");
    }
    let Some((host, _)) = place.split_once(':').filter(|(host, _)| !host.contains('/')) else { return Ok(()) };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-[]".contains(&byte);
    let fits = host.split('@').count() <= 2
        && host.split('@').all(|part| !part.is_empty() && !part.starts_with('-') && part.bytes().all(is_allowed));
    if fits { Ok(()) } else { Err("has no host that ssh could be given: use A-Z a-z 0-9 . _ - only, not - in front") }
}

/// The beginning of a source, which may be of any length.
fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    text.chars().take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sources_of_the_document_are_read() {
        let tar = |packing| Form::Archive(Format::Tar(packing));
        for (text, way, form) in [
            ("http://bla.fasel/program-v1.zip", Way::Http, Form::Archive(Format::Zip)),
            ("https://bla.fasel/program-v2.tar", Way::Http, tar(Packing::None)),
            ("http://bla.fasel/crawler-1.tar.gz", Way::Http, tar(Packing::Gzip)),
            ("http://bla.fasel/crawler.tar.bz", Way::Http, tar(Packing::Bzip2)),
            ("http://bla.fasel/run.sh", Way::Http, Form::Script),
            ("rsync:bla.fasel:program-v1.zip", Way::Rsync, Form::Archive(Format::Zip)),
            ("rsync:me@bla.fasel:program-v2.tar.bz2", Way::Rsync, tar(Packing::Bzip2)),
            ("rsync:/local/crawler-1.tar.gz", Way::Rsync, tar(Packing::Gzip)),
            ("rsync:also-local/fasel/bla/run.sh", Way::Rsync, Form::Script),
            ("rsync:bla.fasel:run.sh", Way::Rsync, Form::Script),
            ("rsync:/a folder/it's; a $(name)/run.sh", Way::Rsync, Form::Script),
        ] {
            let source = Source::new(text).unwrap();
            assert_eq!((source.way(), source.form()), (way, form), "{text}");
        }
        assert_eq!(Source::new("rsync:host:a/run.sh").unwrap().rsync_path(), "host:a/run.sh");
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
