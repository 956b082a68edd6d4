"""One connection to a controller, with any number of requests in flight.

Callers put requests into a queue and get a future, which the thread of the connection completes, so a caller is woken by the
arrival of its own answer. A request that comes alone is sent by its caller, which spares it a change of threads; others
wait for that thread, and submits that wait together travel in one frame. Whoever uses the sockets has the lock. The thread
waits without it, at the descriptors: those of ZeroMQ show a change once, so whoever has used a socket must look whether it
has more.

A connection that is lost is made again, and every unanswered request is sent again: submits have keys, so the same task
is never accepted twice.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import select
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar, overload

import zmq
from zmq.utils.monitor import parse_monitor_message

from llts.errors import Error, KeyRefused, NoController, refusal
from llts.home import Endpoint

T = TypeVar("T")
Fields = dict[str, Any]

log = logging.getLogger("llts")

# Seconds that a controller may be away that has answered before: its supervisor starts it again within some.
SILENCE_MAX = 30.0

# Milliseconds for which a request waits at the controller. A lost connection is noticed by itself.
PARK_MS = 600_000

# Bounds of one frame of submits, below the limits of the service.
BATCH_TASKS_MAX = 250
BATCH_CHARACTERS_MAX = 1_000_000

# Requests without an answer beside which another one counts as alone: some are answered when a task ends.
ALONE_MAX = 4

# Milliseconds between the pings that find out that the other machine is gone.
PING_MS = 5_000

# Milliseconds of an attempt to connect, and seconds after which the next address is tried.
CONNECT_MS, DIAL_PAUSE = 2_000, 0.1

SUBMIT = "TASK/SUBMIT"

CLOSED = "this client is closed, or belongs to the parent of this process; make another one"

# Plain numbers: a call with an enumeration of pyzmq takes some microseconds more.
SNDMORE, POLLIN, EVENTS = int(zmq.SNDMORE), int(zmq.POLLIN), int(zmq.EVENTS)

encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def same(fields: Fields) -> Fields:
    """Return an answer as it is."""
    return fields


class Request:
    """A request and what is to become of its answer."""

    __slots__ = ("again", "at", "body", "future", "kind", "read", "repeat")

    def __init__(
        self, kind: str, body: str, read: Callable[[Fields], Any], again: Callable[[Fields], bool] | None, repeat: bool
    ) -> None:
        self.kind = kind
        # A JSON object without its type.
        self.body = body
        self.read = read
        # Whether an answer is not the last one, so that the request is sent once more.
        self.again = again
        # Whether the request may arrive twice.
        self.repeat = repeat
        self.at = time.monotonic()
        self.future: Future[Any] = Future()

    def answer(self, fields: Fields) -> None:
        """Complete the future."""
        code = fields.get("__CODE__", 0)
        if code != 0:
            self.fail(refusal(code, fields.get("__ERROR_MSG__", "")))
            return
        if warning := fields.get("__WARNING__"):
            log.warning("%s", warning)
        try:
            self.future.set_result(self.read(fields))
        except InvalidStateError:
            pass
        except Exception as error:  # An answer that this client cannot read is the failure of its request alone.
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Complete the future with an exception."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)


# A process that has forked has no thread for the connections of its parent.
connections: weakref.WeakSet[Connection] = weakref.WeakSet()


class Connection:
    """See the module. ``patience`` is the time in seconds for the first answer of a controller."""

    def __init__(self, endpoint: Endpoint, patience: float) -> None:
        self.endpoint = endpoint
        self._patience = patience
        self._queue: deque[Request] = deque()
        self._pending: dict[bytes, list[Request]] = {}
        self._numbers = itertools.count(1)
        self._keys = itertools.count(1)
        self._key = f"llts.py {os.urandom(8).hex()}"
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._sleeps = False
        self._closed = False
        self._connected = False
        self._was_connected = False
        # ZeroMQ does not connect again after a handshake that was refused.
        self._refused = False
        # A message may have been sent in part.
        self._is_torn = False
        # Requests that have failed, and why: they are told without the lock.
        self._failed: list[tuple[Request, Exception]] = []
        self._lost_at = time.monotonic()
        self._turn = -1
        self._context = zmq.Context()
        # Held by whoever uses the sockets.
        self._lock = threading.Lock()
        self._poller = select.poll()
        self._poller.register(self._woken, select.POLLIN)
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes]
        self._thread = threading.Thread(target=self._run, name="llts", daemon=True)
        connections.add(self)
        self._thread.start()

    # -- for every thread -----------------------------------------------------------------------------------------------

    def submit_key(self) -> str:
        """Return a new key, with which a submit can be repeated."""
        return f"{self._key} {next(self._keys)}"

    @overload
    def ask(self, kind: str, fields: Fields | None = None, *, repeat: bool = True) -> Future[Fields]: ...

    @overload
    def ask(
        self,
        kind: str,
        fields: Fields | None,
        read: Callable[[Fields], T],
        *,
        again: Callable[[Fields], bool] | None = None,
        repeat: bool = True,
    ) -> Future[T]: ...

    def ask(
        self,
        kind: str,
        fields: Fields | None = None,
        read: Callable[[Fields], Any] = same,
        *,
        again: Callable[[Fields], bool] | None = None,
        repeat: bool = True,
    ) -> Future[Any]:
        """Send a request. ``read`` makes the result of its answer, in the thread of the connection."""
        request = Request(kind, encode(fields or {}), read, again, repeat)
        if self._send_alone(request):
            return request.future
        self._queue.append(request)
        if self._closed:
            self._fail_all(Error(CLOSED))
        elif self._sleeps:
            # One call wakes it for all requests that come before it runs.
            self._sleeps = False
            self._wake_up()
        return request.future

    def _send_alone(self, request: Request) -> bool:
        """Send a request in the thread of its caller, if nothing else is to be sent; return whether that was done."""
        if not self._sleeps or self._queue or len(self._pending) >= ALONE_MAX:
            return False
        with self._lock:
            if not self._connected or self._closed:
                return False
            try:
                self._send([request])
                has_input = self._has_input()
            except BaseException:
                # Ctrl-C, in the midst of a message of several parts.
                self._is_torn = True
                self._wake_up()
                raise
        if has_input:
            # To send may be to notice that something has arrived.
            self._wake_up()
        return True

    def close(self) -> None:
        """End the connection. Requests without an answer fail."""
        self._closed = True
        self._wake_up()
        # The last reference to a client may be dropped by a callback in that thread.
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _wake_up(self) -> None:
        # If it is full, the thread wakes up anyway; if it is closed, the thread has ended.
        with suppress(OSError):
            self._wake.send(b"\0")

    # -- for the thread of the connection -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._dial()
            while not self._closed:
                self._turn_once()
        except Exception as error:
            log.exception("the connection to %s has ended", self.endpoint)
            self._closed = True
            self._fail_all(Error(f"the connection has ended: {error}"))
        finally:
            self._fail_all(Error(CLOSED))
            with self._lock:
                self._context.destroy(linger=0)
            self._wake.close()
            self._woken.close()

    def _turn_once(self) -> None:
        with self._lock:
            self._send_queue()
            has_input = self._has_input()
        # A caller that appends after this line sees that the thread sleeps, and wakes it.
        self._sleeps = True
        self._poller.poll(0 if self._queue or has_input else self._wait_ms())
        self._sleeps = False
        with suppress(BlockingIOError):
            self._woken.recv(4096)
        with self._lock:
            answers = self._receive()
            self._watch()
            if self._is_torn:
                self._is_torn = False
                self._lose()
                self._dial()
            failed, self._failed = self._failed, []
        for request, error in failed:
            request.fail(error)
        for batch, fields in answers:
            self._answer(batch, fields)
        if not self._connected:
            self._check_silence()

    def _has_input(self) -> bool:
        """Return whether a socket has something that nobody has taken."""
        assert self._socket is not None
        return any(int(it.getsockopt(EVENTS)) & POLLIN for it in (self._socket, self._monitor))

    def _dial(self) -> None:
        """Open a socket to the next address."""
        if self._socket is not None:
            for old in (self._socket, self._monitor):
                self._poller.unregister(old.fileno())
            self._socket.disable_monitor()
            self._socket.close(0)
        self._turn += 1
        self._dialled = time.monotonic()
        opened: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        opened.linger = 0
        opened.sndhwm = opened.rcvhwm = 0
        opened.connect_timeout = CONNECT_MS
        opened.reconnect_ivl, opened.reconnect_ivl_max = 20, 200
        opened.heartbeat_ivl, opened.heartbeat_timeout = PING_MS, 3 * PING_MS
        if self.endpoint.keys is not None:
            opened.curve_secretkey = self.endpoint.keys.secret
            opened.curve_publickey = zmq.curve_public(self.endpoint.keys.secret)
            opened.curve_serverkey = self.endpoint.keys.server
        self._monitor = opened.get_monitor_socket()
        opened.connect(self.endpoint.addresses[self._turn % len(self.endpoint.addresses)])
        self._poller.register(opened.fileno(), select.POLLIN)
        self._poller.register(self._monitor.fileno(), select.POLLIN)
        self._socket = opened

    def _wait_ms(self) -> int | None:
        deadline = self._deadline()
        return None if deadline is None else max(0, int((deadline - time.monotonic()) * 1000) + 1)

    def _deadline(self) -> float | None:
        """When the controller has been away for too long for the oldest request."""
        if self._connected or not self._pending:
            return None
        oldest = min(requests[0].at for requests in self._pending.values())
        return max(oldest, self._lost_at) + (SILENCE_MAX if self._was_connected else self._patience)

    def _check_silence(self) -> None:
        deadline = self._deadline()
        if deadline is not None and time.monotonic() >= deadline:
            waited = SILENCE_MAX if self._was_connected else self._patience
            remedy = "start one with `llts up`, or name another one"
            self._fail_all(NoController(f"no controller answers at {self.endpoint} within {waited:g} s; {remedy}"))

    def _send_queue(self) -> None:
        queue = self._queue
        if queue and self._refused:
            self._refused = False
            self._dial()
        while queue:
            batch = [queue.popleft()]
            if batch[0].kind == SUBMIT:
                size = len(batch[0].body)
                while queue and queue[0].kind == SUBMIT and len(batch) < BATCH_TASKS_MAX:
                    size += len(queue[0].body)
                    if size > BATCH_CHARACTERS_MAX:
                        break
                    batch.append(queue.popleft())
            self._send(batch)

    def _send(self, batch: list[Request]) -> None:
        number = b"%d" % next(self._numbers)
        self._pending[number] = batch
        if self._connected:
            self._transmit(number, batch)

    def _transmit(self, number: bytes, batch: list[Request]) -> None:
        if len(batch) == 1:
            text = f'{{"__TYPE__":"{batch[0].kind}"' + (f",{batch[0].body[1:]}" if len(batch[0].body) > 2 else "}")
        else:
            bodies = ",".join(request.body for request in batch)
            text = f'{{"__TYPE__":"TASK/SUBMIT_MANY","__TASKS__":[{bodies}]}}'
        assert self._socket is not None
        self._socket.send(number, SNDMORE)
        self._socket.send(b"", SNDMORE)
        self._socket.send(text.encode())

    def _receive(self) -> list[tuple[list[Request], Fields]]:
        """Take the answers that have arrived, each with its requests."""
        assert self._socket is not None
        answers = []
        while int(self._socket.getsockopt(EVENTS)) & POLLIN:
            number, _, frame = self._socket.recv(), self._socket.recv(), self._socket.recv()
            batch = self._pending.pop(number, None)
            # A request that was repeated may be answered twice.
            if batch is not None:
                answers.append((batch, json.loads(frame)))
        return answers

    def _answer(self, batch: list[Request], fields: Fields) -> None:
        if len(batch) > 1:
            self._answer_batch(batch, fields)
        elif batch[0].again is not None and fields.get("__CODE__") == 0 and batch[0].again(fields):
            self._send_again(batch)
        else:
            batch[0].answer(fields)

    def _answer_batch(self, batch: list[Request], fields: Fields) -> None:
        if fields["__CODE__"] == 0:
            if warning := fields.get("__WARNING__"):
                log.warning("%s", warning)
            duplicates = set(fields.get("__DUPLICATES__") or ())
            for index, (request, id) in enumerate(zip(batch, fields["__TASK_IDS__"], strict=True)):
                request.answer({"__TASK_ID__": id, "__DUPLICATE__": index in duplicates})
            return
        # None was accepted, and the answer names the first wrong one. Without a name, it is about all of them together.
        wrong = fields.get("__INDEX__")
        if wrong is None:
            self._send_again(*([request] for request in batch))
            return
        batch.pop(wrong).answer(fields)
        self._send_again(batch)

    def _send_again(self, *batches: list[Request]) -> None:
        with self._lock:
            for batch in batches:
                self._send(batch)

    def _watch(self) -> None:
        """Follow the state of the connection."""
        while int(self._monitor.getsockopt(EVENTS)) & POLLIN:
            event = parse_monitor_message(self._monitor.recv_multipart())["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._connected = self._was_connected = True
                for number, batch in self._pending.items():
                    self._transmit(number, batch)
            elif event in (zmq.EVENT_HANDSHAKE_FAILED_AUTH, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL):
                self._refused = True
                why = "no keys are given" if self.endpoint.keys is None else "it does not accept the key of this client"
                error = KeyRefused(f"cannot talk to the controller at {self.endpoint}: {why}")
                self._failed += [(request, error) for request in self._take_all()]
            elif event == zmq.EVENT_DISCONNECTED and self._connected:
                self._lose()
            elif event == zmq.EVENT_CONNECT_RETRIED and self._has_others():
                self._dial()
                return

    def _has_others(self) -> bool:
        """Return whether it is time for the next address: each gets some attempts."""
        return len(self.endpoint.addresses) > 1 and time.monotonic() - self._dialled > DIAL_PAUSE

    def _lose(self) -> None:
        self._connected = False
        self._lost_at = time.monotonic()
        for number, batch in list(self._pending.items()):
            # The end of a task may have completed its submit.
            batch[:] = [request for request in batch if not request.future.done()]
            if not batch:
                del self._pending[number]
            elif not batch[0].repeat:
                del self._pending[number]
                error = NoController("the connection was lost; the request may have been carried out")
                self._failed.append((batch[0], error))

    def _take_all(self) -> list[Request]:
        """Return the requests without an answer, which is not waited for any more."""
        pending, self._pending = self._pending, {}
        requests = [request for batch in pending.values() for request in batch]
        while self._queue:
            requests.append(self._queue.popleft())
        return requests

    def _fail_all(self, error: Exception) -> None:
        for request in self._take_all():
            request.fail(error)


def leave_to_parent() -> None:
    """Close all connections in the child of a fork."""
    for connection in connections:
        connection._closed = True


os.register_at_fork(after_in_child=leave_to_parent)
