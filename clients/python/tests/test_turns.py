"""Who takes the answers: the thread of the connection, or a caller that waits."""

import concurrent.futures
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import LIMIT, wait_until

import llts


def interrupt_soon(after=0.05):
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_an_interrupted_wait_loses_no_answer(c):
    task = c.run("sleep 0.5")
    timer = interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        task.wait(LIMIT)
    timer.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert task.wait(LIMIT).succeeded
    assert c.stats()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one may hit a finalizer
def test_a_storm_of_interrupts_loses_no_answer(c):
    c.stats()
    is_inside = False
    caught = 0

    def interrupt(*_):
        nonlocal is_inside
        if is_inside:
            is_inside = False
            raise KeyboardInterrupt

    def storm():
        while not over.wait(0.001):
            os.kill(os.getpid(), signal.SIGINT)

    former = signal.signal(signal.SIGINT, interrupt)
    over = threading.Event()
    stormer = threading.Thread(target=storm)
    stormer.start()
    futures = []
    try:
        while caught < 200:
            try:
                is_inside = True
                futures.append(c.connection.ask("TASK/STATISTIC"))
                futures[-1].result(LIMIT)
                is_inside = False
            except KeyboardInterrupt:
                caught += 1
    finally:
        is_inside = False
        over.set()
        stormer.join()
        signal.signal(signal.SIGINT, former)
    assert all(future.result(LIMIT)["__CODE__"] == 0 for future in futures)


