"""Functions on the agents, behind the interface of ``concurrent.futures``.

A call is a task of a Python tool that stays. The client packs that tool, with its own copy of cloudpickle, and pushes it
once; its name has its digest. Functions and arguments travel as pickles in the parameters of the task, results in its
value, and what is too large for that in files.
"""

from __future__ import annotations

import base64
import concurrent.futures
import gzip
import hashlib
import importlib.util
import io
import itertools
import pickle
import shlex
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from llts.connection import Answer, Connection, Fields
from llts.errors import Error, PythonMismatch, TaskFailed, TooLarge
from llts.job import Ends
from llts.state import TaskState
from llts.task import lent_slot
from llts.turns import Shield

if TYPE_CHECKING:
    from llts.client import Client
    from llts.submission import Policy
    from llts.task import Task

T = TypeVar("T")

# Characters of a parameter, below FIELD_VALUE_BYTES_MAX of the service.
PARAMETER_CHARACTERS_MAX = 60_000

# Characters of the name of a function, for those who look at tasks.
NAME_CHARACTERS_MAX = 60

# Functions whose pickles are kept. A program that makes functions all the time must not fill its memory with them.
FUNCTIONS_MAX = 1_000

VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"


class RemoteTraceback(Exception):
    """The traceback at the agent, as the cause of an exception that came from there."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class Call(Answer[T]):
    """The future of a call. ``task`` is its task, with the outputs of the function and the reason of an end."""

    def __init__(self, connection: Connection, task: Task) -> None:
        super().__init__(connection)
        self.task = task

    def cancel(self) -> bool:
        """Kill the task, also while it runs. Returns False if the call has ended."""
        if self.cancelled():
            return True
        # That of an answer takes nothing back.
        if not Future.cancel(self):
            return False
        self.set_running_or_notify_cancel()
        self.task.kill_later("the future of the call was cancelled")
        return True

    def result(self, timeout: float | None = None) -> T:
        """Return the result, or raise what the call has raised. Raises :class:`TimeoutError` after ``timeout`` seconds."""
        if self.done():
            return super().result()
        with lent_slot():
            return super().result(timeout)

    def finish(self, ended: Future[TaskState]) -> None:
        """Take over the end of the task, in the thread of the connection."""
        if (error := ended.exception()) is not None:
            self._fail(error)
            return
        state = ended.result()
        try:
            value = state.value
            if isinstance(value, dict) and "file" in value:
                # To fetch a file is to wait for answers, which this thread brings.
                threading.Thread(target=self._finish_from_file, args=(state,), name="llts fetch", daemon=True).start()
            elif isinstance(value, str) and state.succeeded:
                self._succeed(base64.b64decode(value))
            else:
                self._fail(failure(state, value))
        except Exception as unreadable:
            self._fail(unreadable)

    def _finish_from_file(self, state: TaskState) -> None:
        try:
            with tempfile.TemporaryDirectory() as folder:
                [path] = self.task.fetch(folder)
                self._succeed(path.read_bytes())
        except Exception as error:
            self._fail(error)

    def _succeed(self, data: bytes) -> None:
        # It may have been cancelled meanwhile.
        with suppress(InvalidStateError):
            self.set_result(pickle.loads(data))

    def _fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self.set_exception(error)


def failure(state: TaskState, value: Any) -> BaseException:
    """Return the exception of a call that has no result."""
    if isinstance(value, dict):
        if "mismatch" in value:
            return PythonMismatch(value["mismatch"])
        if "large" in value:
            return TooLarge(value["large"])
        if "error" in value:
            error: BaseException = pickle.loads(base64.b64decode(value["error"]))
            error.__cause__ = RemoteTraceback(value["traceback"])
            return error
    return TaskFailed(state)


class Executor(concurrent.futures.Executor):
    """An executor of ``concurrent.futures`` whose workers are the agents. :meth:`llts.Client.executor` makes one.

    Agents run ``python`` of their PATH, which must have the minor version of this process. ``initializer`` runs in each
    process before its first call. With ``files``, results of any size come back. ``idle`` is the time in seconds after
    which a process without calls ends, ``max_tasks`` the number of calls after which another one replaces it,
    ``memory`` the bytes that it may use between calls, and ``start_timeout`` the time in seconds for its start. All
    other options are those of a submit but for ``in_`` and ``out``, for each call: ``max_fails=2`` runs a call that raises
    twice more.

    A function is pickled once: its later calls see what it had captured at the first one.
    """

    def __init__(
        self,
        client: Client,
        python: str,
        initializer: tuple[Callable[..., object] | None, tuple[Any, ...]],
        files: bool,
        stay: Mapping[str, int | None],
        policy: Policy,
    ) -> None:
        self._client: Client | None = client
        self._python = python
        self._initializer = initializer
        self._files = files
        self._stay = stay
        self._policy = policy
        self._name = policy.get("job") or client.connection.submit_key().replace(" ", "-")
        self._ends = Ends(client.connection, self._name, early=True)
        self._lock = threading.Lock()
        # Held while a tool is pushed, by threads of the program alone.
        self._pushing = threading.Lock()
        self._tools: dict[bool, str] = {}
        # The fields that all small calls have.
        self._common: Fields | None = None
        self._functions: dict[Any, str] = {}
        self._calls: set[Call[Any]] = set()
        self._is_shut = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Call[T]:
        """Run ``fn(*args, **kwargs)`` at an agent. Raises :class:`RuntimeError` after ``shutdown``."""
        if isinstance(fn, Chunk):
            return self._start(fn.function, args[0], {"chunk": True})
        return self._start(fn, (args, kwargs), {})

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """Return the results of ``fn`` for the items, in their order. ``chunksize`` calls make one task."""
        if chunksize < 1:
            raise ValueError("chunksize must be 1 or more")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        rows = zip(*iterables, strict=False)
        chunks = iter(lambda: list(itertools.islice(rows, chunksize)), [])
        return itertools.chain.from_iterable(super().map(Chunk(fn), chunks, timeout=timeout))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. With ``cancel_futures``, kill those that have not ended; with ``wait``, wait for the others."""
        with self._lock:
            self._is_shut = True
            calls = list(self._calls)
        if cancel_futures:
            for call in calls:
                call.cancel()
        if wait:
            with lent_slot():
                concurrent.futures.wait(calls)
        self._let_go()

    def _start(self, fn: Callable[..., Any], arguments: Any, parameters: dict[str, Any]) -> Call[Any]:
        client = self._client
        if self._is_shut or client is None:
            raise RuntimeError("the executor is shut down")
        function, call = self._function(fn), base64.b64encode(dumps(arguments)).decode()
        # The last parameter is what a table of tasks shows of them.
        parameters = {**parameters, "name": getattr(fn, "__qualname__", type(fn).__name__)[:NAME_CHARACTERS_MAX]}
        if len(function) > PARAMETER_CHARACTERS_MAX or len(call) > PARAMETER_CHARACTERS_MAX:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "call.pickle")
                path.write_bytes(dumps((fn, arguments)))
                work, policy = self._work(client, has_folder=True)
                fields = client.prepare(work, parameters, {**policy, "in_": [path]})
        else:
            if self._common is None:
                work, policy = self._work(client, self._files)
                self._common = client.prepare(work, None, policy)
            key = self._policy.get("submit_key") or client.connection.submit_key()
            fields = {**self._common, "__SUBMIT_KEY__": key, "function": function, "call": call, **parameters}
        with Shield():
            task = self._ends.submit(fields)
            future: Call[Any] = Call(client.connection, task)
            with self._lock:
                self._calls.add(future)
            future.add_done_callback(self._forget)
            task.end().add_done_callback(future.finish)
        return future

    def _work(self, client: Client, has_folder: bool) -> tuple[Fields, Policy]:
        """Return the field that names the tool, and the options of a call."""
        policy: Policy = {"eager": True, **self._policy, "job": self._name}
        if has_folder:
            policy = {**policy, "out": "result.pickle"}
        return {"__OPERATION__": self._tool(client, has_folder)}, policy

    def _forget(self, call: Future[Any]) -> None:
        with self._lock:
            self._calls.discard(call)
        self._let_go()

    def _let_go(self) -> None:
        """Drop the client after the last call. It closes itself if the program holds it nowhere else."""
        with self._lock:
            if not self._is_shut or self._calls or self._client is None:
                return
            # Dropped without the lock: to close is to wait for the thread of the connection, which may want it.
            client, self._client = self._client, None
        del client

    def _function(self, fn: Callable[..., Any]) -> str:
        """Return the pickle of a function as a text."""
        try:
            return self._functions[fn]
        except (KeyError, TypeError):
            text = base64.b64encode(dumps(fn, by_value=True)).decode()
        try:
            if len(self._functions) >= FUNCTIONS_MAX:
                self._functions.clear()
            self._functions[fn] = text
        except TypeError:
            # What cannot be a key is pickled each time.
            pass
        return text

    def _tool(self, client: Client, has_folder: bool) -> str:
        """Return the name of the tool, which the controller then has."""
        # A callback may submit while another thread pushes the other tool.
        if has_folder not in self._tools:
            with self._pushing:
                if has_folder not in self._tools:
                    archive, name = self._pack(has_folder)
                    client.push_tool(name, archive)
                    self._tools[has_folder] = name
        return self._tools[has_folder]

    def _pack(self, has_folder: bool) -> tuple[io.BytesIO, str]:
        """Return an archive and its name. The same content has the same bytes."""
        here = resources("llts")
        limits = {name: value for name, value in self._stay.items() if value is not None}
        stay = "".join(f"{name} = {value}\n" for name, value in limits.items())
        parts = {
            "run.sh": f"#!/bin/sh\nexec {shlex.quote(self._python)} -u main.py {VERSION}\n".encode(),
            "tool.toml": f"[stay]\nfolder = {str(has_folder).lower()}\n{stay}".encode(),
            "main.py": (here / "runner/main.py").read_bytes(),
            "stay.py": (here / "tool.py").read_bytes(),
            **by_value_parts(),
        }
        function, arguments = self._initializer
        if function is not None:
            parts["initializer.pickle"] = dumps((function, arguments), by_value=True)
        content = hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()
        name = f"python-{content[:16]}"
        archive = io.BytesIO()
        with gzip.GzipFile(fileobj=archive, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
            for path, data in sorted(parts.items()):
                member = tarfile.TarInfo(f"{name}/{path}")
                member.size, member.mode = len(data), 0o755 if path == "run.sh" else 0o644
                tar.addfile(member, io.BytesIO(data))
        archive.seek(0)
        return archive, name


class Chunk:
    """A function for several calls in one task."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        """Not called: the tool makes the calls of a chunk."""
        raise NotImplementedError


def by_value_parts() -> dict[str, bytes]:
    """Return the files of cloudpickle. Without it, functions are pickled by their names alone."""
    spec = importlib.util.find_spec("cloudpickle")
    if spec is None or spec.origin is None:
        return {"cloudpickle.py": b"from pickle import dumps\n"}
    return {f"cloudpickle/{path.name}": path.read_bytes() for path in Path(spec.origin).parent.glob("*.py")}


def dumps(value: Any, *, by_value: bool = False) -> bytes:
    """Pickle a value. What belongs to the main program, which an agent does not have, travels by value."""
    try:
        import cloudpickle
    except ImportError:
        cloudpickle = None
    if not (by_value and cloudpickle):
        try:
            data = pickle.dumps(value)
        except Exception:
            if cloudpickle is None:
                raise
        else:
            if b"__main__" not in data:
                return data
            if cloudpickle is None:
                raise Error("an agent does not have what __main__ defines: install cloudpickle")
    by_value_pickle: bytes = cloudpickle.dumps(value)
    return by_value_pickle
