"""Jobs: many tasks that are submitted without waiting, and whose ends come together."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from llts.connection import PARK_MS, SUBMIT, Connection, Fields
from llts.errors import NoSuchTask, Refused
from llts.state import TaskState, plain
from llts.task import Task, as_completed, hand_on, lent_slot, wait_for, work_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from llts.client import Client
    from llts.submission import Policy

# Milliseconds for which a request for the ends of a job waits. The service keeps them for a minute for the next one.
READ_MS = 60_000


class Ends:
    """The ends of the tasks of a job, as the controller tells them: many in one answer, instead of one answer for each task.

    A cursor is taken before the first submit. A controller that does not know it, because it has started again, is asked for
    each task once. Requests of a closed connection fail within the call that makes them, hence the lock of one thread.
    """

    def __init__(self, connection: Connection, job: str) -> None:
        self._connection = connection
        self._job = job
        self._lock = threading.RLock()
        # The future of the end of each task by its id, and whether an answer for the job has all of it.
        self._open: dict[str, tuple[Future[TaskState], bool]] = {}
        # Submits without an answer, and ends that came before such an answer.
        self._unaccepted = 0
        self._early: dict[str, Fields] = {}
        self._reads = False

    def submit(self, fields: Fields) -> Task:
        """Submit a task of the job, and follow it to its end."""
        ended: Future[TaskState] = Future()
        # An answer for the job does not have the kept files.
        is_whole = "__OUT__" not in fields
        with self._lock:
            self._unaccepted += 1
            if not self._reads:
                self._reads = True
                # The present place, before the ends of all tasks that are submitted after it.
                self._read(None)
            accepted = self._connection.ask(SUBMIT, fields, lambda answer: self._accept(ended, is_whole, answer))
        accepted.add_done_callback(lambda done: self._refuse(done, ended))
        return Task(self._connection, accepted, ended)

    # All that follows is called in the thread of the connection.

    def _accept(self, ended: Future[TaskState], is_whole: bool, answer: Fields) -> str:
        id: str = answer["__TASK_ID__"]
        with self._lock:
            self._unaccepted -= 1
            if id in self._open:
                # Two submits had the same key.
                hand_on(self._open[id][0], ended)
                return id
            self._open[id] = (ended, is_whole)
            row = self._early.pop(id, None)
        if row is not None:
            self._end(id, row)
        elif answer.get("__DUPLICATE__"):
            # It may have ended before the place from which this client reads.
            self._look(id)
        return id

    def _refuse(self, accepted: Future[str], ended: Future[TaskState]) -> None:
        if (error := accepted.exception()) is not None:
            with self._lock:
                self._unaccepted -= 1
            ended.set_exception(error)

    def _read(self, cursor: Any) -> None:
        """Ask for the ends since a place, or for the present place."""
        place = {} if cursor is None else {"__CURSOR__": cursor, "__WAIT__": READ_MS}
        answer = self._connection.ask("JOB/RESULTS", {"__JOB__": self._job, **place})
        answer.add_done_callback(lambda done: self._page(done, is_first=cursor is None))

    def _page(self, answer: Future[Fields], is_first: bool) -> None:
        error = answer.exception()
        if isinstance(error, NoSuchTask) and not is_first:
            # The controller is another one than before. What has ended meanwhile is asked for behind the new place.
            self._read(None)
            self._look(*list(self._open))
        elif error is not None:
            with self._lock:
                self._reads = False
                left, self._open = self._open, {}
            for ended, _ in left.values():
                ended.set_exception(error)
        else:
            page = answer.result()
            rows = {id: row for id, row in page.items() if id.startswith("TASK_")}
            for id, row in rows.items():
                self._end(id, row)
            with self._lock:
                # A job that rests for the time of a request is read no more, until it has a task again.
                self._reads = bool(self._open or self._unaccepted or rows or is_first)
                if not self._unaccepted:
                    self._early.clear()
                if self._reads:
                    self._read(page["__CURSOR__"])

    def _end(self, id: str, row: Fields) -> None:
        with self._lock:
            if id not in self._open:
                # Another client has submitted it, unless the answer to its submit is on its way.
                if self._unaccepted:
                    self._early[id] = row
                return
            ended, is_whole = self._open[id]
            # A task that the service has forgotten has an empty row.
            is_known = is_whole and bool(row)
            if is_known:
                del self._open[id]
        if is_known:
            ended.set_result(TaskState({"__TASK_ID__": id, "__STATUS__": "FINISHED", **row}))
        else:
            self._look(id)

    def _look(self, *ids: str) -> None:
        """Ask for tasks, and end those that have finished."""
        for id in ids:
            answer = self._connection.ask("TASK/QUERY", {"__TASK_ID__": id}, TaskState)
            answer.add_done_callback(lambda done, id=id: self._looked(id, done))  # type: ignore[misc]

    def _looked(self, id: str, answer: Future[TaskState]) -> None:
        if answer.exception() is None and answer.result().status != "FINISHED":
            return
        with self._lock:
            ended, _ = self._open.pop(id, (None, False))
        if ended is not None:
            hand_on(answer, ended)


class Job:
    """A name that many tasks share. Tasks are submitted without waiting; ``as_completed`` yields them as they end."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._ends = Ends(client.connection, name)
        self.name = name
        self.tasks: list[Task] = []
        """The tasks that were submitted through this object, in order."""

    def __repr__(self) -> str:
        return f"<llts.Job {self.name!r}>"

    def submit(self, tool: str, parameters: Mapping[str, Any] | None = None, /, **policy: Unpack[Policy]) -> Task:
        """Submit a tool. A refusal is raised by the methods of the task."""
        return self._submit({"__OPERATION__": tool}, parameters, policy)

    def run(self, command: Sequence[str] | str, /, **policy: Unpack[Policy]) -> Task:
        """Submit a command: a list of words, or a line for ``sh``. A refusal is raised by the methods of the task."""
        return self._submit(work_of(command), None, policy)

    def _submit(self, work: Fields, parameters: Mapping[str, Any] | None, policy: Policy) -> Task:
        task = self._ends.submit(self._client.prepare(work, parameters, {**policy, "job": self.name}))
        task.client = self._client
        self.tasks.append(task)
        return task

    def as_completed(self, *, timeout: float | None = None, progress: bool = False) -> Iterator[Task]:
        """Yield the tasks that were submitted through this object by now, as ``llts.as_completed`` does."""
        return as_completed(self.tasks, timeout=timeout, progress=progress)

    def query(self) -> dict[str, Any]:
        """Return the counts and times of ``JOB/QUERY``: ``total``, ``succeeded``, ``failed``, ``end_time`` and others."""
        return plain(self._ask("JOB/QUERY"))

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait until every task of the job has finished, also those of other clients; return what ``query`` returns."""
        for task in self.tasks:
            with suppress(Refused):
                task.id  # noqa: B018 - the job ends before a task that is not accepted
        ended = self._client.connection.ask(
            "JOB/QUERY", {"__JOB__": self.name, "__WAIT__": PARK_MS}, plain, again=lambda it: it["__END_TIME__"] is None
        )
        with lent_slot():
            return wait_for(ended, timeout)

    def kill(self, reason: str | None = None) -> int:
        """End all its tasks and accept no more; return how many were changed."""
        return self._change("JOB/KILL", {"__REASON__": reason} if reason else {})

    def retry(self) -> int:
        """Run its failed tasks again; return their number. ``Task.retry`` is for those that are to be waited for here."""
        return self._change("JOB/RETRY", repeat=False)

    def hold(self) -> int:
        """Keep its tasks from starting; return how many were changed."""
        return self._change("JOB/HOLD")

    def release(self) -> int:
        """Let its held tasks start; return how many were changed."""
        return self._change("JOB/RELEASE")

    def _change(self, kind: str, fields: Mapping[str, Any] | None = None, *, repeat: bool = True) -> int:
        return int(self._ask(kind, fields, repeat=repeat)["__COUNT__"])

    def _ask(self, kind: str, fields: Mapping[str, Any] | None = None, *, repeat: bool = True) -> Fields:
        return self._client.connection.ask(kind, {"__JOB__": self.name, **(fields or {})}, repeat=repeat).result()
