"""The real program: one controller and its agents in a temporary folder."""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading

from . import leftovers
from .archives import ToolShelf
from .waiting import LIMIT

REPOSITORY = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BINARY = os.path.abspath(os.environ.get("SERVICE_BINARY") or os.path.join(REPOSITORY, "target", "debug", "llts"))

_CONTROLLER_READY = re.compile(r"llts controller ready: rep (.+) pub (\S+)(?: http http://(\S+:\d+))?")
_AGENT_READY = re.compile(r"llts agent ready: (\S+)")

# Seconds that a process gets after SIGTERM: an agent has to end its task first.
_END_LIMIT = 30


def environment(**more):
    """Ours, without what would change the service."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LLTS_")}
    kept.pop("CONTROLLER_ADDRESS", None)
    kept.update(more)
    return kept


class Program:
    """One started process of the service. Its standard output is read all the time, so that it never blocks."""

    def __init__(self, arguments, folder, extra_environment=None):
        self.arguments = arguments
        self.errors_path = os.path.join(folder, f"stderr.{len(os.listdir(folder))}")
        with open(self.errors_path, "wb") as errors:
            self.process = subprocess.Popen(
                [BINARY, *arguments],
                cwd=folder,
                # The home of a program that finds no other one.
                env=environment(XDG_STATE_HOME=folder, **(extra_environment or {})),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with self.process.stdout as output:
            for line in output:
                self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def ready(self, pattern):
        """Waits for the first line and returns its match, or None when the program ends without any."""
        line = self.lines.get(timeout=LIMIT)
        if line is None:
            return None
        match = pattern.fullmatch(line)
        assert match, f"{self.arguments} says {line!r}"
        return match

    def must_be_ready(self, pattern):
        match = self.ready(pattern)
        assert match, f"{self.arguments} ended without a ready line: {self.errors()}"
        return match

    def errors(self):
        with open(self.errors_path, encoding="utf-8", errors="replace") as errors:
            return errors.read()[-2000:]

    def wait(self, limit=LIMIT):
        return self.process.wait(timeout=limit)

    def terminate(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=LIMIT)

    def end(self):
        """SIGTERM, and SIGKILL if that does not help. Returns whether SIGTERM was enough."""
        self.terminate()
        try:
            self.process.wait(timeout=_END_LIMIT)
            return True
        except subprocess.TimeoutExpired:
            self.kill()
            return False


class Service:
    """A controller and some agents on free ports. `config` overrides keys of config.toml."""

    def __init__(self, folder, agents=0, **config):
        # The space is there on purpose: no path of the service may break on it.
        self.folder = os.path.join(folder, "llts test")
        self.work = os.path.join(self.folder, "work")
        self.logs = os.path.join(self.folder, "logs")
        tools = os.path.join(self.folder, "tools")
        for path in (self.work, self.logs, tools, os.path.join(self.folder, "run")):
            os.makedirs(path)
        self.tools = ToolShelf(tools)
        self.config = {
            "AGENT_WORK_DIR": self.work,
            "AGENT_TOOLS_DIR": tools,
            "STATE_DIR": os.path.join(self.folder, "state"),
            "LOG_DIR": self.logs,
            "TOOL_SOURCES_DIR": "",
            # The ladder and the clean-up are walked through in many tests; their length is not what is tested.
            "AGENT_KILL_INTERVAL": 800,
            "AGENT_STRAGGLER_GRACE": 200,
            **config,
        }
        self.task_ids = []
        self.agents = []
        self.controller = None
        self.start_controller()
        try:
            self.start_agents(agents)
        except BaseException:
            self.stop()
            raise

    def start_controller(self, rep_port=0, pub_port=0):
        config = self._write_config("controller.toml", rep_port, pub_port)
        self.controller = Program(["controller", "--config", config], self._run_folder())
        try:
            match = self.controller.must_be_ready(_CONTROLLER_READY)
        except BaseException:
            self.controller.end()
            raise
        self.rep, self.pub, self.http = match.groups()

    def start_agents(self, count):
        first = len(self.agents) + 1
        started = [self.spawn_agent(f"agent{number}") for number in range(first, first + count)]
        for agent in started:
            agent.name = agent.must_be_ready(_AGENT_READY).group(1)

    def spawn_agent(self, name):
        """Starts an agent without waiting for its ready line."""
        config = self._write_config("agent.toml", port_of(self.rep), port_of(self.pub))
        # The tools of the tests use the Python that runs the tests: it has pyzmq.
        path = os.path.dirname(os.path.abspath(sys.executable)) + os.pathsep + os.environ.get("PATH", "")
        agent = Program(["agent", "--config", config, "--name", name], self._run_folder(), {"PATH": path})
        self.agents.append(agent)
        return agent

    def agent_name_of(self, agent):
        """The name in the ready line, or None when the agent ends without one."""
        match = agent.ready(_AGENT_READY)
        return match and match.group(1)

    def _run_folder(self):
        return os.path.join(self.folder, "run")

    def _write_config(self, name, rep_port, pub_port):
        values = {**self.config, "CONTROLLER_REP_PORT": rep_port, "CONTROLLER_PUB_PORT": pub_port}
        path = os.path.join(self.folder, name)
        # Replaced whole: an agent that was started before may be reading it.
        with open(path + ".new", "w", encoding="utf-8") as config:
            # Strings and numbers look the same in TOML as in JSON.
            config.writelines(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        os.replace(path + ".new", path)
        return path

    def check_alive(self):
        """Fails with the last output of a process if one has ended without a signal of the test."""
        for program in [*self.agents, self.controller]:
            assert program.process.poll() is None, f"{program.arguments} has ended: {program.errors()}"

    def task_folders(self):
        return [name for name in os.listdir(self.work) if name.startswith("TASK_")]

    def leftovers(self, task_ids):
        return leftovers.find(folder=self.work, task_ids=task_ids, but_staying=True)

    def stop(self):
        """Ends all that was started, agents first, and says what should not have been there."""
        faults = []
        for agent in self.agents:
            agent.terminate()
        for program in [*self.agents, self.controller]:
            if not program.end():
                faults.append(f"{program.arguments} ignored SIGTERM for {_END_LIMIT} s: {program.errors()}")
        left = leftovers.end_all(folder=self.work, task_ids=self.task_ids)
        if left:
            faults.append(f"processes were left behind: {left}")
        if self.task_folders():
            faults.append(f"task folders were left behind: {self.task_folders()}")
        assert not faults, "\n".join(faults)


def restart(service):
    """Ends the controller as a crash does, and starts it again on the same ports."""
    service.controller.kill()
    service.start_controller(port_of(service.rep), port_of(service.pub))


def port_of(address):
    return int(address.rsplit(":", 1)[1])
