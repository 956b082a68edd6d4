"""__PUSH_ACK__: FINISHED is pushed again until the receiver confirms it."""

import json

from harness.client import parse
from harness.waiting import LIMIT_MS, wait_until

QUICK = {"PUSH_ACK_INTERVAL": 100, "PUSH_ACK_INTERVAL_MAX": 200}


def next_frame(session):
    """As it is: what is pushed again has the same __SEQ__, which the receiver does not allow otherwise."""
    socket = session.receiver.socket
    assert socket.poll(LIMIT_MS), "no push"
    return parse(socket.recv())


def until_finished(session, task_id):
    while True:
        push = next_frame(session)
        if (push["__TASK_ID__"], push["__STATUS__"]) == (task_id, "FINISHED"):
            return push


def confirm(session, push, **changed):
    """The answer that confirms a push."""
    answer = {"__TYPE__": "TASK/STATUS/ACK", "__TASK_ID__": push["__TASK_ID__"], "__SEQ__": push["__SEQ__"]}
    session.receiver.socket.send(json.dumps({**answer, **changed}).encode())


def acknowledged(task):
    return wait_until(lambda: task.query().get("__ACK_TIME__"), "the end is confirmed")


def test_the_end_is_pushed_until_it_is_confirmed(start_service):
    """The same push, again and again; once confirmed, no more."""
    session = start_service(agents=1, **QUICK)
    tool = session.tools.add("ack", "exit 0\n")
    task = session.submit(tool, __PUSH_ACK__=True)
    pushes = [until_finished(session, task.id) for _ in range(4)]
    assert all(push == pushes[0] for push in pushes)
    confirm(session, pushes[0], __SEQ__=pushes[0]["__SEQ__"] - 1)
    confirm(session, pushes[0], __TASK_ID__="TASK_1480000000.120000_AZazA")
    session.receiver.socket.send(b"garbage")
    assert until_finished(session, task.id) == pushes[0]
    assert "__ACK_TIME__" not in task.query()
    confirm(session, pushes[0])
    acknowledged(task)
    # What was on its way comes before the pushes of another task.
    other = session.submit(tool)
    seen = 0
    while True:
        push = next_frame(session)
        if push["__TASK_ID__"] == other.id and push["__STATUS__"] == "FINISHED":
            break
        seen += push["__TASK_ID__"] == task.id
    assert seen <= 2, "pushes after the confirmation"


def test_without_the_field_nothing_is_pushed_again(start_service):
    """A receiver that knows nothing of confirmations hears each state once."""
    session = start_service(agents=1, **QUICK)
    tool = session.tools.add("plain", "exit 0\n")
    task = session.submit(tool)
    task.finish()
    other = session.submit(tool, __PUSH_ACK__=True)
    for _ in range(3):
        until_finished(session, other.id)
    assert task.statuses().count("FINISHED") == 1


def test_a_receiver_that_never_confirms_is_given_up(start_service):
    """PUSH_ACK_TIMEOUT: a bound is reached."""
    session = start_service(agents=1, **QUICK, PUSH_ACK_TIMEOUT=3000)
    task = session.submit(session.tools.add("deaf", "exit 0\n"), __PUSH_ACK__=True)
    count = 0
    until_finished(session, task.id)
    while session.receiver.socket.poll(2000):
        count += next_frame(session)["__TASK_ID__"] == task.id
    assert 2 <= count <= 16, count
    assert "__ACK_TIME__" not in task.query()


def test_a_new_controller_goes_on(start_service):
    """kill -9 of the controller does not end the pushes, and a confirmation is kept."""
    session = start_service(agents=1, **QUICK)
    task = session.submit(session.tools.add("restart", "exit 0\n"), __PUSH_ACK__=True)
    first = until_finished(session, task.id)
    rep, pub = (int(address.rsplit(":", 1)[1]) for address in (session.service.rep, session.service.pub))
    session.service.controller.kill()
    while session.receiver.socket.poll(0):
        session.receiver.socket.recv()
    session.service.start_controller(rep, pub)
    again = until_finished(session, task.id)
    assert again == first
    confirm(session, again)
    at = acknowledged(task)
    session.service.controller.kill()
    session.service.start_controller(rep, pub)
    assert task.query()["__ACK_TIME__"] == at
