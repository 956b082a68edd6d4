"""TASK/KILL (docs/sources/controller.md, 2.2) in every state that a task can be in (docs/design/hazards.md, A13)."""

import os

import pytest

from harness.archives import file_member
from harness.waiting import wait_until


def running(llts, name, script):
    """A task whose run.sh has come to the line READY."""
    ready = os.path.join(llts.service.folder, f"{name}.ready")
    task = llts.submit(llts.tools.add(name, script.replace("READY", f"touch '{ready}'")))
    wait_until(lambda: os.path.exists(ready), f"{name} is ready")
    return task


def test_kill_running(llts):
    """2.2; A13 RUNNING: 0 at once; SIGTERM ends it; the signal is the exit code."""
    task = running(llts, "kill-running", "READY\nexec sleep 600\n")
    assert task.kill()["__CODE__"] == 0
    end = task.finish()
    assert end["__EXIT_CODE__"] == -15
    assert (end["__OUTCOME__"], end["__KILLED__"]) == ("KILLED", "TRUE")
    assert float(end["__SUBMIT_TIME__"]) <= float(end["__KILL_TIME__"])
    assert task.statuses() == ["PREPARING", "RUNNING", "ENDED", "FINISHED"]


def test_kill_running_that_ends_by_itself(start_service):
    """4.3 AGENT_KILL_COUNT: the first signal is SIGTERM, which a tool can answer in its own way."""
    llts = start_service(agents=1, AGENT_KILL_INTERVAL=60_000)
    script = "trap 'echo bye > report.log; exit 9' TERM\nREADY\nwhile :; do sleep 0.05; done\n"
    task = running(llts, "kill-polite", script)
    task.kill()
    end = task.finish()
    assert (end["__EXIT_CODE__"], end["__REPORT_LOG__"]) == (9, "bye\n")
    assert (end["__OUTCOME__"], end["__KILLED__"]) == ("KILLED", "TRUE")


def test_kill_running_that_ignores_sigterm(llts):
    """4.3 AGENT_KILL_INTERVAL, AGENT_KILL_COUNT: SIGKILL follows."""
    task = running(llts, "kill-stubborn", "trap '' TERM\nREADY\nwhile :; do sleep 0.05; done\n")
    task.kill()
    assert task.finish()["__EXIT_CODE__"] == -9


def test_kill_running_that_is_stopped(llts):
    """P1: a stopped process is ended, too."""
    task = running(llts, "kill-stopped", "READY\nkill -STOP $$\n")
    task.kill()
    assert task.finish()["__EXIT_CODE__"] in (-15, -9)


def test_kill_twice(llts):
    """A13: a second KILL is accepted and changes nothing."""
    task = running(llts, "kill-twice", "trap '' TERM\nREADY\nwhile :; do sleep 0.05; done\n")
    task.kill()
    task.kill()
    end = task.finish()
    task.kill()
    assert end["__EXIT_CODE__"] == -9
    assert task.statuses() == ["PREPARING", "RUNNING", "ENDED", "FINISHED"]
    assert task.query()["__KILL_TIME__"] == end["__KILL_TIME__"]


def test_kill_waiting(lone):
    """A13 WAITING: 0; the task is FINISHED at once, with an exit code of null, and is never handed out."""
    task, other = lone.submit_quietly("waiting"), lone.submit_quietly("waiting")
    task.kill()
    reply = task.query()
    assert (reply["__STATUS__"], reply["__KILLED__"], reply["__OUTCOME__"]) == ("FINISHED", "TRUE", "KILLED")
    assert (reply["__EXIT_CODE__"], reply["__REPORT_LOG__"]) == (None, "")
    assert other.query()["__STATUS__"] == "WAITING"
    assert lone.client.accepted("TASK/STATISTIC")["WAITING"] == 1


def test_kill_preparing(llts, tmp_path):
    """A13 PREPARING, 2.7 exit code -128: run.sh is not started."""
    started = tmp_path / "started"
    members = [file_member("kill-preparing/run.sh", f"#!/bin/sh\ntouch '{started}'\n".encode(), 0o755)]
    # So many files take long enough to unpack for the KILL to come in between.
    members += [file_member(f"kill-preparing/{number}", b"x") for number in range(8_000)]
    llts.tools.add_members("kill-preparing", members)
    task = llts.submit("kill-preparing")
    wait_until(lambda: task.query()["__STATUS__"] != "WAITING", "an agent has the task")
    task.kill()
    end = task.finish()
    assert end["__EXIT_CODE__"] == -128
    assert (end["__OUTCOME__"], end["__KILLED__"]) == ("KILLED", "TRUE")
    assert "RUNNING" not in task.statuses()
    assert not started.exists()


def test_kill_finished(llts):
    """A13 FINISHED: accepted, and the task stays as it was."""
    task = llts.submit(llts.tools.add("kill-finished", "exit 3\n"))
    end = task.finish()
    task.kill()
    reply = task.query()
    assert (reply["__STATUS__"], reply["__EXIT_CODE__"]) == ("FINISHED", 3)
    assert reply["__OUTCOME__"] == end["__OUTCOME__"] == "FAILED"
    assert "__KILLED__" not in reply


@pytest.mark.parametrize("task_id", ["TASK_1.000000_AAAAA", "", "nonsense", "TASK_", "../x", 5, None, True])
def test_kill_unknown(llts, task_id):
    """A13 unknown id, 2.7 code -1004."""
    assert llts.client.code("TASK/KILL", __TASK_ID__=task_id) == -1004


def test_kill_without_id(llts):
    """2.2 row __TASK_ID__: it is needed."""
    assert llts.client.code("TASK/KILL") == -1004


def test_kill_by_given_id_is_refused(llts):
    """2.2 row __TASK_ID__: "not the __GIVEN_ID__"."""
    task = llts.submit(llts.tools.add("kill-given", "exec sleep 600\n"), __GIVEN_ID__="kill given")
    task.until("RUNNING")
    assert llts.client.code("TASK/KILL", __GIVEN_ID__="kill given") == -1004
    assert llts.client.code("TASK/KILL", __TASK_ID__="kill given") == -1004
    assert task.query()["__STATUS__"] == "RUNNING"


def test_slot_is_free_after_kill(start_service):
    """1.1: an agent holds one task at a time; a kill gives its slot back, and the next task gets it."""
    llts = start_service(agents=1)
    first = llts.submit(llts.tools.add("hold", "exec sleep 600\n"))
    first.until("RUNNING")
    second = llts.submit(llts.tools.add("after", "echo second > report.log\n"))
    assert second.query()["__STATUS__"] == "WAITING"
    first.kill()
    assert second.finish()["__REPORT_LOG__"] == "second\n"
    assert first.statuses()[-1] == "FINISHED"
