"""Tasks and jobs: what a submit returns."""

from __future__ import annotations

import base64
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from llts import files
from llts.connection import PARK_MS, Answer, Connection, Fields, encode, log
from llts.errors import NoController, TaskFailed
from llts.state import File, TaskState, escaped
from llts.turns import Shield

if TYPE_CHECKING:
    from llts.client import Client

T = TypeVar("T")
Stream = Literal["STDOUT", "STDERR", "REPORT"]


def wait_for(future: Future[T], timeout: float | None = None) -> T:
    """Return the result of a future. Raises :class:`TimeoutError` after ``timeout`` seconds."""
    if future.done():
        return future.result()
    try:
        return future.result(timeout)
    except FutureTimeoutError as error:
        # In Python 3.10, that of the futures is another one.
        raise TimeoutError(f"not within {timeout} s") if not future.done() else error from None


@contextmanager
def lent_slot() -> Iterator[None]:
    """Inside a task, lend its slot while it waits for others, which may need it."""
    name = os.environ.get("LLTS_RUN_LEND")
    if not name:
        yield
        return
    with socket.socket(socket.AF_UNIX) as supervisor:
        # The supervisor sees the connection, and its end. Without it, the task waits as any program does.
        with suppress(OSError):
            supervisor.connect("\0" + name)
        yield


class Task:
    """A task of the service. Every method that asks the controller raises :class:`llts.Error`."""

    def __init__(self, connection: Connection, accepted: Future[str], ended: Future[TaskState] | None = None) -> None:
        self._connection = connection
        self._accepted = accepted
        self._ended = ended
        self._lock = threading.Lock()
        self.client: Client | None = None
        """The client, which is open as long as a program holds it or one of its tasks."""

    def __repr__(self) -> str:
        known = self._accepted.done() and self._accepted.exception() is None
        return f"<llts.Task {self._accepted.result() if known else 'that is being submitted'}>"

    @property
    def id(self) -> str:
        """The id, such as ``TASK_1480000000.120000_AZazA``. Waits until the submit is accepted; raises :class:`Refused`."""
        return wait_for(self._accepted)

    def wait(self, timeout: float | None = None) -> TaskState:
        """Wait until the task has finished, however it ends. Raises :class:`TimeoutError` after ``timeout`` seconds."""
        future = self.end()
        if future.done():
            return future.result()
        with lent_slot():
            return wait_for(future, timeout)

    def result(self, timeout: float | None = None) -> TaskState:
        """Wait until the task has finished. Raises :class:`TaskFailed` unless it has SUCCEEDED."""
        state = self.wait(timeout)
        if not state.succeeded:
            raise TaskFailed(state)
        return state

    def done(self) -> bool:
        """Return whether this client knows the end. The first call asks for it, and does not wait."""
        return self.end().done()

    def end(self) -> Future[TaskState]:
        """Return the future of the end. Its callbacks run in the thread of the connection, so they must not wait for answers."""
        with Shield(), self._lock:
            # A wait that has lost its controller is no end: the next one asks again.
            if self._ended is None or (self._ended.done() and isinstance(self._ended.exception(), NoController)):
                ended = self._ended = Answer(self._connection)
                self._accepted.add_done_callback(lambda accepted: self._follow(accepted, ended))
            return self._ended

    def _follow(self, accepted: Future[str], ended: Future[TaskState]) -> None:
        """Ask for the end, when the task has an id."""
        if (error := accepted.exception()) is not None:
            ended.set_exception(error)
            return
        hand_on(follow(self._connection, accepted.result()), ended)

    def query(self) -> TaskState:
        """Return the present state."""
        return self._connection.ask("TASK/QUERY", {"__TASK_ID__": self.id}, TaskState).result()

    def kill(self, reason: str | None = None) -> None:
        """End the task. It has finished when ``wait`` returns."""
        self._ask("TASK/KILL", {"__REASON__": reason} if reason else {})

    def kill_later(self, reason: str) -> None:
        """End the task when it has an id, without waiting."""

        def kill(accepted: Future[str]) -> None:
            if accepted.exception() is None:
                self._connection.ask("TASK/KILL", {"__TASK_ID__": accepted.result(), "__REASON__": reason})

        self._accepted.add_done_callback(kill)

    def retry(self) -> None:
        """Run the finished task again, with fresh budgets."""
        self._ask("TASK/RETRY", repeat=False)
        with self._lock:
            self._ended = None

    def hold(self) -> None:
        """Keep the task from starting."""
        self._ask("TASK/HOLD")

    def release(self) -> None:
        """Let a held task start."""
        self._ask("TASK/RELEASE")

    def explain(self) -> str:
        """Return what the task does or waits for, or why it ended as it did: one sentence."""
        return str(self._ask("TASK/EXPLAIN")["__WHY__"])

    def logs(self, stream: Stream = "STDOUT", *, round: int | None = None, follow: bool = True) -> Iterator[bytes]:
        """Yield the bytes of an output in parts, also while the task runs.

        They are those of one round: ``round``, or the newest one. Without ``follow``, ends where the output ends at present.
        """
        for part in self.parts(stream, round=round, follow=follow):
            if data := part.result():
                yield data

    def parts(self, stream: Stream = "STDOUT", *, round: int | None = None, follow: bool = True) -> Iterator[Future[bytes]]:
        """Yield the futures of the parts that ``logs`` yields, some of which are empty: the next one when the last is done."""
        fields: Fields = {"__TASK_ID__": self.id, "__STREAM__": stream, "__OFFSET__": 0}
        if follow:
            fields["__WAIT__"] = PARK_MS
        if round is not None:
            fields["__ROUND__"] = round
        is_over = False

        def read(part: Fields) -> bytes:
            nonlocal is_over
            # An offset means nothing in another round.
            fields["__ROUND__"] = part["__ROUND__"]
            if (why := part.get("__MISSING__")) and part["__OFFSET__"] > fields["__OFFSET__"]:
                log.warning("%s: %d bytes are missing: %s", self.id, part["__OFFSET__"] - fields["__OFFSET__"], why)
            data = base64.b64decode(part["__BASE64__"]) if "__BASE64__" in part else part.get("__TEXT__", "").encode()
            fields["__OFFSET__"] = part["__OFFSET__"] + len(data)
            is_over = bool(part["__END__"] or (not data and not follow))
            return data

        while not is_over:
            yield self._connection.ask("TASK/OUTPUT", fields, read)

    def stdout(self) -> str:
        """Wait for the end, and return all that the last round has written to stdout. Bytes that are not UTF-8 become U+FFFD."""
        return self._whole("STDOUT")

    def stderr(self) -> str:
        """Wait for the end, and return all that the last round has written to stderr."""
        return self._whole("STDERR")

    def report(self) -> str:
        """Wait for the end, and return all of report.log."""
        return self._whole("REPORT")

    def _whole(self, stream: Stream) -> str:
        self.wait()
        return b"".join(self.logs(stream)).decode(errors="replace")

    def files(self) -> dict[str, File]:
        """Wait for the end, and return the files that are kept with the task (``out``), by name."""
        return self.wait().files

    def fetch(self, folder: str | os.PathLike[str] = ".", *, force: bool = False) -> list[Path]:
        """Wait for the end, and fetch the files that are kept. Returns their paths.

        A file that is there is replaced with ``force`` alone; otherwise raises :class:`FileExistsError`.
        """
        paths = []
        for file in self.files().values():
            path = Path(folder) / file.name
            if path.exists() and not force:
                with path.open("rb") as there:
                    if files.digest_of(there)[0] != file.sha256:
                        raise FileExistsError(f"{path} is there with another content; use force=True")
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                files.get(self._connection, file.sha256, path)
                if file.executable:
                    path.chmod(path.stat().st_mode | 0o111)
            paths.append(path)
        return paths

    def _ask(
        self,
        kind: str,
        fields: Mapping[str, Any] | None = None,
        *,
        repeat: bool = True,
    ) -> Fields:
        return self._connection.ask(kind, {"__TASK_ID__": self.id, **(fields or {})}, repeat=repeat).result()


