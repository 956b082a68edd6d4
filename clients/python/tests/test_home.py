"""Where the controller is, and with which keys: as the command line finds them."""

import os
import socket
import subprocess
import time

import pytest
import zmq
from conftest import BINARY, LIMIT, push, wait_until

import llts
from llts.home import find, listens


def test_a_home_is_named_by_argument_variable_or_folder(service, monkeypatch, tmp_path):
    expected = (f"ipc://{service.home}/state/controller.sock",)
    assert find(home=service.home).addresses == expected
    monkeypatch.setenv("LLTS_HOME", str(service.home))
    assert find().addresses == expected
    monkeypatch.delenv("LLTS_HOME")
    below = service.home / "log"
    monkeypatch.chdir(below)
    assert find().addresses == expected
    with llts.Client() as c:
        assert c.run("pwd").stdout() == f"{below}\n"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state/llts").symlink_to(service.home)
    assert find().addresses == (f"ipc://{tmp_path}/state/llts/state/controller.sock",)
    assert subprocess.run([BINARY, "list"], env=os.environ, capture_output=True).returncode == 0


def test_a_home_without_a_service_says_so(tmp_path):
    with pytest.raises(llts.NoController, match="llts up"):
        llts.Client(tmp_path / "new")
    (tmp_path / "file").touch()
    with pytest.raises(llts.ConfigError, match="not a folder"):
        llts.Client(tmp_path / "file")


def test_a_frozen_controller_listens(tmp_path):
    path = tmp_path / "controller.sock"
    with socket.socket(socket.AF_UNIX) as frozen:
        frozen.bind(str(path))
        frozen.listen(0)
        callers = [socket.socket(socket.AF_UNIX) for _ in range(9)]
        for caller in callers:
            caller.setblocking(False)
        assert any(caller.connect_ex(str(path)) for caller in callers), "no more callers fit"
        assert listens(path)
    assert not listens(path)
    for caller in callers:
        caller.close()


def test_no_controller_answers_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with llts.Client(controller=address, timeout=0.2) as c, pytest.raises(llts.NoController, match=address):
            c.stats()
    with llts.Client(controller=address, timeout=0.2) as c, pytest.raises(llts.NoController, match=r"0\.2 s"):
        c.stats()


def test_several_silent_addresses_are_tried_without_haste():
    with llts.Client(controller="tcp://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", timeout=1) as c:
        began = time.process_time()
        with pytest.raises(llts.NoController):
            c.stats()
        assert time.process_time() - began < 0.5


@pytest.mark.parametrize("address", ["x", "tcp://", "tcp://*:1", "tcp://a:0", "tcp://a:65536", "ipc://", "tcp://a:1,b"])
def test_what_is_no_address_is_refused(address, monkeypatch):
    with pytest.raises((llts.ConfigError, llts.NoController)):
        llts.Client(controller=address)


def test_the_variable_and_a_context_name_a_controller(start_service, monkeypatch, tmp_path):
    service = start_service(agents=1, CONTROLLER_REP_PORT=0, CONTROLLER_PUB_PORT=0)
    address = service.llts("info").split("tcp://")[1].split()[0].strip(",")
    address = f"tcp://{address}"
    monkeypatch.setenv("CONTROLLER_ADDRESS", address)
    with llts.Client() as c:
        assert c.connection.endpoint.addresses == (address,)
        assert c.run("echo hi").stdout() == "hi\n"
    # The first of two addresses is that of no one.
    with llts.Client(controller=f"tcp://127.0.0.1:1,{address[6:]}", timeout=LIMIT) as c:
        assert c.run("echo hi").stdout() == "hi\n"
    monkeypatch.delenv("CONTROLLER_ADDRESS")
    service.llts("context", "add", "lab", address)
    monkeypatch.setenv("XDG_CONFIG_HOME", service.env["XDG_CONFIG_HOME"])
    monkeypatch.setenv("LLTS_CONTEXT", "lab")
    with llts.Client() as c:
        assert c.stats()
    monkeypatch.delenv("LLTS_CONTEXT")
    with llts.Client(context="lab") as c:
        assert c.stats()
    with pytest.raises(llts.ConfigError, match="no context"):
        llts.Client(context="farm")


@pytest.fixture
def farm(start_service):
    return start_service(agents=1, init=("--listen", "127.0.0.1"), CONTROLLER_REP_PORT=0, CONTROLLER_PUB_PORT=0)


def test_keys(farm, tmp_path, monkeypatch):
    with farm.client() as c:
        assert c.connection.endpoint.keys is not None
        assert c.run("echo secret").stdout() == "secret\n"
        tool = push(c, "hello", "echo hello")
    address = "tcp://" + farm.llts("info").split("tcp://")[1].split()[0].strip(",")
    public, secret = zmq.curve_keypair()
    (tmp_path / "own.key").write_bytes(secret + b"\n")
    (tmp_path / "own.key").chmod(0o600)
    server = next((farm.home / "keys").glob("*server*.pub"))
    options = {"controller": address, "server_key_file": server, "secret_key_file": tmp_path / "own.key"}
    with llts.Client(**options, timeout=LIMIT) as c, pytest.raises(llts.KeyRefused, match="does not accept the key"):
        c.stats()
    with llts.Client(controller=address, timeout=LIMIT) as c, pytest.raises(llts.KeyRefused, match="no keys are given"):
        c.stats()
    (farm.home / "keys/authorised/other.pub").write_bytes(public + b"\n")
    farm.llts("keys", "list")

    def is_admitted():
        try:
            with llts.Client(**options, timeout=LIMIT) as c:
                return c.stats()
        except llts.KeyRefused:
            return None

    assert wait_until(is_admitted, "the key is admitted")
    with llts.Client(**options) as c:
        assert c.submit(tool).result(LIMIT).stdout == "hello\n"
        farm.llts("context", "add", "farm", address, "--server-key", str(server), "--secret-key", options["secret_key_file"])
    monkeypatch.setenv("XDG_CONFIG_HOME", farm.env["XDG_CONFIG_HOME"])
    with llts.Client(context="farm") as c:
        assert c.submit(tool).result(LIMIT)
    # The home of a machine that has joined has the keys of a client alone.
    port = address.rpartition(":")[2]
    joined = tmp_path / "joined"
    joined.mkdir()
    keys = f'CURVE_SECRET_KEY_FILE = "{tmp_path}/own.key"\nCURVE_SERVER_PUBLIC_KEY_FILE = "{server}"\n'
    (joined / "config.toml").write_text(f'CONTROLLER_IP = "127.0.0.1"\nCONTROLLER_REP_PORT = {port}\n{keys}')
    with llts.Client(joined) as c:
        assert not c.connection.endpoint.is_local
        assert c.submit(tool).result(LIMIT)
    (tmp_path / "own.key").chmod(0o644)
    with pytest.raises(llts.ConfigError, match="chmod 600"):
        llts.Client(**options)
