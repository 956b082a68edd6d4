//! Completes the commands in messages to what the user has to type: with the options that named the service.

use std::borrow::Cow;
use std::sync::OnceLock;

/// The options of this process that name the service, and which commands take them.
#[derive(Debug)]
pub struct Options {
    /// The options that name the home, each preceded by a blank.
    pub of_home: String,
    /// The options that name a controller, each preceded by a blank.
    pub of_controller: String,
    /// Whether a word is the name of a command.
    pub is_verb: fn(&str) -> bool,
    /// Whether a command uses the controller that an option names.
    pub uses_a_controller: fn(&str) -> bool,
}

static TYPED: OnceLock<Options> = OnceLock::new();

/// Sets the options of this process.
pub fn begin(options: Options) {
    if !(options.of_home.is_empty() && options.of_controller.is_empty()) {
        // The arguments are parsed only once.
        let _ = TYPED.set(options);
    }
}

/// The message with commands that can be typed as shown.
pub fn typed(message: &str) -> Cow<'_, str> {
    TYPED.get().map_or(Cow::Borrowed(message), |options| Cow::Owned(options.insert(message)))
}

impl Options {
    /// The message with these options in each command that takes them.
    pub fn insert(&self, message: &str) -> String {
        const PROGRAM: &str = "llts ";
        /// Texts before a command. Elsewhere the name of the program is part of a sentence.
        const BEFORE: [&str; 5] = ["`", ": ", "  ", "&& ", "| "];
        let mut typed = String::new();
        let mut rest = message;
        while let Some(at) = rest.find(PROGRAM) {
            let (before, from) = rest.split_at(at);
            typed.push_str(before);
            rest = &from[PROGRAM.len()..];
            typed.push_str(PROGRAM.trim_end());
            let is_command = typed.len() < PROGRAM.len() || BEFORE.iter().any(|mark| before.ends_with(mark));
            let verb =
                rest.split(|letter: char| !letter.is_ascii_lowercase() && letter != '-').next().unwrap_or_default();
            if is_command && (self.is_verb)(verb) {
                typed.push_str(&self.of_home);
                typed.push_str(if (self.uses_a_controller)(verb) { &self.of_controller } else { "" });
            }
            typed.push(' ');
        }
        typed + rest
    }
}
