"""What a submitter demands of the life of a task (docs/tools.md)."""

import os
import time

import pytest

from harness.waiting import wait_until

BAD_VALUES = [
    ("__TIMEOUT__", -1),
    ("__TIMEOUT__", "5"),
    ("__TIMEOUT__", 1e300),
    ("__MAX_FAILS__", -1),
    ("__MAX_FAILS__", 1.5),
    ("__MAX_FAILS__", True),
    ("__MAX_TIMEOUTS__", "1"),
    ("__MAX_LOSSES__", None),
    ("__MAX_DEFERS__", -3),
    ("__RETRY_DELAY__", -0.1),
    ("__RETRY_DELAY__", "soon"),
    ("__FAIL_ON_STDERR__", 1),
    ("__FAIL_ON_STDERR__", "true"),
    ("__EXCLUSIVE__", 1),
    ("__EXCLUSIVE__", "true"),
    ("__PRIORITY__", 101),
    ("__PRIORITY__", -101),
    ("__PRIORITY__", 0.5),
    ("__START_AFTER__", -5),
    ("__START_AFTER__", "tomorrow"),
    ("__END_BEFORE__", True),
    ("__END_BEFORE__", 1),
    ("__GATE__", "a b"),
    ("__GATE__", 7),
    ("__GATE__", ",".join(f"g{number}" for number in range(17))),
    ("__TAGS__", "a,,b"),
    ("__TAGS__", True),
    ("__SUBMIT_KEY__", ""),
    ("__SUBMIT_KEY__", 7),
    ("__PUSH_ACK__", "yes"),
    ("__PUSH_ACK__", True),
]


@pytest.mark.parametrize(("field", "value"), BAD_VALUES)
def test_bad_value_is_refused_by_name(llts, field, value):
    """-1007, and a sentence that names the field. (__PUSH_ACK__ without an address has no receiver to confirm.)"""
    reply = llts.client.ask("TASK/SUBMIT", {"__OPERATION__": "any", field: value})
    assert reply["__CODE__"] == -1007, reply
    assert field in reply["__ERROR_MSG__"]


def test_a_start_after_the_end_is_refused(llts):
    """Such a task could never start."""
    now = time.time()
    fields = {"__OPERATION__": "any", "__START_AFTER__": now + 60, "__END_BEFORE__": now + 30}
    reply = llts.client.ask("TASK/SUBMIT", fields)
    assert reply["__CODE__"] == -1007
    assert "__START_AFTER__" in reply["__ERROR_MSG__"] and "__END_BEFORE__" in reply["__ERROR_MSG__"]


def test_retries_until_the_budget_is_exceeded(llts):
    """__MAX_FAILS__: two failures are allowed, the third one is the end; each round is shown."""
    tool = llts.tools.add("fails", 'echo "round $__ROUND__" > report.log\necho noise >&2\nexit $((10 + __ROUND__))\n')
    task = llts.submit(tool, __MAX_FAILS__=2)
    end = task.finish()
    assert (end["__OUTCOME__"], end["__EXIT_CODE__"], end["__ROUND__"], end["__FAILS__"]) == ("FAILED", 12, 2, 3)
    reply = task.query()
    for number in (0, 1):
        assert reply[f"{number}:__EXIT_CODE__"] == 10 + number
        assert reply[f"{number}:__REPORT_LOG__"] == f"round {number}\n"
        assert reply[f"{number}:__STDERR__"] == "noise\n"
        assert reply[f"{number}:__ROUND_END__"] == "FAILED"
        assert reply[f"{number}:__AGENT_ID__"].startswith("agent")
        times = [reply[f"{number}:__{name}_TIME__"] for name in ("DISPATCH", "PREPARE", "RUN", "END")]
        assert times == sorted(times)
    assert task.statuses().count("WAITING") == 2


