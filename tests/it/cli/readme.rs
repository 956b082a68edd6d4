//! The README, the manual below docs/, and the pages for contributors. Each command in them is one that this program has, and
//! names a tool that is there. Each link leads to a page and a heading. The contents list every page. The page of the configuration
//! has every key and its default.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One page: its path from the root of the repository, and its text.
struct Page {
    path: PathBuf,
    text: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The pages beside those below docs/.
const PAGES: [&str; 4] = ["README.md", "CONTRIBUTING.md", "benches/README.md", "fuzz/README.md"];

/// [`PAGES`] and every page below docs/, in the order of their paths.
fn pages() -> Vec<Page> {
    let mut paths = PAGES.map(|page| root().join(page)).to_vec();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the manual") {
            let path = entry.expect("an entry of a folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a page");
            let path = path.strip_prefix(root()).expect("a path below the root").to_owned();
            Page { path, text }
        })
        .collect()
}

/// The arguments of `llts` in a line for a shell: at its beginning, behind a pipe, or in the value of a variable.
fn arguments(line: &str) -> Option<String> {
    let line = line.split(" #").next().unwrap_or(line).replace("target/release/llts ", "llts ");
    let line = line.replace("cargo run --release -- ", "llts ");
    let own = match line.strip_prefix("llts ") {
        Some(own) => own,
        None => line.split_once("$(llts ").or_else(|| line.split_once("| llts "))?.1,
    };
    Some(own.trim_end_matches([')', '&', ' ']).to_owned())
}

/// The arguments of `llts` in all blocks for a shell.
fn commands(text: &str) -> Vec<String> {
    let blocks = text.split("```sh").skip(1).filter_map(|block| block.split("```").next());
    blocks.flat_map(str::lines).filter_map(arguments).collect()
}

#[test]
fn each_command_of_the_manual_is_one_of_this_program() {
    let mut count = 0;
    for Page { path, text } in pages() {
        for command in commands(&text) {
            // Arguments are read up to --help, which is before the words behind -- and lines for sh.
            let own = [" -- ", " --sh ", " --input ", " | "]
                .iter()
                .fold(&*command, |own, end| own.split(end).next().unwrap_or_default());
            let mut llts = Command::new(env!("CARGO_BIN_EXE_llts"));
            let said = llts.args(own.split_whitespace()).arg("--help").stdin(Stdio::null()).output().expect("started");
            let error = String::from_utf8_lossy(&said.stderr);
            assert!(said.status.success(), "{}: llts {command}: {error}", path.display());
            let help = String::from_utf8_lossy(&said.stdout);
            let verb = own.split_whitespace().find(|word| !word.starts_with('-')).unwrap_or("help");
            let is_its_own = help.contains("Usage: llts ") && !help.contains("Usage: llts COMMAND");
            assert!(is_its_own || verb == "help", "{}: llts {command} --help is that of all commands", path.display());
            count += 1;
        }
    }
    assert!(count > 100, "only {count} commands were found");
}

#[test]
fn each_tool_that_the_manual_runs_is_there_or_made_before() {
    let tools = root().join("tools");
    for Page { path, text } in pages() {
        let mut made: Vec<String> = Vec::new();
        for command in commands(&text) {
            let words: Vec<&str> = command.split_whitespace().collect();
            match words.as_slice() {
                ["tool", "new", folder] => made.extend(folder.strip_prefix("tools/").map(str::to_owned)),
                // A command in place of a tool.
                ["run" | "submit", option, ..] if option.starts_with('-') || words.contains(&"--source") => {}
                ["run" | "submit", tool, ..] => {
                    let is_there = tools.join(tool).join("run.sh").exists() || made.iter().any(|name| name == tool);
                    assert!(is_there, "{}: llts {command}: there is no tool {tool}", path.display());
                }
                _ => {}
            }
        }
    }
}

/// The text without its blocks of code and the code in its lines, in which nothing is a link or a heading.
fn prose(text: &str) -> String {
    let blocks = text.split("```").step_by(2);
    let lines = |block: &str| block.split('`').step_by(2).collect::<Vec<_>>().join("code");
    blocks.map(lines).collect::<Vec<_>>().join("\n")
}

/// The anchors of the headings of a page.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.split("```").step_by(2).flat_map(str::lines).filter(|line| line.starts_with('#'));
    let kept = |letter: &char| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter);
    let anchor = |heading: &str| {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        title.chars().filter(kept).map(|letter| if letter == ' ' { '-' } else { letter }).collect::<String>()
    };
    headings.map(anchor).collect()
}

#[test]
fn each_link_of_the_manual_leads_somewhere() {
    for Page { path, text } in pages() {
        let folder = root().join(&path).parent().map(Path::to_owned).unwrap_or_default();
        let prose = prose(&text);
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.starts_with("http")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { root().join(&path) } else { folder.join(file) };
            assert!(file.exists(), "{}: the link {target} leads to no file", path.display());
            if !anchor.is_empty() {
                let there = anchors(&fs::read_to_string(&file).expect("a page"));
                assert!(
                    there.iter().any(|one| one == anchor),
                    "{}: the link {target} leads to no heading",
                    path.display()
                );
            }
        }
    }
}

/// Files are moved and renamed, and a page says nothing of it.
#[test]
fn each_path_of_the_repository_that_a_page_names_is_there() {
    const FOLDERS: [&str; 7] = ["src/", "tests/", "bench/", "benches/", "fuzz/", "scripts/", "examples/"];
    let mut count = 0;
    for Page { path, text } in pages() {
        let is_path = |text: &&str| {
            let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_./-".contains(letter);
            FOLDERS.iter().any(|folder| text.starts_with(folder)) && text.chars().all(is_part)
        };
        let code = text.split("```").step_by(2).flat_map(|block| block.split('`').skip(1).step_by(2));
        for named in code.filter(is_path) {
            assert!(root().join(named).exists(), "{}: there is no {named}", path.display());
            count += 1;
        }
    }
    assert!(count > 50, "only {count} paths were found");
}

#[test]
fn the_contents_list_every_page() {
    let contents = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the contents");
    for Page { path, .. } in pages() {
        let Ok(name) = path.strip_prefix("docs") else { continue };
        let link = format!("]({})", name.display());
        assert!(
            name.ends_with("SUMMARY.md") || contents.contains(&link),
            "docs/SUMMARY.md does not list {}",
            name.display()
        );
    }
}

#[test]
fn the_manual_has_every_key_of_the_configuration_with_its_default() {
    let defaults = fs::read_to_string(root().join("src/api/config/defaults.toml")).expect("the defaults");
    let page =
        fs::read_to_string(root().join("docs/reference/configuration.md")).expect("the page of the configuration");
    // The keys without a section stand under several headings; a section stands under its name.
    let part_of = |section: &str| -> String {
        let parts = page.split("\n## ").skip(1);
        let is_part = |part: &&str| {
            if section.is_empty() { !part.starts_with('`') } else { part.starts_with(&format!("`[{section}]`\n")) }
        };
        parts.filter(is_part).collect::<Vec<_>>().join("\n")
    };
    let mut part = part_of("");
    let mut count = 0;
    for line in defaults.lines() {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            part = part_of(section);
        } else if let Some((key, value)) =
            line.split_once(" = ").filter(|_| line.starts_with(|c: char| c.is_ascii_uppercase()))
        {
            let row = format!("\n| `{key}` | `{value}` | ");
            assert!(part.contains(&row), "docs/reference/configuration.md lacks {line}: add the row {row}");
            count += 1;
        }
    }
    assert!(count > 150, "only {count} keys were found");
}
