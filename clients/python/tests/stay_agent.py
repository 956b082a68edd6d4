"""The agent's end of a tool that stays, as the protocol has it: lines of JSON at a connected socket."""

import json
import os
import socket
import subprocess
import sys


class StayAgent:
    """Starts a tool, and talks to it. ``folder`` is the one in which its run.sh starts."""

    def __init__(self, arguments, folder, **env):
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(30)
        with theirs:
            self.process = subprocess.Popen(
                arguments,
                cwd=folder,
                env={**os.environ, "LLTS_STAY_FD": str(theirs.fileno()), **env},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        self.lines = self.socket.makefile("r", encoding="utf-8")

    @classmethod
    def of_source(cls, source, folder):
        return cls([sys.executable, "-c", source], folder)

    def receive(self):
        line = self.lines.readline()
        return json.loads(line) if line else None

    def send(self, **message):
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def start(self, id, folder=None, **task):
        self.send(type="task", version=1, id=id, round=0, folder=folder, task=task, unknown="ignored")

    def run(self, id, folder=None, **task):
        self.start(id, folder, **task)
        done = self.receive()
        assert (done["type"], done["id"], done["round"]) == ("done", id, 0)
        return done

    def end(self):
        """Close the socket; return the exit code, stdout and stderr of the tool."""
        self.lines.close()
        self.socket.close()
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out.decode(), err.decode()
