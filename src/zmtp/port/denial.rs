//! Permanent refusals by a controller: the keys of one side are wrong.

use crate::engine::{DisconnectReason, PublicKey, Security, UNAUTHORISED};

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// It requires a key, and we have none.
    #[error(
        "it accepts only connections with a CURVE key, and none is configured here; set CURVE_SECRET_KEY_FILE and \
         CURVE_SERVER_PUBLIC_KEY_FILE (`llts keys new` makes a pair)"
    )]
    KeyMissing,
    /// We have keys, and it has none.
    #[error(
        "it has no CURVE keys, and this side has some; remove CURVE_SECRET_KEY_FILE and CURVE_SERVER_PUBLIC_KEY_FILE here, or set \
         CURVE_SERVER_SECRET_KEY_FILE and CURVE_AUTHORISED_KEYS_DIR there"
    )]
    KeyUnused,
    /// It does not authorise our key.
    #[error(
        "it does not authorise the public key {0}, which belongs to CURVE_SECRET_KEY_FILE; put a file with that public key into \
         its folder CURVE_AUTHORISED_KEYS_DIR"
    )]
    KeyRefused(PublicKey),
    /// Its key is not the configured one.
    #[error(
        "its key is not {0}, the one configured here; copy its public key into CURVE_SERVER_PUBLIC_KEY_FILE, or \
         connect to the right controller"
    )]
    OtherController(PublicKey),
}

impl Denial {
    /// The denial that the end of a connection implies, if any.
    pub(crate) fn of(reason: &DisconnectReason, security: &Security) -> Option<Self> {
        match (security, reason) {
            (Security::Null, DisconnectReason::Mechanism { theirs, .. }) if theirs == "CURVE" => Some(Self::KeyMissing),
            (Security::CurveClient(_), DisconnectReason::Mechanism { theirs, .. }) if theirs == "NULL" => {
                Some(Self::KeyUnused)
            }
            (Security::CurveClient(keys), DisconnectReason::Refused(why)) if why == UNAUTHORISED => {
                Some(Self::KeyRefused(keys.pair.public()))
            }
            (Security::CurveClient(keys), DisconnectReason::Unanswered | DisconnectReason::Keys(_)) => {
                Some(Self::OtherController(keys.server))
            }
            _ => None,
        }
    }
}
