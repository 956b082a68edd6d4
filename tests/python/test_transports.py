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


def test_a_socket_in_the_file_system(tmp_path):
    """CONTROLLER_IPC_FILE: clients of this machine may come in by a file, which nobody else may open."""
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
