"""The client of a controller."""

from __future__ import annotations

import itertools
import os
import pwd
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from llts import files
from llts.connection import SUBMIT, Connection, Fields
from llts.graph import Graph, GraphRun
from llts.home import find
from llts.job import Job
from llts.state import GraphState, TaskState, plain
from llts.submission import submission
from llts.task import Stream, Task, work_of

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from llts.executor import Executor
    from llts.state import File
    from llts.submission import Policy

# Entries of one page of a list.
PAGE = 1000


class Client:
    """A connection to a controller, for any number of threads.

    The controller and the keys are found as the command line finds them: see ``docs/python.md``. ``home`` is the folder of a
    service; ``controller`` is ``tcp://HOST:PORT`` or ``ipc://PATH``; ``context`` is a name of ``llts context list``; the key
    files are those of CURVE. ``timeout`` is the time in seconds for the first answer of a controller. One that has answered
    may be away for 30 seconds; requests are then sent again, and none is carried out twice.

    Raises :class:`llts.ConfigError`, and :class:`llts.NoController` if the home has no service. Every method that asks the
    controller raises :class:`llts.NoController`, :class:`llts.KeyRefused`, :class:`llts.Refused` or
    :class:`llts.NoSuchTask`. A task is named by its id or a :class:`llts.Task`.
    """

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        *,
        controller: str | None = None,
        context: str | None = None,
        server_key_file: str | os.PathLike[str] | None = None,
        secret_key_file: str | os.PathLike[str] | None = None,
        timeout: float = 3.0,
    ) -> None:
        if not isinstance(timeout, (int, float)) or not timeout > 0:
            raise ValueError(f"timeout is {timeout!r}; it must be a number of seconds above 0")
        endpoint = find(
            home=home,
            controller=controller,
            context=context,
            server_key_file=server_key_file,
            secret_key_file=secret_key_file,
        )
        self.connection = Connection(endpoint, timeout)
        """The connection, for requests that have no method here: ``connection.ask("SERVICE/STATUS").result()``."""
        self._close = weakref.finalize(self, self.connection.close)

    def close(self) -> None:
        """End the connection when all submits and kills are answered, after 10 seconds at the latest.

        Tasks go on; waits for them and the fetching of their files fail. A client to which no reference is left is closed by
        itself, and so is one at the end of the program.
        """
        self._close.detach()
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- submits --------------------------------------------------------------------------------------------------------

    def submit(self, tool: str, parameters: Mapping[str, Any] | None = None, /, **policy: Unpack[Policy]) -> Task:
        """Submit a tool, and return when the task is accepted, which is then on disk.

        The options are the flags of ``llts submit``, with ``_`` for ``-`` and ``in_`` for ``--in``.
        """
        return self._submit({"__OPERATION__": tool}, parameters, policy)

    def run(self, command: Sequence[str] | str, /, **policy: Unpack[Policy]) -> Task:
        """Submit a command: a list of words, or a line for ``sh``. It starts in the current folder, if that is here."""
        return self._submit(work_of(command), None, policy)

    def submit_many(self, tool: str, rows: Iterable[Mapping[str, Any]], /, **policy: Unpack[Policy]) -> Sequence[Task]:
        """Submit a tool once for each row of parameters, and return when all are accepted.

        Raises the first refusal. The tasks before it, and those of other frames, are accepted all the same.
        """
        if "submit_key" in policy:
            raise ValueError("a submit_key is for one task; without one, each of them gets its own")
        tasks = [self._ask_submit(self.prepare({"__OPERATION__": tool}, row, policy)) for row in rows]
        for task in tasks:
            task.id  # noqa: B018 - raises a refusal
        return tasks

    def _submit(self, work: Fields, parameters: Mapping[str, Any] | None, policy: Policy) -> Task:
        task = self._ask_submit(self.prepare(work, parameters, policy))
        task.id  # noqa: B018 - raises a refusal
        return task

    def _ask_submit(self, fields: Fields) -> Task:
        return self._task(self.connection.ask(SUBMIT, fields, lambda answer: str(answer["__TASK_ID__"])))

    def _task(self, accepted: Future[str]) -> Task:
        task = Task(self.connection, accepted)
        task.client = self
        return task

    def prepare(self, work: Fields, parameters: Mapping[str, Any] | None, policy: Policy) -> Fields:
        """Return the fields of a submit, and send the files that it names and the controller lacks."""
        fields = submission(work, parameters, policy, self.connection.endpoint)
        if "__SUBMIT_KEY__" not in fields:
            fields["__SUBMIT_KEY__"] = self.connection.submit_key()
        if "in_" in policy:
            inputs = files.read_inputs(policy["in_"])
            fields["__IN__"] = files.inputs_text(inputs)
            files.put_for(self.connection, inputs, lambda: self._ask_submit(fields).id)
        return fields

    def job(self, name: str) -> Job:
        """Return a job, to submit tasks to it without waiting for each, or to look at it."""
        return Job(self, name)

    def executor(
        self,
        *,
        python: str = "python3",
        initializer: Any = None,
        initargs: tuple[Any, ...] = (),
        files: bool = False,
        idle: int = 60,
        max_tasks: int | None = None,
        memory: int | None = None,
        start_timeout: int | None = None,
        **policy: Unpack[Policy],
    ) -> Executor:
        """Return a :class:`concurrent.futures.Executor` that runs functions on the agents. See :class:`llts.Executor`.

        Raises :class:`TypeError` or :class:`ValueError` for wrong arguments.
        """
        from llts.executor import Executor

        stay = {"idle": idle, "max_tasks": max_tasks, "memory": memory, "start_timeout": start_timeout}
        for name, value in stay.items():
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} is {value!r}; it must be a whole number from 1")
        if not isinstance(python, str) or not python:
            raise TypeError(f"python is {python!r}; it must be the name or the path of a Python")
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer is {initializer!r}, which cannot be called")
        # A function has no folder in which it could find or leave files.
        for name in ("in_", "out"):
            if name in policy:
                raise TypeError(f"{name} is no option of a call: give its files as arguments, and return what is to be kept")
        # Each call reads them.
        read = {name: list(value) if isinstance(value, Iterator) else value for name, value in policy.items()}
        policy = cast("Policy", read)
        # Options that no call could have are refused here, not by the first one.
        submission({"__OPERATION__": "python"}, None, policy, self.connection.endpoint)
        return Executor(self, python, (initializer, initargs), files, stay, policy)

    # -- tasks ----------------------------------------------------------------------------------------------------------

    def task(self, task: str | Task) -> Task:
        """Return the task with an id. Nothing is asked."""
        if isinstance(task, Task):
            return task
        if not isinstance(task, str):
            raise TypeError(f"{task!r} is no task: give its id, or a Task")
        accepted: Future[str] = Future()
        accepted.set_result(task)
        return self._task(accepted)

    def query(self, task: str | Task) -> TaskState:
        """Return the present state of a task."""
        return self.task(task).query()

    def wait(self, task: str | Task, timeout: float | None = None) -> TaskState:
        """Wait until a task has finished, however it ends. Raises :class:`TimeoutError` after ``timeout`` seconds."""
        return self.task(task).wait(timeout)

    def kill(self, task: str | Task, reason: str | None = None) -> None:
        """End a task."""
        self.task(task).kill(reason)

    def retry(self, task: str | Task) -> None:
        """Run a finished task again, with fresh budgets."""
        self.task(task).retry()

    def hold(self, task: str | Task) -> None:
        """Keep a task from starting."""
        self.task(task).hold()

    def release(self, task: str | Task) -> None:
        """Let a held task start."""
        self.task(task).release()

    def explain(self, task: str | Task) -> str:
        """Return what a task does or waits for, or why it ended as it did: one sentence."""
        return self.task(task).explain()

    def logs(self, task: str | Task, stream: Stream = "STDOUT", *, follow: bool = True) -> Iterator[bytes]:
        """Yield the bytes of an output of a task, also while it runs. See :meth:`llts.Task.logs`."""
        return self.task(task).logs(stream, follow=follow)

    def files(self, task: str | Task) -> dict[str, File]:
        """Wait for the end of a task, and return the files that are kept with it, by name."""
        return self.task(task).files()

    def list(
        self,
        *,
        status: str | None = None,
        job: str | None = None,
        tool: str | None = None,
        limit: int | None = None,
        **fields: Any,
    ) -> Iterator[TaskState]:
        """Yield the tasks that the service knows, newest first, up to ``limit``. ``fields`` are parameters that must be equal."""
        chosen = {"__STATUS__": status, "__JOB__": job, "__OPERATION__": tool, **fields}
        asked = {name: value for name, value in chosen.items() if value is not None}
        return itertools.islice(self._listed(asked, PAGE if limit is None else min(limit, PAGE)), limit)

    def _listed(self, chosen: dict[str, Any], size: int) -> Iterator[TaskState]:
        asked = {"__LIMIT__": size, **chosen}
        while True:
            page = self._ask("TASK/DETAILS", asked)
            found = [TaskState({"__TASK_ID__": id, **row}) for id, row in page.items() if id.startswith("TASK_")]
            yield from found
            if len(found) == 0:
                return
            # Tasks that are submitted meanwhile do not move the pages.
            asked["__BEFORE__"] = found[-1].id

    # -- the service ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int]:
        """Return the number of tasks in each phase: ``waiting`` to ``finished``."""
        return {name: count for name, count in plain(self._ask("TASK/STATISTIC")).items() if isinstance(count, int)}

    def agents(self) -> dict[str, dict[str, Any]]:
        """Return what is known of each agent, by its id."""
        return dict(self._pages("AGENT/DETAILS"))

    def gates(self) -> dict[str, dict[str, Any]]:
        """Return what is known of each gate, by its name: ``status``, ``running``, ``waiting`` and its settings."""
        return dict(self._pages("GATE/QUERY"))

    def set_gate(self, name: str, **settings: Any) -> None:
        """Set ``max_running``, ``max_starts`` with ``interval`` (seconds), ``closed_until`` (unix seconds); None removes one."""
        fields = {f"__{key.upper()}__": value for key, value in settings.items()}
        self._ask("GATE/SET", {"__GATE__": name, **fields})

    def jobs(self) -> Iterator[dict[str, Any]]:
        """Yield what is known of each job, newest first, as ``Job.query`` returns it."""
        return (facts for _, facts in self._pages("JOB/DETAILS"))

    def push_tool(self, name: str, archive: BinaryIO) -> None:
        """Make a packed tool the newest version of its name. Needs the right to send commands."""
        try:
            user = pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            user = f"user {os.geteuid()}"
        by = f"{user}@{os.uname().nodename} ({Path(sys.argv[0]).name or 'python'}, process {os.getpid()})"
        files.push_tool(self.connection, name, archive, by)

    # -- graphs ---------------------------------------------------------------------------------------------------------

    def submit_graph(self, graph: Graph | str, *, given_id: str | None = None, submit_key: str | None = None) -> GraphRun:
        """Submit a graph, or the text of a document in JSON or TOML, and return when it is accepted."""
        fields = {"__GRAPH__": str(graph), "__SUBMIT_KEY__": submit_key or self.connection.submit_key()}
        if given_id is not None:
            fields["__GIVEN_ID__"] = given_id
        return GraphRun(self.connection, self._ask("GRAPH/SUBMIT", fields)["__GRAPH_ID__"])

    def graph(self, id: str) -> GraphRun:
        """Return the graph with an id. Nothing is asked."""
        return GraphRun(self.connection, id)

    def graphs(self) -> Iterator[GraphState]:
        """Yield the graphs that the service knows, newest first."""
        for id, facts in self._rows("GRAPH/DETAILS"):
            yield GraphState({"__GRAPH_ID__": id, **facts})

    def _ask(self, kind: str, fields: Fields | None = None) -> Fields:
        return self.connection.ask(kind, fields).result()

    def _pages(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        return ((name, plain(facts)) for name, facts in self._rows(kind))

    def _rows(self, kind: str) -> Iterator[tuple[str, Fields]]:
        """Yield the entries of all pages."""
        offset = 0
        while True:
            answer = self._ask(kind, {"__OFFSET__": offset, "__LIMIT__": PAGE} if kind != "GATE/QUERY" else {})
            rows = [(name, facts) for name, facts in answer.items() if isinstance(facts, dict)]
            yield from rows
            offset += len(rows)
            if not rows or offset >= answer.get("__TOTAL__", 0):
                return
