"""Every __CODE__ (docs/sources/controller.md, 2.7). What the input looks like in detail is in test_wire_input.py."""

import pytest

from harness.simple_agent import SimpleAgent


def test_0(lone):
    """0: a good request."""
    assert lone.client.code("AGENT/QUERY") == 0


def test_1001(lone):
    """-1001: not JSON."""
    reply = lone.client.exchange(b"hello")
    assert (reply["__CODE__"], reply["__TYPE__"]) == (-1001, "ERROR")


def test_1002(lone):
    """-1002: no __TYPE__."""
    reply = lone.client.exchange(b'{"__TASK_ID__":"x"}')
    assert (reply["__CODE__"], reply["__TYPE__"]) == (-1002, "ERROR")


def test_1003(lone):
    """-1003: unknown __TYPE__."""
    lone.client.send("TASK/UNKNOWN")
    assert lone.client.receive()["__CODE__"] == -1003


@pytest.mark.parametrize("kind", ["TASK/KILL", "TASK/QUERY"])
def test_1004(lone, kind):
    """-1004: no such __TASK_ID__."""
    assert lone.client.code(kind, __TASK_ID__="TASK_1.000000_AAAAA") == -1004


def test_1004_for_agents(lone):
    """-1004: a report about a task that is not there."""
    agent = SimpleAgent(lone.service, "AGENT_1.000000_codes")
    agent.heartbeat()
    assert agent.report({"__TASK_ID__": "TASK_1.000000_AAAAA"}, "RUNNING")["__CODE__"] == -1004
    agent.close()


@pytest.mark.parametrize("kind", ["AGENT/HEARTBEAT", "AGENT/EXIT", "TASK/INTERNAL/APPLY", "TASK/INTERNAL/REPORT"])
def test_1005(lone, kind):
    """-1005: the messages of an agent name the agent."""
    assert lone.client.code(kind, __AGENT_STATUS__="FREE") == -1005


def test_1006(lone):
    """-1006: a submit without an operation."""
    assert lone.client.code("TASK/SUBMIT") == -1006


def test_1007(lone):
    """-1007: a bad value. The message names the field."""
    reply = lone.client.ask("TASK/SUBMIT", __OPERATION__="x", __ADDRESS__="nowhere")
    assert reply["__CODE__"] == -1007
    assert "__ADDRESS__" in reply["__ERROR_MSG__"]


def test_1010(lone):
    """-1010: no task to hand out."""
    agent = SimpleAgent(lone.service, "AGENT_1.000000_codes")
    agent.heartbeat()
    assert agent.apply()["__CODE__"] == -1010
    agent.close()


def test_1011(llts):
    """-1011: a child of a task that has ended."""
    father = llts.submit(llts.tools.add("code-1011", "exit 0\n"))
    father.finish()
    assert llts.client.code("TASK/SUBMIT", __OPERATION__="code-1011", __FATHER_ID__=father.id) == -1011
