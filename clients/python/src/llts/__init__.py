"""The Python client of llts, a low-latency task service.

>>> from llts import Client
>>> with Client() as c:
...     print(c.run(["sort", "names.txt"]).stdout())

``docs/python.md`` of the repository is the manual.
"""

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
from llts.state import File, GraphState, TaskState
from llts.task import Job, Task, as_completed

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
