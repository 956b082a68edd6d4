"""The client for asyncio: the calls of :mod:`llts`, with ``await``.

>>> async with llts.aio.Client() as c:
...     t = await c.submit("convert", {"in": "a.mov"})
...     print((await t.result()).exit_code)

Waits are futures of the one connection. Other calls take a thread until they are answered.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from llts import client, graph, job, task
from llts.errors import GraphFailed, NoController, TaskFailed
from llts.state import GraphState, TaskState

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self, Unpack

    from llts.state import File
    from llts.submission import Policy

T = TypeVar("T")

_END = object()


async def iterate(items: Iterator[T]) -> AsyncIterator[T]:
    """Yield the items of an iterator that may wait."""
    while (item := await asyncio.to_thread(next, items, _END)) is not _END:
        yield item  # type: ignore[misc]


async def wait_for(ended: Future[T], timeout: float | None = None) -> T:
    """Return the result of a future. Raises :class:`TimeoutError` after ``timeout`` seconds."""
    with task.lent_slot():
        try:
            return await asyncio.wait_for(asyncio.wrap_future(ended), timeout)
        except asyncio.TimeoutError:
            raise TimeoutError(f"not within {timeout} s") from None


class Task:
    """A task, as :class:`llts.Task`."""

    def __init__(self, plain: task.Task) -> None:
        self.plain = plain
        """The task for other threads."""

    def __repr__(self) -> str:
        return repr(self.plain)

    @property
    def id(self) -> str:
        """The id."""
        return self.plain.id

    async def wait(self, timeout: float | None = None) -> TaskState:
        """Wait until the task has finished, however it ends. Raises :class:`TimeoutError` after ``timeout`` seconds."""
        return await wait_for(self.plain.end(), timeout)

    async def result(self, timeout: float | None = None) -> TaskState:
        """Wait until the task has finished. Raises :class:`llts.TaskFailed` unless it has SUCCEEDED."""
        state = await self.wait(timeout)
        if not state.succeeded:
            raise TaskFailed(state)
        return state

    async def query(self) -> TaskState:
        """Return the present state."""
        return await asyncio.to_thread(self.plain.query)

    async def kill(self, reason: str | None = None) -> None:
        """End the task."""
        await asyncio.to_thread(self.plain.kill, reason)

    async def retry(self) -> None:
        """Run the finished task again, with fresh budgets."""
        await asyncio.to_thread(self.plain.retry)

    async def hold(self) -> None:
        """Keep the task from starting."""
        await asyncio.to_thread(self.plain.hold)

    async def release(self) -> None:
        """Let a held task start."""
        await asyncio.to_thread(self.plain.release)

    async def explain(self) -> str:
        """Return what the task does or waits for, or why it ended as it did."""
        return await asyncio.to_thread(self.plain.explain)

    async def logs(self, stream: task.Stream = "STDOUT", *, follow: bool = True) -> AsyncIterator[bytes]:
        """Yield the bytes of an output in parts, also while the task runs."""
        async for part in iterate(self.plain.parts(stream, follow=follow)):
            if data := await asyncio.wrap_future(part):
                yield data

    async def stdout(self) -> str:
        """Return all of stdout, when it has ended."""
        await self.wait()
        return await asyncio.to_thread(self.plain.stdout)

    async def stderr(self) -> str:
        """Return all of stderr, when it has ended."""
        await self.wait()
        return await asyncio.to_thread(self.plain.stderr)

    async def files(self) -> dict[str, File]:
        """Wait for the end, and return the files that are kept, by name."""
        return (await self.wait()).files

    async def fetch(self, folder: str | os.PathLike[str] = ".", *, force: bool = False) -> list[Path]:
        """Wait for the end, and fetch the files that are kept. Returns their paths."""
        await self.wait()
        return await asyncio.to_thread(self.plain.fetch, folder, force=force)


async def as_completed(tasks: Iterable[Task], *, progress: bool = False) -> AsyncIterator[Task]:
    """Yield tasks in the order of their ends, however they end. Raises :class:`llts.NoController` as ``llts.as_completed``."""
    tasks = list(tasks)
    ends: asyncio.Queue[tuple[Task, Future[TaskState]]] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for each in tasks:
        each.plain.end().add_done_callback(
            lambda ended, each=each: loop.call_soon_threadsafe(ends.put_nowait, (each, ended))  # type: ignore[misc]
        )
    with task.lent_slot(), task.bar(len(tasks) if progress else 0) as advance:
        for _ in tasks:
            each, ended = await ends.get()
            if isinstance(error := ended.exception(), NoController):
                raise error
            advance()
            yield each


class Job:
    """A job, as :class:`llts.Job`."""

    def __init__(self, plain: job.Job) -> None:
        self.plain = plain
        """The job for other threads."""
        self.name = plain.name

    def submit(self, tool: str, parameters: Mapping[str, Any] | None = None, /, **policy: Unpack[Policy]) -> Task:
        """Submit a tool without waiting. A refusal is raised by the methods of the task."""
        return Task(self.plain.submit(tool, parameters, **policy))

    def run(self, command: Sequence[str] | str, /, **policy: Unpack[Policy]) -> Task:
        """Submit a command without waiting. A refusal is raised by the methods of the task."""
        return Task(self.plain.run(command, **policy))

    def as_completed(self, *, progress: bool = False) -> AsyncIterator[Task]:
        """Yield the tasks that were submitted through this object by now, in the order of their ends."""
        return as_completed([Task(each) for each in self.plain.tasks], progress=progress)

    async def query(self) -> dict[str, Any]:
        """Return the counts and times of the job."""
        return await asyncio.to_thread(self.plain.query)

    async def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait until every task of the job has finished."""
        return await wait_for(await asyncio.to_thread(self.plain.end), timeout)

    async def kill(self, reason: str | None = None) -> int:
        """End all its tasks; return how many were changed."""
        return await asyncio.to_thread(self.plain.kill, reason)


