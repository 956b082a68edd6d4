"""TASK/SUBMIT (docs/sources/controller.md, 2.1): the request's fields, the reply, and what is refused."""

import re

import pytest

TASK_ID = re.compile(r"TASK_\d+\.\d{6}_[A-Za-z]{5}")


def test_reply_names_the_task(llts):
    """2.1 2) rows __TASK_ID__ and __CODE__; 3.2: the id is TASK_, the time, and five random letters."""
    tool = llts.tools.add("reply", "exit 0\n")
    task = llts.submit_quietly(tool)
    assert task.reply["__CODE__"] == 0
    assert TASK_ID.fullmatch(task.id)


def test_one_socket_sends_many_messages(llts):
    """2, note: after connecting, send and recv can be repeated. Ids never repeat."""
    tool = llts.tools.add("many", "exit 0\n")
    ids = {llts.submit_quietly(tool).id for _ in range(20)}
    assert len(ids) == 20


def test_operation_chooses_the_tool(llts):
    """2.1 1) row __OPERATION__: ${__OPERATION__}.tar.gz is what runs."""
    for name in ("choice.one", "choice-two", "Choice_3+x"):
        end = llts.run_script(name, f"echo this is {name} > report.log\n")
        assert end["__REPORT_LOG__"] == f"this is {name}\n"


def test_given_id_finds_the_task(llts):
    """2.1 1) row __GIVEN_ID__: the submitter's own id, by which the task can be queried."""
    tool = llts.tools.add("given", "exit 0\n")
    task = llts.submit_quietly(tool, __GIVEN_ID__="my own id 1")
    reply = llts.client.accepted("TASK/QUERY", __GIVEN_ID__="my own id 1")
    assert reply["__TASK_ID__"] == task.id
    assert reply["__GIVEN_ID__"] == "my own id 1"


def test_same_given_id_twice(lone):
    """F7 (light): a repeated request either is the same task, or the query finds the newer one and says so."""
    request = {"__OPERATION__": "given", "__GIVEN_ID__": "twice", "color": "red"}
    first = lone.client.accepted("TASK/SUBMIT", request)["__TASK_ID__"]
    second = lone.client.accepted("TASK/SUBMIT", request)["__TASK_ID__"]
    found = lone.client.accepted("TASK/QUERY", __GIVEN_ID__="twice")
    assert found["__TASK_ID__"] == second
    if first != second:
        assert found["__MATCHES__"] == 2
    tasks = lone.client.accepted("TASK/DETAILS", __GIVEN_ID__="twice")
    assert tasks["__TOTAL__"] == len({first, second})


def test_father_id_is_kept(llts):
    """2.1 1) row __FATHER_ID__ (what it does is in test_family.py)."""
    father = llts.submit(llts.tools.add("father-kept", "exec sleep 600\n"))
    child = llts.submit(llts.tools.add("child-kept", "exit 0\n"), __FATHER_ID__=father.id)
    assert child.finish()["__FATHER_ID__"] == father.id


def test_other_parameters_reach_the_tool(llts):
    """2.1 1) row …: further fields are there for the task when it runs."""
    tool = llts.tools.add("others", "grep '^param' ../task.info > report.log\n")
    end = llts.run(tool, param1="value1", param2="two words")
    assert end["__REPORT_LOG__"] == "param1=value1\nparam2=two words\n"
    assert (end["param1"], end["param2"]) == ("value1", "two words")


def test_refused_submit_makes_no_task(lone):
    """2.1 2) row __CODE__: not 0 means refused; nothing is queued."""
    assert lone.client.code("TASK/SUBMIT", {"param1": "value1"}) == -1006
    assert lone.client.accepted("TASK/DETAILS")["__TOTAL__"] == 0
    assert lone.client.accepted("TASK/STATISTIC")["WAITING"] == 0


def test_submitter_cannot_forge_our_fields(llts):
    """W12: what the service sets is never believed from a submit."""
    forged = {
        "__TASK_ID__": "TASK_1.000000_AAAAA",
        "__CODE__": 5,
        "__STATUS__": "FINISHED",
        "__AGENT_ID__": "nobody",
        "__ROUND__": 9,
        "__SEQ__": 7,
        "__EXIT_CODE__": 3,
    }
    tool = llts.tools.add("forged", "grep -c '^__TASK_ID__=' ../task.info > report.log\n")
    task = llts.submit(tool, forged)
    assert task.id != forged["__TASK_ID__"] and TASK_ID.fullmatch(task.id)
    first = task.until("PREPARING")
    assert (first["__SEQ__"], first["__ROUND__"]) == (1, 0)
    end = task.finish()
    assert end["__REPORT_LOG__"] == "1\n"
    assert end["__EXIT_CODE__"] == 0
    assert end["__AGENT_ID__"] != "nobody"
    assert llts.client.code("TASK/QUERY", __TASK_ID__=forged["__TASK_ID__"]) == -1004


@pytest.mark.parametrize("field", ["__OPERATION__", "__ADDRESS__", "__GIVEN_ID__", "__FATHER_ID__", "param"])
def test_nested_values_are_refused(llts, field):
    """2: messages are flat. W4: an object or array as a value is -1007 (or the field's own code)."""
    for nested in ({"a": "b"}, ["a"]):
        request = {"__OPERATION__": "reply", field: nested}
        expected = (-1006, -1007) if field == "__OPERATION__" else (-1007,)
        assert llts.client.code("TASK/SUBMIT", request) in expected


def test_waiting_tasks_have_a_limit(start_service):
    """Code -1008, F9: beyond WAITING_TASKS_MAX a submit is refused; everything else is still answered."""
    llts = start_service(WAITING_TASKS_MAX=3)
    tasks = [llts.submit_quietly("full") for _ in range(3)]
    assert llts.client.code("TASK/SUBMIT", __OPERATION__="full") == -1008
    assert llts.client.accepted("TASK/STATISTIC")["WAITING"] == 3
    tasks[0].kill()
    llts.submit_quietly("full")
