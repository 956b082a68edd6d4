//! A folder with `.tasks`, and masters of the real binary on it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use testkit::Place;

use crate::prompt::peer::Peer;
use crate::support::LLTS;

pub(crate) use testkit::{PATIENCE, Program, Said, Start, eventually};

/// An hour: so long that only what happens at once can be what a test sees.
const NEVER: &str = "3600000";

pub(crate) const FOLDERS: [&str; 4] = ["pending", "working", "done", "failed"];

pub(crate) struct Sandbox(Place);

impl Sandbox {
    /// A root with these prompts, each saying its name.
    pub(crate) fn new(prompts: &[&str]) -> Self {
        let mut place = Place::new(LLTS);
        let home = place.root().to_owned();
        place.set("LLTS_HOME", home);
        place.set("LLTS_LOG_LEVEL", "error");
        place.set("LLTS_PROMPT_KEEP_ALIVE", "true");
        // A worker that is delayed on a busy machine is not disconnected for it, and no message arrives that a test does
        // not request.
        for key in ["TIMER_INTERVAL", "REQUEST_TIMEOUT", "JOIN_TIMEOUT"] {
            place.set(format!("LLTS_PROMPT_{key}"), NEVER);
        }
        std::fs::create_dir_all(place.path(".tasks/pending")).unwrap();
        let sandbox = Self(place);
        for name in prompts {
            sandbox.write(name, format!("do {name}").as_bytes());
        }
        sandbox
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.root().to_owned()
    }

    /// A path below `.tasks`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path(".tasks").join(name)
    }

    /// Puts a prompt there, whole: a master that looks meanwhile sees all of it or nothing.
    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        self.0.write(".tasks/draft", content);
        std::fs::rename(self.path("draft"), self.path("pending").join(name)).unwrap();
    }

    /// The names in a folder, without what stands beside prompts.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let mut names = testkit::names(&self.path(folder));
        names.retain(|name| !name.ends_with(".reason"));
        names
    }

    /// How many prompts are in each of the four folders.
    pub(crate) fn counts(&self) -> [usize; 4] {
        FOLDERS.map(|folder| self.names(folder).len())
    }

    /// In which folders each prompt is.
    pub(crate) fn whereabouts(&self) -> BTreeMap<String, Vec<&'static str>> {
        let mut found: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
        for folder in FOLDERS {
            for name in self.names(folder) {
                found.entry(name).or_default().push(folder);
            }
        }
        found
    }

    /// A command with its keys of `[prompt]`.
    pub(crate) fn command(&self, words: &[&str], keys: &[(&str, &str)]) -> Command {
        let mut command = self.0.command(words);
        command.envs(keys.iter().map(|(key, value)| (format!("LLTS_PROMPT_{key}"), *value)));
        command
    }

    /// A master that stays.
    pub(crate) fn master(&self, keys: &[(&str, &str)]) -> Program {
        started(&mut self.command(&["prompt", "master", "0"], keys))
    }

    /// A command that ends at once, with this exit code and these parts of a sentence.
    #[track_caller]
    pub(crate) fn refuses(&self, words: &[&str], keys: &[(&str, &str)], code: i32, parts: &[&str]) {
        let said = self.command(words, keys).said();
        parts.iter().for_each(|part| said.failed(code, part));
    }
}

/// A process that has said where its prompt master listens.
pub(crate) fn started(command: &mut Command) -> Program {
    command.start().ready("llts prompt master ready: ")
}

/// What can be done with a master.
pub(crate) trait Master {
    fn port(&self) -> u16;

    fn connect(&self) -> Peer {
        Peer::connect(self.port())
    }

    fn join(&self, id: &str) -> Peer {
        let mut peer = self.connect();
        peer.join(id);
        peer
    }
}

impl Master for Program {
    fn port(&self) -> u16 {
        self.word(4).rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }
}