def test_a_later_round_can_succeed(llts):
    """The round tells the tool."""
    tool = llts.tools.add("later", "[ $__ROUND__ -ge 1 ]\n")
    end = llts.run(tool, __MAX_FAILS__=1, __RETRY_DELAY__=0.2)
    assert (end["__OUTCOME__"], end["__ROUND__"], end["__FAILS__"]) == ("SUCCEEDED", 1, 1)


def test_the_next_round_waits_for_its_delay(llts):
    """__RETRY_DELAY__: at least so long, at most a quarter more; by the clock of the service itself."""
    tool = llts.tools.add("delayed", "[ $__ROUND__ -ge 2 ]\n")
    task = llts.submit(tool, __MAX_FAILS__=2, __RETRY_DELAY__=0.3)
    task.finish()
    reply = task.query()
    for number, delay in ((0, 0.3), (1, 0.6)):
        later = reply.get(f"{number + 1}:__DISPATCH_TIME__", reply["__DISPATCH_TIME__"])
        assert later - reply[f"{number}:__ROUND_END_TIME__"] >= delay - 0.001


def test_output_on_stderr_is_failure(llts):
    """__FAIL_ON_STDERR__, as TDF and TDF2 want it."""
    tool = llts.tools.add("noisy", "echo warning >&2\n")
    assert llts.run(tool, __FAIL_ON_STDERR__=False)["__OUTCOME__"] == "SUCCEEDED"
    end = llts.run(tool, __FAIL_ON_STDERR__=True)
    assert (end["__OUTCOME__"], end["__EXIT_CODE__"]) == ("FAILED", 0)
    assert "stderr" in end["__REASON__"]


def test_timeout_ends_the_process_tree(llts):
    """__TIMEOUT__: the whole tree is gone, also what ignores SIGTERM and calls setsid, before the next round."""
    script = (
        f"[ $__ROUND__ = 0 ] || {{ pgrep -f 'sleep 98{os.getpid()}' > report.log; exit 0; }}\n"
        "trap '' TERM\n"
        f"setsid sleep 98{os.getpid()} &\n"
        "while :; do sleep 0.05; done\n"
    )
    task = llts.submit(llts.tools.add("timeout-tree", script), __TIMEOUT__=3, __MAX_TIMEOUTS__=1)
    end = task.finish()
    assert (end["__OUTCOME__"], end["__ROUND__"], end["__TIMEOUTS__"]) == ("SUCCEEDED", 1, 1)
    assert end["__REPORT_LOG__"] == "", "a process of the first round was still there in the second one"
    reply = task.query()
    assert (reply["0:__ROUND_END__"], reply["0:__EXIT_CODE__"]) == ("TIMED_OUT", -9)
    assert not llts.service.leftovers([task.id])


def test_timeout_without_a_budget_is_the_end(llts):
    """TIMED_OUT, and why."""
    end = llts.run(llts.tools.add("timeout", "exec sleep 600\n"), __TIMEOUT__=0.3)
    assert (end["__OUTCOME__"], end["__EXIT_CODE__"]) == ("TIMED_OUT", -15)
    assert "__TIMEOUT__" in end["__REASON__"]
    assert "__KILLED__" not in end, "it was not killed"


def test_end_before_ends_a_run(llts):
    """__END_BEFORE__: the whole life, whatever budgets are left."""
    tool = llts.tools.add("expires", "exec sleep 600\n")
    end = llts.run(tool, __END_BEFORE__=time.time() + 1, __MAX_FAILS__=9, __MAX_TIMEOUTS__=9)
    assert (end["__OUTCOME__"], end["__ROUND__"]) == ("EXPIRED", 0)


def test_end_before_ends_the_waiting(lone):
    """Also while no agent runs it."""
    task = lone.submit("any", __END_BEFORE__=time.time() + 0.5)
    end = task.finish()
    assert end["__OUTCOME__"] == "EXPIRED"
    assert task.statuses() == ["FINISHED"]


def test_start_after_is_enforced(llts):
    """__START_AFTER__: not before, by the clock of the service."""
    start = time.time() + 0.7
    task = llts.submit(llts.tools.add("starts-later", "exit 0\n"), __START_AFTER__=start)
    assert task.query()["__NOT_BEFORE__"] == pytest.approx(start, abs=1e-3)
    task.finish()
    assert task.query()["__DISPATCH_TIME__"] >= start - 1e-5


