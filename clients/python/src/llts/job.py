"""Jobs: many tasks that are submitted without waiting, and whose ends come together."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from llts.connection import PARK_MS, SUBMIT, Answer, Connection, Fields
from llts.errors import NoSuchTask, Refused
from llts.state import TaskState, plain
from llts.task import Task, as_completed, follow, hand_on, lent_slot, wait_for, work_of
from llts.turns import Shield

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from llts.client import Client
    from llts.submission import Policy

# Milliseconds for which a request for the ends of a job waits. The service keeps them for a minute for the next one.
READ_MS = 60_000

# Milliseconds for which the answer to a call that is alone waits for its end. Until then, its task has no id here.
CALL_MS = 20

# Seconds after which a place is taken anew.
REST_MAX = 30.0


class Submit:
    """A submit without an answer."""

    __slots__ = ("accepted", "ended", "is_missed", "is_whole")

    def __init__(self, connection: Connection, is_whole: bool) -> None:
        # Whether its end may be before the place from which this client reads.
        self.is_missed = False
        self.accepted: Future[str]
        self.ended: Answer[TaskState] = Answer(connection)
        # Whether an answer for the job has all of its end: it does not have the kept files.
        self.is_whole = is_whole


class Ends:
    """The ends of the tasks of a job, as the controller tells them: many in one answer, instead of one answer for each task.

    A cursor is taken before the first submit. A controller that does not know it, because it has started again, is asked for
    each task once. Requests of a closed connection fail within the call that makes them, hence the lock of one thread.

    With ``early``, an end does not wait for the disk of the controller. It may come before the answer to its submit, and
    completes that one, too: it is not repeated then, so that no call runs a second time. A call that is alone asks for its
    end with its submit: one request and one answer.
    """

    def __init__(self, connection: Connection, job: str, *, early: bool = False) -> None:
        self._connection = connection
        self._early_ends = early
        self._is_alone = False
        self._place: Fields = {"__JOB__": job, **({"__STATUS__": "ENDED"} if early else {})}
        self._lock = threading.RLock()
        # The future of the end of each task by its id, and whether an answer for the job has all of it.
        self._open: dict[str, tuple[Future[TaskState], bool]] = {}
        # Submits without an answer by their keys, and ends that came before such an answer.
        self._unaccepted: dict[str, list[Submit]] = {}
        self._early: dict[str, Fields] = {}
        self._reads = False
        # Where the last reading has ended, and when.
        self._rest: tuple[Any, float] = (None, float("-inf"))

    def submit(self, fields: Fields) -> Task:
        """Submit a task of the job, and follow it to its end."""
        with Shield():
            return self._submit(fields)

    def _submit(self, fields: Fields) -> Task:
        with self._lock:
            if self._early_ends and not self._reads and not self._is_alone:
                self._is_alone = True
                # A later reading must not begin before the ends that come in this way.
                self._rest = (None, float("-inf"))
                return self._call(fields)
            submit, key = Submit(self._connection, "__OUT__" not in fields), fields["__SUBMIT_KEY__"]
            self._unaccepted.setdefault(key, []).append(submit)
            rests, self._reads = not self._reads, True
            cursor, since = self._rest
            is_placed = time.monotonic() - since < REST_MAX
            if rests and not is_placed:
                # The present place, before the ends of all tasks that are submitted after it.
                self._read(None)
            accepted = self._connection.ask(SUBMIT, fields, lambda answer: self._accept(key, submit, answer))
            submit.accepted = accepted
            if rests and is_placed:
                self._read(cursor)
        accepted.add_done_callback(lambda done: self._refuse(key, submit, done))
        return Task(self._connection, accepted, submit.ended)

    def _call(self, fields: Fields) -> Task:
        ended: Answer[TaskState] = Answer(self._connection)
        states: list[TaskState] = []

        def read(answer: Fields) -> str:
            states.append(TaskState(answer))
            return states[0].id

        accepted = self._connection.ask(SUBMIT, {**fields, "__WAIT__": CALL_MS}, read)
        accepted.add_done_callback(lambda done: self._called(done, states, ended))
        return Task(self._connection, accepted, ended)

    # All that follows is called in a turn of the connection.

    def _called(self, accepted: Future[str], states: list[TaskState], ended: Answer[TaskState]) -> None:
        self._is_alone = False
        if (error := accepted.exception()) is not None:
            ended.set_exception(error)
        elif states[0].status == "FINISHED":
            ended.set_result(states[0])
        else:
            hand_on(follow(self._connection, states[0].id), ended)

    def _take(self, key: str, submit: Submit) -> bool:
        """Return whether a submit had no answer yet."""
        with self._lock:
            waiting = self._unaccepted.get(key, [])
            if submit not in waiting:
                return False
            waiting.remove(submit)
            if not waiting:
                del self._unaccepted[key]
            return True

    def _accept(self, key: str, submit: Submit, answer: Fields) -> str:
        id: str = answer["__TASK_ID__"]
        with self._lock:
            if not self._take(key, submit):
                return id
            if id in self._open:
                # Two submits had the same key.
                hand_on(self._open[id][0], submit.ended)
                return id
            reads = self._reads
            if reads:
                self._open[id] = (submit.ended, submit.is_whole)
            row = self._early.pop(id, None)
        if not reads:
            hand_on(follow(self._connection, id), submit.ended)
        elif row is not None:
            self._end(id, row)
        elif submit.is_missed or answer.get("__DUPLICATE__"):
            self._look(id)
        return id

    def _refuse(self, key: str, submit: Submit, accepted: Future[str]) -> None:
        if (error := accepted.exception()) is not None and self._take(key, submit):
            submit.ended.set_exception(error)

    def _read(self, cursor: Any, *, is_anew: bool = False) -> None:
        """Ask for the ends since a place, or for the present place: ``is_anew`` after an earlier one was lost."""
        place = {} if cursor is None else {"__CURSOR__": cursor, "__WAIT__": READ_MS}
        answer = self._connection.ask("JOB/RESULTS", {**self._place, **place})
        answer.add_done_callback(lambda done: self._page(done, is_first=cursor is None, is_anew=is_anew))

    def _page(self, answer: Future[Fields], is_first: bool, is_anew: bool) -> None:
        error = answer.exception()
        if isinstance(error, NoSuchTask) and not is_first:
            # The controller is another one than before.
            self._read(None, is_anew=True)
        elif error is not None:
            with self._lock:
                self._reads = False
                left, self._open = self._open, {}
            for id, (ended, _) in left.items():
                if isinstance(error, Refused):
                    # Such as too many jobs that are read.
                    hand_on(follow(self._connection, id), ended)
                else:
                    ended.set_exception(error)
        else:
            page = answer.result()
            rows = {id: row for id, row in page.items() if id.startswith("TASK_")}
            for id, row in rows.items():
                self._end(id, row)
            with self._lock:
                if not self._unaccepted:
                    self._early.clear()
                # A job without a task is read on from here with the next one: to ask now would keep a caller from its result.
                self._reads = bool(self._open or self._unaccepted)
                if self._reads:
                    self._read(page["__CURSOR__"])
                else:
                    self._rest = (page["__CURSOR__"], time.monotonic())
                if is_anew:
                    # Whatever was sent before may have ended before the new place.
                    self._look(*list(self._open))
                    for submits in self._unaccepted.values():
                        for submit in submits:
                            submit.is_missed = True

    def _end(self, id: str, row: Fields) -> None:
        with self._lock:
            for submit in self._unaccepted.pop(row.get("__SUBMIT_KEY__", ""), ()):
                if id in self._open:
                    hand_on(self._open[id][0], submit.ended)
                else:
                    self._open[id] = (submit.ended, submit.is_whole)
                submit.accepted.set_result(id)
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
        fields = self._client.prepare(work, parameters, {**policy, "job": self.name})
        with Shield():
            task = self._ends.submit(fields)
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
        ended = self.end()
        with lent_slot():
            return wait_for(ended, timeout)

    def end(self) -> Future[dict[str, Any]]:
        """Return the future of what ``wait`` returns, when all tasks that were submitted through this object are accepted."""
        for task in self.tasks:
            with suppress(Refused):
                task.id  # noqa: B018 - the job ends before a task that is not accepted
        fields = {"__JOB__": self.name, "__WAIT__": PARK_MS}
        return self._client.connection.ask("JOB/QUERY", fields, plain, again=lambda it: it["__END_TIME__"] is None)

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
