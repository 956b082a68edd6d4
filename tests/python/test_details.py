"""TASK/DETAILS (docs/sources/controller.md, 2.6): one key per task."""

import pytest


def submit_many(lone, colors):
    return [lone.submit_quietly("details", color=color).id for color in colors]


def ids(reply):
    """The task ids of a reply, in the order of its keys."""
    return [key for key, value in reply.items() if isinstance(value, dict)]


def test_one_key_per_task(lone):
    """2.6 2): the key is the __TASK_ID__, the value the details; as many as there are tasks, newest first."""
    submitted = submit_many(lone, ["red", "blue", "red"])
    reply = lone.client.accepted("TASK/DETAILS")
    assert reply["__TOTAL__"] == 3
    assert ids(reply) == submitted[::-1]
    for task_id, color in zip(submitted, ["red", "blue", "red"], strict=True):
        details = reply[task_id]
        assert (details["color"], details["__OPERATION__"], details["__STATUS__"]) == (color, "details", "WAITING")
        assert float(details["__SUBMIT_TIME__"]) > 0


def test_no_tasks(lone):
    """2.6: no task, no key; still a good reply."""
    reply = lone.client.accepted("TASK/DETAILS")
    assert (ids(reply), reply["__TOTAL__"]) == ([], 0)


def test_details_of_a_finished_task(llts):
    """2.6: the details of a finished task hold its result."""
    task = llts.submit(llts.tools.add("finished", "echo report > report.log\nexit 5\n"))
    task.finish()
    details = llts.client.accepted("TASK/DETAILS", __TASK_ID__=task.id)[task.id]
    assert (details["__STATUS__"], details["__EXIT_CODE__"]) == ("FINISHED", 5)


def test_pages(lone):
    """__OFFSET__ and __LIMIT__: a page of the list; __TOTAL__ stays that of the whole list."""
    newest_first = submit_many(lone, ["red"] * 7)[::-1]
    for offset, limit in [(0, 3), (3, 3), (6, 3), (0, 100), (7, 1), (100, 1)]:
        reply = lone.client.accepted("TASK/DETAILS", __OFFSET__=offset, __LIMIT__=limit)
        assert ids(reply) == newest_first[offset : offset + limit]
        assert reply["__TOTAL__"] == 7


@pytest.mark.parametrize("field", ["__OFFSET__", "__LIMIT__"])
@pytest.mark.parametrize("value", [-1, "many", 1.5, True])
def test_bad_pages(lone, field, value):
    """Code -1007: __OFFSET__ and __LIMIT__ are counts."""
    assert lone.client.code("TASK/DETAILS", {field: value}) == -1007


def test_filters(lone):
    """2.6 with fields: only the tasks that match all of them."""
    submitted = submit_many(lone, ["red", "blue", "red", "green"])
    red = lone.client.accepted("TASK/DETAILS", color="red")
    assert (ids(red), red["__TOTAL__"]) == ([submitted[2], submitted[0]], 2)
    page = lone.client.accepted("TASK/DETAILS", color="red", __OFFSET__=1, __LIMIT__=5)
    assert (ids(page), page["__TOTAL__"]) == ([submitted[0]], 2)
    assert ids(lone.client.accepted("TASK/DETAILS", color="red", __STATUS__="FINISHED")) == []
    assert ids(lone.client.accepted("TASK/DETAILS", color="violet")) == []


def test_filter_by_father(lone):
    """2.6 with __FATHER_ID__: the children of one task."""
    father = lone.submit_quietly("details")
    child = lone.submit_quietly("details", __FATHER_ID__=father.id)
    assert ids(lone.client.accepted("TASK/DETAILS", __FATHER_ID__=father.id)) == [child.id]
