//! Values in lines for a shell, as the real sh and bash read them: every value arrives byte for byte, and nothing of it runs.
//!
//! Lines are read from templates in which `@` stands for a value, with a program that prints its arguments between brackets.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use base::{LinePart, Place};

const SHELLS: [&str; 2] = ["sh", "bash"];

/// What values are made of: each piece means something to a shell somewhere.
const PIECES: [&str; 48] = [
    "'",
    "\"",
    "\\",
    "`",
    "$",
    "$(",
    ")",
    "${",
    "}",
    "$((",
    "))",
    "(",
    "#",
    "\n",
    "\r",
    "\t",
    " ",
    "  ",
    ";",
    "&",
    "|",
    "<",
    ">",
    "<<E",
    "\nE\n",
    "*",
    "?",
    "[",
    "]",
    "~",
    "!",
    "=",
    "%",
    "^",
    "-",
    "--",
    "touch harm",
    "$(touch harm)",
    "`touch harm`",
    "';touch harm;'",
    "\";touch harm;\"",
    "$HOME",
    "é",
    "東",
    "\u{1b}[2J",
    "a",
    "9",
    "\\'",
];

/// Templates, each a line of commands, and whether its value keeps the line ends at its end.
const TEMPLATES: [&str; 27] = [
    "p @",
    "p a @ b",
    "p x@y",
    "p @@",
    "p @ # it's",
    "p \"@\"",
    "p '@'",
    "p \"x@y\" 'x@y'",
    "p \"it's @\" 'say \"@\"'",
    "p \"$HOME@\" $HOME@",
    "p \"$@\"",
    "p ~@ x=@",
    "p --name=@ \"--name=@\"",
    "p a\\\n@ \\\n@",
    "x=@; p \"$x\"",
    "x=\"@\" y='@'; p \"$x$y\"",
    "(p @); { p @; }",
    "p \"$(p '@' | cat)\"",
    "p \"$(p \"@\")\" $(p @ >&2; echo)",
    "if [ @ = '@' ]; then p same \"@\"; else p other; fi",
    "case @ in '@') p case;; *) p none;; esac",
    "for x in @ \"@\" '@'; do p \"$x\"; done",
    "cat <<E; p @\nit's \"$HOME\nE\np '@'",
    "p ${x:-'}'} \"${#x}\" $# @",
    "eval 'p \"$1\"'; sh -c 'printf %s \"$1\"' _ @",
    "p $((1 + 2)) \"$((3))@\"",
    "true && p @ || p no; ! false; p @ 2>&1",
];

/// `sh` makes no difference between runs of this: a small generator with a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below as u64).unwrap()
    }

    fn text(&mut self, pieces: &[&str], most: usize) -> String {
        (0..self.roll(most + 1)).map(|_| pieces[self.roll(pieces.len())]).collect()
    }
}

/// The line of a template; `None` if it is refused.
fn filled(template: &str, value: &str) -> Option<String> {
    let texts: Vec<&str> = template.split('@').collect();
    let mut parts = vec![LinePart::Text(texts[0])];
    texts[1..].iter().for_each(|text| parts.extend([LinePart::Value, LinePart::Text(text)]));
    let places = Place::all(parts).ok()?;
    let mut line = texts[0].to_owned();
    for (place, text) in places.into_iter().zip(&texts[1..]) {
        place.put(std::iter::once(value), &mut line).ok()?;
        line.push_str(text);
    }
    Some(line)
}

/// What a shell makes of a script.
fn output(shell: &str, folder: &Path, script: &str) -> Vec<u8> {
    fs::write(folder.join("script"), script).unwrap();
    let mut command = Command::new(shell);
    command.arg("script").current_dir(folder).env("HOME", "/home/h").stdin(Stdio::null()).stderr(Stdio::null());
    command.output().unwrap().stdout
}

const PRINTER: &str = "p() { printf '<'; printf '%s|' \"$@\"; printf '>'; }\n";

/// A value without a meaning for any shell stands for the right result: the value in its place must change nothing else.
const TOKEN: &str = "Zq7Xw";

