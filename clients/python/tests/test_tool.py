"""llts.tool.serve against an agent of the tests' own, at a socket pair."""

import subprocess
import sys
import time

import pytest
from stay_agent import StayAgent

SOURCE = """
from llts.tool import Killed, Reply, serve
import os, sys, time
served = 0
def handle(task):
    global served
    served += 1
    do = task["do"]
    if do == "add": return task["a"] + task["b"]
    if do == "count": return {"served": served, "id": task.id, "round": task.round, "folder": task.folder}
    if do == "print": print("out", task["text"], end=""); print("err", file=sys.stderr, end="")
    if do == "raise": raise ValueError("no such city")
    if do == "reply": return Reply({"a": 1}, "said", 75)
    if do == "exit": sys.exit(task["code"])
    if do == "object": return object()
    if do == "nan": return float("nan")
    if do == "spin":
        try:
            print("spins", flush=True)
            while True: pass
        finally: print("cleaned up")
    if do == "sleep":
        print("sleeps", flush=True)
        time.sleep(60)
    if do == "child": return os.spawnlp(os.P_WAIT, "sh", "sh", "-c", "exec 2>/dev/null; ls -l /proc/self/fd | grep -c socket")
serve(handle)
"""


@pytest.fixture
def agent(tmp_path):
    started = StayAgent.of_source(SOURCE, tmp_path)
    assert started.receive() == {"type": "ready", "version": 1}
    yield started
    if started.process.poll() is None:
        started.process.kill()


def test_tasks_are_answered_in_order(agent):
    assert agent.run("t1", do="add", a=1, b=2)["value"] == 3
    for n in range(10):
        agent.start(f"s{n}", do="add", a=n, b=0)
    assert [(done["id"], done["value"]) for done in (agent.receive() for _ in range(10))] == [(f"s{n}", n) for n in range(10)]
    assert agent.run("t2", folder="/f", do="count")["value"] == {"served": 12, "id": "t2", "round": 0, "folder": "/f"}
    agent.send(type="stop")
    assert agent.receive() is None
    assert agent.end()[0] == 0


def test_a_lost_agent_ends_the_tool(agent):
    assert agent.end() == (0, "", "")


def test_outputs_are_written_before_the_answer(agent):
    done = agent.run("t", do="print", text="x")
    assert (done["exit_code"], done["report"], done["value"]) == (0, "", None)
    # The pipe has all of it by now: nothing is left in a buffer of the tool.
    assert agent.process.stdout.read1(100) == b"out x"
    assert agent.process.stderr.read1(100) == b"err"


def test_exceptions_fail_their_task_alone(agent):
    done = agent.run("t", do="raise")
    assert done["exit_code"] == 1
    assert done["report"].startswith("Traceback") and done["report"].endswith("ValueError: no such city\n")
    assert agent.run("t", do="add", a=1, b=1)["value"] == 2


def test_a_reply_has_report_and_code(agent):
    done = agent.run("t", do="reply")
    assert (done["exit_code"], done["report"], done["value"]) == (75, "said", {"a": 1})
    assert agent.run("t", do="exit", code=7)["exit_code"] == 7
    said = agent.run("t", do="exit", code="a sentence")
    assert (said["exit_code"], said["report"]) == (1, "a sentence")


@pytest.mark.parametrize("what", ["object", "nan"])
def test_a_value_that_is_not_json_is_told(agent, what):
    done = agent.run("t", do=what)
    assert done["exit_code"] == 1 and "not JSON" in done["report"]


@pytest.mark.parametrize("what", ["spin", "sleep"])
def test_kill_is_raised_in_the_handler(agent, what):
    agent.start("t", do=what)
    assert agent.process.stdout.readline() == f"{what}s\n".encode()
    began = time.monotonic()
    agent.send(type="kill", id="t")
    done = agent.receive()
    assert (done["id"], done["exit_code"]) == ("t", 143)
    assert time.monotonic() - began < 30
    if what == "spin":
        assert agent.process.stdout.readline() == b"cleaned up\n"
    assert agent.run("next", do="add", a=1, b=1)["value"] == 2


def test_a_task_that_waits_can_be_killed(agent):
    agent.start("first", do="sleep")
    assert agent.process.stdout.readline() == b"sleeps\n"
    agent.start("second", do="add", a=1, b=1)
    agent.start("third", do="add", a=2, b=2)
    agent.send(type="kill", id="second")
    agent.send(type="kill", id="first")
    answers = [agent.receive() for _ in range(3)]
    assert [(done["id"], done["exit_code"]) for done in answers] == [("first", 143), ("second", 143), ("third", 0)]


def test_lines_that_come_at_any_moment_are_read_once(agent):
    for n in range(100):
        agent.start(f"a{n}", do="spin")
        for waiting in "bcd":
            agent.start(f"{waiting}{n}", do="add", a=n, b=0)
            agent.send(type="kill", id=f"c{n}")
        agent.send(type="kill", id=f"a{n}")
        answers = [agent.receive() for _ in range(4)]
        assert [(done["id"], done["exit_code"]) for done in answers] == [
            (f"a{n}", 143),
            (f"b{n}", 0),
            (f"c{n}", 143),
            (f"d{n}", 0),
        ]


def test_a_kill_that_comes_late_hurts_no_one(agent):
    agent.run("t", do="add", a=1, b=1)
    agent.send(type="kill", id="t")
    assert agent.run("u", do="add", a=1, b=1)["value"] == 2
    assert agent.run("t", do="add", a=2, b=2)["value"] == 4


def test_children_do_not_hold_the_connection(agent):
    # grep -c prints 0, and exits with 1.
    assert agent.run("t", do="child")["value"] == 1


def test_an_unknown_line_ends_the_tool(agent):
    agent.send(type="dance")
    assert agent.receive() is None
    code, _, errors = agent.end()
    assert code == 1 and "'dance'" in errors


def test_a_tool_that_is_started_otherwise_says_so():
    done = subprocess.run([sys.executable, "-c", SOURCE], capture_output=True, text=True)
    assert "[stay]" in done.stderr


def test_a_tool_that_stays_runs_in_the_service(c, stays):
    from conftest import LIMIT, packed

    files = {
        "run.sh": "#!/bin/sh\nexec python3 main.py\n",
        "main.py": SOURCE,
        "tool.toml": "[stay]\nidle = 30\nmax_tasks = 1000\n",
    }
    c.push_tool("adder", packed("adder", files))
    first = c.submit("adder", {"do": "add", "a": 1, "b": 2}).result(LIMIT)
    assert first.value == 3
    values = [task.result(LIMIT) for task in c.submit_many("adder", [{"do": "add", "a": n, "b": 1} for n in range(50)])]
    assert [state.value for state in values] == list(range(1, 51))
    assert any(state.warm for state in values)
    said = c.submit("adder", {"do": "print", "text": "x"}).result(LIMIT)
    assert (said.stdout, said.stderr) == ("out x", "err")
    assert "no such city" in c.submit("adder", {"do": "raise"}).wait(LIMIT).report
    spins = c.submit("adder", {"do": "spin"})
    next(spins.logs())
    spins.kill()
    assert spins.wait(LIMIT).outcome == "KILLED"
    assert spins.stdout() == "spins\ncleaned up\n"
    job = c.job("adders")
    for n in range(50):
        job.submit("adder", {"do": "add", "a": n, "b": 1})
    assert sorted(task.result().value for task in job.as_completed(timeout=LIMIT)) == list(range(1, 51))
