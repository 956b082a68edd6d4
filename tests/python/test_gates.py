"""Gates and tags: what a start must meet beside the time."""

import os
import time

import pytest

from harness.waiting import wait_until


@pytest.fixture
def gated(start_service):
    return start_service(agents=3)


def gate(session, name, **fields):
    return session.client.accepted("GATE/SET", __GATE__=name, **fields)


def look(session, name):
    return session.client.accepted("GATE/QUERY", __GATE__=name)


def waits_for_a_file(session, name):
    """A tool that runs until the file is there."""
    path = os.path.join(session.service.folder, f"{name}.go")
    tool = session.tools.add(name, f"while [ ! -e '{path}' ]; do sleep 0.02; done\n")
    return tool, path


def test_a_gate_limits_how_many_run(gated):
    """__MAX_RUNNING__, and GATE/QUERY counts; a task that does not name the gate is not concerned."""
    tool, go = waits_for_a_file(gated, "limited")
    gate(gated, "g", __MAX_RUNNING__=1)
    tasks = [gated.submit(tool, __GATE__="g") for _ in range(3)]
    tasks[0].until("RUNNING")
    assert gated.run(gated.tools.add("free", "exit 0\n"))["__OUTCOME__"] == "SUCCEEDED"
    reply = look(gated, "g")
    assert (reply["__STATUS__"], reply["__RUNNING__"], reply["__WAITING__"]) == ("FULL", 1, 2)
    assert reply["__MAX_RUNNING__"] == 1
    why = gated.client.accepted("TASK/EXPLAIN", __TASK_ID__=tasks[1].id)["__WHY__"]
    assert "gate g" in why and "full" in why
    gate(gated, "g", __MAX_RUNNING__=2)
    tasks[1].until("RUNNING")
    assert look(gated, "g")["__RUNNING__"] == 2
    gate(gated, "g", __MAX_RUNNING__=None)
    tasks[2].until("RUNNING")
    with open(go, "w", encoding="utf-8"):
        pass
    for task in tasks:
        task.finish()
    assert look(gated, "g")["__RUNNING__"] == 0


def test_a_gate_limits_how_many_start(gated):
    """__MAX_STARTS__ in __INTERVAL__: in any stretch of that length."""
    gate(gated, "pace", __MAX_STARTS__=2, __INTERVAL__=0.5)
    tool = gated.tools.add("paced", "exit 0\n")
    tasks = [gated.submit(tool, __GATE__="pace") for _ in range(5)]
    for task in tasks:
        task.finish()
    starts = sorted(task.query()["__DISPATCH_TIME__"] for task in tasks)
    assert all(later - earlier >= 0.499 for earlier, later in zip(starts, starts[2:], strict=False)), starts


def test_a_gate_is_closed_until_a_time(gated):
    """__CLOSED_UNTIL__; a task that comes while it is closed starts when it opens."""
    until = time.time() + 3
    gate(gated, "closed", __CLOSED_UNTIL__=until)
    assert look(gated, "closed")["__STATUS__"] == "CLOSED"
    task = gated.submit(gated.tools.add("comes-early", "exit 0\n"), __GATE__="closed")
    task.finish()
    assert task.query()["__DISPATCH_TIME__"] >= until - 1e-5
    gate(gated, "closed", __CLOSED_UNTIL__=time.time() + 600)
    task = gated.submit("comes-early", __GATE__="other, closed")
    gate(gated, "closed", __CLOSED_UNTIL__=0)
    task.finish()


def test_a_run_closes_its_gate_for_all(gated):
    """gate=NAME in ../defer.info, beside retry_after; one that the task does not name stays open."""
    script = '[ $__ROUND__ -ge 1 ] || { printf "retry_after=3\\ngate=api\\ngate=other\\n" > ../defer.info; exit 75; }\n'
    first = gated.submit(gated.tools.add("closes", script), __GATE__="api")
    first.until("WAITING")
    reply = look(gated, "api")
    assert look(gated, "other")["__STATUS__"] == "OPEN"
    second = gated.submit(gated.tools.add("follows", "exit 0\n"), __GATE__="api")
    second.finish()
    assert second.query()["__DISPATCH_TIME__"] >= reply["__CLOSED_UNTIL__"] - 1e-5
    assert first.finish()["__OUTCOME__"] == "SUCCEEDED"


def test_settings_survive_a_controller(start_service):
    """What GATE/SET confirmed is on disk; so is AGENT/DRAIN."""
    session = start_service(agents=0)
    gate(session, "kept", __MAX_RUNNING__=3, __MAX_STARTS__=5, __INTERVAL__=1.5)
    assert session.client.code("AGENT/DRAIN", __AGENT_ID__="agent1") == -1007, "no agent has the name"
    session.client.accepted("AGENT/DRAIN", __AGENT_ID__="agent1", __AHEAD__=True)
    before = look(session, "kept")
    rep, pub = session.service.rep, session.service.pub
    session.service.controller.kill()
    session.service.start_controller(int(rep.rsplit(":", 1)[1]), int(pub.rsplit(":", 1)[1]))
    assert look(session, "kept") == before
    session.service.start_agents(1)
    task = session.submit(session.tools.add("drained", "exit 0\n"))
    wait_until(lambda: session.count_agents()["__FREE__"] == 1, "the agent is here")
    assert "are paused: " in session.client.accepted("TASK/EXPLAIN", __TASK_ID__=task.id)["__WHY__"]
    session.client.accepted("AGENT/DRAIN", __AGENT_ID__="agent1", __DRAIN__=False)
    task.finish()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "__GATE__"),
        ({"__GATE__": "a,b"}, "__GATE__"),
        ({"__GATE__": 5}, "__GATE__"),
        ({"__GATE__": "g", "__MAX_RUNNING__": -1}, "__MAX_RUNNING__"),
        ({"__GATE__": "g", "__MAX_STARTS__": 5}, "__INTERVAL__"),
        ({"__GATE__": "g", "__MAX_STARTS__": 0, "__INTERVAL__": 1}, "__MAX_STARTS__"),
        ({"__GATE__": "g", "__INTERVAL__": 1}, "__MAX_STARTS__"),
        ({"__GATE__": "g", "__CLOSED_UNTIL__": "noon"}, "__CLOSED_UNTIL__"),
    ],
)
def test_bad_settings_are_refused(lone, fields, named):
    """-1007 with the name; nothing is changed."""
    reply = lone.client.ask("GATE/SET", fields)
    assert reply["__CODE__"] == -1007, reply
    assert named in reply["__ERROR_MSG__"]
    assert look(lone, "g")["__STATUS__"] == "OPEN"


def test_tags(start_service):
    """AGENT_TAGS and __TAGS__: only an agent that has all of them; others go on meanwhile."""
    session = start_service(agents=1)
    tool = session.tools.add("tagged", "exit 0\n")
    task = session.submit(tool, __TAGS__="gpu, big", __PRIORITY__=100)
    assert session.run(tool)["__OUTCOME__"] == "SUCCEEDED"
    why = session.client.accepted("TASK/EXPLAIN", __TASK_ID__=task.id)["__WHY__"]
    assert "big,gpu" in why
    session.service.config["AGENT_TAGS"] = ["big", "gpu", "linux"]
    session.service.start_agents(1)
    assert task.finish()["__AGENT_ID__"] == session.service.agents[1].name
