"""Tests of the client against the real program: a home of each service's own, free ports, and no waits without a bound."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

import llts

BINARY = os.environ.get("SERVICE_BINARY") or str(Path(__file__).parents[3] / "target/debug/llts")

# Seconds. They end a hang, and measure nothing.
LIMIT = 60


def pytest_sessionstart(session):
    if not os.access(BINARY, os.X_OK):
        pytest.exit(f"no program at {BINARY}: build it with `cargo build`, or set SERVICE_BINARY", returncode=2)


def wait_until(condition, what):
    """Return the first true result of a condition that no socket or pipe announces."""
    deadline = time.monotonic() + LIMIT
    while not (result := condition()):
        assert time.monotonic() < deadline, f"after {LIMIT} s still not: {what}"
        time.sleep(0.01)
    return result


def environment(**more):
    """Ours, without what names a service. Tools run the Python of the tests, which has this package."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LLTS_", "__")) and k != "CONTROLLER_ADDRESS"}
    path = os.path.dirname(sys.executable) + os.pathsep + kept.get("PATH", "")
    return {**kept, "PATH": path, **more}


class Service:
    """A service of a home of its own: ``llts up``, whose supervisor starts a killed controller again."""

    def __init__(self, folder, agents=2, init=(), **config):
        self.home = Path(folder) / "home"
        self.env = environment(LLTS_HOME=str(self.home), XDG_CONFIG_HOME=str(Path(folder) / "config"))
        self.llts("init", str(self.home), *init)
        defaults = {"CONTROLLER_REP_PORT": "off", "CONTROLLER_PUB_PORT": "off", "AGENT_KILL_INTERVAL": 800}
        config = {**defaults, **config}
        file = self.home / "config.toml"
        kept = [line for line in file.read_text().splitlines() if line.split(" ")[0] not in config]
        # Texts and numbers look the same in TOML as in JSON.
        file.write_text("".join(f"{line}\n" for line in kept + [f"{k} = {json.dumps(v)}" for k, v in config.items()]))
        self.llts("up", str(agents))

    def llts(self, *arguments):
        done = subprocess.run([BINARY, *arguments], env=self.env, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def client(self, **options):
        return llts.Client(self.home, **options)

    def controller(self):
        """The process id of the controller; None while there is none."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    is_ours = str(self.home).encode() in (entry / "environ").read_bytes()
                    if b"controller" in words and is_ours:
                        return int(entry.name)
        return None

    def kill_controller(self):
        os.kill(wait_until(self.controller, "a controller runs"), signal.SIGKILL)

    def stop(self):
        self.llts("down")


@pytest.fixture(autouse=True)
def no_service_of_the_caller(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith(("LLTS_", "__")) or name == "CONTROLLER_ADDRESS":
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """A service for all tests that need no special one."""
    shared = Service(tmp_path_factory.mktemp("shared"))
    yield shared
    shared.stop()


@pytest.fixture
def c(service):
    with service.client() as client:
        yield client


@pytest.fixture
def start_service(tmp_path):
    """Starts services of a test's own."""
    started = []

    def start(**options):
        folder = tmp_path / f"s{len(started)}"
        folder.mkdir()
        started.append(Service(folder, **options))
        return started[-1]

    yield start
    for each in started:
        each.stop()


def packed(name, files):
    """An archive of a tool with these files, as texts by name."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for path, text in files.items():
            member = tarfile.TarInfo(f"{name}/{path}")
            data = text.encode()
            member.size, member.mode = len(data), 0o755 if path == "run.sh" else 0o644
            tar.addfile(member, io.BytesIO(data))
    archive.seek(0)
    return archive


def push(client, name, script, **files):
    """Push a tool whose run.sh is a script for sh, and return its name."""
    client.push_tool(name, packed(name, {"run.sh": f"#!/bin/sh\n{script}\n", **files}))
    return name


@pytest.fixture(scope="session")
def stays(tmp_path_factory):
    """Skips a test if the service has no tools that stay."""
    tool = tmp_path_factory.mktemp("probe") / "stayer"
    tool.mkdir()
    (tool / "run.sh").write_text("#!/bin/sh\n")
    (tool / "run.sh").chmod(0o755)
    (tool / "tool.toml").write_text("[stay]\nidle = 60\n")
    done = subprocess.run([BINARY, "tool", "check", str(tool)], env=environment(), capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"this service has no tools that stay: {done.stderr.strip()}")
