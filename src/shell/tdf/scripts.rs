//! The scripts, each after the prelude that all of them share and the parts that it uses of the rest.

/// A script: its name for messages, and its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Code {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

macro_rules! script {
    ($name:literal $(, $part:literal)?) => {
        Code {
            name: $name,
            text: concat!(
                include_str!("scripts/prelude.lua"),
                $(include_str!(concat!("scripts/", $part, ".lua")),)?
                include_str!(concat!("scripts/", $name, ".lua")),
            ),
        }
    };
}

pub(super) const REGISTER: Code = script!("register", "names");
pub(super) const CLAIM: Code = script!("claim", "claims");
pub(super) const REPORT: Code = script!("report", "moves");
pub(super) const LEAVE: Code = script!("leave");
pub(super) const RENEW: Code = script!("renew", "names");
pub(super) const GIVE_BACK: Code = script!("give_back", "moves");
pub(super) const OWN_CLAIMED: Code = script!("own_claimed", "claims");
pub(super) const OWN_RUNNING: Code = script!("own_running");
pub(super) const FACTS: Code = script!("facts", "moves");
pub(super) const OPEN_FACTS: Code = script!("open_facts", "moves");
pub(super) const APPLY: Code = script!("apply", "moves");
pub(super) const STRAYS: Code = script!("strays", "moves");
pub(super) const TIDY: Code = script!("tidy");
pub(super) const LEAD: Code = script!("lead");
pub(super) const RESIGN: Code = script!("resign");
pub(super) const PAGE: Code = script!("page");
pub(super) const OPEN: Code = script!("open");
pub(super) const TAKE: Code = script!("take");
pub(super) const ARCHIVE: Code = script!("archive", "moves");
pub(super) const PUT_OFF: Code = script!("put_off");
pub(super) const LET_GO: Code = script!("let_go");
pub(super) const HOLD: Code = script!("hold");
pub(super) const STATS: Code = script!("stats");
pub(super) const WORKERS: Code = script!("workers");
pub(super) const SHOW: Code = script!("show");
pub(super) const LIST: Code = script!("list");
