//! Which messages are accepted: readable ones, from a sender that has the right to send them.

use crate::door::Address;
use api::wire::requests::{Message, Refused};
use api::wire::rights::right_of;
use api::wire::rules::Rules;
use api::wire::{Refusal, requests, rights};
use base::words::kind;
use base::{AllowCommands, Right};
use engine::Controller;

/// See the [module](self).
pub(super) struct Admission {
    rules: Rules,
    allow_commands: AllowCommands,
}

impl Admission {
    pub(super) const fn new(rules: Rules, allow_commands: AllowCommands) -> Self {
        Self { rules, allow_commands }
    }

    /// Reads a message with its kind.
    pub(super) fn read(&self, body: Result<Vec<u8>, Refusal>) -> Result<(&'static str, Message), Refused> {
        body.map_or_else(
            |refusal| Err(Refused { kind: kind::ERROR, refusal }),
            |body| requests::parse(&body, &self.rules),
        )
    }

    /// A message that was read, unless its sender may not send it.
    pub(super) fn admit(
        &self,
        controller: &Controller,
        to: &Address,
        read: Result<(&'static str, Message), Refused>,
    ) -> Result<(&'static str, Message), (&'static str, Refusal)> {
        let (kind, mut message) = read.map_err(|Refused { kind, refusal }| (kind, refusal))?;
        let right = right_of(&message, |repeated| controller.has_command(repeated) == Some(true));
        if !self.allow_commands.admits(to.caller, right) {
            return Err((kind, rights::refusal(self.allow_commands, to.caller, right)));
        }
        if self.allow_commands.admits(to.caller, Right::Command) {
            message.trust();
        }
        if to.sees_commands {
            message.reveal();
        }
        if let Message::Agent(sender, _) = &mut message {
            sender.may_have_commands = self.allow_commands.admits(to.caller, Right::RunCommands);
        }
        Ok((kind, message))
    }
}
