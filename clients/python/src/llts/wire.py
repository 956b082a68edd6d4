"""The bytes of a connection: through libzmq to other machines and with keys, or plain at a unix socket.

A wire belongs to one connection, which has the lock. It registers its descriptors with the poller of the connection, and
makes its connection again whenever it is lost. :meth:`Wire.take` tells what has arrived and what became of the connection.
"""

from __future__ import annotations

import enum
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from llts.home import Keys

# Seconds between the pings that find out that the other side is gone, and after which one without an answer has found it.
PING, ANSWER_MAX = 5.0, 15.0

# A frame that claims to be longer is garbage. The controller accepts no message that large, and sends none.
FRAME_BYTES_MAX = 1 << 30

# Seconds of an attempt to connect, and before the first and the later further ones.
CONNECT, RETRY_MIN, RETRY_MAX = 2.0, 0.02, 0.2


class State(enum.Enum):
    """What became of a connection."""

    MADE = enum.auto()
    LOST = enum.auto()
    # An attempt to make it has failed; the next one follows.
    FAILED = enum.auto()
    # The controller does not take this client. There is no further attempt.
    REFUSED = enum.auto()


# The number of a request with the frame of its answer, or what became of the connection.
Arrival = tuple[bytes, bytes] | State


class Wire(Protocol):
    """A connection that makes itself again."""

    @property
    def due(self) -> float | None:
        """When :meth:`take` is to be called even if nothing has arrived, on the clock of ``time.monotonic``."""

    def send(self, number: bytes, text: bytes) -> bool:
        """Send a request over a connection that is made; return whether a thread that waits at the poller must look again."""

    def has_input(self) -> bool:
        """Return whether there is something to take that the poller does not show any more."""

    def take(self) -> Iterator[Arrival]:
        """Take what has arrived."""

    def close(self) -> None:
        """End the connection, and leave the poller."""


def open_wire(address: str, keys: Keys | None, poller: select.poll) -> Wire:
    """Return a wire to ``tcp://HOST:PORT`` or ``ipc://PATH``."""
    if keys is None and address.startswith("ipc://"):
        return PlainWire(address.removeprefix("ipc://"), poller)
    # It takes longer to load than all of this package.
    from llts.zmq_wire import ZmqWire

    return ZmqWire(address, keys, poller)


# The greeting of ZMTP 3.1 with the mechanism NULL, and the flags of a frame.
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
MECHANISM = slice(12, 32)
MORE, LONG, COMMAND = 1, 2, 4


def frame(flags: int, body: bytes) -> bytes:
    """Return a frame of ZMTP."""
    size = len(body)
    head = struct.pack(">BB", flags, size) if size < 256 else struct.pack(">BQ", flags | LONG, size)
    return head + body


def command(name: bytes, body: bytes) -> bytes:
    """Return a command of ZMTP."""
    return frame(COMMAND, bytes((len(name),)) + name + body)


