"""__ADDRESS_KEY__: what is pushed to a receiver that names its key is for that receiver only, and never in plain text."""

import json
import os
import socket
import threading

import pytest
import zmq
from zmq.auth.thread import ThreadAuthenticator

from harness.client import Receiver
from harness.service import port_of
from harness.waiting import LIMIT_MS, wait_until
from test_curve import Keys

pytestmark = pytest.mark.skipif(not zmq.has("curve"), reason="this pyzmq has no CURVE")

LIFE = ["PREPARING", "RUNNING", "ENDED", "FINISHED"]

# An address that cannot be reached is given up sooner.
HASTY = {"PUSH_CONNECT_TIMEOUT": 1000}


def text(keys):
    return keys[0].decode()


@pytest.fixture
def keys():
    return zmq.curve_keypair()


@pytest.fixture
def receiver(keys):
    receiver = Receiver(keys=keys)
    yield receiver
    receiver.close()


def submit(session, receiver, key, tool="pushed", script="exit 0\n", **more):
    if not os.path.exists(os.path.join(session.tools.folder, f"{tool}.tar.gz")):
        session.tools.add(tool, script)
    return session.submit_quietly(tool, __ADDRESS__=receiver.address, __ADDRESS_KEY__=key, **more)


def log_of(session):
    with open(os.path.join(session.service.logs, "controller.log"), encoding="utf-8") as log:
        return log.read()


def wait_until_given_up(session, receiver, times=1):
    """The lines of the log about that receiver, which must be there so often."""
    place = receiver.address.removeprefix("tcp://")

    def lines():
        return [line for line in log_of(session).splitlines() if place in line and "dropped" in line]

    wait_until(lambda: len(lines()) >= times, "what was for the receiver is dropped")
    return lines()


def restart(service, **config):
    service.controller.kill()
    service.config.update(config)
    service.start_controller(port_of(service.rep), port_of(service.pub))


def bind_again(address, keys):
    """A closed socket keeps its port for a moment."""

    def bound():
        try:
            return Receiver(address, keys=keys)
        except zmq.ZMQError:
            return None

    return wait_until(bound, f"{address} is free again")


def test_all_states_arrive(start_service, receiver, keys):
    """A controller without keys of its own has a pair for as long as it runs."""
    session = start_service(agents=1)
    task = submit(session, receiver, text(keys))
    receiver.until(task.id, "FINISHED")
    assert receiver.statuses(task.id) == LIFE
    # It is shown as __ADDRESS__ is, and found by.
    assert task.query(__ADDRESS_KEY__=text(keys))["__ADDRESS_KEY__"] == text(keys)
    assert receiver.pushes[task.id][0]["__ADDRESS_KEY__"] == text(keys)


@pytest.mark.parametrize("is_known", [True, False])
def test_the_receiver_knows_the_controller_by_its_key(tmp_path, start_service, keys, is_known):
    """With CURVE in its config.toml, the controller proves to have that key: a receiver can admit it alone."""
    ours = Keys(str(tmp_path))
    known = ours.server if is_known else zmq.curve_keypair()[0]

    class OneKey:
        def callback(self, domain, key):
            return key == known

    context = zmq.Context()
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve_callback(domain="*", credentials_provider=OneKey())
    receiver = Receiver(keys=keys, context=context)
    try:
        session = start_service(agents=0, **ours.config, **HASTY)
        client = ours.socket(zmq.REQ, session.service.rep, ours.client, ours.client_secret)
        request = {"__OPERATION__": "none", "__ADDRESS__": receiver.address, "__ADDRESS_KEY__": text(keys)}
        client.send_json({"__TYPE__": "TASK/SUBMIT", **request})
        task = client.recv_json()["__TASK_ID__"]
        client.send_json({"__TYPE__": "TASK/KILL", "__TASK_ID__": task})
        assert client.recv_json()["__CODE__"] == 0
        client.close()
        if is_known:
            assert receiver.next()["__TASK_ID__"] == task
        else:
            [line] = wait_until_given_up(session, receiver)
            assert "admit the key of this controller" in line and ours.server.decode() in line
            assert not receiver.socket.poll(0)
    finally:
        receiver.close()
        authenticator.stop()
        context.term()


def test_a_wrong_key_gets_nothing_and_delays_nobody(start_service, receiver, keys):
    """It counts as unreachable: bounded, logged once, and other receivers are served."""
    session = start_service(agents=1, **HASTY)
    wrong = text(zmq.curve_keypair())
    lost = [submit(session, receiver, wrong) for _ in range(3)]
    for task in lost:
        assert task.result()["__EXIT_CODE__"] == 0
    [line] = wait_until_given_up(session, receiver)
    assert "__ADDRESS_KEY__ must be its public key" in line and wrong in line, line
    task = submit(session, receiver, wrong)
    task.result()
    # The right key, and another receiver without one, on the same controller.
    right = submit(session, receiver, text(keys))
    receiver.until(right.id, "FINISHED")
    assert list(receiver.pushes) == [right.id]
    other = session.submit("pushed")
    other.finish()
    assert other.statuses() == LIFE
    assert len(wait_until_given_up(session, receiver)) == 1
    session.service.check_alive()