#[test]
fn every_value_arrives_in_every_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut dice = Dice(0x5eed);
    let mut values: Vec<String> = PIECES.map(str::to_owned).to_vec();
    values.push(String::new());
    values.extend((0..100).map(|_| dice.text(&PIECES, 12)));
    for (shell, template) in SHELLS.into_iter().flat_map(|shell| TEMPLATES.map(|template| (shell, template))) {
        let expected =
            output(shell, folder.path(), &format!("{PRINTER}{}\n", filled(template, TOKEN).expect(template)));
        let expected = String::from_utf8(expected).unwrap();
        assert!(expected.contains(TOKEN) || expected.contains("case"), "{shell}: {template}: {expected}");
        let (mut script, mut wanted) = (PRINTER.to_owned(), String::new());
        for value in &values {
            // A substitution takes the ends of lines away, also from a variable.
            let value = if template.contains("$(p") || template.contains("sh -c") {
                value.trim_end_matches('\n')
            } else {
                value
            };
            writeln!(script, "{}\nprintf '\\0'", filled(template, value).unwrap()).unwrap();
            wanted += &expected.replace(TOKEN, value);
            wanted.push('\0');
        }
        let found = output(shell, folder.path(), &script);
        assert!(found == wanted.as_bytes(), "{shell}: {template}:\n{}", difference(&found, wanted.as_bytes()));
        assert!(!folder.path().join("harm").exists(), "{shell}: {template}");
    }
}

fn difference(found: &[u8], wanted: &[u8]) -> String {
    let both = found.split(|byte| *byte == 0).zip(wanted.split(|byte| *byte == 0));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let differing = both.map(|(found, wanted)| (text(found), text(wanted))).find(|(found, wanted)| found != wanted);
    differing
        .map_or_else(|| "the ends differ".to_owned(), |(found, wanted)| format!("found {found:?}\nwanted {wanted:?}"))
}

fn sorted(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.sort_unstable();
    bytes
}

/// What random lines are made of.
const FRAGMENTS: [&str; 44] = [
    "@",
    "@",
    "@",
    "@",
    " @ ",
    "\"",
    "\"",
    "'",
    "'",
    "$(",
    ")",
    "`",
    "\\",
    "#",
    " ",
    " ",
    "\n",
    ";",
    "|",
    "&&",
    "(",
    ")",
    "${x:-",
    "}",
    "$((",
    "))",
    "$'",
    "<<E\n",
    "\nE\n",
    "<<-'E'\n",
    "p ",
    "p ",
    "p a ",
    "x=",
    "case x in ",
    "esac ",
    "[[ ",
    " ]]",
    "eval ",
    "sh -c ",
    "$",
    "<",
    "a",
    "$[",
];

/// A random line that is not refused means the same for a harmless and for any other value, and runs nothing of it.
#[test]
fn a_line_that_is_not_refused_runs_nothing_of_its_value() {
    let rounds = std::env::var("LLTS_SHELL_LINES").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(150);
    let folder = tempfile::tempdir().unwrap();
    let mut dice = Dice(0xf00d ^ rounds);
    let mut checked = 0;
    while checked < rounds {
        let template = format!("p {}", dice.text(&FRAGMENTS, 14));
        // The number of a process is another one each time.
        if !template.contains('@') || template.contains("$$") {
            continue;
        }
        let value = dice.text(&PIECES, 6);
        // Nothing next to a letter can be a command of the line.
        if value.is_empty() {
            continue;
        }
        let (Some(harmless), Some(line)) = (filled(&template, TOKEN), filled(&template, &value)) else { continue };
        let reads_scripts = ["eval", "sh -c"].iter().any(|word| template.contains(word));
        checked += 1;
        for shell in SHELLS {
            let expected = output(shell, folder.path(), &format!("{PRINTER}{harmless}\n"));
            let found = output(shell, folder.path(), &format!("{PRINTER}{line}\n"));
            let expected = String::from_utf8_lossy(&expected).replace(TOKEN, &value);
            let about = format!("{shell}: {template:?} with {value:?}: {line:?}");
            let is_harmed = fs::remove_file(folder.path().join("harm")).is_ok();
            assert!(!is_harmed || reads_scripts, "{about}");
            // Commands in the background print in any order.
            let is_same = sorted(&found) == sorted(expected.as_bytes());
            let is_trimmed = ["$(", "`", "read"].iter().any(|text| template.contains(text)) && value.ends_with('\n');
            assert!(
                is_same || is_trimmed || reads_scripts,
                "{about}\nfound {:?}\nwanted {expected:?}",
                String::from_utf8_lossy(&found)
            );
        }
    }
}