EMPTY = frame(MORE, b"")
READY = command(b"READY", b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER")
# With the time to live that sets none: the controller need not give a silent client up.
PING_COMMAND = command(b"PING", b"\0\0")


class PlainWire:
    """ZMTP at a unix socket, without the thread of libzmq: two changes of threads less for a request and its answer.

    The states: ``_socket`` is None between two attempts, until ``due``; the greeting and the READY of the other side are
    awaited until ``_is_made``; then each message is an answer. Whatever breaks the protocol ends the connection, and the
    next attempt follows.
    """

    def __init__(self, path: str, poller: select.poll) -> None:
        self._path = path
        self._poller = poller
        self._socket: socket.socket | None = None
        self._is_made = False
        self._is_greeted = False
        self._input = bytearray()
        self._output = bytearray()
        # The frames of a message whose last one has not arrived.
        self._parts: list[bytes] = []
        self._pause = RETRY_MIN
        self._heard = self._asked = 0.0
        self.due: float | None = time.monotonic()

    def send(self, number: bytes, text: bytes) -> bool:
        """See :meth:`Wire.send`."""
        self._write(frame(MORE, number) + EMPTY + frame(0, text))
        return bool(self._output)

    def has_input(self) -> bool:
        """Return False: the poller shows a socket with input as long as it has some."""
        return False

    def take(self) -> Iterator[Arrival]:
        """See :meth:`Wire.take`."""
        now = time.monotonic()
        if self._socket is None:
            if self.due is not None and now >= self.due and not self._connect(now):
                yield self._end(now)
            return
        try:
            self._flush()
            is_open = self._read(now)
            yield from self._arrivals()
            if not is_open:
                yield self._end(now)
            elif self.due is not None and now >= self.due:
                yield from self._look(now)
        except Refused:
            self.close()
            self.due = None
            yield State.REFUSED
        except (OSError, ValueError):
            yield self._end(now)

    def close(self) -> None:
        """See :meth:`Wire.close`."""
        if self._socket is not None:
            self._poller.unregister(self._socket)
            self._socket.close()
        self._socket = None

    def _connect(self, now: float) -> bool:
        """Begin an attempt; return whether the other side has taken it."""
        opened = socket.socket(socket.AF_UNIX)
        opened.setblocking(False)
        try:
            # At a unix socket, this succeeds or fails at once.
            opened.connect(self._path)
        except OSError:
            opened.close()
            return False
        self._socket = opened
        self._is_made = self._is_greeted = False
        self._heard = now
        self.due = now + CONNECT
        self._input.clear()
        self._output.clear()
        self._parts.clear()
        self._poller.register(opened, select.POLLIN)
        self._write(GREETING)
        return True

    def _end(self, now: float) -> State:
        """End the connection, and plan the next attempt."""
        self.close()
        if self._is_made:
            self._is_made, self._pause = False, RETRY_MIN
            state = State.LOST
        else:
            state = State.FAILED
        self.due = now + self._pause
        self._pause = min(self._pause * 2, RETRY_MAX)
        return state

    def _look(self, now: float) -> Iterator[State]:
        """Find out whether the other side is there."""
        # Only a ping tells silence from a time in which this process did not look.
        is_asked = self._asked > self._heard
        if not self._is_made or (is_asked and now - self._asked >= ANSWER_MAX):
            yield self._end(now)
        elif is_asked:
            self.due = now + PING
        elif now - self._heard >= PING:
            self._asked = now
            self._write(PING_COMMAND)
            self.due = now + PING
        else:
            self.due = self._heard + PING

    def _read(self, now: float) -> bool:
        """Read all that has arrived; return False if the other side has ended the connection."""
        assert self._socket is not None
        with suppress(BlockingIOError):
            while data := self._socket.recv(1 << 18):
                self._input += data
                self._heard = now
                if len(data) < 1 << 18:
                    return True
            return False
        return True

    def _arrivals(self) -> Iterator[Arrival]:
        """Return what is complete of the input."""
        if not self._is_greeted:
            if len(self._input) < len(GREETING):
                return
            self._greet(bytes(self._input[: len(GREETING)]))
            del self._input[: len(GREETING)]
        for flags, body in self._frames():
            if flags & COMMAND:
                if self._obey(body):
                    yield State.MADE
                continue
            if not self._is_made:
                raise ValueError("a message before the handshake")
            self._parts.append(body)
            if flags & MORE == 0:
                number, empty, answer = self._parts
                if empty:
                    raise ValueError("no answer")
                self._parts = []
                yield number, answer

    def _frames(self) -> list[tuple[int, bytes]]:
        """Take the whole frames of the input."""
        data, at, found = self._input, 0, []
        while len(data) - at >= 2:
            flags = data[at]
            start = at + (9 if flags & LONG else 2)
            if len(data) < start:
                break
            size = int.from_bytes(data[at + 1 : start], "big")
            if size > FRAME_BYTES_MAX:
                raise ValueError(f"a frame of {size} bytes")
            end = start + size
            if len(data) < end:
                break
            found.append((flags, bytes(data[start:end])))
            at = end
        del data[:at]
        return found

    def _greet(self, theirs: bytes) -> None:
        is_zmtp_3 = theirs[0] == 0xFF and theirs[9] == 0x7F and theirs[10] >= 3
        if not is_zmtp_3:
            raise ValueError("no greeting of ZMTP 3")
        if theirs[MECHANISM] != GREETING[MECHANISM]:
            raise Refused
        self._is_greeted = True
        self._write(READY)

    def _obey(self, body: bytes) -> bool:
        """Follow a command; return whether it completes the handshake."""
        if not body:
            raise ValueError("a command without a name")
        name, rest = body[1 : 1 + body[0]], body[1 + body[0] :]
        if name == b"PING":
            # After the time to live, whatever the other side wants to have back.
            self._write(command(b"PONG", rest[2:]))
        elif name == b"ERROR":
            raise Refused
        elif name == b"READY" and not self._is_made:
            self._is_made = True
            self.due = self._heard + PING
            return True
        return False

    def _write(self, data: bytes) -> None:
        """Send bytes; those that do not fit wait until the poller shows that more do."""
        self._output += data
        self._flush()

    def _flush(self) -> None:
        if not self._output or self._socket is None:
            return
        try:
            del self._output[: self._socket.send(self._output)]
        except BlockingIOError:
            pass
        except OSError:
            # The next reading finds out that the connection is lost.
            self._output.clear()
        self._poller.modify(self._socket, select.POLLIN | select.POLLOUT if self._output else select.POLLIN)


class Refused(Exception):
    """The controller does not take this client."""
