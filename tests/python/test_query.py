"""TASK/QUERY (docs/sources/controller.md, 2.3): what finds a task, what the reply holds in each state, and a query that waits."""

import pytest

from harness.client import Client
from harness.simple_agent import SimpleAgent
from harness.waiting import LIMIT_MS


def test_by_task_id(lone):
    """2.3 1) row __TASK_ID__, 2) row __CODE__."""
    task, _ = lone.submit_quietly("query"), lone.submit_quietly("query")
    assert lone.client.accepted("TASK/QUERY", __TASK_ID__=task.id)["__TASK_ID__"] == task.id


def test_by_given_id(lone):
    """2.3 1) row __GIVEN_ID__."""
    task, _ = lone.submit_quietly("query", __GIVEN_ID__="a"), lone.submit_quietly("query", __GIVEN_ID__="b")
    assert lone.client.accepted("TASK/QUERY", __GIVEN_ID__="a")["__TASK_ID__"] == task.id


def test_by_other_fields(lone):
    """2.3 1) row …: any field of the task can be asked for."""
    red = lone.submit_quietly("query", color="red", size=3)
    blue = lone.submit_quietly("query", color="blue", size=4)
    assert lone.client.accepted("TASK/QUERY", color="red")["__TASK_ID__"] == red.id
    assert lone.client.accepted("TASK/QUERY", size=4)["__TASK_ID__"] == blue.id
    assert lone.client.accepted("TASK/QUERY", __STATUS__="WAITING", color="blue")["__TASK_ID__"] == blue.id


def test_all_fields_must_match(lone):
    """2.3: only a task that matches all the fields is returned; 2.7 code -1004."""
    task = lone.submit_quietly("query", __GIVEN_ID__="g", color="red")
    ask = lone.client.ask
    assert ask("TASK/QUERY", __TASK_ID__=task.id, __GIVEN_ID__="g", color="red")["__TASK_ID__"] == task.id
    assert ask("TASK/QUERY", __TASK_ID__=task.id, __GIVEN_ID__="other")["__CODE__"] == -1004
    assert ask("TASK/QUERY", __TASK_ID__=task.id, color="blue")["__CODE__"] == -1004
    assert ask("TASK/QUERY", __TASK_ID__=task.id, absent="x")["__CODE__"] == -1004
    assert ask("TASK/QUERY", __GIVEN_ID__="g", __STATUS__="FINISHED")["__CODE__"] == -1004


@pytest.mark.parametrize("task_id", ["TASK_1.000000_AAAAA", "", "nonsense", 5, True])
def test_unknown_id(lone, task_id):
    """2.7 code -1004."""
    lone.submit_quietly("query")
    assert lone.client.code("TASK/QUERY", __TASK_ID__=task_id) == -1004


def test_no_task_at_all(lone):
    """2.7 code -1004: a query that matches nothing."""
    assert lone.client.code("TASK/QUERY") == -1004


def test_several_matches(lone):
    """Of several matches the newest is returned, with __MATCHES__."""
    tasks = [lone.submit_quietly("query", color=color) for color in ("red", "red", "blue", "red", "blue")]
    reply = lone.client.accepted("TASK/QUERY", color="red")
    assert (reply["__TASK_ID__"], reply["__MATCHES__"]) == (tasks[3].id, 3)
    reply = lone.client.accepted("TASK/QUERY")
    assert (reply["__TASK_ID__"], reply["__MATCHES__"]) == (tasks[4].id, 5)


def test_every_status(lone):
    """2.3 2) row __STATUS__; rows __EXIT_CODE__ and __REPORT_LOG__ are there when it is FINISHED, and not before."""
    agent = SimpleAgent(lone.service, "AGENT_1.000000_query")
    task = lone.submit_quietly("query", color="red")

    def status():
        reply = task.query()
        assert reply["color"] == "red" and reply["__OPERATION__"] == "query"
        has_result = "__EXIT_CODE__" in reply and "__REPORT_LOG__" in reply
        if reply["__STATUS__"] in ("WAITING", "DISPATCHED", "PREPARING", "RUNNING"):
            assert "__EXIT_CODE__" not in reply and "__REPORT_LOG__" not in reply
        return reply["__STATUS__"], has_result

    assert status() == ("WAITING", False)
    agent.heartbeat()
    order = agent.take()
    assert status() == ("DISPATCHED", False)
    for phase in ("PREPARING", "RUNNING"):
        agent.report_all(order, phase)
        assert status() == (phase, False)
    agent.report_all(order, "ENDED")
    assert status()[0] == "ENDED"
    agent.finish(order, exit_code=4, report_log="four")
    assert status() == ("FINISHED", True)
    reply = task.query()
    assert (reply["__EXIT_CODE__"], reply["__REPORT_LOG__"]) == (4, "four")
    agent.close()


def test_waiting_query_returns_at_the_end(llts):
    """__WAIT__: the reply is parked until the task is FINISHED, and no other client is delayed."""
    gate = llts.service.folder + "/gate"
    task = llts.submit(llts.tools.add("gated", f"while [ ! -e '{gate}' ]; do sleep 0.02; done\nexit 6\n"))
    task.until("RUNNING")
    second = Client(llts.service.rep)
    second.send("TASK/QUERY", __TASK_ID__=task.id, __WAIT__=LIMIT_MS)
    assert llts.client.accepted("AGENT/QUERY")["__BUSY__"] == 1
    assert task.query()["__STATUS__"] == "RUNNING"
    open(gate, "w", encoding="utf-8").close()
    reply = second.receive()
    assert (reply["__CODE__"], reply["__STATUS__"], reply["__EXIT_CODE__"]) == (0, "FINISHED", 6)
    second.close()


def test_waiting_query_of_a_finished_task(llts):
    """__WAIT__: a task that is FINISHED already is returned at once."""
    task = llts.submit(llts.tools.add("over", "exit 0\n"))
    task.finish()
    assert task.query(__WAIT__=3_600_000)["__STATUS__"] == "FINISHED"


def test_waiting_query_runs_out(lone):
    """__WAIT__: when the time has passed, the reply is the present state."""
    task = lone.submit_quietly("query")
    assert task.query(__WAIT__=50)["__STATUS__"] == "WAITING"
    assert task.query(__WAIT__=0)["__STATUS__"] == "WAITING"


@pytest.mark.parametrize("wait", ["soon", -1, 1.5e300, True])
def test_bad_wait(lone, wait):
    """Code -1007: __WAIT__ is a number of milliseconds."""
    task = lone.submit_quietly("query")
    assert lone.client.code("TASK/QUERY", __TASK_ID__=task.id, __WAIT__=wait) == -1007
