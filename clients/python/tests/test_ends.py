"""The ends of a job, at a stand-in for the connection: answers come in any order, and some never."""

import time
from concurrent.futures import Future

import pytest

from llts.errors import NoSuchTask, Refused
from llts.job import Ends


class Wire:
    """Keeps the requests, so that a test answers them."""

    is_left = False

    def __init__(self):
        self.asked = []

    def ask(self, kind, fields, read=lambda answer: answer, **_):
        future = Future()
        self.asked.append((kind, fields, read, future))
        return future

    def wait(self, future, until, shield):
        """No turn is needed: the test completes all futures."""

    def answer(self, kind, answer, key=None):
        """Answer the oldest request of a kind, or the submit with a key."""
        at = next(i for i, it in enumerate(self.asked) if it[0] == kind and key in (None, it[1].get("__SUBMIT_KEY__")))
        _, _, read, future = self.asked.pop(at)
        result = read(answer)
        # The connection drops the answer to a request that is complete.
        if not future.done():
            future.set_result(result)

    def fail(self, kind, error):
        at = next(i for i, it in enumerate(self.asked) if it[0] == kind)
        self.asked.pop(at)[3].set_exception(error)


def early(wire):
    """Ends of two tasks that are read, because a call before them goes on."""
    ends = Ends(wire, "j", early=True)
    ends.submit({"__SUBMIT_KEY__": "k0"})
    wire.asked.clear()
    tasks = [ends.submit({"__SUBMIT_KEY__": key}) for key in ("k1", "k2")]
    wire.answer("JOB/RESULTS", {"__CODE__": 0, "__CURSOR__": "1:0"})
    return ends, *tasks


def page(cursor, **rows):
    ended = {id: {"__OUTCOME__": "SUCCEEDED", "__SUBMIT_KEY__": key} for id, key in rows.items()}
    return {"__CODE__": 0, "__CURSOR__": cursor, **ended}


def test_an_end_before_the_answer_to_its_submit_completes_both():
    wire = Wire()
    ends, first, second = early(wire)
    assert all(fields["__STATUS__"] == "ENDED" for kind, fields, *_ in wire.asked if kind == "JOB/RESULTS")
    wire.answer("JOB/RESULTS", page("1:1", TASK_1="k1"))
    assert (first.id, first.wait(0).outcome) == ("TASK_1", "SUCCEEDED")
    assert not second.done()
    wire.answer("TASK/SUBMIT", {"__TASK_ID__": "TASK_1"}, key="k1")
    wire.answer("TASK/SUBMIT", {"__TASK_ID__": "TASK_2"}, key="k2")
    wire.answer("JOB/RESULTS", page("1:2", TASK_2="k2"))
    assert (second.id, second.wait(0).outcome) == ("TASK_2", "SUCCEEDED")
    assert wire.asked == [], "with no task left, the job is not read"
    # The next one goes first, and is read from where the last reading has ended.
    third = ends.submit({"__SUBMIT_KEY__": "k3"})
    assert [kind for kind, *_ in wire.asked] == ["TASK/SUBMIT", "JOB/RESULTS"]
    assert wire.asked[1][1]["__CURSOR__"] == "1:2"
    wire.answer("JOB/RESULTS", page("1:3", TASK_3="k3"))
    assert (third.id, third.wait(0).outcome) == ("TASK_3", "SUCCEEDED")


FINISHED = {"__STATUS__": "FINISHED", "__OUTCOME__": "SUCCEEDED"}


def test_a_call_that_is_alone_is_one_request():
    wire = Wire()
    ends = Ends(wire, "j", early=True)
    for n in range(2):
        call = ends.submit({"__SUBMIT_KEY__": f"k{n}"})
        [(kind, fields, *_)] = wire.asked
        assert kind == "TASK/SUBMIT" and fields["__WAIT__"] > 0
        wire.answer("TASK/SUBMIT", {"__TASK_ID__": f"TASK_{n}", **FINISHED})
        assert (call.id, call.wait(0).outcome) == (f"TASK_{n}", "SUCCEEDED")
    assert wire.asked == []


