"""Tools that stay, in three lines. This module needs nothing but Python 3.8, so it can be copied into a tool.

>>> from llts.tool import serve
>>> def handle(task): return {"length": len(task["text"])}
>>> serve(handle)

The protocol is lines of JSON at the connected socket whose number is in ``LLTS_STAY_FD``.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sys
import termios
import traceback
from collections import deque
from types import FrameType
from typing import Any, Callable, NamedTuple

__all__ = ["Killed", "Reply", "Task", "serve"]

# The exit code of a task that was killed, as a shell has it for SIGTERM.
KILLED = 143

# No byte to read, as the system says it.
NOTHING = b"\0\0\0\0"

encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Killed(BaseException):
    """Raised in a handler whose task is killed. It is no :class:`Exception`, so that few handlers catch it by accident."""


class Reply(NamedTuple):
    """An answer with more than a value. ``exit_code`` 0 is a success, 75 defers."""

    value: Any = None
    """Any JSON."""
    report: str = ""
    exit_code: int = 0


class Task(dict):  # type: ignore[type-arg]
    """The fields of a task, as ``task.json`` has them: parameters under their names."""

    __slots__ = ("folder", "id", "round")

    id: str
    round: int
    folder: str | None
    """The folder of the task, if its tool asks for one."""


def serve(handler: Callable[[Task], Any]) -> None:
    """Call ``handler`` for each task, in the main thread, until the agent ends this tool.

    What the handler returns is the value of the task, any JSON, or a :class:`Reply`. An exception fails the task, with its
    traceback in the report. :class:`Killed` is raised in a handler whose task is killed. Raises :class:`RuntimeError` if
    the agent has not started this tool as one that stays.
    """
    number = os.environ.pop("LLTS_STAY_FD", None)
    if number is None:
        raise RuntimeError("LLTS_STAY_FD is not set: a tool that stays has [stay] in its tool.toml, and is run by an agent")
    with socket.socket(fileno=int(number)) as agent:
        # A process that outlives its tool must not hold the connection.
        agent.set_inheritable(False)
        agent.setblocking(True)
        Server(agent, handler).run()


class Server:
    """The tool's end of the connection to its agent."""

    def __init__(self, agent: socket.socket, handler: Callable[[Task], Any]) -> None:
        self.agent = agent
        self.handler = handler
        self.rest = b""
        # Lines that wait, without the kills.
        self.waiting: deque[dict[str, Any]] = deque()
        self.killed: set[str] = set()
        # The task whose handler runs.
        self.running: str | None = None
        self.reads = False
        self.number = agent.fileno()
        self.flags = fcntl.fcntl(self.number, fcntl.F_GETFL)

    def run(self) -> None:
        """Answer tasks one after the other."""
        # While a handler runs, a line of the agent makes a signal: no thread has to wait for it.
        signal.signal(signal.SIGIO, self.interrupt)
        fcntl.fcntl(self.number, fcntl.F_SETOWN, os.getpid())
        self.agent.sendall(b'{"type":"ready","version":1}\n')
        while True:
            while not self.waiting:
                if not self.receive():
                    return
            message = self.waiting.popleft()
            if message["type"] == "stop":
                return
            self.answer(message)

    def receive(self, flags: int = 0) -> bool:
        """Read what has arrived, or wait for it; return False if the agent has closed the connection."""
        data = self.agent.recv(1 << 16, flags)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message["type"] == "kill":
                self.killed.add(message["id"])
            elif message["type"] in ("task", "stop"):
                # A kill that has come before is about an earlier round.
                self.killed.discard(message.get("id", ""))
                self.waiting.append(message)
            else:
                raise RuntimeError("the agent has sent a line of the type {!r}".format(message["type"]))
        return bool(data)

    def interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        """Read lines that arrive while a handler runs, and end it if it is killed."""
        # A signal that comes while lines are read leaves its line to that reading.
        if self.running is None or self.reads:
            return
        while self.has_bytes():
            self.reads = True
            try:
                self.receive(socket.MSG_DONTWAIT)
            except BlockingIOError:
                # A signal before the line above has read it all.
                pass
            finally:
                self.reads = False
        if self.running in self.killed:
            self.running = None
            raise Killed

    def has_bytes(self) -> bool:
        """Return whether something has arrived that is not read."""
        return fcntl.ioctl(self.number, termios.FIONREAD, NOTHING) != NOTHING

    def answer(self, message: dict[str, Any]) -> None:
        """Run a task, and send its answer."""
        id = message["id"]
        try:
            reply = self.handle(message)
        except Killed:
            self.running = None
            reply = Reply(exit_code=KILLED)
        fcntl.fcntl(self.number, fcntl.F_SETFL, self.flags)
        self.killed.discard(id)
        # What the task has written belongs to it, and must not arrive after its end.
        sys.stdout.flush()
        sys.stderr.flush()
        # A file name may be half of a character, which the line may not have.
        report = reply.report.encode(errors="backslashreplace").decode()
        done = {"type": "done", "id": id, "round": message["round"], "exit_code": reply.exit_code, "report": report}
        try:
            line = encode({**done, "value": reply.value})
        except (TypeError, ValueError) as error:
            line = encode({**done, "exit_code": 1, "report": f"the value is not JSON: {error}\n{report}"})
        self.agent.sendall(line.encode() + b"\n")

    def handle(self, message: dict[str, Any]) -> Reply:
        """Call the handler. Raises :class:`Killed`."""
        task = Task(message["task"])
        task.id, task.round, task.folder = message["id"], message["round"], message.get("folder")
        try:
            self.running = task.id
            fcntl.fcntl(self.number, fcntl.F_SETFL, self.flags | os.O_ASYNC)
            # A kill that has come before makes no signal.
            if task.id in self.killed or self.has_bytes():
                self.interrupt(signal.SIGIO, None)
            value = self.handler(task)
            self.running = None
        except SystemExit as error:
            report = error.code if isinstance(error.code, str) else ""
            reply = Reply(None, report, error.code if isinstance(error.code, int) else int(bool(report)))
        except Exception:
            reply = Reply(None, traceback.format_exc(), 1)
        else:
            reply = value if isinstance(value, Reply) else Reply(value)
        self.running = None
        return reply
