//! The commands in messages, as the user has to type them: with the options that named the service.

use std::borrow::Cow;
use std::sync::OnceLock;

/// The options of this process that name the service, and which commands take them.
#[derive(Debug)]
pub struct Options {
    /// Those that name the home, each with a blank before it.
    pub of_home: String,
    /// The same of those that name a controller.
    pub of_controller: String,
    /// Whether a word is the name of a command.
    pub is_verb: fn(&str) -> bool,
    /// Whether such a command uses the controller that an option names.
    pub uses_a_controller: fn(&str) -> bool,
}

static TYPED: OnceLock<Options> = OnceLock::new();

/// Takes the options of this process.
pub fn begin(options: Options) {
    if !(options.of_home.is_empty() && options.of_controller.is_empty()) {
        // The arguments are read once.
        let _ = TYPED.set(options);
    }
}

/// A message whose commands can be typed as they are.
pub fn typed(message: &str) -> Cow<'_, str> {
    TYPED.get().map_or(Cow::Borrowed(message), |options| Cow::Owned(options.insert(message)))
}

impl Options {
    /// The message with these options in each command that takes them.
    pub fn insert(&self, message: &str) -> String {
        const PROGRAM: &str = "llts ";
        /// What stands before a command. In other places the name is a word of a sentence.
        const BEFORE: [&str; 4] = ["`", ": ", "  ", "&& "];
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
