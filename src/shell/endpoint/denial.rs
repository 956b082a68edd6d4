//! Why a controller will never talk to us, however often it is asked: what is wrong with the keys of one side.

use crate::engine::zmtp::{DisconnectReason, PublicKey, Security};

/// What an ERROR says to a key that is not wanted, here and at libzmq.
const UNAUTHORISED: &str = "400";

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// It wants a key, and we have none.
    #[error(
        "it lets in only those with a CURVE key, and none is configured here; give CURVE_SECRET_KEY_FILE and \
         CURVE_SERVER_PUBLIC_KEY_FILE (`llts keys new` makes a pair)"
    )]
    KeyMissing,
    /// We have keys, and it has none.
    #[error(
        "it has no CURVE keys, and this side has some; take CURVE_SECRET_KEY_FILE and CURVE_SERVER_PUBLIC_KEY_FILE away, or give \
         it CURVE_SERVER_SECRET_KEY_FILE and CURVE_AUTHORISED_KEYS_DIR"
    )]
    KeyUnused,
    /// It does not let our key in.
    #[error(
        "it does not let in the public key {0}, which belongs to CURVE_SECRET_KEY_FILE; put a file with that public key into \
         its folder CURVE_AUTHORISED_KEYS_DIR"
    )]
    KeyRefused(PublicKey),
    /// It has not the key by which we know it.
    #[error(
        "it has another key than {0}, by which it is known here; copy its public key into CURVE_SERVER_PUBLIC_KEY_FILE, or \
         connect to the controller that is meant"
    )]
    OtherController(PublicKey),
}

impl Denial {
    /// What the end of a connection tells, if it tells that.
    pub(super) fn of(reason: &DisconnectReason, security: &Security) -> Option<Self> {
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
