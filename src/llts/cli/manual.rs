//! The pages of the manual, taken from `docs/`: shown by `llts help TOPIC`, and written as manual pages by `llts man DIR`.

mod blocks;
mod roff;
mod screen;

use clap::CommandFactory as _;

use super::about::ManArgs;
use super::args::Arguments;
use term::exit::Failure;
use term::output::Output;

/// Maximum number of columns of a page, also used if the width is unknown.
const COLUMNS: usize = 80;

/// The list of all pages, with their titles.
const SUMMARY: &str = include_str!("../../../docs/SUMMARY.md");

macro_rules! pages {
    ($($path:literal),* $(,)?) => { [$(($path, include_str!(concat!("../../../docs/", $path)))),*] };
}

/// The texts of the pages in SUMMARY.md, except for those in [`OF_THE_CODE`].
const PAGES: [(&str, &str); 20] = pages![
    "README.md",
    "shell.md",
    "tools.md",
    "stay.md",
    "program.md",
    "python.md",
    "operate.md",
    "machines.md",
    "second-machine.md",
    "security.md",
    "prompts.md",
    "tdf.md",
    "task-lists.md",
    "step-graphs.md",
    "reference/wire.md",
    "reference/fields.md",
    "reference/exit-codes.md",
    "reference/configuration.md",
    "reference/json.md",
    "reference/agents.md",
];

/// Folders of pages for readers of the code.
const OF_THE_CODE: [&str; 2] = ["design/", "sources/"];

/// A page as `llts help` lists it.
pub(super) struct Topic {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    path: &'static str,
}

/// The pages for users in SUMMARY.md, in its order.
pub(super) fn topics() -> impl Iterator<Item = Topic> {
    let link = |line: &'static str| {
        let (title, rest) = line.split_once('[')?.1.split_once("](")?;
        let path = rest.strip_suffix(')')?;
        Some((title, path))
    };
    let topic = |(title, path): (&'static str, &'static str)| {
        let stem = path.rsplit('/').next().and_then(|file| file.strip_suffix(".md"))?;
        Some(Topic { name: if stem == "README" { "manual" } else { stem }, title, path })
    };
    let is_for_users = |(_, path): &(&str, &str)| !OF_THE_CODE.iter().any(|folder| path.starts_with(folder));
    SUMMARY.lines().filter_map(link).filter(is_for_users).filter_map(topic)
}

/// The text of a page. It takes precedence over a command of the same name, whose help is that of `--help`.
pub(super) fn page(name: &str) -> Option<&'static str> {
    let topic = topics().find(|topic| topic.name == name)?;
    text(&topic)
}

fn text(topic: &Topic) -> Option<&'static str> {
    PAGES.iter().find(|(path, _)| *path == topic.path).map(|(_, text)| *text)
}

/// Prints a page in the width of the terminal, but not too wide for reading.
pub(super) fn show(out: &mut Output, page: &str) {
    let columns = out.columns().unwrap_or(COLUMNS).clamp(20, COLUMNS);
    out.styled(&screen::render(&blocks::parse(page), columns));
}

/// `llts man DIR`: a manual page for each command and for each page of the manual.
pub(super) fn write(out: &mut Output, args: &ManArgs) -> Result<u8, Failure> {
    let cannot = |error: std::io::Error| Failure::failed(format!("cannot write to {}: {error}", args.folder.display()));
    std::fs::create_dir_all(&args.folder).map_err(cannot)?;
    clap_mangen::generate_to(Arguments::command(), &args.folder).map_err(cannot)?;
    for topic in topics() {
        let Some(text) = text(&topic) else { continue };
        let page = roff::render(&topic, &blocks::parse(text));
        std::fs::write(args.folder.join(format!("llts-{}.7", topic.name)), page).map_err(cannot)?;
    }
    if out.is_json() {
        out.value(&serde_json::json!({ "folder": base::path_text(&args.folder) }));
    } else {
        out.line(format_args!("wrote the manual pages to {}", args.folder.display()));
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_page_is_in_the_program() {
        let listed: Vec<_> = topics().map(|topic| topic.path).collect();
        assert_eq!(listed, PAGES.map(|(path, _)| path), "src/llts/cli/manual.rs: PAGES are those of docs/SUMMARY.md");
        for topic in topics() {
            assert!(page(topic.name).is_some_and(|text| text.starts_with("# ")), "{}", topic.name);
        }
        assert!(page("no-such-page").is_none());
    }

    #[test]
    fn every_page_fits_the_columns() {
        use unicode_width::UnicodeWidthStr as _;
        for topic in topics() {
            let parsed = blocks::parse(text(&topic).unwrap());
            let shown = anstream::adapter::strip_str(&screen::render(&parsed, COLUMNS)).to_string();
            let code = parsed
                .iter()
                .filter_map(|block| if let blocks::Block::Code(lines) = block { Some(lines) } else { None });
            let code: Vec<_> = code.flatten().collect();
            // A line of code is not folded, because it is to be copied.
            let long = shown
                .lines()
                .find(|line| line.width() > COLUMNS && !code.iter().any(|code| line.trim() == code.trim()));
            assert_eq!(long, None, "{}", topic.name);
        }
    }

    #[test]
    fn manual_pages_are_written_for_commands_and_topics() {
        let folder = tempfile::tempdir().unwrap();
        let mut out = Output::new(term::output::Format::Json);
        assert_eq!(write(&mut out, &ManArgs { folder: folder.path().to_owned() }), Ok(0));
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("llts-map.1").contains("keep\\-order"));
        assert!(read("llts.1").contains("llts"));
        assert!(read("llts-shell.7").starts_with(".TH"));
        assert_eq!(write(&mut out, &ManArgs { folder: folder.path().join("made") }), Ok(0));
        let below_a_file = ManArgs { folder: folder.path().join("llts.1/x") };
        assert!(write(&mut out, &below_a_file).unwrap_err().sentence.starts_with("cannot write to"));
    }
}
