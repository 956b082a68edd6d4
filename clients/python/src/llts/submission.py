"""The fields of a submit, from the arguments of a call. The names are those of the flags of ``llts submit``, with ``_``."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from llts.state import escaped

if TYPE_CHECKING:
    from typing import TypeAlias

    from llts.home import Endpoint
    from llts.task import Task

    Duration: TypeAlias = float | timedelta
    Moment: TypeAlias = float | timedelta | datetime
    Names: TypeAlias = str | Iterable[str]
    Tasks: TypeAlias = "str | Task | Iterable[str | Task]"
    Inputs: TypeAlias = Mapping[str, str | os.PathLike[str]] | Iterable[str | os.PathLike[str]]


class Policy(TypedDict, total=False):
    """Options of a submit. A duration is seconds or a timedelta; a moment is unix seconds, a datetime, or a timedelta."""

    given_id: str
    father: str | Task
    no_father: bool
    address: str
    address_key: str
    submit_key: str
    priority: int
    timeout: Duration
    start_after: Moment
    end_before: Moment
    max_fails: int
    max_timeouts: int
    max_losses: int
    lost_after: Duration
    max_defers: int
    retry_delay: Duration
    fail_on_stderr: bool
    exclusive: bool
    eager: bool
    gate: Names
    tags: Names
    push_ack: bool
    end_signal: str
    merge: bool
    source: str
    sha256: str
    input: str
    cwd: str | os.PathLike[str]
    env: Mapping[str, str]
    env_all: bool
    stdin: str
    in_: Inputs
    out: Names
    job: str
    job_max_fails: int
    job_push: bool
    after: Tasks
    after_job: Names
    after_any: Tasks
    after_failed: Tasks


DURATIONS = ("timeout", "lost_after", "retry_delay")
MOMENTS = ("start_after", "end_before")
# Each is a text, a number or a truth, as it is.
PLAIN = (
    "given_id", "address", "address_key", "submit_key", "priority", "max_fails", "max_timeouts", "max_losses",
    "max_defers", "fail_on_stderr", "exclusive", "eager", "push_ack", "end_signal", "merge", "source", "input", "stdin",
    "job", "job_max_fails", "job_push",
)  # fmt: skip
WORDS = {name: f"__{name.upper()}__" for name in PLAIN + DURATIONS + MOMENTS}
# What a command takes from its caller or is given, and a tool does not.
OF_A_COMMAND = ("cwd", "env", "env_all", "stdin")
OTHERS = {"father", "no_father", "gate", "tags", "sha256", "in_", "out", "after", "after_job", "after_any", "after_failed"}


def submission(
    work: Mapping[str, Any], parameters: Mapping[str, Any] | None, policy: Policy, endpoint: Endpoint
) -> dict[str, Any]:
    """Return the fields of a submit, but for those of its input files.

    ``work`` has the field that names the work. Raises :class:`TypeError` or :class:`ValueError` for wrong arguments.
    """
    if parameters is not None and not isinstance(parameters, Mapping):
        raise TypeError(f"the parameters of a tool are {parameters!r}; give a dict")
    if not isinstance(policy.get("stdin", ""), str):
        raise TypeError("stdin must be a text")
    fields = dict(work)
    is_tool = "__OPERATION__" in fields
    if is_tool and "source" not in policy:
        fields["__REQUIRE_TOOL__"] = True
    options: dict[str, Any] = {**policy}
    for name, value in options.items():
        if name in OF_A_COMMAND and is_tool:
            raise TypeError(f"{name} is for commands, and {fields['__OPERATION__']} is a tool")
        if name in DURATIONS:
            fields[WORDS[name]] = seconds(name, value)
        elif name in MOMENTS:
            fields[WORDS[name]] = moment(value)
        elif name in WORDS:
            fields[WORDS[name]] = value
        elif name in ("gate", "tags"):
            fields[f"__{name.upper()}__"] = ",".join(names(value))
        elif name == "sha256":
            fields["__SOURCE_SHA256__"] = value
        elif name == "out":
            fields["__OUT__"] = json.dumps([escaped(name) for name in names(value)])
        elif name not in OTHERS and name not in OF_A_COMMAND:
            raise TypeError(f"{name!r} is no option of a submit; the parameters of a tool are its second argument")
    if any(name.startswith("after") for name in policy) and (terms := after(policy)):
        fields["__AFTER__"] = ",".join(terms)
    if "father" in policy:
        fields["__FATHER_ID__"] = task_id(policy["father"])
    elif endpoint.task and not policy.get("no_father"):
        fields["__FATHER_ID__"] = endpoint.task
    if not is_tool:
        surround(fields, policy, endpoint.is_local)
    for name, value in (parameters or {}).items():
        if name.startswith("__") and name.endswith("__"):
            raise ValueError(f"{name} is a name of the service, not of a parameter")
        fields[name] = os.fspath(value) if isinstance(value, os.PathLike) else value
    return fields


def surround(fields: dict[str, Any], policy: Policy, is_here: bool) -> None:
    """Add the folder, the variables and the umask of a command. One for another machine has what is named alone."""
    if "in_" in policy or "out" in policy:
        if "cwd" in policy:
            raise ValueError("cwd excludes in_ and out: their files are in the folder of the task, where it starts")
    elif "cwd" in policy:
        fields["__CWD__"] = escaped(os.path.abspath(policy["cwd"]) if is_here else os.fspath(policy["cwd"]))
    elif is_here:
        fields["__CWD__"] = escaped(os.getcwd())
    if is_here and (umask := own_umask()):
        fields["__UMASK__"] = umask
    own = policy.get("env", {})
    if not isinstance(own, Mapping) or not all(isinstance(text, str) for pair in own.items() for text in pair):
        raise TypeError(f"env is {own!r}; it must be a dict of texts")
    variables = {**(os.environ if policy.get("env_all") else {}), **own}
    if variables:
        fields["__ENV__"] = json.dumps({escaped(name): escaped(value) for name, value in variables.items()})


@functools.cache
def own_umask() -> str | None:
    """Return the umask that this process had at its first submit. The call that returns it would change it for all threads."""
    try:
        found = re.search(r"^Umask:\s*(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return None
    return found[1] if found else None


def after(policy: Policy) -> list[str]:
    """Return the terms that a task waits for."""
    terms = [task_id(task) for task in tasks(policy.get("after", ()))]
    terms += [f"job:{name}" for name in names(policy.get("after_job", ()))]
    terms += [f"any:{task_id(task)}" for task in tasks(policy.get("after_any", ()))]
    return terms + [f"failed:{task_id(task)}" for task in tasks(policy.get("after_failed", ()))]


def tasks(value: Tasks) -> Iterable[str | Task]:
    """Return several tasks, also of one."""
    return value if isinstance(value, Iterable) and not isinstance(value, str) else (value,)


def names(value: Names) -> Sequence[str]:
    """Return several names, also of one."""
    return [value] if isinstance(value, str) else list(value)


def task_id(task: str | Task) -> str:
    """Return the id of a task. That of a task which is being submitted is waited for."""
    return task if isinstance(task, str) else task.id


def seconds(name: str, value: Duration) -> float:
    """Return a duration in seconds."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name} is {value!r}; give seconds, or a timedelta")
    return value


def moment(value: Moment) -> float | str:
    """Return a moment in unix seconds, or as the text that counts from the acceptance."""
    if isinstance(value, timedelta):
        return f"+{value.total_seconds()}"
    return value.timestamp() if isinstance(value, datetime) else value
