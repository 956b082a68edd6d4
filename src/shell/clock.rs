//! The only place that asks what time it is.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime};

use crate::types::{Mono, Now, Wall};

/// Reads both clocks.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place that the rule names")]
pub fn now() -> Now {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let mono = Mono::from_nanos(u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX));
    // A clock before 1970 reads as 1970: ids and times stay well-formed.
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Now { mono, wall: Wall::from_micros(u64::try_from(wall.as_micros()).unwrap_or(u64::MAX)) }
}
