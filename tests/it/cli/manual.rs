//! Each block of commands in the README and the manual runs, page by page and from top to bottom, as a reader would run it.
//!
//! A page has a home, a loopback with the ports of the document, and processes of its own, which end with it. A command that fails
//! on purpose says so in its comment: `exit code 143`, `exits with 1`. A block that needs another machine, a tool that is not
//! here, or an answer of its reader is marked `sh,no_run`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs that the manual names as examples, and what stands in for each.
const STAND_INS: [(&str, &str); 4] = [
    ("cargo", "case \"$*\" in 'run --release -- '*) shift 3; exec llts \"$@\";; *) exit 0;; esac"),
    ("ffmpeg", "[ \"$1\" = -i ] && cp \"$2\" \"$3\""),
    ("claude", "cat"),
    ("mdbook", "exit 0"),
];

/// The files that the examples read.
const FILES: [(&str, &str); 6] = [
    ("names.txt", "b\na\nb\n"),
    ("one.csv", "1,2\n"),
    ("two.csv", "3,4\n"),
    ("a.mov", "a film\n"),
    ("conf.toml", "quality = 3\n"),
    ("nightly.sh", "#!/bin/sh\necho nightly\n"),
];

/// The longest time for a page: a command that hangs is a fault.
const PAGE_SECONDS_MAX: u32 = 600;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The blocks of a page in a language: the number of the first line of each, and its text.
fn blocks(text: &str, language: &str) -> Vec<(usize, String)> {
    let (mut found, mut open) = (Vec::new(), None::<(usize, String)>);
    let begin = format!("```{language}");
    for (number, line) in text.lines().enumerate() {
        match &mut open {
            Some(_) if line == "```" => found.extend(open.take()),
            Some((_, block)) => {
                block.push_str(line);
                block.push('\n');
            }
            None if line == begin => open = Some((number + 2, String::new())),
            None => {}
        }
    }
    found
}

/// Says which line of a page has failed, unless its comment says that it fails.
const TRAP: &str = "\
failed() {
  code=$1 line=$2
  words=$(sed -n \"${line}p\" \"$PAGE\")
  case $words in *'exit code'*|*'exits with'*) return;; esac
  echo \"$PAGE_NAME:$line: exit code $code: $words\" >>\"$FAILURES\"
}
set -o pipefail
";

/// Runs the blocks of a page; the failures, a line each.
fn run(page: &str) -> Option<String> {
    let place = tempfile::Builder::new().prefix("llts-page-").tempdir().expect("a folder");
    let path = |name: &str| place.path().join(name);
    furnish(place.path());
    let text = fs::read_to_string(root().join(page)).expect("a page");
    let mut script = TRAP.to_owned();
    for (number, (first, block)) in blocks(&text, "sh").into_iter().enumerate() {
        // Each block is a file whose lines have the numbers of the page, so that the trap can name one.
        let file = path(&format!("block-{number}"));
        fs::write(&file, "\n".repeat(first - 1) + "trap 'failed $? $LINENO' ERR; " + &block + "trap - ERR; true\n")
            .expect("a block");
        writeln!(script, ". {}", file.display()).expect("a text");
    }
    let python: String = blocks(&text, "python").into_iter().map(|(_, block)| block).collect();
    if !python.is_empty() {
        let made = Command::new(root().join("tests/python/venv.sh")).status().expect("started");
        assert!(made.success(), "there is no Python with the packages of the examples");
        fs::write(path("blocks.py"), python).expect("a block");
        writeln!(script, "PAGE_PYTHON=1; llts up 2; trap - ERR; \"$PYTHON\" {} || echo \"$PAGE_NAME: its Python fails\" >>\"$FAILURES\"", path("blocks.py").display())
            .expect("a text");
    }
    fs::write(path("script"), script).expect("a script");
    let limit = PAGE_SECONDS_MAX.to_string();
    let said = Command::new("unshare")
        .args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc", "timeout", &limit])
        .args(["sh", "-c", "ip link set lo up; mount -t tmpfs none /var/lib; exec bash \"$0\""])
        .arg(path("script"))
        .current_dir(path("work"))
        .env_clear()
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", path("bin").display()))
        .env("HOME", path("home"))
        .env("LANG", "C.UTF-8")
        .env("PAGE", root().join(page))
        .env("PAGE_NAME", page)
        .env("FAILURES", path("failures"))
        .env("PYTHON", root().join("target/python-venv/bin/python"))
        .stdin(Stdio::null())
        .output()
        .expect("started");
    let failures = fs::read_to_string(path("failures")).unwrap_or_default();
    let is_late = said.status.code() == Some(124);
    (is_late || !failures.is_empty()).then(|| {
        let err = String::from_utf8_lossy(&said.stderr);
        format!("{failures}{}\nstderr: {err}", if is_late { "it hangs\n" } else { "" })
    })
}

/// Makes the folder in which a reader works, his home, and his programs.
fn furnish(place: &Path) {
    for name in ["home", "bin", "work"] {
        fs::create_dir(place.join(name)).expect("a folder");
    }
    symlink(env!("CARGO_BIN_EXE_llts"), place.join("bin/llts")).expect("a link");
    for (name, script) in STAND_INS {
        executable(&place.join("bin").join(name), &format!("#!/bin/sh\n{script}\n"));
    }
    for (name, text) in FILES {
        executable(&place.join("work").join(name), text);
    }
    let copied = Command::new("cp")
        .args(["-r", "tools", "examples"])
        .arg(place.join("work"))
        .current_dir(root())
        .status()
        .expect("started");
    assert!(copied.success(), "the tools and examples cannot be copied");
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its own file");
}

/// Whether this user may make the namespaces of a page.
#[expect(clippy::print_stdout, reason = "a test that does not run says why")]
fn may_run() -> bool {
    let tried = Command::new("unshare").args(["--net", "--pid", "--fork", "--mount-proc", "true"]).output();
    let may = tried.is_ok_and(|tried| tried.status.success());
    if !may {
        println!("skipped: this user may not make a namespace of processes");
    }
    may
}

#[track_caller]
fn check(page: &str) {
    if let Some(failures) = may_run().then(|| run(page)).flatten() {
        panic!("{failures}");
    }
}

#[test]
fn the_blocks_of_the_readme_run() {
    check("README.md");
}

#[test]
fn the_blocks_for_the_shell_run() {
    check("docs/shell.md");
}

#[test]
fn the_blocks_about_tools_run() {
    check("docs/tools.md");
}

#[test]
fn the_blocks_for_programs_run() {
    check("docs/program.md");
}

#[test]
fn the_blocks_for_operators_run() {
    check("docs/operate.md");
}

#[test]
fn the_blocks_about_machines_run() {
    check("docs/machines.md");
}

#[test]
fn the_blocks_about_prompts_run() {
    check("docs/prompts.md");
}

#[test]
fn the_blocks_about_graphs_run() {
    check("docs/step-graphs.md");
}

#[test]
fn the_blocks_about_lists_run() {
    check("docs/task-lists.md");
}

#[test]
fn the_blocks_about_tdf_run() {
    check("docs/tdf.md");
}