@pytest.mark.parametrize("way", ["result", "submit", "map", "as_completed", "job"])
def test_an_executor_and_a_job_go_on_after_interrupts_at_any_moment(c, stays, way):
    dice = random.Random(way)
    with c.executor() as ex:
        job = c.job(way)
        interrupted = 0
        while interrupted < 40:
            timer = threading.Timer(dice.random() * 0.003, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                if way == "result":
                    ex.submit(pow, 3, 2).result(LIMIT)
                elif way == "submit":
                    ex.submit(pow, 3, 2)
                elif way == "map":
                    list(ex.map(pow, range(5), range(5)))
                elif way == "as_completed":
                    list(concurrent.futures.as_completed([ex.submit(pow, 3, 2) for _ in range(3)]))
                else:
                    job.run(["true"], cwd="/")
                timer.join()
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                with contextlib.suppress(KeyboardInterrupt):
                    timer.join()
        assert ex.submit(pow, 3, 2).result(LIMIT) == 9
        assert all(task.wait(LIMIT).succeeded for task in job.as_completed(timeout=LIMIT))


class TooSlow(Exception):
    pass


@pytest.mark.parametrize("error", [TooSlow, SystemExit, KeyboardInterrupt])
def test_a_handler_of_the_program_may_raise_what_it_wants(c, error):
    def too_slow(*_):
        raise error("0.1 s are over")

    former = signal.signal(signal.SIGALRM, too_slow)
    try:
        task = c.run("sleep 0.5")
        other = c.connection.ask("TASK/QUERY", {"__TASK_ID__": task.id, "__WAIT__": 60_000})
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(error, match=r"0\.1 s are over"):
            task.wait(LIMIT)
        assert task.wait(LIMIT).succeeded
        assert other.result(LIMIT)["__STATUS__"] == "FINISHED"
    finally:
        signal.signal(signal.SIGALRM, former)


def test_a_callback_that_ends_its_thread_ends_no_connection(c):
    def leaves(_):
        raise SystemExit(3)

    # Not of an answer that may be there before the callback, which its caller would run then.
    future = c.run("sleep 0.3").end()
    future.add_done_callback(leaves)
    wait_until(future.done, "the thread has the answer")
    assert c.stats()
    task = c.run("sleep 0.1")
    task.end().add_done_callback(leaves)
    # The caller that takes the answer is told.
    with pytest.raises(SystemExit):
        task.wait(LIMIT)
    assert task.wait(LIMIT).succeeded
    assert c.stats()


def test_a_handler_that_does_not_raise_does_not_end_a_wait(c):
    seen = []
    former = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        task = c.run("sleep 0.3")
        timer = interrupt_soon()
        assert task.wait(LIMIT).succeeded
        timer.join()
        assert seen == [1]
    finally:
        signal.signal(signal.SIGINT, former)


def test_a_child_of_another_thread_has_the_handlers_of_the_program():
    code = """
import os, signal, threading
from llts.turns import Shield

def fork():
    child = os.fork()
    if child == 0:
        for _ in range(2):
            try:
                with Shield(): signal.raise_signal(signal.SIGINT)
                os._exit(1)
            except KeyboardInterrupt: pass
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print("both came")

with Shield():
    forks = threading.Thread(target=fork)
    forks.start()
    forks.join()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert (done.stdout, done.stderr) == ("both came\n", "")


def test_a_wait_in_a_callback_is_refused_and_not_a_hang(c):
    said = []
    called = threading.Event()

    def asks(_):
        try:
            c.stats()
        except llts.Error as error:
            said.append(str(error))
        called.set()

    future = c.connection.ask("TASK/STATISTIC")
    future.add_done_callback(asks)
    future.result(LIMIT)
    # If the answer had come before, the callback has run here, where it may wait.
    assert called.wait(LIMIT)
    task = c.run("sleep 0.1")
    called.clear()
    said.clear()
    task.end().add_done_callback(asks)
    assert task.wait(LIMIT).succeeded
    assert called.wait(LIMIT)
    assert "callback" in said[0]


def test_a_timeout_of_a_wait_leaves_the_answer_to_the_next_one(c):
    task = c.run("sleep 0.5")
    with pytest.raises(TimeoutError):
        task.wait(0.05)
    with pytest.raises(TimeoutError):
        task.wait(0)
    assert task.wait(LIMIT).succeeded


def test_a_wait_ends_when_another_thread_completes_the_future(c, stays):
    with c.executor() as ex:
        assert ex.submit(pow, 2, 3).result(LIMIT) == 8
        call = ex.submit(time.sleep, LIMIT)
        threading.Timer(0.1, call.cancel).start()
        with pytest.raises(concurrent.futures.CancelledError):
            call.result(LIMIT)


def test_callers_of_many_threads_get_their_own_answers(c, stays):
    with c.executor() as ex, concurrent.futures.ThreadPoolExecutor(8) as pool:

        def work(n):
            # Sometimes alone, sometimes not; with a wait, a callback, or a look at all of them.
            call = ex.submit(pow, n, 2)
            if n % 3 == 0:
                assert c.stats()["waiting"] >= 0
            if n % 3 == 1:
                concurrent.futures.wait([call], LIMIT)
            return call.result(LIMIT)

        assert list(pool.map(work, range(600))) == [n * n for n in range(600)]


def test_a_client_that_is_closed_ends_the_waits_of_others(service):
    c = service.client()
    task = c.run("sleep 30")
    failed = []

    def waits():
        try:
            task.wait(LIMIT)
        except llts.Error as error:
            failed.append(error)

    waiter = threading.Thread(target=waits)
    waiter.start()
    wait_until(lambda: c.connection._turns.holder == waiter.ident, "it takes the answers")
    c.close()
    waiter.join(LIMIT)
    assert "closed" in str(failed[0])
    with service.client() as other:
        other.kill(task.id)


def test_the_thread_sleeps_while_calls_follow_one_another_and_then_watches(c):
    c.stats()
    for _ in range(50):
        c.stats()
    wait_until(lambda: c.connection._turns.holder == c.connection._thread.ident, "the thread watches the connection")
    # From its poller, a caller gets the turns back.
    assert c.stats()


def test_what_was_submitted_is_accepted_before_a_client_is_closed(service):
    with service.client() as c:
        job = c.job("many")
        for _ in range(1_000):
            job.run(["true"])
    with service.client() as c:
        assert c.job("many").query()["total"] == 1_000
        c.job("many").kill()


def test_calls_that_were_cancelled_are_killed_before_a_client_is_closed(service, stays):
    with service.client() as c:
        ex = c.executor(job="long")
        calls = [ex.submit(time.sleep, 60) for _ in range(20)]
        assert all(call.cancel() for call in calls)
        ex.shutdown(wait=False)
    with service.client() as c:
        assert c.job("long").wait(LIMIT)["killed"] == 20


def test_a_close_does_not_wait_for_ever(service, monkeypatch, caplog):
    monkeypatch.setattr("llts.connection.CLOSE_MAX", 0.1)
    with service.client() as c:
        c.stats()
        monkeypatch.setattr(c.connection._wire, "send", lambda number, text: False)
        lost = c.connection.ask("TASK/STATISTIC")
        ended = c.connection.ask("JOB/QUERY", {"__JOB__": "many", "__WAIT__": 60_000})
    assert "requests without an answer" in caplog.text and caplog.text.endswith(": 1\n")
    for future in (lost, ended, c.connection.ask("TASK/STATISTIC")):
        with pytest.raises(llts.Error, match="is closed"):
            future.result(LIMIT)