def test_a_long_call_that_is_alone_gets_its_id_and_is_followed():
    wire = Wire()
    call = Ends(wire, "j", early=True).submit({"__SUBMIT_KEY__": "k"})
    wire.answer("TASK/SUBMIT", {"__TASK_ID__": "TASK_1", "__STATUS__": "RUNNING"})
    assert call.id == "TASK_1"
    assert not call.done()
    wire.answer("TASK/QUERY", {"__TASK_ID__": "TASK_1", **FINISHED})
    assert call.wait(0).succeeded


def test_a_call_that_is_refused_says_why():
    wire = Wire()
    ends = Ends(wire, "j", early=True)
    call = ends.submit({"__SUBMIT_KEY__": "k"})
    wire.fail("TASK/SUBMIT", NoSuchTask(-1004, "gone"))
    with pytest.raises(NoSuchTask):
        call.wait(0)
    ends.submit({"__SUBMIT_KEY__": "k2"})
    assert [kind for kind, *_ in wire.asked] == ["TASK/SUBMIT"], "the next one is alone again"


def test_a_job_that_has_rested_is_read_from_the_present_place(monkeypatch):
    wire = Wire()
    ends, *_ = early(wire)
    wire.answer("JOB/RESULTS", page("1:1", TASK_1="k1", TASK_2="k2"))
    wire.asked.clear()
    now = time.monotonic()
    monkeypatch.setattr("llts.job.time.monotonic", lambda: now + 31)
    ends.submit({"__SUBMIT_KEY__": "k3"})
    assert [(kind, "__CURSOR__" in fields) for kind, fields, *_ in wire.asked] == [("JOB/RESULTS", False), ("TASK/SUBMIT", False)]


def test_whoever_gives_a_task_up_takes_its_end_from_no_one():
    wire = Wire()
    _, first, second = early(wire)
    first.end().cancel()
    wire.answer("JOB/RESULTS", page("1:1", TASK_1="k1", TASK_2="k2"))
    assert second.wait(0).succeeded and first.wait(0).succeeded


def test_two_submits_with_one_key_have_one_end():
    wire = Wire()
    ends = Ends(wire, "j", early=True)
    ends.submit({"__SUBMIT_KEY__": "k0"})
    tasks = [ends.submit({"__SUBMIT_KEY__": "k"}) for _ in range(2)]
    wire.answer("JOB/RESULTS", {"__CODE__": 0, "__CURSOR__": "1:0"})
    wire.answer("JOB/RESULTS", page("1:1", TASK_1="k"))
    assert [(task.id, task.wait(0).outcome) for task in tasks] == [("TASK_1", "SUCCEEDED")] * 2


def test_what_ended_before_a_new_place_is_asked_for():
    wire = Wire()
    _, first, second = early(wire)
    wire.answer("TASK/SUBMIT", {"__TASK_ID__": "TASK_1"}, key="k1")
    # Another controller does not know the place.
    wire.fail("JOB/RESULTS", NoSuchTask(-1004, "gone"))
    wire.answer("JOB/RESULTS", {"__CODE__": 0, "__CURSOR__": "2:0"})
    wire.answer("TASK/QUERY", {"__TASK_ID__": "TASK_1", **FINISHED})
    assert first.wait(0).succeeded
    # It was sent before the new place, and is accepted behind it.
    wire.answer("TASK/SUBMIT", {"__TASK_ID__": "TASK_2"}, key="k2")
    wire.answer("TASK/QUERY", {"__TASK_ID__": "TASK_2", **FINISHED})
    assert second.wait(0).succeeded


def test_tasks_of_a_job_that_cannot_be_read_are_followed_one_by_one():
    wire = Wire()
    ends = Ends(wire, "j")
    first, second = (ends.submit({"__SUBMIT_KEY__": key}) for key in ("k1", "k2"))
    wire.answer("TASK/SUBMIT", {"__TASK_ID__": "TASK_1"}, key="k1")
    wire.fail("JOB/RESULTS", Refused(-1008, "too many jobs are being read"))
    wire.answer("TASK/SUBMIT", {"__TASK_ID__": "TASK_2"}, key="k2")
    for id, task in (("TASK_1", first), ("TASK_2", second)):
        wire.answer("TASK/QUERY", {"__TASK_ID__": id, **FINISHED})
        assert task.wait(0).succeeded
