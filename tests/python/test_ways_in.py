"""The ways to a controller: the frames of a message, and the socket in the file system."""

import os

import pytest
import zmq

from harness.service import Service
from harness.waiting import LIMIT_MS


@pytest.mark.parametrize("limit", [8, 12])
def test_the_frames_of_a_message_are_counted_on_the_wire(tmp_path, limit):
    """MESSAGE_FRAMES_MAX: so many are answered, one more is not, and the next client is served."""
    service = Service(str(tmp_path), MESSAGE_FRAMES_MAX=limit)

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
    service = Service(str(tmp_path), CONTROLLER_IPC_FILE=path)
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
