"""__FATHER_ID__ (docs/sources/controller.md, 2.1): the children of a task end with it (docs/design/hazards.md, A12)."""

import os

from harness.client import Client
from harness.waiting import wait_until

SLEEP = "exec sleep 600\n"


def killed(reply):
    return (reply["__STATUS__"], reply["__KILLED__"], reply["__OUTCOME__"]) == ("FINISHED", "TRUE", "KILLED")


def test_children_end_when_their_father_ends(llts):
    """2.1 row __FATHER_ID__: a father that ends by itself ends a child that is running and one that waits."""
    gate = llts.service.folder + "/father-gate"
    father = llts.submit(llts.tools.add("father-ends", f"while [ ! -e '{gate}' ]; do sleep 0.02; done\nexit 0\n"))
    father.until("RUNNING")
    child = llts.tools.add("child-sleeps", SLEEP)
    children = [llts.submit(child, __FATHER_ID__=father.id) for _ in range(3)]
    children[0].until("RUNNING")
    assert children[1].query()["__STATUS__"] == children[2].query()["__STATUS__"] == "WAITING"
    open(gate, "w", encoding="utf-8").close()
    end = father.finish()
    assert (end["__EXIT_CODE__"], end["__OUTCOME__"]) == (0, "SUCCEEDED")
    for task in children:
        assert killed(task.finish())
    assert children[0].query()["__EXIT_CODE__"] == -15
    assert children[1].query()["__EXIT_CODE__"] is None


def test_children_end_when_their_father_is_killed(llts):
    """2.1 row __FATHER_ID__ with 2.2: a kill of the father."""
    father = llts.submit(llts.tools.add("father-killed", SLEEP))
    father.until("RUNNING")
    child = llts.submit(llts.tools.add("child-sleeps", SLEEP), __FATHER_ID__=father.id)
    child.until("RUNNING")
    father.kill()
    assert killed(father.finish()) and killed(child.finish())


def test_children_of_a_waiting_father(lone):
    """A12 WAITING: the kill of a father that never ran ends its children."""
    father = lone.submit_quietly("family")
    children = [lone.submit_quietly("family", __FATHER_ID__=father.id) for _ in range(3)]
    stranger = lone.submit_quietly("family")
    father.kill()
    for task in children:
        assert killed(task.result())
    assert stranger.query()["__STATUS__"] == "WAITING"


def test_child_that_ends_leaves_its_father(llts):
    """2.1 row __FATHER_ID__: it works downward only."""
    father = llts.submit(llts.tools.add("father-stays", SLEEP))
    father.until("RUNNING")
    child = llts.submit(llts.tools.add("child-ends", "exit 3\n"), __FATHER_ID__=father.id)
    assert child.finish()["__OUTCOME__"] == "FAILED"
    assert father.query()["__STATUS__"] == "RUNNING"


def test_chain_of_fifty(lone):
    """A12: all descendants end, 50 levels deep."""
    chain = [lone.submit_quietly("chain")]
    for _ in range(49):
        chain.append(lone.submit_quietly("chain", __FATHER_ID__=chain[-1].id))
    chain[0].kill()
    for task in chain:
        assert killed(task.result())


def test_chain_of_fifty_under_a_running_father(llts):
    """A12: the same with the first two levels running."""
    tool = llts.tools.add("chain", SLEEP)
    chain = [llts.submit(tool)]
    for _ in range(49):
        chain.append(llts.submit(tool, __FATHER_ID__=chain[-1].id))
    chain[1].until("RUNNING")
    chain[0].kill()
    for task in chain:
        assert killed(task.finish())


def test_child_of_an_ended_father_is_refused(llts):
    """A12, code -1011: a child after the end of its father never runs."""
    tool = llts.tools.add("ended-father", "exit 0\n")
    father = llts.submit(tool)
    father.finish()
    before = llts.client.accepted("TASK/DETAILS", __LIMIT__=1)["__TOTAL__"]
    reply = llts.client.ask("TASK/SUBMIT", __OPERATION__=tool, __FATHER_ID__=father.id)
    assert reply["__CODE__"] == -1011 and "__TASK_ID__" not in reply
    assert llts.client.accepted("TASK/DETAILS", __LIMIT__=1)["__TOTAL__"] == before


def test_child_of_a_father_that_is_being_killed_is_refused(llts):
    """A12, code -1011: the father has been told to end, but still runs."""
    gate = llts.service.folder + "/being-killed"
    father = llts.submit(llts.tools.add("stubborn", f"trap '' TERM\ntouch '{gate}'\nwhile :; do sleep 0.05; done\n"))
    father.until("RUNNING")
    wait_until(lambda: os.path.exists(gate), "the trap is set")
    father.kill()
    assert llts.client.code("TASK/SUBMIT", __OPERATION__="stubborn", __FATHER_ID__=father.id) == -1011
    assert killed(father.finish())


def test_children_that_are_being_submitted(llts):
    """A12 "being submitted": whatever was accepted while the father was killed ends; nothing is left running."""
    father = llts.submit(llts.tools.add("busy-father", SLEEP))
    father.until("RUNNING")
    tool = llts.tools.add("child-sleeps", SLEEP)
    killer = Client(llts.service.rep)
    children, refused = [], 0
    for number in range(40):
        if number == 10:
            # Not waiting for the reply lets the kill race with the submits.
            killer.send("TASK/KILL", __TASK_ID__=father.id)
        reply = llts.client.ask("TASK/SUBMIT", __OPERATION__=tool, __FATHER_ID__=father.id)
        if reply["__CODE__"] == 0:
            children.append(llts.keep(reply))
        else:
            assert reply["__CODE__"] == -1011
            refused += 1
    assert killer.receive()["__CODE__"] == 0
    killer.close()
    father.finish()
    assert refused > 0
    for task in children:
        assert killed(task.result())


def test_unknown_father(llts):
    """5.2: an unknown father is a warning; the field is dropped, the task runs."""
    tool = llts.tools.add("orphan", "cat ../task.info > report.log\n")
    task = llts.submit(tool, __FATHER_ID__="TASK_1.000000_AAAAA")
    assert task.reply["__WARNING__"]
    end = task.finish()
    assert end["__EXIT_CODE__"] == 0
    assert "__FATHER_ID__" not in end


def test_grandchildren_end(llts):
    """5.4: a child that is ended ends its own children."""
    tool = llts.tools.add("line", SLEEP)
    father = llts.submit(tool)
    child = llts.submit(tool, __FATHER_ID__=father.id)
    grandchild = llts.submit(tool, __FATHER_ID__=child.id)
    child.until("RUNNING")
    child.kill()
    assert killed(grandchild.finish())
    assert father.query()["__STATUS__"] == "RUNNING"