def is_unfinished(answer: Fields) -> bool:
    """Return whether a task goes on after the longest wait."""
    return bool(answer["__STATUS__"] != "FINISHED")


def follow(connection: Connection, id: str) -> Future[TaskState]:
    """Return the future of the end of a task."""
    return connection.ask("TASK/QUERY", {"__TASK_ID__": id, "__WAIT__": PARK_MS}, TaskState, again=is_unfinished)


def hand_on(source: Future[T], target: Future[T]) -> None:
    """Complete a future as another one is."""

    def copy(done: Future[T]) -> None:
        if (error := done.exception()) is not None:
            target.set_exception(error)
        else:
            target.set_result(done.result())

    source.add_done_callback(copy)


def as_completed(tasks: Iterable[Task], *, timeout: float | None = None, progress: bool = False) -> Iterator[Task]:
    """Yield tasks in the order of their ends, however they end.

    A refused submit is yielded too: its ``result`` raises. With ``progress``, tqdm shows a bar if it is installed.
    Raises :class:`TimeoutError` ``timeout`` seconds after the first call of ``next``, and :class:`NoController` if the
    controller is away for too long.
    """
    tasks = list(tasks)
    ends: SimpleQueue[tuple[Task, Future[TaskState]]] = SimpleQueue()
    for task in tasks:
        task.end().add_done_callback(lambda ended, task=task: ends.put((task, ended)))  # type: ignore[misc]
    until = None if timeout is None else time.monotonic() + timeout
    with lent_slot(), bar(len(tasks) if progress else 0) as advance:
        for _ in tasks:
            try:
                task, ended = ends.get(timeout=None if until is None else max(0, until - time.monotonic()))
            except Empty:
                raise TimeoutError(f"not all tasks have finished within {timeout} s") from None
            if isinstance(error := ended.exception(), NoController):
                raise error
            advance()
            yield task


@contextmanager
def bar(total: int) -> Iterator[Callable[[], object]]:
    """Show a bar of progress, if there is something to show and something to show it with."""
    shown = None
    if total:
        with suppress(ImportError):
            from tqdm.auto import tqdm

            shown = tqdm(total=total)
    if shown is None:
        yield lambda: None
        return
    with shown:
        yield shown.update


def work_of(command: Sequence[str] | str) -> Fields:
    """Return the field of a command: a list of words, or a line for ``sh``."""
    words = [command] if isinstance(command, str) else [os.fspath(word) for word in command]
    if not words or not words[0]:
        raise ValueError(f"the command is {command!r}; it must have a first word")
    for word in words:
        if not isinstance(word, str) or "\0" in word:
            raise ValueError(f"a word of the command is {word!r}; it must be a text without the byte 0")
    if isinstance(command, str):
        return {"__SHELL__": escaped(command)}
    return {"__COMMAND__": encode([escaped(word) for word in words])}
