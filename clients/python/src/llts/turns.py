"""Who does the work of a connection: its own thread, or a caller that waits for an answer.

An answer that its own caller takes arrives without a change of threads, which costs as much as all other work on it. So one
caller at a time may do the turns of the connection, until it has what it waits for; the others wait for their futures. The
thread does the turns at all other times.

Most requests are followed at once by a caller that waits for the answer, so to wake the thread for each would only put it
into that caller's way. For ``REST`` after the last caller, the thread looks every ``LOOK`` whether an answer is awaited that
no caller takes. After that, it does the turns until the next caller wants them.
"""

from __future__ import annotations

# The functions of the module signal make enumerations, which takes longer than all other work of a wait.
import _signal  # type: ignore[import-not-found]
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

Handler = Callable[[int, FrameType | None], object]

# The signals to which a program may give a handler that raises.
NAMES = ("HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TERM", "CHLD", "VTALRM", "PROF")
SIGNALS = [int(getattr(signal, f"SIG{name}")) for name in NAMES]

# Seconds for which a caller waits for the turns at most: the thread may be in a callback.
HANDOVER = 1.0

# Seconds for which the thread leaves the turns to callers, after the last of them.
REST = 1.0

# Seconds after which an answer is taken by the thread that no caller takes, while it leaves the turns to callers.
LOOK = 0.003


class Turns:
    """The right to do the turns of a connection, which one thread has at a time.

    ``interrupt`` ends a turn that waits, soon. ``is_needed`` returns whether turns must go on.
    """

    def __init__(self, interrupt: Callable[[], None], is_needed: Callable[[], bool]) -> None:
        self._interrupt = interrupt
        self._is_needed = is_needed
        # Entered by itself, not through the condition, whose methods Ctrl-C can leave with the lock.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self.holder: int | None = None
        """The thread that has the right."""
        # The number of callers that wait for it.
        self.wanted = 0
        self._keeper = 0
        # When a caller has last had the right, and whether the thread looks by itself.
        self._called = float("-inf")
        self._looks = False

    def take(self, until: float | None) -> bool:
        """Take the right; return False if another caller has it, or the thread does not give it back until ``until``."""
        own = threading.get_ident()
        until = min(time.monotonic() + HANDOVER, float("inf") if until is None else until)
        with self._lock:
            self.wanted += 1
            try:
                while self.holder is not None:
                    if self.holder != self._keeper:
                        return False
                    self._interrupt()
                    # The thread may have given the right back for this caller after the time and before this line.
                    if not self._changed.wait(until - time.monotonic()) and self.holder is not None:
                        return False
                self.holder = own
                self._called = time.monotonic()
            finally:
                self.wanted -= 1
        return True

    def keep(self) -> None:
        """Take the right, for the thread: when no other has it, and it is needed or no caller has had it for a while."""
        self._keeper = threading.get_ident()
        with self._lock:
            while True:
                self._looks = time.monotonic() - self._called < REST
                is_free = self.holder in (None, self._keeper) and not self.wanted
                if is_free and (not self._looks or self._is_needed()):
                    break
                # Whoever gives the right back tells so.
                self._changed.wait(LOOK if self._looks else REST)
            self._looks = False
            self.holder = self._keeper

    def give_back(self) -> None:
        """Give the right back."""
        with self._lock:
            if self.holder != self._keeper:
                self._called = time.monotonic()
            self.holder = None
            if self.wanted or not self._looks:
                self._changed.notify_all()

    def rouse(self) -> None:
        """Let the thread take the right, if no other has it and it does not look by itself."""
        if not self._looks:
            with self._lock:
                self._changed.notify_all()


class SteadyCondition(threading.Condition):
    """A condition whose ``with`` takes and leaves the lock in one step.

    Those of the library are functions of Python, which an exception of a signal can end between the lock and the ``with``:
    then the lock is held for ever, and with it the thread that completes the future.
    """

    # What ``with`` looks up is the method of the lock itself.
    __enter__ = property(lambda self: self._lock.__enter__)
    __exit__ = property(lambda self: self._lock.__exit__)


class Interrupted(BaseException):
    """Ends a turn that waits."""


class Shield:
    """Keeps the handlers of signals, such as that of Ctrl-C, out of a part of the main thread; they are called after it.

    An exception between the arrival of an answer and the end of its work, or between a request and the note of it, would
    leave the answers of other callers half known, or a lock held for ever. So all handlers of the program give way to one
    while this is entered, which keeps what it is told, and ends a turn that waits. One within another does nothing.
    """

    _is_up = False

    def __init__(self) -> None:
        self._handlers: dict[int, Handler] = {}
        self._waits = False
        self.caught: list[tuple[int, FrameType | None]] = []
        """The signals that have come, with their frames."""

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread() and not Shield._is_up:
            try:
                for number in SIGNALS:
                    handler = _signal.getsignal(number)
                    if callable(handler):
                        self._handlers[number] = handler
                        _signal.signal(number, self._catch)
            except BaseException:
                # Of a handler that has not given way yet.
                self._lower()
                raise
            Shield._is_up = bool(self._handlers)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._handlers:
            handlers = dict(self._handlers)
            Shield._is_up = False
            self._lower()
            for number, frame in self.caught:
                handlers[number](number, frame)

    def poll(self, poller: select.poll, pause: int | None) -> list[tuple[int, int]]:
        """Wait at a poller for at most ``pause`` milliseconds. Raises :class:`Interrupted` when a signal comes."""
        self._waits = True
        found = [] if self.caught else poller.poll(pause)
        self._waits = False
        return found

    def _lower(self) -> None:
        """Put the handlers back. One that is there again may raise at once."""
        try:
            while self._handlers:
                number, handler = next(iter(self._handlers.items()))
                _signal.signal(number, handler)
                del self._handlers[number]
        finally:
            if self._handlers:
                self._lower()

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.caught.append((number, frame))
        if self._waits:
            self._waits = False
            raise Interrupted


def lower_all() -> None:
    """Put the handlers back in the child of a fork. Whoever has entered a shield may be a thread that is not here."""
    for number in SIGNALS:
        handler = before = _signal.getsignal(number)
        while isinstance(shield := getattr(handler, "__self__", None), Shield):
            handler = shield._handlers[number]
        if handler is not before:
            _signal.signal(number, handler)
    Shield._is_up = False


os.register_at_fork(after_in_child=lower_all)
