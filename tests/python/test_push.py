"""__ADDRESS__ (docs/sources/controller.md, 2.1): each change of state is sent to the DEALER that the submitter bound."""

import socket

import zmq

from harness.client import Receiver
from harness.waiting import LIMIT_MS

LIFE = ["PREPARING", "RUNNING", "ENDED", "FINISHED"]


# Sockets that keep the ports of addresses to the end of the tests: a receiver of another test that was given such a port would get the
# pushes that wait for a listener there.
TAKEN = []


def dead_address(may_be_bound=False):
    """A TCP address at which nothing listens: never, or until a receiver is bound to it."""
    taken = socket.socket()
    # ZeroMQ sets it too, and two sockets with it may have one port while none listens.
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, may_be_bound)
    taken.bind(("127.0.0.1", 0))
    TAKEN.append(taken)
    return f"tcp://127.0.0.1:{taken.getsockname()[1]}"


def test_states_come_in_order(llts):
    """2.1 row __ADDRESS__: every state from PREPARING on, once, in order (the receiver checks __SEQ__)."""
    task = llts.submit(llts.tools.add("order", "exit 0\n"))
    task.finish()
    assert task.statuses() == LIFE


def test_push_holds_the_whole_task(llts):
    """The push is the whole flat task, with __TYPE__ TASK/STATUS."""
    tool = llts.tools.add("whole", "echo done > report.log\n")
    task = llts.submit(tool, __GIVEN_ID__="given whole", param1="value1", count=5)
    for status in LIFE:
        push = task.until(status)
        assert push["__OPERATION__"] == "whole"
        assert push["__GIVEN_ID__"] == "given whole"
        assert (push["param1"], push["count"]) == ("value1", 5)
        assert push["__ROUND__"] == 0


def test_last_push_holds_the_result(llts):
    """2.3 rows __EXIT_CODE__, __REPORT_LOG__ and …: all that is known of a finished task."""
    tool = llts.tools.add("result", "echo report > report.log; echo out; echo err >&2; exit 7\n")
    end = llts.run(tool)
    assert end["__OUTCOME__"] == "FAILED"
    assert end["__EXIT_CODE__"] == 7
    assert end["__REPORT_LOG__"] == "report\n"
    assert end["__STDOUT__"] == "out\n"
    assert end["__STDERR__"] == "err\n"
    assert float(end["__CPU_SECONDS__"]) >= 0
    assert float(end["__MAX_RSS_KB__"]) > 0
    assert "__KILLED__" not in end and "__KILL_TIME__" not in end
    names = ("SUBMIT", "PREPARE", "RUN", "END", "FINISH")
    times = [float(end[f"__{name}_TIME__"]) for name in names]
    assert times == sorted(times)
    agents = llts.client.accepted("AGENT/DETAILS")
    assert end["__AGENT_ID__"] in agents


def test_success_is_said(llts):
    """FINISHED carries __OUTCOME__: exit code 0 is SUCCEEDED."""
    assert llts.run_script("success", "exit 0\n")["__OUTCOME__"] == "SUCCEEDED"


def test_push_says_what_a_query_says(llts):
    """2.1 and 2.3: the last push and the reply to TASK/QUERY hold the same task."""
    task = llts.submit(llts.tools.add("same", "echo same > report.log\nexit 4\n"), param1="value1")
    push, reply = task.finish(), task.query()
    for field in (
        "__TASK_ID__",
        "__STATUS__",
        "__EXIT_CODE__",
        "__REPORT_LOG__",
        "__OUTCOME__",
        "__AGENT_ID__",
        "param1",
    ):
        assert push[field] == reply[field], field


def test_without_address_nothing_is_pushed(llts):
    """2.1 row __ADDRESS__: only tasks that name an address are pushed."""
    tool = llts.tools.add("quiet", "exit 0\n")
    quiet = llts.submit_quietly(tool)
    quiet.result()
    llts.run(tool)
    assert quiet.statuses() == []


def test_each_task_has_its_own_address(llts):
    """2.1 row __ADDRESS__: two addresses get their own tasks only."""
    tool = llts.tools.add("own", "exit 0\n")
    other = Receiver()
    theirs = llts.submit_quietly(tool, __ADDRESS__=other.address)
    ours = llts.submit(tool)
    other.until(theirs.id, "FINISHED")
    ours.finish()
    assert list(other.pushes) == [theirs.id]
    assert list(llts.receiver.pushes) == [ours.id]
    other.close()


def test_waiting_task_that_is_killed_is_pushed(lone):
    """FINISHED is also pushed for a task killed while WAITING; it is its first push."""
    task = lone.submit("never")
    task.kill()
    end = task.finish()
    assert task.statuses() == ["FINISHED"]
    assert (end["__KILLED__"], end["__OUTCOME__"]) == ("TRUE", "KILLED")
    assert (end["__EXIT_CODE__"], end["__REPORT_LOG__"]) == (None, "")


def test_receiver_that_binds_late(llts):
    """F5: a task does not wait for its receiver, and a receiver that binds late gets everything in order."""
    address = dead_address(may_be_bound=True)
    task = llts.submit_quietly(llts.tools.add("late", "exit 0\n"), __ADDRESS__=address)
    task.result()
    late = Receiver(address)
    late.until(task.id, "FINISHED")
    assert late.statuses(task.id) == LIFE
    late.close()


def test_dead_addresses_delay_nobody(llts):
    """F4 (light): tasks with dead addresses run, and pushes to a living one come through."""
    tool = llts.tools.add("dead", "exit 0\n")
    dead = [llts.submit_quietly(tool, __ADDRESS__=dead_address()) for _ in range(10)]
    alive = llts.submit(tool)
    alive.finish()
    assert alive.statuses() == LIFE
    for task in dead:
        assert task.result()["__EXIT_CODE__"] == 0


def test_receiver_that_talks_back(llts):
    """F6: what a receiver sends back is read and thrown away."""
    task = llts.submit(llts.tools.add("garbage", "exit 0\n"))
    task.until("PREPARING")
    for _ in range(50):
        llts.receiver.socket.send_multipart([b"", b"\xff\x00 garbage", b"{}"])
    task.finish()
    assert task.statuses() == LIFE
    assert llts.run("garbage")["__EXIT_CODE__"] == 0


def test_push_is_one_frame_from_a_dealer(llts):
    """2.1: the service sends through a DEALER; one frame a push, so a ROUTER sees the identity and one frame."""
    router = zmq.Context.instance().socket(zmq.ROUTER)
    router.linger = 0
    port = router.bind_to_random_port("tcp://127.0.0.1")
    task = llts.submit_quietly(llts.tools.add("router", "exit 0\n"), __ADDRESS__=f"tcp://127.0.0.1:{port}")
    for _ in LIFE:
        assert router.poll(LIMIT_MS)
        frames = router.recv_multipart()
        assert len(frames) == 2 and task.id.encode() in frames[1]
    router.close()