def test_a_plain_receiver_gets_nothing_of_a_task_with_a_key(start_service, keys):
    """The same host and port without a key is another receiver, whose pushes go on."""
    session = start_service(agents=1, **HASTY)
    plain = session.submit(session.tools.add("pushed", "exit 0\n"))
    plain.finish()
    keyed = submit(session, session.receiver, text(keys))
    keyed.result()
    wait_until_given_up(session, session.receiver)
    after = session.submit("pushed")
    after.finish()
    assert list(session.receiver.pushes) == [plain.id, after.id]


def test_a_receiver_with_a_key_gets_nothing_of_a_task_without(start_service, receiver, keys):
    """The log says what to do."""
    session = start_service(agents=1, **HASTY)
    plain = session.submit_quietly(session.tools.add("pushed", "exit 0\n"), __ADDRESS__=receiver.address)
    plain.result()
    [line] = wait_until_given_up(session, receiver)
    assert "submit with its public key as __ADDRESS_KEY__" in line, line
    keyed = submit(session, receiver, text(keys))
    receiver.until(keyed.id, "FINISHED")
    assert list(receiver.pushes) == [keyed.id]


class Tap:
    """Someone in between: hands everything on to a receiver and keeps what the controller has said."""

    def __init__(self, receiver):
        self.heard = bytearray()
        self.to = port_of(receiver.address)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            onward = socket.create_connection(("127.0.0.1", self.to))
            threading.Thread(target=self._carry, args=(stream, onward, self.heard), daemon=True).start()
            threading.Thread(target=self._carry, args=(onward, stream, bytearray()), daemon=True).start()

    @staticmethod
    def _carry(source, sink, heard):
        try:
            while data := source.recv(4096):
                heard.extend(data)
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self.listener.close()


@pytest.mark.parametrize("which", ["right", "wrong", "plain"])
def test_nothing_can_be_read_on_the_way(start_service, receiver, keys, which):
    """Neither a receiver that has the key, nor one that has not, nor one without CURVE is spoken to in plain text."""
    session = start_service(agents=1, **HASTY)
    tap = Tap(session.receiver if which == "plain" else receiver)
    tool = session.tools.add("secretly", "echo secret > report.log\n")
    key = zmq.curve_keypair() if which == "wrong" else keys
    task = submit(session, tap, text(key), tool, param="very secret")
    assert task.result()["__REPORT_LOG__"] == "secret\n"
    if which == "right":
        receiver.until(task.id, "FINISHED")
        assert len(tap.heard) > 1000
    else:
        wait_until_given_up(session, tap)
    for word in (b"secret", b"TASK", b"__STATUS__"):
        assert word not in tap.heard
    tap.close()


def test_what_is_confirmed_is_encrypted_too(start_service, receiver, keys):
    """__PUSH_ACK__ over a restart: the key stays with the task, and a confirmation counts that comes back by it."""
    session = start_service(agents=1, PUSH_ACK_INTERVAL=100, PUSH_ACK_INTERVAL_MAX=200)
    task = submit(session, receiver, text(keys), __PUSH_ACK__=True)
    first = receiver.until(task.id, "FINISHED")
    restart(session.service)
    # What was on its way from the old one comes first.
    receiver.socket.close()
    receiver = bind_again(receiver.address, keys)
    assert receiver.socket.poll(LIMIT_MS), "no push after the restart"
    again = json.loads(receiver.socket.recv())
    assert again == first and again["__ADDRESS_KEY__"] == text(keys)
    receiver.socket.send_json(
        {"__TYPE__": "TASK/STATUS/ACK", "__TASK_ID__": task.id, "__SEQ__": again["__SEQ__"]}
    )
    wait_until(lambda: task.query().get("__ACK_TIME__"), "the end is confirmed")
    receiver.close()


@pytest.mark.parametrize("key", ["", "short", "x" * 41, '"' * 40, "é" * 20, "#" * 40, 5, True, None])
def test_a_bad_key_is_refused(llts, key):
    """-1007, with the value and what to do; nothing is accepted."""
    reply = llts.client.ask(
        "TASK/SUBMIT", __OPERATION__="x", __ADDRESS__=llts.receiver.address, __ADDRESS_KEY__=key
    )
    assert reply["__CODE__"] == -1007
    assert "__ADDRESS_KEY__" in reply["__ERROR_MSG__"] and "40 characters of Z85" in reply["__ERROR_MSG__"]
    assert "__TASK_ID__" not in reply


def test_a_key_without_an_address_is_refused(llts, keys):
    reply = llts.client.ask("TASK/SUBMIT", __OPERATION__="x", __ADDRESS_KEY__=text(keys))
    assert reply["__CODE__"] == -1007
    assert "no __ADDRESS__" in reply["__ERROR_MSG__"] and text(keys) in reply["__ERROR_MSG__"]
