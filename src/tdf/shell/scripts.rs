//! The scripts, each after the prelude that all of them share and the parts that it uses of the rest.

/// A script: its name for messages, and its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Code {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

macro_rules! script {
    ($name:literal $(, $part:literal)*) => {
        Code {
            name: $name,
            text: concat!(
                include_str!("scripts/prelude.lua"),
                $(include_str!(concat!("scripts/", $part, ".lua")),)*
                include_str!(concat!("scripts/", $name, ".lua")),
            ),
        }
    };
}

pub(super) const REGISTER: Code = script!("register", "keys", "names");
pub(super) const CLAIM: Code = script!("claim", "claims");
pub(super) const REPORT: Code = script!("report", "moves");
pub(super) const LEAVE: Code = script!("leave", "keys");
pub(super) const RENEW: Code = script!("renew", "keys", "names");
pub(super) const GIVE_BACK: Code = script!("give_back", "keys", "moves");
pub(super) const OWN_CLAIMED: Code = script!("own_claimed", "keys", "claims");
pub(super) const OWN_RUNNING: Code = script!("own_running", "keys");
pub(super) const FACTS: Code = script!("facts", "moves");
pub(super) const OPEN_FACTS: Code = script!("open_facts", "moves");
pub(super) const APPLY: Code = script!("apply", "keys", "moves");
pub(super) const STRAYS: Code = script!("strays", "moves");
pub(super) const TIDY: Code = script!("tidy", "keys");
pub(super) const LEAD: Code = script!("lead");
pub(super) const RESIGN: Code = script!("resign");
pub(super) const PAGE: Code = script!("page");
pub(super) const OPEN: Code = script!("open");
pub(super) const TAKE: Code = script!("take", "keys");
pub(super) const ARCHIVE: Code = script!("archive", "moves");
pub(super) const PUT_OFF: Code = script!("put_off", "keys");
pub(super) const LET_GO: Code = script!("let_go", "keys");
pub(super) const HOLD: Code = script!("hold", "keys");
pub(super) const STATS: Code = script!("stats", "keys");
pub(super) const WORKERS: Code = script!("workers", "keys");
pub(super) const SHOW: Code = script!("show");
pub(super) const LIST: Code = script!("list");

/// Every script.
pub(super) const ALL: [Code; 26] = [
    REGISTER,
    CLAIM,
    REPORT,
    LEAVE,
    RENEW,
    GIVE_BACK,
    OWN_CLAIMED,
    OWN_RUNNING,
    FACTS,
    OPEN_FACTS,
    APPLY,
    STRAYS,
    TIDY,
    LEAD,
    RESIGN,
    PAGE,
    OPEN,
    TAKE,
    ARCHIVE,
    PUT_OFF,
    LET_GO,
    HOLD,
    STATS,
    WORKERS,
    SHOW,
    LIST,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of a key that a script does not declare is an error of Lua on the one path that needs it, perhaps a rare one.
    #[test]
    fn a_script_has_the_names_of_the_keys_that_it_uses() {
        let words = |line: &'static str| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_name = |word: &&str| word.len() > 3 && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        let code = |line: &'static str| line.split("--").next().unwrap_or(line);
        for script in ALL {
            let lines = || script.text.lines().map(code);
            let declared: Vec<&str> = lines()
                .filter_map(|line| {
                    Some(line.trim_start().strip_prefix("local ")?.split(" = ").next().unwrap_or_default())
                })
                .flat_map(words)
                .collect();
            let commands = |line: &'static str| line.split('\'').step_by(2);
            let used = lines()
                .flat_map(commands)
                .flat_map(words)
                .filter(is_name)
                .filter(|word| *word != "KEYS" && *word != "ARGV");
            for name in used {
                assert!(declared.contains(&name), "{} is not declared in {}", name, script.name);
            }
        }
    }
}
