"""llts.Executor: its tool against an agent of the tests' own, and all of it against a service that has tools that stay."""

import concurrent.futures
import functools
import os
import pickle
import sys
import tarfile
import threading
import types
from concurrent.futures import Future

import pytest
from conftest import LIMIT
from stay_agent import StayAgent

import llts
from llts.executor import Executor
from llts.state import TaskState


class Agents:
    """Stands in for a client: its one agent runs each task at once, in threads of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.connection = types.SimpleNamespace(submit_key=lambda: "key", wait=lambda *_: None, is_left=False)
        self.pushed = []
        self.agents = {}
        self.killed = []
        self.tasks = []

    def prepare(self, work, parameters, policy):
        """The files are sent, as the client does it."""
        inputs = {path.name: path.read_bytes() for path in policy.get("in_", ())}
        return {**work, **(parameters or {}), "__POLICY__": policy, "__INPUTS__": inputs}

    def push_tool(self, name, archive):
        self.pushed.append((name, archive.getvalue()))
        with tarfile.open(fileobj=archive) as tar:
            tar.extractall(self.folder, filter="data") if sys.version_info >= (3, 12) else tar.extractall(self.folder)
        agent = StayAgent(["./run.sh"], self.folder / name)
        self.agents[name] = agent
        self.lock = threading.Lock()
        ready = agent.receive()
        assert ready == {"type": "ready", "version": 1}, agent.end()

    def submit(self, fields):
        tool, policy, inputs = fields["__OPERATION__"], fields["__POLICY__"], fields["__INPUTS__"]
        parameters = {name: value for name, value in fields.items() if not name.endswith("__")}
        task = types.SimpleNamespace(id=f"TASK_{len(self.tasks)}", end=Future, kill_later=self.killed.append)
        ended = Future()
        task.end = lambda: ended
        folder = None
        if "out" in policy:
            folder = self.folder / task.id
            folder.mkdir()
            for name, data in inputs.items():
                (folder / name).write_bytes(data)
            task.fetch = lambda _: [folder / "result.pickle"]
        self.tasks.append(task)

        def run():
            with self.lock:
                done = self.agents[tool].run(task.id, folder and str(folder), **parameters)
            outcome = "FAILED" if done["exit_code"] else "SUCCEEDED"
            fields = {"__TASK_ID__": task.id, "__OUTCOME__": outcome, "__VALUE__": llts.connection.encode(done["value"])}
            ended.set_result(TaskState(fields))

        if not policy.get("start_after"):
            threading.Thread(target=run).start()
        return task


@pytest.fixture
def agents(tmp_path):
    stand_in = Agents(tmp_path)
    yield stand_in
    for agent in stand_in.agents.values():
        agent.end()


@pytest.fixture(autouse=True)
def ends_of_the_agents(request, monkeypatch):
    if "agents" in request.fixturenames:
        agents = request.getfixturevalue("agents")
        monkeypatch.setattr("llts.executor.Ends", lambda connection, job, early: agents)


def executor(agents, *, python=sys.executable, initializer=None, initargs=(), files=False, **policy):
    return Executor(agents, python, (initializer, initargs), files, {"idle": 60, "memory": None}, policy)


class Point:
    def __init__(self, x):
        self.x = x


def here(function):
    """The function or class as one of the main program, which an agent does not have."""
    function.__module__ = "__main__"
    return function


@here
def double(x):
    return 2 * x


def test_functions_travel_by_value(agents):
    with executor(agents) as ex:
        assert list(ex.map(double, range(20))) == list(range(0, 40, 2))
        offset = 5
        assert ex.submit(lambda x, y=1: x + y + offset, 2, y=3).result(LIMIT) == 10
        assert ex.submit(functools.partial(pow, 2), 10).result(LIMIT) == 1024
        assert list(ex.map(pow, [2, 3], [3, 2])) == [8, 9]
        assert ex.submit(os.getpid).result(LIMIT) != os.getpid()
        moment = __import__("datetime").datetime(2026, 1, 31)
        assert ex.submit(lambda it: it, {"a": [moment, b"\xff", None]}).result(LIMIT) == {"a": [moment, b"\xff", None]}
    assert len(agents.pushed) == 1
    with pytest.raises(RuntimeError, match="shut down"):
        ex.submit(double, 1)


def test_chunks_are_one_task(agents):
    with executor(agents) as ex:
        assert list(ex.map(double, range(25), chunksize=10)) == list(range(0, 50, 2))
    assert len(agents.tasks) == 3
    with pytest.raises(ValueError):
        ex.map(double, [1], chunksize=0)


def test_exceptions_come_back_with_their_traceback(agents):
    def fails(x):
        raise KeyError(x, "no such row")

    with executor(agents) as ex:
        with pytest.raises(KeyError) as raised:
            ex.submit(fails, 7).result(LIMIT)
        assert raised.value.args == (7, "no such row")
        assert 'raise KeyError(x, "no such row")' in str(raised.value.__cause__) or "in fails" in str(raised.value.__cause__)

        def fails_strangely():
            class Strange(Exception):
                def __init__(self, a, b):
                    super().__init__(a)

            raise Strange(1, 2)

        with pytest.raises(Exception, match="1"):
            ex.submit(fails_strangely).result(LIMIT)


def test_large_arguments_and_results_are_files(agents):
    with executor(agents) as ex:
        # A large argument goes as a file, and its tool brings large results back.
        assert ex.submit(len, b"x" * 100_000).result(LIMIT) == 100_000
        assert ex.submit(lambda data: data * 2, b"x" * 100_000).result(LIMIT) == b"x" * 200_000
        with pytest.raises(llts.TooLarge, match=r"executor\(files=True\)"):
            ex.submit(lambda: b"x" * 100_000).result(LIMIT)
    with executor(agents, files=True) as ex:
        assert ex.submit(lambda: b"x" * 100_000).result(LIMIT) == b"x" * 100_000
        assert ex.submit(lambda: 1).result(LIMIT) == 1


def test_an_initializer_runs_once_in_each_process(agents):
    def prepare(value):
        import builtins

        builtins.prepared = [*getattr(builtins, "prepared", ()), value]

    def prepared():
        import builtins

        return builtins.prepared

    with executor(agents, initializer=prepare, initargs=("model",)) as ex:
        assert [ex.submit(prepared).result(LIMIT) for _ in range(3)] == [["model"]] * 3


def test_another_python_is_refused_with_a_sentence(agents, monkeypatch):
    monkeypatch.setattr("llts.executor.VERSION", "2.7")
    with executor(agents) as ex, pytest.raises(llts.PythonMismatch, match=r"and the function is one of Python 2\.7"):
        ex.submit(double, 1).result(LIMIT)


def test_the_same_tool_has_the_same_name(agents, tmp_path):
    def pack(**options):
        archive, name = executor(agents, **options)._pack(False)
        return name, archive.getvalue()

    assert pack() == pack()
    assert pack()[0] != pack(python="other")[0]
    assert pack()[0] != executor(agents)._pack(True)[1]


def test_a_cancelled_call_kills_its_task(agents):
    with executor(agents, start_after=1) as ex:
        call = ex.submit(double, 1)
        assert call.cancel() and call.cancel()
        assert call.cancelled() and len(agents.killed) == 1
        with pytest.raises(concurrent.futures.CancelledError):
            call.result()
        waits = [ex.submit(double, n) for n in range(3)]
        ex.shutdown(cancel_futures=True)
        assert all(each.cancelled() for each in waits)


def test_without_cloudpickle_functions_travel_by_name(agents, monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with executor(agents) as ex:
        assert ex.submit(pow, 2, 5).result(LIMIT) == 32
        with pytest.raises((llts.Error, pickle.PicklingError, AttributeError)):
            ex.submit(double, 1)


def test_calls_run_on_the_agents_of_a_service(service, stays):
    with service.client().executor(python=sys.executable, timeout=LIMIT) as ex:
        assert list(ex.map(double, range(200))) == list(range(0, 400, 2))
        assert list(ex.map(double, range(200), chunksize=50)) == list(range(0, 400, 2))
        with pytest.raises(ZeroDivisionError) as raised:
            ex.submit(lambda: 1 / 0).result(LIMIT)
        assert "ZeroDivisionError" in str(raised.value.__cause__)
        assert len(ex.submit(lambda data: data, b"x" * 300_000).result(LIMIT)) == 300_000
        call = ex.submit(lambda: __import__("time").sleep(60))
        assert call.cancel()
        assert call.task.wait(LIMIT).outcome == "KILLED"
        assert ex.submit(lambda: print("said") or 3).result(LIMIT) == 3
        assert call.done()
    with pytest.raises(RuntimeError):
        ex.submit(double, 1)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"python": 3}, "python is 3; it must be"),
        ({"python": ""}, "python is ''; it must be"),
        ({"idle": 0}, "idle is 0; it must be a whole number from 1"),
        ({"max_tasks": "5"}, "max_tasks is '5'; it must be a whole number from 1"),
        ({"memory": 0.5}, "memory is 0.5; it must be a whole number from 1"),
        ({"initializer": 5}, "initializer is 5, which cannot be called"),
        ({"priotity": 3}, "'priotity' is no option of a submit"),
        ({"cwd": "/"}, "cwd is for commands"),
        ({"in_": ["model.bin"], "files": True}, "in_ is no option of a call: give its files as arguments"),
        ({"out": "*.txt", "files": True}, "out is no option of a call"),
    ],
)
def test_wrong_arguments_are_refused_before_the_first_call(service, wrong, said):
    with service.client() as c, pytest.raises((TypeError, ValueError), match=said):
        c.executor(**wrong)


def test_calls_are_tried_again(service, stays, tmp_path):
    def fails_once(path):
        if not os.path.exists(path):
            with open(path, "w"):
                pass
            raise OSError("not yet")
        return "done"

    with service.client() as c, c.executor(python=sys.executable, max_fails=1) as ex:
        assert ex.submit(fails_once, str(tmp_path / "mark")).result(LIMIT) == "done"
        assert c.stats()


def test_calls_survive_the_death_of_the_controller(start_service, stays):
    own = start_service(agents=2)
    with own.client().executor(python=sys.executable) as ex:
        results = ex.map(double, range(500))
        assert next(results) == 0
        own.kill_controller()
        assert list(results) == list(range(2, 1000, 2))


def test_what_does_not_fit_into_a_value_is_said(agents):
    def fails(text):
        raise ValueError(text)

    with executor(agents) as ex:
        assert len(ex.submit(lambda: b"x" * 23_000).result(LIMIT)) == 23_000
        for size in (24_560, 44_000):
            with pytest.raises(llts.TooLarge, match=r"executor\(files=True\)"):
                ex.submit(lambda size: b"x" * size, size).result(LIMIT)
        with pytest.raises(RuntimeError, match="ValueError: xxx"):
            ex.submit(fails, "x" * 200_000).result(LIMIT)
        with pytest.raises(ValueError, match="\udcff"):
            ex.submit(fails, "\udcff").result(LIMIT)
        with pytest.raises(RuntimeError, match=r"sys.exit\(0\)"):
            ex.submit(sys.exit, 0).result(LIMIT)