class Client:
    """A connection to a controller, as :class:`llts.Client`, which has the arguments and says the errors."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.plain = client.Client(*args, **options)
        """The client for other threads."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # A thread of its own: all others may be in calls that wait until this ends them.
        await asyncio.get_running_loop().run_in_executor(ThreadPoolExecutor(1), self.plain.close)

    async def submit(self, tool: str, parameters: Mapping[str, Any] | None = None, /, **policy: Unpack[Policy]) -> Task:
        """Submit a tool, and return when the task is accepted."""
        return Task(await asyncio.to_thread(self.plain.submit, tool, parameters, **policy))

    async def run(self, command: Sequence[str] | str, /, **policy: Unpack[Policy]) -> Task:
        """Submit a command: a list of words, or a line for ``sh``."""
        return Task(await asyncio.to_thread(self.plain.run, command, **policy))

    async def submit_many(self, tool: str, rows: Iterable[Mapping[str, Any]], /, **policy: Unpack[Policy]) -> Sequence[Task]:
        """Submit a tool once for each row of parameters, and return when all are accepted."""
        return [Task(each) for each in await asyncio.to_thread(self.plain.submit_many, tool, rows, **policy)]

    def task(self, id: str) -> Task:
        """Return the task with an id. Nothing is asked."""
        return Task(self.plain.task(id))

    def job(self, name: str) -> Job:
        """Return a job."""
        return Job(self.plain.job(name))

    def list(self, **chosen: Any) -> AsyncIterator[TaskState]:
        """Yield the tasks that the service knows, newest first."""
        return iterate(self.plain.list(**chosen))

    async def stats(self) -> dict[str, int]:
        """Return the number of tasks in each phase."""
        return await asyncio.to_thread(self.plain.stats)

    async def agents(self) -> dict[str, dict[str, Any]]:
        """Return what is known of each agent, by its id."""
        return await asyncio.to_thread(self.plain.agents)

    async def gates(self) -> dict[str, dict[str, Any]]:
        """Return what is known of each gate, by its name."""
        return await asyncio.to_thread(self.plain.gates)

    async def run_graph(self, document: graph.Graph | str, **names: Any) -> GraphState:
        """Submit a graph, and wait until it has ended. Raises :class:`llts.GraphFailed` unless it has SUCCEEDED."""
        run = await asyncio.to_thread(self.plain.submit_graph, document, **names)
        state = await wait_for(run.end())
        if state.status != "SUCCEEDED":
            raise GraphFailed(state)
        return state
