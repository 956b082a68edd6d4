//! The sender of a request, as far as the transport knows, and who may send commands: `ALLOW_COMMANDS`.

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its place.
    pub place: CallerPlace,
    /// Whether it holds a key that is authorised here.
    pub has_key: bool,
}

/// The place of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerPlace {
    /// The controller itself: a master in its process.
    Own,
    /// It was let in by the mode of a file of the service: the unix socket, or the token for HTTP.
    Socket,
    /// On this machine, as a process of the service's own user or of root.
    SameUser,
    /// On this machine, as another user, or as an unknown one.
    Loopback,
    /// On another machine, or unknown.
    Elsewhere,
}

/// The senders that may submit commands. A tool is installed by the owner of the service; a command is whatever its sender wants.
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

    /// Whether this sender may send commands.
    #[must_use]
    pub const fn admits(self, caller: Caller) -> bool {
        match (self, caller.place) {
            (Self::No, _) => false,
            (_, CallerPlace::Own | CallerPlace::Socket) => true,
            (Self::SameUser, place) => matches!(place, CallerPlace::SameUser),
            (Self::Loopback, place) => !matches!(place, CallerPlace::Elsewhere),
            (Self::Keys, _) => caller.has_key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_taken_from_those_that_are_allowed() {
        use CallerPlace::{Elsewhere, Loopback, SameUser, Socket};
        let admitted = |allow: AllowCommands, has_key| {
            let all = [Socket, SameUser, Loopback, Elsewhere];
            all.map(|place| allow.admits(Caller { place, has_key })).map(u8::from)
        };
        for (allow, without_key, with_key) in [
            (AllowCommands::SameUser, [1, 1, 0, 0], [1, 1, 0, 0]),
            (AllowCommands::Loopback, [1, 1, 1, 0], [1, 1, 1, 0]),
            (AllowCommands::Keys, [1, 0, 0, 0], [1, 1, 1, 1]),
            (AllowCommands::No, [0, 0, 0, 0], [0, 0, 0, 0]),
        ] {
            assert_eq!(admitted(allow, false), without_key, "{allow:?}");
            assert_eq!(admitted(allow, true), with_key, "{allow:?}");
        }
    }
}
