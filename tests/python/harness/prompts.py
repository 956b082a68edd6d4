"""A prompt master in a temporary root, with whatever works for it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

from . import leftovers
from .service import Program, environment
from .waiting import LIMIT, wait_until

FOLDERS = ("pending", "working", "done", "failed")
_RESULT = re.compile(r"(.*)\.(out|err|json|reason)")
_DOCUMENT_WORKER = os.path.join(os.path.dirname(__file__), "document_worker.py")

# Short, so that nothing waits for the document's ten seconds; and no worker is disconnected that is delayed on a busy machine.
QUICK = {"LLTS_PROMPT_TIMER_INTERVAL": "200", "LLTS_PROMPT_REQUEST_TIMEOUT": "30000", "LLTS_PROMPT_JOIN_TIMEOUT": "30000"}


# A loopback address of this process: a port there is still free when its next master takes it.
OWN_IP = f"127.{64 + (os.getpid() >> 16) % 32}.{(os.getpid() >> 8) % 256}.{max(os.getpid() % 256, 1)}"


class Prompts:
    """The root, its prompts, and every process that a test has started for it."""

    def __init__(self, folder):
        self.root = os.path.join(folder, "root")
        self.logs = os.path.join(folder, "logs")
        os.makedirs(self.logs)
        for name in FOLDERS:
            os.makedirs(self.path(name))
        self.port = free_port()
        self.started = []

    def path(self, *names):
        return os.path.join(self.root, ".tasks", *names)

    def write(self, name, text, folder="pending"):
        draft = os.path.join(self.root, name)
        with open(draft, "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(draft, self.path(folder, name))

    def names(self, folder):
        """The prompts of a folder, without their results."""
        names = set(os.listdir(self.path(folder)))
        results = {name for name in names if (match := _RESULT.fullmatch(name)) and match[1] in names}
        stray = {name for name in names if _RESULT.fullmatch(name) and name not in results}
        return sorted(name for name in names - results - stray if not name.startswith("."))

    def places(self):
        """Where each prompt is; a list, so that one in two folders shows."""
        places = {}
        for folder in FOLDERS:
            for name in self.names(folder):
                places.setdefault(name, []).append(folder)
        return places

    def count(self, *folders):
        return sum(len(self.names(folder)) for folder in folders)

    def master(self, **config):
        config = {"BIND": OWN_IP, **config}
        extra = {**QUICK, **{f"LLTS_PROMPT_{key}": str(value) for key, value in config.items()}}
        arguments = ["prompt", "master", str(self.port), "--root-dir", self.root]
        master = self._keep(Program(arguments, self.logs, extra))
        wait_until(lambda: self._answers() or master.process.poll() is not None, "a master that listens")
        assert master.process.poll() in (None, 0, 1), master.errors()
        return master

    def _answers(self):
        try:
            socket.create_connection((OWN_IP, self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def document_worker(self):
        return self._keep(
            subprocess.Popen(
                [sys.executable, _DOCUMENT_WORKER, OWN_IP, str(self.port)],
                env=environment(),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self.root,
            )
        )

    def worker(self, script, *options):
        arguments = ["prompt", "worker", OWN_IP, str(self.port), "--root-dir", self.root, *options]
        return self._keep(Program([*arguments, "--", "sh", "-c", script], self.logs))

    def peer(self):
        return Peer(self.port)

    def _keep(self, started):
        self.started.append(started)
        return started

    def close(self):
        for started in self.started:
            process = getattr(started, "process", started)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        # What a killed worker had started.
        leftovers.end_all(folder=self.root)


class Peer:
    """A worker of which each message is a test's own."""

    def __init__(self, port):
        self.socket = socket.create_connection((OWN_IP, port), timeout=LIMIT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""

    def send(self, kind, msg="", **more):
        self.send_bytes(json.dumps({"type": kind, "msg": msg, **more}).encode() + b"\n")

    def send_bytes(self, data):
        self.socket.sendall(data)

    def receive(self):
        """The next message; None at the end of the connection."""
        while b"\n" not in self.received:
            try:
                piece = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self.received += piece
        line, self.received = self.received.split(b"\n", 1)
        return json.loads(line)

    def expect(self, kind, ignoring=("CHECK",)):
        while True:
            message = self.receive()
            assert message, f"the connection ends instead of {kind}"
            if message["type"] == kind:
                return message
            assert message["type"] in ignoring, message
            self.send("CHECK_ACK", req_id=message["req_id"])

    def expect_the_end(self):
        while self.receive():
            pass

    def join(self):
        self.send("JOIN", str(self.socket.getsockname()[1]), splits=True)
        self.expect("JOIN_ACK")
        return self

    def take(self):
        request = self.expect("REQUEST")
        self.send("REQUEST_ACK", req_id=request["req_id"])
        return request

    def close(self):
        self.socket.close()


def guards(worker, folder):
    """The guard of a worker with this root, if it has one."""
    return [pid for pid, line in leftovers.find(folder=folder).items() if f"guard --pid {worker} " in line]


def free_port():
    with socket.socket() as probe:
        probe.bind((OWN_IP, 0))
        return probe.getsockname()[1]
