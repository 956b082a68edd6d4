"""The Python client of llts, a low-latency task service.

>>> from llts import Client
>>> with Client() as c:
...     print(c.run(["sort", "names.txt"]).stdout())

``docs/python.md`` of the repository is the manual.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llts import aio
    from llts.client import Client
    from llts.errors import (
        ConfigError,
        Error,
        GraphFailed,
        KeyRefused,
        NoController,
        NoSuchTask,
        PythonMismatch,
        Refused,
        TaskFailed,
        TooLarge,
    )
    from llts.executor import Executor
    from llts.graph import Graph, GraphRun
    from llts.job import Job
    from llts.state import File, GraphState, TaskState
    from llts.task import Task, as_completed

__all__ = [
    "Client",
    "ConfigError",
    "Error",
    "Executor",
    "File",
    "Graph",
    "GraphFailed",
    "GraphRun",
    "GraphState",
    "Job",
    "KeyRefused",
    "NoController",
    "NoSuchTask",
    "PythonMismatch",
    "Refused",
    "Task",
    "TaskFailed",
    "TaskState",
    "TooLarge",
    "aio",
    "as_completed",
]

# A name is imported when it is used: a tool needs neither ZeroMQ nor asyncio, which take longer to load than Python itself.
_MODULES = {
    "Client": "client",
    "Executor": "executor",
    "File": "state",
    "Graph": "graph",
    "GraphRun": "graph",
    "GraphState": "state",
    "Job": "job",
    "Task": "task",
    "TaskState": "state",
    "as_completed": "task",
}


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name == "aio":
        return import_module("llts.aio")
    if name not in __all__:
        raise AttributeError(f"module 'llts' has no attribute {name!r}")
    return getattr(import_module(f"llts.{_MODULES.get(name, 'errors')}"), name)
