"""Finds processes that outlived their task, by anything that gives them away in /proc."""

import os
import signal

from .waiting import wait_until


def find(folder=None, task_ids=(), marker=None, but_staying=False):
    """`{pid: command line}` of every process that belongs to one of the tasks.

    One of these is enough: a command line, environment or working directory that names `folder`, the cookie
    `__TASK_ID__=<id>` in the environment, or a command line with `marker`. With `but_staying`, tools that stay do not count.
    """
    cookies = [b"__TASK_ID__=" + task_id.encode() for task_id in task_ids]
    needles = [os.fsencode(text) for text in (folder,) if text]
    found = {}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        try:
            command, environment, cwd = _facts(pid)
        except OSError:
            # It ended while we looked, or it belongs to another user.
            continue
        facts = (command, environment, cwd)
        if but_staying and b"LLTS_STAY_FD=" in environment:
            continue
        if (
            any(needle in fact for needle in needles for fact in facts)
            or any(cookie in environment.split(b"\0") for cookie in cookies)
            or (marker and marker.encode() in command)
        ):
            found[int(pid)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def _facts(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as command, open(f"/proc/{pid}/environ", "rb") as environment:
        return command.read(), environment.read(), os.fsencode(os.readlink(f"/proc/{pid}/cwd"))


def end_all(**traits):
    """Ends what `find` finds, so that one failing test leaves nothing to the next, and returns what it was."""
    seen = {}

    def none_left():
        found = find(**traits)
        seen.update(found)
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return not found

    wait_until(none_left, "every leftover process is gone")
    return seen
