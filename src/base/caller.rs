//! The sender of a request, as far as its door knows it, and what it may do: `ALLOW_COMMANDS` and `LOOPBACK`.
//!
//! The door names the [`Caller`] of each request, the parsed request names the [`Right`] that it needs, and
//! [`AllowCommands::admits`] decides. Nothing else does.

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Where it is, and as which user.
    pub place: CallerPlace,
    /// The key that it has proved to own.
    pub key: CallerKey,
    /// Whether it may change anything. The HTTP door answers a caller without a token, but takes no orders from it.
    pub may_change: bool,
}

/// Where a sender is, and as which user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerPlace {
    /// The controller itself: a master in its process.
    Own,
    /// Admitted by the mode of a file of the service: the unix socket, or the token for HTTP.
    Socket,
    /// On this machine, as a process of the service's own user or of root.
    SameUser,
    /// On this machine, as another or an unknown user.
    Loopback,
    /// On another machine, or unknown.
    Elsewhere,
}

/// The key of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerKey {
    /// It has no key.
    None,
    /// Its key is authorised here.
    Authorised,
    /// Its key is authorised here, and the file of the key lets its holder send commands.
    Commands,
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// To read without changing anything.
    Ask,
    /// To submit tools, and to change tasks, jobs, graphs, gates and agents.
    Change,
    /// To take part as an agent.
    Serve,
    /// To see other clients' commands with their environment and outputs.
    Commands,
    /// To run commands as an agent.
    RunCommands,
    /// To keep the whole service from starting tasks.
    Pause,
    /// To send or repeat a command, or to change a tool, which amounts to the same.
    Command,
    /// To name a source that is not checked, possibly together with a command.
    Unchecked {
        /// Whether the request has a command.
        has_command: bool,
    },
}

impl Caller {
    /// A sender about which no door knows anything.
    pub const UNKNOWN: Self = Self { place: CallerPlace::Elsewhere, key: CallerKey::None, may_change: true };

    /// A sender without a key.
    #[must_use]
    pub const fn at(place: CallerPlace) -> Self {
        Self { place, ..Self::UNKNOWN }
    }

    /// Whether it is the owner of the service or root, who may read the files of the service anyway.
    const fn is_owner(self) -> bool {
        matches!(self.place, CallerPlace::Own | CallerPlace::Socket | CallerPlace::SameUser)
    }
}

/// The senders that may submit commands. The owner of the service installs the tools, but a command is whatever its
/// sender wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowCommands {
    /// The user of the service, and root.
    SameUser,
    /// Everyone on this machine.
    Loopback,
    /// Holders of an authorised key, and the users of the unix socket.
    Keys,
    /// No one.
    No,
}

impl AllowCommands {
    const ALL: [Self; 4] = [Self::SameUser, Self::Loopback, Self::Keys, Self::No];

    /// Its word in the configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::SameUser => "same-user",
            Self::Loopback => "loopback",
            Self::Keys => "keys",
            Self::No => "no",
        }
    }

    /// The value with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|allow| allow.word() == word)
    }

    /// Whether this sender has a right. A remote agent without a key is admitted: it is on a network that
    /// `ALLOW_INSECURE` trusts as a whole, and that sees every command in transit.
    #[must_use]
    pub const fn admits(self, caller: Caller, right: Right) -> bool {
        match right {
            Right::Ask => true,
            Right::Commands => caller.is_owner() || self.admits_commands(caller),
            Right::RunCommands => {
                let is_stranger = matches!((caller.place, caller.key), (CallerPlace::Loopback, CallerKey::None));
                !is_stranger || self.admits_commands(caller)
            }
            Right::Change | Right::Serve => caller.may_change,
            Right::Pause => caller.may_change && (caller.is_owner() || self.admits_commands(caller)),
            Right::Command => caller.may_change && self.admits_commands(caller),
            Right::Unchecked { has_command } => {
                matches!(caller.place, CallerPlace::Own) && (!has_command || self.admits_commands(caller))
            }
        }
    }

    const fn admits_commands(self, caller: Caller) -> bool {
        match (self, caller.place, caller.key) {
            (Self::No, ..) => false,
            (_, CallerPlace::Own | CallerPlace::Socket, _) | (_, _, CallerKey::Commands) => true,
            (Self::SameUser, place, _) => matches!(place, CallerPlace::SameUser),
            (Self::Loopback, place, _) => !matches!(place, CallerPlace::Elsewhere),
            (Self::Keys, _, key) => matches!(key, CallerKey::Authorised),
        }
    }
}

/// The users of this machine that are served over TCP and HTTP: `LOOPBACK`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loopback {
    /// The user of the service, and root.
    #[default]
    SameUser,
    /// All users.
    Open,
}

impl Loopback {
    /// The value with this word of the configuration.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "same-user" => Some(Self::SameUser),
            "open" => Some(Self::Open),
            _ => None,
        }
    }

    /// Whether a connection without a key from this place is served.
    #[must_use]
    pub const fn admits(self, place: CallerPlace) -> bool {
        !matches!((self, place), (Self::SameUser, CallerPlace::Loopback))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_taken_from_those_that_are_allowed() {
        use CallerPlace::{Elsewhere, Loopback, SameUser, Socket};
        let admitted = |allow: AllowCommands, key| {
            let all = [Socket, SameUser, Loopback, Elsewhere];
            let caller = |place| Caller { key, ..Caller::at(place) };
            all.map(|place| allow.admits(caller(place), Right::Command)).map(u8::from)
        };
        for (allow, [without_key, with_key, with_grant]) in [
            (AllowCommands::SameUser, [[1, 1, 0, 0], [1, 1, 0, 0], [1; 4]]),
            (AllowCommands::Loopback, [[1, 1, 1, 0], [1, 1, 1, 0], [1; 4]]),
            (AllowCommands::Keys, [[1, 0, 0, 0], [1, 1, 1, 1], [1; 4]]),
            (AllowCommands::No, [[0, 0, 0, 0], [0, 0, 0, 0], [0; 4]]),
        ] {
            assert_eq!(admitted(allow, CallerKey::None), without_key, "{allow:?}");
            assert_eq!(admitted(allow, CallerKey::Authorised), with_key, "{allow:?}");
            assert_eq!(admitted(allow, CallerKey::Commands), with_grant, "{allow:?}");
        }
    }

    #[test]
    fn only_the_owner_enters_over_loopback_unless_it_is_open() {
        use CallerPlace::{Elsewhere, SameUser, Socket};
        for place in [Socket, SameUser, Elsewhere] {
            assert!(Loopback::SameUser.admits(place) && Loopback::Open.admits(place), "{place:?}");
        }
        assert!(!Loopback::SameUser.admits(CallerPlace::Loopback) && Loopback::Open.admits(CallerPlace::Loopback));
    }
}
