"""The errors of this package. Each is an :class:`Error`; a wrong argument is a :class:`ValueError` or :class:`TypeError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llts.state import GraphState, TaskState


class Error(Exception):
    """Any failure of this package."""


class ConfigError(Error):
    """The home, a context or a key file cannot be used."""


class NoController(Error):
    """No controller answers, or the connection was lost for too long."""


class KeyRefused(NoController):
    """The controller is there and does not accept the keys of this client."""


class Refused(Error):
    """The controller refused a request.

    ``code`` is one of docs/reference/wire.md, such as -1007; ``message`` is its sentence.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class NoSuchTask(Refused):
    """There is no such task, job or graph (-1004)."""


class TaskFailed(Error):
    """A task has finished and has not succeeded. ``result`` is its state at the end."""

    def __init__(self, result: TaskState) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        said = [self.result.reason, self.result.report.rstrip() or self.result.stderr.rstrip()]
        ended = f"{self.result.id} {self.result.outcome}, exit code {self.result.exit_code}"
        return ": ".join([ended, "\n".join(text for text in said if text)]) if any(said) else ended


class GraphFailed(Error):
    """A graph has ended and has not succeeded. ``state`` is its state at the end."""

    def __init__(self, state: GraphState) -> None:
        super().__init__(state)
        self.state = state

    def __str__(self) -> str:
        return f"{self.state.id} {self.state.status}: {self.state.reason}"


class PythonMismatch(Error):
    """The agent runs another minor version of Python than this process, so a function cannot travel between them."""


class TooLarge(Error):
    """The arguments or the result of a call are larger than a message may be."""


def refusal(code: int, message: str) -> Refused:
    """Return the exception for a code of the wire."""
    return NoSuchTask(code, message) if code == -1004 else Refused(code, message)