def test_priorities(start_service):
    """__PRIORITY__: higher first, FIFO inside one."""
    session = start_service(agents=0)
    tool = session.tools.add("priorities", "exit 0\n")
    tasks = [session.submit(tool, __PRIORITY__=priority) for priority in (-100, 0, 100, 0, 100)]
    session.service.start_agents(1)
    for task in tasks:
        task.finish()
    order = sorted(range(5), key=lambda number: tasks[number].query()["__DISPATCH_TIME__"])
    assert order == [2, 4, 1, 3, 0]


def test_defer_spends_no_budget(llts):
    """Exit 75 waits as long as ../defer.info says, and is no failure."""
    script = 'if [ $__ROUND__ -lt 2 ]; then echo "retry_after=0.3" > ../defer.info; exit 75; fi\n'
    task = llts.submit(llts.tools.add("defers", script))
    end = task.finish()
    assert (end["__OUTCOME__"], end["__ROUND__"], end["__DEFERS__"]) == ("SUCCEEDED", 2, 2)
    assert "__FAILS__" not in end
    reply = task.query()
    assert (reply["0:__ROUND_END__"], reply["0:__EXIT_CODE__"]) == ("DEFERRED", 75)
    assert reply["1:__DISPATCH_TIME__"] - reply["0:__ROUND_END_TIME__"] >= 0.299


def test_defer_without_a_word_waits_for_the_default(start_service):
    """config.toml DEFER_DELAY; a defer.info that makes no sense is none."""
    session = start_service(agents=1)
    tool = session.tools.add("defers-badly", 'echo "retry_after=soon" > ../defer.info\nexit 75\n')
    task = session.submit(tool)
    task.until("WAITING")
    reply = task.query()
    assert reply["__NOT_BEFORE__"] - reply["0:__ROUND_END_TIME__"] == pytest.approx(10, abs=0.01)


def test_too_many_defers_fail(llts):
    """__MAX_DEFERS__."""
    tool = llts.tools.add("defers-for-ever", "echo retry_after=0 > ../defer.info\nexit 75\n")
    end = llts.run(tool, __MAX_DEFERS__=2)
    assert (end["__OUTCOME__"], end["__ROUND__"], end["__EXIT_CODE__"]) == ("FAILED", 2, 75)
    assert "__MAX_DEFERS__" in end["__REASON__"]


def test_exit_75_after_a_kill_is_a_kill(llts):
    """A killed task does not come back."""
    ready = os.path.join(llts.service.folder, "kill-75.ready")
    script = f"trap 'exit 75' TERM\ntouch '{ready}'\nwhile :; do sleep 0.05; done\n"
    task = llts.submit(llts.tools.add("kill-75", script), __MAX_FAILS__=5)
    wait_until(lambda: os.path.exists(ready), "it runs")
    task.kill()
    assert task.finish()["__OUTCOME__"] == "KILLED"


def test_rounds_and_pauses_survive_a_controller(start_service):
    """kill -9 of the controller between two rounds."""
    session = start_service(agents=1)
    tool = session.tools.add("survives", "[ $__ROUND__ -ge 1 ]\n")
    task = session.submit(tool, __MAX_FAILS__=1, __RETRY_DELAY__=2)
    task.until("WAITING")
    before = task.query()
    rep, pub = session.service.rep, session.service.pub
    session.service.controller.kill()
    session.service.start_controller(int(rep.rsplit(":", 1)[1]), int(pub.rsplit(":", 1)[1]))
    after = task.query()
    assert {key: after[key] for key in before} == before
    end = task.result()
    assert (end["__OUTCOME__"], end["__ROUND__"], end["__FAILS__"]) == ("SUCCEEDED", 1, 1)
    assert end["__DISPATCH_TIME__"] >= before["__NOT_BEFORE__"] - 1e-5
