"""CURVE: a client with a key that the controller knows is served, and no other client."""

import json
import os
import subprocess

import pytest
import zmq

from harness.service import BINARY, Program, Service, environment
from harness.waiting import LIMIT, LIMIT_MS

pytestmark = pytest.mark.skipif(not zmq.has("curve"), reason="this pyzmq has no CURVE")


class Keys:
    """A controller's keys and those of one client, in files as config.toml names them."""

    def __init__(self, folder):
        self.server, self.server_secret = zmq.curve_keypair()
        self.client, self.client_secret = zmq.curve_keypair()
        authorised = os.path.join(folder, "authorised")
        os.makedirs(authorised)
        self.config = {
            "CURVE_SERVER_SECRET_KEY_FILE": self.write(folder, "server.secret", self.server_secret),
            "CURVE_AUTHORISED_KEYS_DIR": authorised,
            "CURVE_SECRET_KEY_FILE": self.write(folder, "client.secret", self.client_secret),
            "CURVE_SERVER_PUBLIC_KEY_FILE": self.write(folder, "server.public", self.server),
        }
        self.write(authorised, "client", self.client)

    @staticmethod
    def write(folder, name, key):
        path = os.path.join(folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(key + b"\n")
        return path

    def socket(self, kind, endpoint, public, secret):
        socket = zmq.Context.instance().socket(kind)
        socket.linger = 0
        socket.rcvtimeo = LIMIT_MS
        # Commands go through boxes as well.
        socket.heartbeat_ivl = 50
        socket.heartbeat_timeout = LIMIT_MS
        socket.curve_serverkey = self.server
        socket.curve_publickey = public
        socket.curve_secretkey = secret
        socket.connect(endpoint)
        return socket


@pytest.fixture
def secured(tmp_path):
    keys = Keys(str(tmp_path))
    service = Service(str(tmp_path), agents=1, **keys.config)
    yield service, keys
    service.stop()


def ask(socket, **request):
    socket.send_json(request)
    return socket.recv_json()


def test_a_known_key_runs_tasks(secured):
    """The controller, its agent and a client of another library speak CURVE with each other."""
    service, keys = secured
    tool = service.tools.add("curve", "exit 3\n")
    client = keys.socket(zmq.REQ, service.rep, keys.client, keys.client_secret)
    reply = ask(client, __TYPE__="TASK/SUBMIT", __OPERATION__=tool)
    assert reply["__CODE__"] == 0, reply
    end = ask(client, __TYPE__="TASK/QUERY", __TASK_ID__=reply["__TASK_ID__"], __WAIT__=LIMIT_MS // 2)
    assert (end["__STATUS__"], end["__EXIT_CODE__"]) == ("FINISHED", 3), end
    # Long messages, and many of them.
    dealer = keys.socket(zmq.DEALER, service.rep, keys.client, keys.client_secret)
    text = json.dumps({"__TYPE__": "TASK/QUERY", "__TASK_ID__": reply["__TASK_ID__"], "x": "y" * 60000}).encode()
    # No task has such a field.
    for _ in range(50):
        dealer.send_multipart([b"", text])
    for _ in range(50):
        assert json.loads(dealer.recv_multipart()[1])["__CODE__"] == -1004
    client.close()
    dealer.close()


def test_the_command_line_has_keys_too(secured, tmp_path):
    """`llts run` proves who it is; without the keys it is told what is missing."""
    service, keys = secured
    tool = service.tools.add("curvecli", "echo hello > report.log; exit 4\n")
    variables = {f"LLTS_{key}": value for key, value in keys.config.items()}
    command = [BINARY, "--controller", service.rep, "run", tool]

    def run(**more):
        return subprocess.run(command, cwd=tmp_path, env=environment(**more), capture_output=True, timeout=LIMIT)

    result = run(**variables)
    assert result.returncode == 4, result
    result = run()
    assert result.returncode == 4 and b"CURVE_SECRET_KEY_FILE" in result.stderr, result


def test_a_subscriber_with_a_known_key_hears_broadcasts(secured):
    """PUB is secured like REP."""
    service, keys = secured
    tool = service.tools.add("curvesub", "exit 0\n")
    subscriber = keys.socket(zmq.SUB, service.pub, keys.client, keys.client_secret)
    subscriber.subscribe(b'{"__TYPE__":"TASK/STATUS"')
    client = keys.socket(zmq.REQ, service.rep, keys.client, keys.client_secret)
    subscriber.rcvtimeo = 100
    for _ in range(100):
        assert ask(client, __TYPE__="TASK/SUBMIT", __OPERATION__=tool)["__CODE__"] == 0
        try:
            assert json.loads(subscriber.recv())["__OPERATION__"] == tool
            break
        except zmq.Again:
            continue
    else:
        pytest.fail("no broadcast comes")
    subscriber.close()
    client.close()


@pytest.mark.parametrize("who", ["unknown", "plain", "wrong server"])
def test_nobody_else_is_served(secured, who):
    """An unknown key, no key, or another controller's key: no answer, and the others are served as before."""
    service, keys = secured
    stranger, stranger_secret = zmq.curve_keypair()
    if who == "plain":
        socket = zmq.Context.instance().socket(zmq.REQ)
        socket.connect(service.rep)
    elif who == "unknown":
        socket = keys.socket(zmq.REQ, service.rep, stranger, stranger_secret)
    else:
        mistaken = Keys.__new__(Keys)
        mistaken.server = stranger
        socket = mistaken.socket(zmq.REQ, service.rep, keys.client, keys.client_secret)
    socket.linger = 0
    # libzmq does not reconnect to a peer that has rejected it: then there is no peer left to send to.
    socket.rcvtimeo = socket.sndtimeo = 1000
    with pytest.raises(zmq.Again):
        socket.send_json({"__TYPE__": "TASK/STATISTIC"})
        socket.recv()
    socket.close()
    client = keys.socket(zmq.REQ, service.rep, keys.client, keys.client_secret)
    assert ask(client, __TYPE__="TASK/STATISTIC")["__CODE__"] == 0
    client.close()


@pytest.mark.parametrize(
    "wrong, text",
    [
        ({"CURVE_AUTHORISED_KEYS_DIR": ""}, "CURVE_AUTHORISED_KEYS_DIR is not"),
        ({"CURVE_SERVER_SECRET_KEY_FILE": "/nowhere/key"}, "there is no key file /nowhere/key"),
    ],
)
def test_what_is_missing_is_named(tmp_path, wrong, text):
    """A controller that cannot be secured does not start, and says why."""
    config = {**Keys(str(tmp_path)).config, "CONTROLLER_REP_PORT": "0", "CONTROLLER_PUB_PORT": "0", **wrong}
    run = tmp_path / "run"
    run.mkdir()
    program = Program(["controller"], str(run), {f"LLTS_{key}": value for key, value in config.items()})
    assert program.wait() != 0
    assert text in program.errors()


def test_another_machine_is_let_in_with_keys_only(tmp_path):
    """An address that others reach needs CURVE, or ALLOW_INSECURE."""
    config = {**Keys(str(tmp_path)).config, "CONTROLLER_IP": "0.0.0.0"}
    service = Service(str(tmp_path), **config)
    service.stop()
