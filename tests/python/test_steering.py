"""TASK/HOLD, TASK/RELEASE, TASK/RETRY, AGENT/DRAIN, TASK/EXPLAIN and __SUBMIT_KEY__ over the wire."""

import pytest

from harness.waiting import LIMIT_MS


def explain(session, task):
    return session.client.accepted("TASK/EXPLAIN", __TASK_ID__=task.id)


def do(session, kind, task):
    return session.client.accepted(f"TASK/{kind}", __TASK_ID__=task.id)


@pytest.mark.parametrize("kind", ["HOLD", "RELEASE", "RETRY", "EXPLAIN"])
def test_unknown_tasks_are_refused(llts, kind):
    """2.7: -1004."""
    assert llts.client.code(f"TASK/{kind}") == -1004
    assert llts.client.code(f"TASK/{kind}", __TASK_ID__="TASK_1480000000.120000_AZazA") == -1004


def test_hold_and_release(llts):
    """A held task does not start; the one behind it does."""
    tool = llts.tools.add("held", "exit 0\n")
    gate = llts.client.accepted("GATE/SET", __GATE__="hold-test", __MAX_RUNNING__=0)
    assert gate["__CODE__"] == 0
    held = llts.submit(tool, __GATE__="hold-test")
    do(llts, "HOLD", held)
    behind = llts.submit(tool, __GATE__="hold-test")
    llts.client.accepted("GATE/SET", __GATE__="hold-test", __MAX_RUNNING__=None)
    behind.finish()
    assert held.query()["__STATUS__"] == "WAITING"
    assert "held" in explain(llts, held)["__WHY__"]
    do(llts, "RELEASE", held)
    held.finish()
    assert llts.client.code("TASK/HOLD", __TASK_ID__=held.id) == -1011


def test_retry_a_failed_task(llts):
    """Another round with new budgets; the pushes go on in order, and the earlier end is kept."""
    task = llts.submit(llts.tools.add("retried", "exit $((3 - __ROUND__ ))\n"), __MAX_FAILS__=1)
    assert (task.finish()["__EXIT_CODE__"], task.query()["__FAILS__"]) == (2, 2)
    do(llts, "RETRY", task)
    reply = task.query(__WAIT__=LIMIT_MS)
    assert (reply["__OUTCOME__"], reply["__EXIT_CODE__"], reply["__ROUND__"]) == ("SUCCEEDED", 0, 3)
    assert [reply[f"{number}:__EXIT_CODE__"] for number in range(3)] == [3, 2, 1]
    assert reply["1:__ROUND_END__"] == "RETRIED"
    while task.statuses().count("FINISHED") < 2:
        llts.receiver.next()


def test_retry_a_killed_task(llts):
    """Whatever has finished can be retried; what has not, cannot."""
    task = llts.submit(llts.tools.add("kill-retry", "[ $__ROUND__ -ge 1 ] || exec sleep 600\n"))
    task.until("RUNNING")
    assert llts.client.code("TASK/RETRY", __TASK_ID__=task.id) == -1011
    task.kill()
    assert task.finish()["__OUTCOME__"] == "KILLED"
    do(llts, "RETRY", task)
    reply = task.query(__WAIT__=LIMIT_MS)
    assert reply["__OUTCOME__"] == "SUCCEEDED", reply
    assert "__KILLED__" not in reply, "that was the round before"


def test_drain(start_service):
    """A drained agent ends its task and takes no other."""
    session = start_service(agents=2)
    tool = session.tools.add("drained", "exit 0\n")
    session.client.accepted("AGENT/DRAIN", __AGENT_ID__="agent1")
    assert {session.run(tool)["__AGENT_ID__"] for _ in range(4)} == {"agent2"}
    assert session.client.accepted("AGENT/DETAILS")["agent1"]["__DRAINED__"] is True
    session.client.accepted("AGENT/DRAIN", __AGENT_ID__="agent2")
    task = session.submit(tool)
    assert "are paused: " in explain(session, task)["__WHY__"]
    session.client.accepted("AGENT/DRAIN", __AGENT_ID__="agent1", __DRAIN__=False)
    assert task.finish()["__AGENT_ID__"] == "agent1"
    assert session.client.code("AGENT/DRAIN") != 0
    assert session.client.code("AGENT/DRAIN", __AGENT_ID__="agent1", __DRAIN__="no") == -1007


def test_explain_tells_the_whole_story(llts):
    """One line per transition, with its time and reason."""
    task = llts.submit(llts.tools.add("story", "exit 4\n"), __MAX_FAILS__=1)
    task.finish()
    reply = explain(llts, task)
    assert reply["__STATUS__"] == "FINISHED"
    assert "FAILED" in reply["__WHY__"]
    lines = reply["__LOG__"].splitlines()
    times = [float(line.split(" ", 1)[0]) for line in lines]
    assert times == sorted(times)
    what = [line.split(" ", 1)[1].split(":")[0] for line in lines]
    one_round = ["DISPATCHED", "PREPARING", "RUNNING", "ENDED"]
    assert what == ["WAITING", *one_round, "WAITING", *one_round, "FINISHED"]


def test_reason_names_who_killed_it(llts):
    """__REASON__: what the sender of the kill says."""
    task = llts.submit(llts.tools.add("reason", "exec sleep 600\n"))
    task.until("RUNNING")
    llts.client.accepted("TASK/KILL", __TASK_ID__=task.id, __REASON__="the disk is full")
    assert "the disk is full" in task.finish()["__REASON__"]


def test_reason_names_the_father(llts):
    """__REASON__: the ancestor that ended."""
    father = llts.submit(llts.tools.add("father", "exec sleep 600\n"))
    father.until("RUNNING")
    child = llts.submit(llts.tools.add("child", "exec sleep 600\n"), __FATHER_ID__=father.id)
    child.until("RUNNING")
    father.kill()
    assert father.id in child.finish()["__REASON__"]


def test_the_same_submit_is_the_same_task(start_service):
    """F7: the same key and fields return the same task, in any order, after its end, and after kill -9."""
    session = start_service(agents=1)
    fields = {"__OPERATION__": session.tools.add("keyed", "exit 0\n"), "__SUBMIT_KEY__": "key ü", "a": 1, "b": "x"}
    first = session.client.accepted("TASK/SUBMIT", fields)
    assert "__DUPLICATE__" not in first
    task = session.keep(first)

    def again():
        for same in (fields, dict(reversed(fields.items()))):
            reply = session.client.accepted("TASK/SUBMIT", same)
            assert (reply["__TASK_ID__"], reply["__DUPLICATE__"]) == (task.id, True)
        for other in ({"a": 2}, {"a": "1"}, {"c": 1}):
            reply = session.client.ask("TASK/SUBMIT", {**fields, **other})
            assert reply["__CODE__"] == -1007 and "__SUBMIT_KEY__" in reply["__ERROR_MSG__"], reply

    again()
    task.result()
    again()
    rep, pub = session.service.rep, session.service.pub
    session.service.controller.kill()
    session.service.start_controller(int(rep.rsplit(":", 1)[1]), int(pub.rsplit(":", 1)[1]))
    again()
    assert session.client.accepted("TASK/STATISTIC")["FINISHED"] == 1
