"""What the service tells about tasks and graphs, as values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# A byte that belongs to no UTF-8 character: Python has a surrogate for it, and the wire NUL and two digits.
SURROGATE = re.compile("[\udc80-\udcff]")
ESCAPE = re.compile("\0([0-9a-f]{2})")


def escaped(text: str) -> str:
    """Return an argument, a path or a variable as the wire has it."""
    return text if text.isascii() else SURROGATE.sub(lambda found: f"\0{ord(found[0]) - 0xDC00:02x}", text)


def unescaped(text: str) -> str:
    """Return a path of the wire as Python has it."""
    return ESCAPE.sub(lambda found: chr(0xDC00 + int(found[1], 16)), text)


def plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the wire under their short names: ``submit_time`` is ``__SUBMIT_TIME__``."""
    return {name.strip("_").lower(): value for name, value in fields.items() if name not in ("__TYPE__", "__CODE__")}


@dataclass(frozen=True)
class File:
    """A file that is kept with a task. ``sha256`` is in hexadecimal digits."""

    name: str
    sha256: str
    bytes: int
    executable: bool = False


@dataclass(frozen=True)
class TaskState:
    """A task as it was at one moment.

    ``fields`` are those of the wire (docs/reference/fields.md). The end of a task of a job may have those of ``JOB/RESULTS``
    alone, without times and agent: ``Task.query`` has all.
    """

    fields: Mapping[str, Any] = field(repr=False)
    id: str = field(init=False)
    status: str = field(init=False)
    """WAITING, DISPATCHED, PREPARING, RUNNING, ENDED or FINISHED."""
    outcome: str | None = field(init=False)
    """SUCCEEDED, FAILED, TIMED_OUT, EXPIRED, KILLED, LOST or SKIPPED; None before the end."""

    def __post_init__(self) -> None:
        for name, key in (("id", "__TASK_ID__"), ("status", "__STATUS__"), ("outcome", "__OUTCOME__")):
            object.__setattr__(self, name, self.fields.get(key))

    @property
    def succeeded(self) -> bool:
        """Whether the task has finished and has SUCCEEDED."""
        return self.outcome == "SUCCEEDED"

    @property
    def reason(self) -> str:
        """One sentence about the end; empty if there is none."""
        return self.fields.get("__REASON__") or ""

    @property
    def exit_code(self) -> int | None:
        """0 to 255, the negated number of a signal, or one below -127; None without a run."""
        code: int | None = self.fields.get("__EXIT_CODE__")
        return code

    @property
    def round(self) -> int:
        """The number of the run, from 0."""
        return int(self.fields.get("__ROUND__", 0))

    @property
    def report(self) -> str:
        """The end of report.log."""
        return self.fields.get("__REPORT_LOG__") or ""

    @property
    def stdout(self) -> str:
        """The end of stdout; ``Task.stdout()`` reads all of it."""
        return self.fields.get("__STDOUT__") or ""

    @property
    def stderr(self) -> str:
        """The end of stderr; ``Task.stderr()`` reads all of it."""
        return self.fields.get("__STDERR__") or ""

    @property
    def value(self) -> Any:
        """What a tool that stays has answered; None without an answer."""
        text = self.fields.get("__VALUE__")
        return None if text is None else json.loads(text)

    @property
    def warm(self) -> bool:
        """Whether the task found its tool running."""
        return bool(self.fields.get("__WARM__"))

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the tool."""
        return {name: value for name, value in self.fields.items() if not name.endswith("__")}

    @property
    def files(self) -> dict[str, File]:
        """The files that are kept with the task, by name."""
        kept = json.loads(self.fields.get("__OUT_FILES__") or "{}")
        return {unescaped(name): File(unescaped(name), **facts) for name, facts in kept.items()}


@dataclass(frozen=True)
class GraphState:
    """A graph as it was at one moment. ``fields`` are those of ``GRAPH/QUERY``."""

    fields: Mapping[str, Any] = field(repr=False)
    id: str = field(init=False)
    status: str = field(init=False)
    """RUNNING, SUCCEEDED, FAILED or KILLED."""
    reason: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", self.fields.get("__GRAPH_ID__"))
        object.__setattr__(self, "status", self.fields.get("__STATUS__"))
        object.__setattr__(self, "reason", self.fields.get("__REASON__") or "")
