"""The prompt master, by its document, against workers that know nothing else."""

import os

import pytest

from harness.prompts import Prompts
from harness.waiting import wait_until


@pytest.fixture
def prompts(tmp_path):
    prompts = Prompts(str(tmp_path))
    yield prompts
    prompts.close()


def test_workers_of_the_document_work_everything_off(prompts):
    """The whole way: JOIN, REQUEST, DONE and FAILED, COMPLETED, the totals, and workers that end with the connection."""
    for number in range(20):
        prompts.write(f"task_{number:03}.txt", "fail" if number % 4 == 0 else f"töte {number}\n")
    workers = [prompts.document_worker() for _ in range(3)]
    master = prompts.master()
    assert master.wait() == 1, "some have failed"
    assert (prompts.count("pending", "working"), prompts.count("done"), prompts.count("failed")) == (0, 15, 5)
    assert prompts.names("failed") == [f"task_{number:03}.txt" for number in range(0, 20, 4)]
    for worker in workers:
        assert worker.wait(timeout=30) == 0
    printed = []
    while (line := master.lines.get()) is not None:
        printed.append(line)
    totals = "\n".join(printed)
    assert all(number in totals for number in ("20", "15", "5")), totals


def test_workers_that_take_one_recv_for_one_message_survive_their_join(prompts):
    """Prompts wait and checks are due while each worker joins: JOIN_ACK must come alone all the same."""
    for number in range(40):
        prompts.write(f"task_{number:03}.txt", "sleep 1000")
    prompts.master(KEEP_ALIVE="true", TIMER_INTERVAL=10)
    for number in range(8):
        worker = prompts.document_worker()
        wait_until(lambda: prompts.count("working") > number or worker.poll() is not None, "a worker with a prompt")
        assert worker.poll() is None, f"worker {number} has died at its JOIN"


def test_a_file_that_appears_is_handed_out(prompts):
    prompts.master(KEEP_ALIVE="true")
    peer = prompts.peer().join()
    prompts.write("a.txt", "Grüße")
    request = peer.take()
    assert request["msg"] == "Grüße"
    assert prompts.names("working") == ["a.txt"]
    # The document: msg is the name of a file, which no request tells.
    peer.send("DONE", "task_whatever")
    wait_until(lambda: prompts.names("done") == ["a.txt"], "a.txt is done")
    peer.close()


def test_messages_may_come_in_pieces_and_without_anything_between(prompts):
    prompts.write("a.txt", "a")
    prompts.master(KEEP_ALIVE="true")
    peer = prompts.peer()
    for byte in b'{"type":"JOIN","msg":"4711"}':
        peer.send_bytes(bytes([byte]))
    peer.expect("JOIN_ACK")
    request = peer.expect("REQUEST")
    acknowledgement = b'{"type":"REQUEST_ACK","msg":"","req_id":"%s"}' % request["req_id"].encode()
    peer.send_bytes(acknowledgement + b'{"type":"DONE","msg":"} {"}')
    wait_until(lambda: prompts.names("done") == ["a.txt"], "a.txt is done")
    peer.close()


def test_a_prompt_without_an_acknowledgement_goes_to_another_worker(prompts):
    prompts.write("a.txt", "a")
    prompts.master(KEEP_ALIVE="true", REQUEST_TIMEOUT=4000)
    silent = prompts.peer().join()
    silent.expect("REQUEST")
    other = prompts.peer().join()
    request = other.take()
    silent.expect_the_end()
    other.send("DONE")
    wait_until(lambda: prompts.names("done") == ["a.txt"], "a.txt is done")
    assert request["msg"] == "a"


def test_a_worker_that_does_not_answer_a_check_loses_its_prompt(prompts):
    prompts.write("a.txt", "a")
    prompts.master(KEEP_ALIVE="true", REQUEST_TIMEOUT=4000)
    deaf = prompts.peer().join()
    deaf.take()
    deaf.expect_the_end()
    other = prompts.peer().join()
    other.take()
    other.send("FAILED")
    wait_until(lambda: prompts.names("failed") == ["a.txt"], "a.txt has failed")


@pytest.mark.parametrize("way", ["LEAVE", "close"])
def test_who_goes_gives_the_prompt_back(prompts, way):
    prompts.write("a.txt", "a")
    prompts.master(KEEP_ALIVE="true")
    first = prompts.peer().join()
    first.take()
    if way == "LEAVE":
        first.send("LEAVE")
        first.expect_the_end()
    first.close()
    second = prompts.peer().join()
    second.take()
    second.send("DONE")
    wait_until(lambda: prompts.names("done") == ["a.txt"], "a.txt is done")


def test_what_is_said_without_a_prompt_moves_nothing(prompts):
    prompts.master(KEEP_ALIVE="true")
    peer = prompts.peer().join()
    peer.send("DONE", "a.txt")
    peer.send("REQUEST_ACK", req_id="nobody")
    peer.send("CHECK_ACK", req_id="nobody")
    prompts.write("a.txt", "a")
    prompts.write("b.txt", "b")
    first = peer.take()
    assert prompts.count("done", "failed") == 0
    peer.send("FAILED")
    peer.send("FAILED")
    second = peer.take()
    assert {first["msg"], second["msg"]} == {"a", "b"}
    wait_until(lambda: prompts.count("failed") == 1, "the first has failed")
    peer.send("DONE")
    wait_until(lambda: prompts.count("done") == 1, "the second is done")


def test_what_a_dead_master_had_handed_out_waits_again(prompts):
    prompts.write("a.txt", "a", folder="working")
    prompts.write("b.txt", "b", folder="working")
    prompts.master(KEEP_ALIVE="true")
    peer = prompts.peer().join()
    for _ in range(2):
        peer.take()
        peer.send("DONE")
    wait_until(lambda: prompts.names("done") == ["a.txt", "b.txt"], "both are done")


def test_our_worker_with_any_command_and_its_results(prompts):
    prompts.write("a.txt", "text of a")
    prompts.write("b.txt", "fail")
    worker = prompts.worker("cat; ! grep -q fail $PROMPT_FILE", "--patience", "forever")
    master = prompts.master()
    assert (master.wait(), worker.wait()) == (1, 1), "one prompt has failed"
    assert "1 of 2 prompts failed" in worker.errors()
    assert (prompts.names("done"), prompts.names("failed")) == (["a.txt"], ["b.txt"])
    with open(prompts.path("done", "a.txt.out"), encoding="utf-8") as out:
        assert out.read() == "text of a"


def test_a_limited_worker_gives_its_prompt_back_and_works_on_later(prompts):
    prompts.write("a.txt", "a")
    script = "[ -e limited ] && exit; touch limited; echo retry_after=0.1 > $PROMPT_DEFER_FILE; exit 75"
    prompts.worker(script)
    assert prompts.master().wait() == 0
    assert prompts.names("done") == ["a.txt"]


def test_what_a_prompt_has_said_until_its_time_was_over_is_kept(prompts):
    """The worker ends its command and reports it; the master would cut it some seconds later."""
    prompts.master(KEEP_ALIVE="true")
    prompts.worker("echo begun; sleep 1000")
    for number in range(5):
        name = f"{number}.txt"
        prompts.write(name, f"---\ntimeout: 0.2\n---\n{number}")
        wait_until(lambda: os.path.exists(prompts.path("failed", f"{name}.json")), f"the results of {name}")
        wait_until(lambda: name in prompts.names("failed"), f"{name} has failed")
        with open(prompts.path("failed", f"{name}.out"), encoding="utf-8") as out:
            assert out.read() == "begun\n"
