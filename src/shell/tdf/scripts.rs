//! The scripts, each after the prelude that all of them share.

/// A script: its name for messages, and its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Code {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

macro_rules! script {
    ($name:literal) => {
        Code {
            name: $name,
            text: concat!(include_str!("scripts/prelude.lua"), include_str!(concat!("scripts/", $name, ".lua"))),
        }
    };
}

pub(super) const REGISTER: Code = script!("register");
pub(super) const CLAIM: Code = script!("claim");
pub(super) const REPORT: Code = script!("report");
pub(super) const LEAVE: Code = script!("leave");
pub(super) const RENEW: Code = script!("renew");
pub(super) const GIVE_BACK: Code = script!("give_back");
pub(super) const OWN_CLAIMED: Code = script!("own_claimed");
pub(super) const OWN_RUNNING: Code = script!("own_running");
pub(super) const FACTS: Code = script!("facts");
pub(super) const APPLY: Code = script!("apply");
pub(super) const STRAYS: Code = script!("strays");
pub(super) const TIDY: Code = script!("tidy");
pub(super) const LEAD: Code = script!("lead");
pub(super) const RESIGN: Code = script!("resign");
pub(super) const PAGE: Code = script!("page");
pub(super) const OPEN: Code = script!("open");
pub(super) const TAKE: Code = script!("take");
pub(super) const ARCHIVE: Code = script!("archive");
pub(super) const PUT_OFF: Code = script!("put_off");
pub(super) const LET_GO: Code = script!("let_go");
pub(super) const HOLD: Code = script!("hold");
pub(super) const STATS: Code = script!("stats");
pub(super) const WORKERS: Code = script!("workers");
pub(super) const SHOW: Code = script!("show");
pub(super) const LIST: Code = script!("list");
