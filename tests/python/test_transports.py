"""TRANSPORT: either of the two serves tasks, and so does an agent of the other kind."""

import os

import pytest
import zmq

from harness.service import Service
from harness.session import Session
from harness.waiting import LIMIT_MS


@pytest.mark.parametrize("agent", ["zmq", "own"])
@pytest.mark.parametrize("controller", ["zmq", "own"])
def test_a_task_runs_and_is_killed(tmp_path, controller, agent):
    """Requests, pushes and broadcasts cross between the transports."""
    service = Service(str(tmp_path), TRANSPORT=controller)
    session = None
    try:
        service.config["TRANSPORT"] = agent
        service.start_agents(1)
        session = Session(service)
        assert session.run_script("quick", "exit 5\n")["__EXIT_CODE__"] == 5
        task = session.submit(session.tools.add("slow", "sleep 1000\n"))
        task.until("RUNNING")
        session.client.accepted("TASK/KILL", {"__TASK_ID__": task.id})
        assert task.finish()["__OUTCOME__"] == "KILLED"
    finally:
        if session:
            session.close()
        service.stop()


@pytest.mark.parametrize("transport", ["zmq", "own"])
@pytest.mark.parametrize("limit", [8, 12])
def test_the_frames_of_a_message_are_counted_on_the_wire(tmp_path, transport, limit):
    """MESSAGE_FRAMES_MAX: so many are answered, one more is not, and the next client is served."""
    service = Service(str(tmp_path), TRANSPORT=transport, MESSAGE_FRAMES_MAX=limit)

    def dealer(hops):
        socket = zmq.Context.instance().socket(zmq.DEALER)
        socket.linger = 0
        socket.connect(service.rep)
        socket.send_multipart([b"hop"] * hops + [b"", b'{"__TYPE__":"TASK/STATISTIC"}'])
        return socket

    try:
        with dealer(limit - 2) as enough, dealer(limit - 1) as too_many:
            assert enough.poll(LIMIT_MS)
            assert enough.recv_multipart()[:-1] == [b"hop"] * (limit - 2) + [b""]
            with dealer(0) as later:
                assert later.poll(LIMIT_MS)
            assert not too_many.poll(100)
    finally:
        service.stop()


def test_a_socket_in_the_file_system(tmp_path):
    """CONTROLLER_IPC_FILE: clients of this machine may come in by a file, which no other user may open."""
    path = os.path.join(str(tmp_path), "llts.sock")
    service = Service(str(tmp_path), TRANSPORT="own", CONTROLLER_IPC_FILE=path)
    try:
        assert os.stat(path).st_mode & 0o777 == 0o600
        with zmq.Context.instance().socket(zmq.REQ) as client:
            client.linger = 0
            client.rcvtimeo = LIMIT_MS
            client.connect(f"ipc://{path}")
            client.send_json({"__TYPE__": "TASK/STATISTIC"})
            assert client.recv_json()["__CODE__"] == 0
    finally:
        service.stop()
    assert not os.path.exists(path)
