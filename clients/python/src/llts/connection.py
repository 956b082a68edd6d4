"""One connection to a controller, with any number of requests in flight.

Callers put requests into a queue and get a future. Turns send what has queued up and complete the futures of what has
arrived: the thread of the connection does them, or a caller that waits for an answer (see :mod:`llts.turns`). A request that
comes alone is sent by its caller at once; others wait for a turn, and submits that wait together travel in one frame. The
user of the wire has the lock. A turn waits without it, at the poller.

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
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar, overload

from llts.errors import Error, KeyRefused, NoController, refusal
from llts.home import Endpoint
from llts.turns import Interrupted, Shield, SteadyCondition, Turns
from llts.wire import State, Wire, open_wire

T = TypeVar("T")
R = TypeVar("R")
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

# Seconds for which a close waits for the answers to submits, kills and the like.
CLOSE_MAX = 10.0

# Seconds for which a close waits for the thread after that: it may be in a callback that does not return.
END_MAX = 2.0

# Seconds after which the next address is tried.
DIAL_PAUSE = 0.1

SUBMIT = "TASK/SUBMIT"

CLOSED = "this client is closed, or belongs to the parent of this process; make another one"

encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
decode = json.JSONDecoder().decode


def same(fields: Fields) -> Fields:
    """Return an answer as it is."""
    return fields


class Answer(Future[T]):
    """A future whose caller takes the answers of its connection while it waits."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        # A second condition would take as long as all other work on the future.
        self._condition.__class__ = SteadyCondition
        self.connection = connection
        self.is_watched = False

    def cancel(self) -> bool:
        """Return False: a request that is sent cannot be taken back, and others may wait for the same answer."""
        return False

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """See :meth:`concurrent.futures.Future.add_done_callback`. Raises :class:`Error` where the future is never done."""
        if self.connection.is_left and not self.done():
            raise Error(CLOSED)
        super().add_done_callback(fn)

    def result(self, timeout: float | None = None) -> T:
        """See :meth:`concurrent.futures.Future.result`."""
        return super().result() if self.done() else self._read(super().result, timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """See :meth:`concurrent.futures.Future.exception`."""
        return super().exception() if self.done() else self._read(super().exception, timeout)

    def _read(self, read: Callable[[float | None], R], timeout: float | None) -> R:
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            with Shield() as shield:
                self.connection.wait(self, until, shield)
                if self.done():
                    return read(None)
            if self.connection.is_left:
                raise Error(CLOSED)
            # A handler that has not raised does not end the wait.
            if not shield.caught:
                return read(None if until is None else max(0.0, until - time.monotonic()))


class Request:
    """A request and what is to become of its answer."""

    __slots__ = ("again", "at", "body", "future", "is_brief", "is_submit", "kind", "read", "repeat")

    def __init__(
        self,
        kind: str,
        fields: Fields,
        read: Callable[[Fields], Any],
        again: Callable[[Fields], bool] | None,
        repeat: bool,
        future: Future[Any],
    ) -> None:
        self.kind = kind
        # A JSON object without its type.
        self.body = encode(fields)
        # Whether it may travel with others.
        self.is_submit = kind == SUBMIT and "__WAIT__" not in fields
        # Whether it is answered soon, and not only when something happens.
        self.is_brief = kind == SUBMIT or "__WAIT__" not in fields
        self.read = read
        # Whether an answer is not the last one, so that the request is sent once more.
        self.again = again
        # Whether the request may arrive twice.
        self.repeat = repeat
        self.at = time.monotonic()
        self.future = future

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
        self._woken_fd = self._woken.fileno()
        # Whether a turn waits at the poller, and must be woken for what comes.
        self._sleeps = False
        self._turns = Turns(self._wake_up, self._is_open)
        self._closed = False
        self.is_left = False
        """Whether this process is a child of the one that has the connection, where what had no answer never gets one."""
        # The end of a close that waits for answers.
        self._closing: float | None = None
        self._connected = False
        self._was_connected = False
        # The wire does not connect again after it was refused.
        self._refused = False
        # Answers that have arrived, and requests that have failed: they are told without the lock.
        self._answers: deque[tuple[list[Request], Fields]] = deque()
        self._failed: list[tuple[Request, Exception]] = []
        self._lost_at = time.monotonic()
        self._dials = 0
        # Held by whoever uses the wire.
        self._lock = threading.Lock()
        self._poller = select.poll()
        self._poller.register(self._woken, select.POLLIN)
        self._wire: Wire
        self._dial()
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
        """Send a request. ``read`` makes the result of its answer, in a turn."""
        request = Request(kind, fields or {}, read, again, repeat, Answer(self))
        with Shield():
            if self._refuses():
                request.fail(Error(CLOSED))
                return request.future
            if not self._send_alone(request):
                self._queue.append(request)
                if self._closed:
                    self._fail_all(Error(CLOSED))
                    return request.future
                if self._sleeps:
                    # One call wakes it for all requests that come before it runs.
                    self._sleeps = False
                    self._wake_up()
            if self._turns.holder is None:
                self._turns.rouse()
        return request.future

    def _refuses(self) -> bool:
        """Return whether no request is taken any more. In a close, callbacks may still send, such as the kill of a call."""
        return self._closed or (self._closing is not None and self._turns.holder != threading.get_ident())

    def _send_alone(self, request: Request) -> bool:
        """Send a request in the thread of its caller, if nothing else is to be sent; return whether that was done."""
        is_at_work = self._turns.holder is not None and not self._sleeps
        if self._closed or is_at_work or self._queue or len(self._pending) >= ALONE_MAX:
            return False
        with self._lock:
            if not self._connected or self._closed:
                return False
            must_look = self._send([request])
        if must_look:
            self._wake_up()
        return True

    def wait(self, future: Answer[Any], until: float | None, shield: Shield) -> None:
        """Do turns until a future is done, a time has come, or a signal. Returns before that if another caller does them.

        Raises :class:`Error` in a callback, which runs within a turn: its answer would never arrive.
        """
        if future.done():
            return
        if self._turns.holder == threading.get_ident():
            raise Error("a callback of a future cannot wait for an answer; hand that on to another thread")
        if not future.is_watched:
            future.is_watched = True
            future.add_done_callback(self._wake_waiter)
        if self._closed or has_come(until) or not self._turns.take(until):
            return
        try:
            self._do_turns(lambda: future.done() or has_come(until), shield, until)
        except Interrupted:
            self._sleeps = False
        finally:
            self._turns.give_back()

    def _wake_waiter(self, _: Future[Any]) -> None:
        """End the wait of a turn for a future that was completed elsewhere."""
        if self._turns.holder != threading.get_ident():
            self._wake_up()

    def close(self) -> None:
        """End the connection as soon as all requests are answered that are answered soon. The others fail."""
        if self._closing is None:
            self._closing = time.monotonic() + CLOSE_MAX
        self._wake_up()
        self._turns.rouse()
        # The last reference to a client may be dropped by a callback, within a turn.
        if threading.current_thread() is not self._thread and self._turns.holder != threading.get_ident():
            self._thread.join(CLOSE_MAX + END_MAX)

    def _wake_up(self) -> None:
        # If it is full, the turn wakes up anyway; if it is closed, there are no more turns.
        with suppress(OSError):
            self._wake.send(b"\0")

    # -- for the thread that does the turns -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closed:
                self._turns.keep()
                self._do_turns(lambda: self._turns.wanted > 0, Shield(), None)
                self._turns.give_back()
        finally:
            self._turns.keep()
            # Whoever sends a request alone has done so before this, or sees that the connection is closed.
            with self._lock:
                self._wire.close()
            if left := sum(not request.future.done() for request in self._brief()):
                log.warning("requests without an answer when the client of %s was closed: %d", self.endpoint, left)
            self._fail_all(Error(CLOSED))
            self._wake.close()
            self._woken.close()
            self._turns.give_back()

    def _is_open(self) -> bool:
        """Return whether turns must go on: something is awaited."""
        return bool(self._pending or self._queue or not self._connected or self._closed or self._closing is not None)

    def _brief(self) -> Iterator[Request]:
        """Return the requests without an answer for which a close waits."""
        # Copies: a caller may add one that began before the close.
        pending = itertools.chain(tuple(self._queue), *tuple(self._pending.values()))
        return (request for request in pending if request.is_brief)

    def _do_turns(self, is_enough: Callable[[], bool], shield: Shield, until: float | None) -> None:
        try:
            while not is_enough() and not self._closed:
                if self._closing is not None and (has_come(self._closing) or next(self._brief(), None) is None):
                    self._closed = True
                    break
                self._turn(shield, until)
        except Exception as error:
            log.exception("the connection to %s has ended", self.endpoint)
            self._closed = True
            self._fail_all(Error(f"the connection has ended: {error}"))

    def _turn(self, shield: Shield, until: float | None) -> None:
        with self._lock:
            self._send_queue()
            has_input = self._wire.has_input()
        # A caller that appends after this line sees that the turn waits, and wakes it.
        self._sleeps = True
        pause = 0 if self._queue or has_input or self._turns.wanted else self._wait_ms(until)
        found = shield.poll(self._poller, pause)
        self._sleeps = False
        if self._woken_fd in (number for number, _ in found):
            self._woken.recv(4096)
        with self._lock:
            self._take()
            failed, self._failed = self._failed, []
        for request, error in failed:
            request.fail(error)
        while self._answers:
            batch, fields = self._answers.popleft()
            try:
                self._answer(batch, fields)
            except BaseException as error:
                # Such as SystemExit of a callback. No caller may wait for what was left undone.
                for request in batch:
                    request.fail(Error(f"the work on this answer has ended: {error!r}"))
                if isinstance(error, Exception) or threading.current_thread() is self._thread:
                    log.exception("the work on an answer of %s has ended", self.endpoint)
                else:
                    raise
        if not self._connected:
            self._check_silence()

    def _dial(self) -> None:
        """Open a wire to the next address."""
        if self._dials > 0:
            self._wire.close()
        address = self.endpoint.addresses[self._dials % len(self.endpoint.addresses)]
        self._dials += 1
        self._dialled = time.monotonic()
        self._wire = open_wire(address, self.endpoint.keys, self._poller)

    def _wait_ms(self, until: float | None) -> int | None:
        times = [it for it in (self._deadline(), self._wire.due, until, self._closing) if it is not None]
        return max(0, int((min(times) - time.monotonic()) * 1000) + 1) if times else None

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
            if batch[0].is_submit:
                size = len(batch[0].body)
                while queue and queue[0].is_submit and len(batch) < BATCH_TASKS_MAX:
                    size += len(queue[0].body)
                    if size > BATCH_CHARACTERS_MAX:
                        break
                    batch.append(queue.popleft())
            self._send(batch)

    def _send(self, batch: list[Request]) -> bool:
        """Send requests in one frame; return whether a thread that waits at the poller must look again."""
        number = b"%d" % next(self._numbers)
        self._pending[number] = batch
        return self._connected and self._transmit(number, batch)

    def _transmit(self, number: bytes, batch: list[Request]) -> bool:
        if len(batch) == 1:
            text = f'{{"__TYPE__":"{batch[0].kind}"' + (f",{batch[0].body[1:]}" if len(batch[0].body) > 2 else "}")
        else:
            bodies = ",".join(request.body for request in batch)
            text = f'{{"__TYPE__":"TASK/SUBMIT_MANY","__TASKS__":[{bodies}]}}'
        return self._wire.send(number, text.encode())

    def _take(self) -> None:
        """Follow the state of the wire, and take the answers that have arrived."""
        for arrival in self._wire.take():
            if isinstance(arrival, tuple):
                number, text = arrival
                # A request that was repeated may be answered twice.
                if (batch := self._pending.pop(number, None)) is not None:
                    self._answers.append((batch, decode(text.decode())))
            elif arrival is State.MADE:
                self._connected = self._was_connected = True
                for number, batch in self._pending.items():
                    self._transmit(number, batch)
            elif arrival is State.REFUSED:
                self._refused = True
                why = "no keys are given" if self.endpoint.keys is None else "it does not accept the key of this client"
                error = KeyRefused(f"cannot talk to the controller at {self.endpoint}: {why}")
                self._failed += [(request, error) for request in self._take_all()]
            elif arrival is State.LOST:
                self._lose()
            elif self._has_others():
                self._dial()
                break

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


def has_come(until: float | None) -> bool:
    """Return whether a time has come."""
    return until is not None and time.monotonic() >= until


def leave_to_parent() -> None:
    """Close all connections in the child of a fork."""
    for connection in connections:
        connection._closed = connection.is_left = True
        # Its lock may be held by a thread that is not here.
        connection._turns = Turns(connection._wake_up, connection._is_open)


os.register_at_fork(after_in_child=leave_to_parent)
