//! What the tests of several parts share.

pub(crate) mod folder;
pub(crate) mod loopback;
pub(crate) mod ports;
pub(crate) mod redis;
pub(crate) mod waiting;
