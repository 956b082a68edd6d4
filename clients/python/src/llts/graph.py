"""Step graphs, built in Python."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from llts.connection import PARK_MS, Connection, Fields
from llts.errors import GraphFailed
from llts.state import GraphState, plain
from llts.task import lent_slot, wait_for

Ports = Mapping[str, "Port | Step | Iterable[Port | Step]"]


@dataclass(frozen=True)
class Port:
    """An output of a step."""

    step: str
    name: str

    def __str__(self) -> str:
        return f"{self.step}.{self.name}"


class Step:
    """A step of a graph. ``step["parts"]`` is its output of that name, and the step itself stands for its output ``out``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, port: str) -> Port:
        return Port(self.name, port)


class Graph:
    """A graph of steps that pass partitions of data to one another (docs/step-graphs.md)."""

    def __init__(self, name: str | None = None, policy: Mapping[str, Any] | None = None) -> None:
        self.document: dict[str, Any] = {"name": name} if name else {}
        """The document that is submitted."""
        if policy:
            self.document["policy"] = dict(policy)
        self.document["steps"] = {}

    def step(
        self,
        name: str,
        tool: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        *,
        command: Sequence[str] | None = None,
        inputs: Ports | None = None,
        sub_inputs: Ports | None = None,
        outputs: Sequence[str] | None = None,
        tasks: int | str | None = None,
        propagate: bool | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> Step:
        """Add a step and return it. Without tool and command it is an exchange.

        ``tasks`` is a number, or the input port with one task for each partition; ``policy`` has fields of the wire, such
        as ``{"__MAX_FAILS__": 1}``.
        """
        if name in self.document["steps"]:
            raise ValueError(f"the graph has a step {name!r} already")
        facts = {
            "operation": tool,
            "command": None if command is None else list(command),
            "parameters": parameters and dict(parameters),
            "inputs": inputs and named(inputs),
            "sub_inputs": sub_inputs and named(sub_inputs),
            "outputs": None if outputs is None else list(outputs),
            "tasks": tasks,
            "propagate": propagate,
            "policy": policy and dict(policy),
        }
        self.document["steps"][name] = {key: fact for key, fact in facts.items() if fact is not None}
        return Step(name)

    def __str__(self) -> str:
        return json.dumps(self.document)


def named(ports: Ports) -> dict[str, list[str]]:
    """Return the sources of each input as the document has them."""
    found = {}
    for name, sources in ports.items():
        several = [sources] if isinstance(sources, Port | Step) else sources
        found[name] = [f"{source.name}.out" if isinstance(source, Step) else str(source) for source in several]
    return found


class GraphRun:
    """A submitted graph. Its tasks are those of the job with its id."""

    def __init__(self, connection: Connection, id: str) -> None:
        self._connection = connection
        self.id = id

    def __repr__(self) -> str:
        return f"<llts.GraphRun {self.id}>"

    def query(self) -> GraphState:
        """Return the present state."""
        return self._connection.ask("GRAPH/QUERY", self._fields(), GraphState).result()

    def wait(self, timeout: float | None = None) -> GraphState:
        """Wait until the graph has ended, however it ends. Raises :class:`TimeoutError` after ``timeout`` seconds."""
        ended = self.end()
        with lent_slot():
            return wait_for(ended, timeout)

    def end(self) -> Future[GraphState]:
        """Return the future of what ``wait`` returns."""
        fields = {**self._fields(), "__WAIT__": PARK_MS}
        return self._connection.ask("GRAPH/QUERY", fields, GraphState, again=lambda it: it["__STATUS__"] == "RUNNING")

    def result(self, timeout: float | None = None) -> GraphState:
        """Wait until the graph has ended. Raises :class:`llts.GraphFailed` unless it has SUCCEEDED."""
        state = self.wait(timeout)
        if state.status != "SUCCEEDED":
            raise GraphFailed(state)
        return state

    def steps(self) -> dict[str, dict[str, Any]]:
        """Return what is known of each step, by name: ``state``, ``why``, ``tasks`` and others."""
        answer = self._connection.ask("GRAPH/DETAILS", self._fields()).result()
        return {name: plain(facts) for name, facts in answer.items() if isinstance(facts, dict)}

    def kill(self, reason: str | None = None) -> None:
        """End the graph and its tasks. It has ended when ``wait`` returns."""
        self._connection.ask("GRAPH/KILL", {**self._fields(), **({"__REASON__": reason} if reason else {})}).result()

    def _fields(self) -> Fields:
        return {"__GRAPH_ID__": self.id}
