"""Bounded waiting. The bounds are far above what anything takes: they end a hang, they measure nothing."""

import time

# Seconds. A busy machine with two cores may stall a process for seconds.
LIMIT = 30
LIMIT_MS = LIMIT * 1000

# Seconds between two looks, for the few conditions that no socket or pipe announces.
_PAUSE = 0.02


def wait_until(condition, what, limit=LIMIT):
    """Returns the first true result of `condition`, or fails with `what` was waited for."""
    deadline = time.monotonic() + limit
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < deadline, f"after {limit} s still not: {what}"
        time.sleep(_PAUSE)
