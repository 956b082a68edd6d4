"""kill -9 of the controller: nothing is lost, nothing is doubled, and the client goes on."""

import collections
import os
import socket
import threading
from contextlib import suppress

import pytest
from conftest import LIMIT, wait_until

import llts

SUBMITS = 500


@pytest.fixture(params=["unix", "tcp"])
def own(start_service, request):
    """A service of the test's own, and clients of either wire."""
    if request.param == "unix":
        return start_service(agents=2)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    service = start_service(agents=2, CONTROLLER_REP_PORT=port)
    service.client = lambda: llts.Client(controller=f"tcp://127.0.0.1:{port}")
    return service


def test_submits_survive_the_death_of_the_controller(own, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    with own.client() as c:
        c.stats()
        job = c.job("survivors")
        for n in range(SUBMITS):
            # A run leaves a mark of its own, so that two runs of one task are seen.
            job.run(["mktemp", f"{marks}/{n}.XXXXXX"], cwd="/", max_losses=0)
            if n == SUBMITS // 2:
                job.tasks[10].id  # noqa: B018 - some are accepted
                own.kill_controller()
        outcomes = collections.Counter(task.wait(LIMIT).outcome for task in job.as_completed(timeout=LIMIT))
        assert outcomes == {"SUCCEEDED": SUBMITS}
        assert len({task.id for task in job.tasks}) == SUBMITS
        assert job.wait(LIMIT)["total"] == SUBMITS
        assert sum(1 for _ in c.list(job="survivors")) == SUBMITS
    # A task that was handed out just before the death may run in a second round, as the manual says; none is missing.
    assert {name.split(".")[0] for name in os.listdir(marks)} == {str(n) for n in range(SUBMITS)}


def test_as_completed_survives_deaths_of_the_controller(own, tmp_path):
    with own.client() as c:
        job = c.job("watched")
        for _ in range(SUBMITS):
            job.run(["true"], cwd="/")
        seen = []
        for task in job.as_completed(timeout=LIMIT):
            seen.append(task)
            if len(seen) in (50, 250):
                own.kill_controller()
        assert set(seen) == set(job.tasks)
        assert len(seen) == SUBMITS
        assert all(task.result().succeeded for task in seen)


def test_waits_survive_the_death_of_the_controller(own, tmp_path):
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    with own.client() as c:
        task = c.run(["cat", str(fifo)])
        end, job_end = task.end(), []
        job = c.job("one")
        in_job = job.run("true", after=task)
        waiter = threading.Thread(target=lambda: job_end.append(job.wait(LIMIT)))
        waiter.start()
        wait_until(lambda: task.query().status == "RUNNING", "it runs")
        own.kill_controller()
        fifo.write_text("x")
        assert end.result(LIMIT).stdout == "x"
        assert in_job.result(LIMIT)
        waiter.join(LIMIT)
        assert job_end[0]["succeeded"] == 1


def test_logs_survive_the_death_of_the_controller(own, tmp_path):
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    with own.client() as c:
        task = c.run(["sh", "-c", f"echo one; cat {fifo}"])
        parts = task.logs()
        assert next(parts) == b"one\n"
        own.kill_controller()
        fifo.write_text("two\n")
        assert b"".join(parts) == b"two\n"


def test_a_controller_that_does_not_come_back_is_told(own, monkeypatch):
    monkeypatch.setattr("llts.connection.SILENCE_MAX", 0.5)
    with own.client() as c:
        task = c.run("sleep 60")
        end = task.end()
        wait_until(lambda: task.query().status == "RUNNING", "it runs")
        own.llts("down")
        with pytest.raises(llts.NoController):
            end.result(LIMIT)
        with pytest.raises(llts.NoController):
            list(llts.as_completed([task]))
        with pytest.raises(llts.NoController):
            task.wait(LIMIT)
        own.llts("up", "1")

        def answers():
            with suppress(llts.NoController):
                return c.stats()

        assert wait_until(answers, "the connection is made again")
        task.kill()
        assert task.wait(LIMIT).outcome == "KILLED"


def test_a_request_that_must_not_arrive_twice_is_not_repeated(own):
    with own.client() as c:
        c.stats()
        connection = c.connection
        # The controller cannot answer while it is stopped.
        pid = own.controller()
        os.kill(pid, 19)
        asked = connection.ask("TASK/RETRY", {"__TASK_ID__": "TASK_1480000000.120000_AZazA"}, repeat=False)
        kept = connection.ask("TASK/STATISTIC")
        os.kill(pid, 9)
        with pytest.raises(llts.NoController, match="may have been carried out"):
            asked.result(LIMIT)
        assert kept.result(LIMIT)["__CODE__"] == 0


def test_calls_of_functions_survive_the_death_of_the_controller(own):
    with own.client().executor() as ex:
        calls = [ex.submit(pow, 2, n) for n in range(SUBMITS)]
        for n, call in enumerate(calls):
            assert call.result(LIMIT) == 2**n
            assert call.task.id.startswith("TASK_")
            if n in (20, 200):
                own.kill_controller()
