"""An agent that knows only the original (docs/sources/controller.md, 5), with a REQ and a SUB socket, against the real controller."""

import pytest
import zmq

from harness.client import parse
from harness.simple_agent import SimpleAgent
from harness.service import restart
from harness.waiting import LIMIT_MS

# A broadcast may be lost until the subscription has arrived, so waiting for one goes in short steps.
STEP_MS = 100


@pytest.fixture
def agent(lone):
    agent = SimpleAgent(lone.service, "AGENT_1480000000.120000_abcde")
    yield agent
    agent.close()


def counts(session):
    reply = session.count_agents()
    return reply["__TOTAL__"], reply["__FREE__"], reply["__BUSY__"], reply["__LOST__"]


def informed(agent):
    """Waits for TASK/INFORM as an agent does: with a heartbeat now and then."""
    for _ in range(LIMIT_MS // STEP_MS):
        agent.heartbeat()
        message = agent.hear("TASK/INFORM", STEP_MS)
        if message:
            return message
    raise AssertionError("no TASK/INFORM")


@pytest.mark.parametrize("free, busy", [("FREE", "BUSY"), (0, 1), ("0", "1")], ids=["words", "numbers", "digits"])
def test_heartbeat(lone, agent, free, busy):
    """5.1 AGENT/HEARTBEAT: an agent is known by its heartbeat; __AGENT_STATUS__ in either spelling."""
    assert agent.heartbeat(free)["__CODE__"] == 0
    assert counts(lone) == (1, 1, 0, 0)
    assert agent.heartbeat(busy)["__CODE__"] == 0
    assert counts(lone)[0] == 1


def test_exit(lone, agent):
    """5.1 AGENT/EXIT: the agent leaves the pool."""
    agent.heartbeat()
    agent.leave()
    assert counts(lone) == (0, 0, 0, 0)


def test_whole_life_of_a_task(lone, agent):
    """5.1, 5.2, 5.3: heartbeat, apply in vain, INFORM, apply, the four phases, apply again, exit."""
    agent.heartbeat()
    assert agent.apply()["__CODE__"] == -1010
    task = lone.submit("simple", param1="value1", number=5, __GIVEN_ID__="given")
    assert "__TASK_ID__" not in informed(agent)
    order = agent.take()
    assert (order["__TASK_ID__"], order["__OPERATION__"]) == (task.id, "simple")
    assert (order["param1"], order["number"], order["__GIVEN_ID__"]) == ("value1", 5, "given")
    assert order["__ROUND__"] == 0
    assert task.query()["__AGENT_ID__"] == agent.id
    assert counts(lone) == (1, 0, 1, 0)
    agent.report_all(order, "PREPARING", "RUNNING", "ENDED")
    agent.finish(order, exit_code=3, report_log="the report")
    end = task.finish()
    assert task.statuses() == ["PREPARING", "RUNNING", "ENDED", "FINISHED"]
    assert (end["__EXIT_CODE__"], end["__REPORT_LOG__"]) == (3, "the report")
    assert (end["__OUTCOME__"], end["__AGENT_ID__"]) == ("FAILED", agent.id)
    assert (end["param1"], end["number"]) == ("value1", 5)
    assert agent.apply()["__CODE__"] == -1010
    assert counts(lone) == (1, 1, 0, 0)
    agent.leave()
    assert counts(lone) == (0, 0, 0, 0)


def test_tasks_come_in_order(lone, agent):
    """5.2: first in, first out."""
    submitted = [lone.submit_quietly("simple").id for _ in range(5)]
    agent.heartbeat()
    taken = []
    for _ in submitted:
        order = agent.take()
        taken.append(order["__TASK_ID__"])
        agent.report_all(order, "PREPARING", "RUNNING", "ENDED")
        agent.finish(order)
    assert taken == submitted


def test_one_task_goes_to_one_agent(lone, agent):
    """5.1: the loser of an APPLY gets -1010."""
    other = SimpleAgent(lone.service, "AGENT_1480000000.120000_other")
    agent.heartbeat()
    other.heartbeat()
    lone.submit_quietly("simple")
    agent.take()
    assert other.apply()["__CODE__"] == -1010
    other.close()


def test_parked_apply(lone, agent):
    """An APPLY with __WAIT__ is answered as soon as a task is there."""
    agent.heartbeat()
    agent.client.send("TASK/INTERNAL/APPLY", __AGENT_ID__=agent.id, __WAIT__=LIMIT_MS)
    task = lone.submit_quietly("simple")
    order = agent.client.receive()
    assert (order["__CODE__"], order["__TASK_ID__"]) == (0, task.id)


def test_parked_apply_runs_out(lone, agent):
    """When the time has passed, the reply is -1010; a task that comes later is not lost."""
    agent.heartbeat()
    assert agent.apply(__WAIT__=50)["__CODE__"] == -1010
    task = lone.submit_quietly("simple")
    assert agent.take()["__TASK_ID__"] == task.id


def test_states_never_go_back(lone, agent):
    """5.3, A4: a report that goes back is refused and changes nothing; the same state again is accepted."""
    task = lone.submit("simple")
    agent.heartbeat()
    order = agent.take()
    agent.report_all(order, "PREPARING", "RUNNING", "RUNNING")
    for status in ("PREPARING", "DISPATCHED", "WAITING"):
        assert agent.report(order, status)["__CODE__"] != 0
    assert task.query()["__STATUS__"] == "RUNNING"
    agent.report_all(order, "ENDED")
    agent.finish(order)
    assert agent.report(order, "RUNNING")["__CODE__"] != 0
    task.finish()
    assert task.statuses() == ["PREPARING", "RUNNING", "ENDED", "FINISHED"]


@pytest.mark.parametrize("status", ["", "DONE", "running", 3, None])
def test_unknown_state(lone, agent, status):
    """Code -1007: a state that is none."""
    lone.submit_quietly("simple")
    agent.heartbeat()
    assert agent.report(agent.take(), status)["__CODE__"] == -1007


def test_report_of_a_stranger(lone, agent):
    """A2: only the agent that has the task may report on it."""
    task = lone.submit_quietly("simple")
    stranger = SimpleAgent(lone.service, "AGENT_1480000000.120000_stran")
    agent.heartbeat()
    stranger.heartbeat()
    order = agent.take()
    agent.report_all(order, "PREPARING", "RUNNING")
    assert stranger.report(order, "FINISHED", __EXIT_CODE__=0, __REPORT_LOG__="")["__CODE__"] != 0
    assert task.query()["__STATUS__"] == "RUNNING"
    stranger.close()


def test_kill_is_broadcast(lone):
    """5.1, 5.4: PUB says TASK/KILL with the id; a SUB can subscribe to just that (__TYPE__ comes first)."""
    agent = SimpleAgent(lone.service, "AGENT_1480000000.120000_kills")
    kills = zmq.Context.instance().socket(zmq.SUB)
    kills.linger = 0
    kills.subscribe(b'{"__TYPE__":"TASK/KILL"')
    kills.connect(lone.service.pub)
    # Whole tasks until one kill is heard: the first broadcasts may come before the subscription.
    for _ in range(LIMIT_MS // STEP_MS):
        task = lone.submit_quietly("simple")
        agent.heartbeat()
        order = agent.take()
        agent.report_all(order, "PREPARING", "RUNNING")
        task.kill()
        if kills.poll(STEP_MS):
            break
        agent.report_all(order, "ENDED")
        agent.finish(order, exit_code=-15)
    assert kills.poll(0), "no TASK/KILL"
    message = parse(kills.recv())
    assert (message["__TYPE__"], message["__TASK_ID__"]) == ("TASK/KILL", task.id)
    agent.report_all(order, "ENDED")
    agent.finish(order, exit_code=-15)
    reply = task.result()
    assert (reply["__OUTCOME__"], reply["__KILLED__"], reply["__EXIT_CODE__"]) == ("KILLED", "TRUE", -15)
    kills.close()
    agent.close()


def test_tools_of_a_simple_agent(lone, agent):
    """2.7, -129: an agent may tell its tools with each heartbeat; it gets no others, and gives back what it does not find."""
    other = SimpleAgent(lone.service, "other")
    try:
        tell = {"__AGENT_ID__": agent.id, "__AGENT_STATUS__": "FREE"}
        assert agent.client.code("AGENT/HEARTBEAT", __TOOLS__="a b", **tell) == -1007
        agent.client.accepted("AGENT/HEARTBEAT", __TOOLS__="mine,both", **tell)
        other.heartbeat()
        task = lone.submit("both")
        order = agent.take()
        assert order["__TASK_ID__"] == task.id
        agent.finish(order, exit_code=-129)
        assert agent.apply()["__CODE__"] == -1010
        order = other.take()
        assert (order["__TASK_ID__"], order["__ROUND__"]) == (task.id, 1)
        agent.client.accepted("AGENT/HEARTBEAT", __TOOLS__="mine,both", **tell)
        second = lone.submit("both")
        assert agent.take()["__TASK_ID__"] == second.id
        other.finish(order)
        assert task.finish()["__EXIT_CODE__"] == 0
        assert task.statuses().count("FINISHED") == 1
    finally:
        other.close()


def test_a_busy_agent_keeps_its_task_over_a_restart(lone, agent):
    """5.1: a heartbeat that says no more than "busy" means the task that the agent was given."""
    lone.receiver.may_skip = True
    task = lone.submit("simple")
    other = SimpleAgent(lone.service, "AGENT_1480000000.120000_other")
    agent.heartbeat()
    order = agent.take()
    agent.report_all(order, "PREPARING", "RUNNING")
    restart(lone.service)
    assert agent.heartbeat("BUSY")["__WANTED__"] == "RUN"
    assert other.apply()["__CODE__"] == -1010
    # The broadcast may be lost; then the next heartbeat is answered with the kill.
    task.kill()
    reply = agent.heartbeat("BUSY")
    assert (reply["__TASK_ID__"], reply["__ROUND__"], reply["__WANTED__"]) == (task.id, 0, "KILL")
    agent.finish(order, exit_code=-15)
    end = task.finish()
    assert (end["__OUTCOME__"], end["__ROUND__"]) == ("KILLED", 0)
    other.close()


def test_an_exclusive_task_is_not_for_agents_that_hold_no_lease(lone, agent):
    """An agent as the document has it ends no run in time when it is cut off: it gets no task that must not run twice at once."""
    agent.heartbeat()
    exclusive = lone.submit("simple", __EXCLUSIVE__=True)
    assert agent.apply()["__CODE__"] == -1010
    why = lone.client.accepted("TASK/EXPLAIN", __TASK_ID__=exclusive.id)["__WHY__"]
    assert "it is exclusive" in why and "__WIRE_VERSION__" in why
    plain = lone.submit("simple")
    order = agent.take()
    assert order["__TASK_ID__"] == plain.id
    agent.finish(order)
    agent.heartbeat(__BEAT__=1, __WIRE_VERSION__=1)
    assert agent.take()["__TASK_ID__"] == exclusive.id
