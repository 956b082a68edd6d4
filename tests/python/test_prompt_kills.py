"""The master and its workers killed with SIGKILL at random moments: every prompt ends once, none is lost, none is in two folders.

PROMPT_KILLS=300 kills as often; PROMPT_SEED=17 makes the same choices again, though not at the same moments.
"""

import contextlib
import os
import random
import signal
import time

import pytest

from harness import leftovers
from harness.prompts import Prompts, guards
from harness.waiting import LIMIT, wait_until

KILLS = int(os.environ.get("PROMPT_KILLS", "15"))
SEED = int(os.environ.get("PROMPT_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)

# Each does what the prompt says, as the worker of the document does.
SCRIPT = 'while read verb rest; do case $verb in sleep) sleep "$rest";; fail) code=1;; esac; done; exit ${code:-0}'


@pytest.fixture
def prompts(tmp_path):
    prompts = Prompts(str(tmp_path))
    yield prompts
    prompts.close()


def test_kills_lose_no_prompt_and_double_none(prompts):
    print(f"PROMPT_SEED={SEED}")
    dice = random.Random(SEED)
    expected = {}
    for number in range(12 * KILLS):
        name = f"task_{number:04}.txt"
        expected[name] = "failed" if dice.random() < 0.2 else "done"
        verdict = "fail" if expected[name] == "failed" else "pass"
        prompts.write(name, f"sleep {dice.uniform(0.0, 0.1):.3f}\n{verdict} {number}\n")

    start = {
        # A worker that was killed while no master was there does not come back for its prompt, which waits for it as long as this.
        "master": lambda: prompts.master(LEASE=3000),
        **{f"document {number}": prompts.document_worker for number in range(3)},
        **{f"worker {number}": lambda: prompts.worker(SCRIPT, "--patience", "forever") for number in range(2)},
    }
    running = {who: begin() for who, begin in start.items()}
    kills = 0
    while kills < KILLS and prompts.count("pending", "working") > 0:
        kills += 1
        time.sleep(dice.uniform(0.0, 0.1))
        who = dice.choice(["master", "master", *start])
        process = getattr(running[who], "process", running[who])
        # A worker of ours has a guard: either of the two, or both.
        victims = {process.pid, *guards(process.pid, prompts.root)} if who.startswith("worker") else {process.pid}
        for pid in dice.sample(sorted(victims), dice.randint(1, len(victims))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        if who == "master":
            # No other program moves prompts: each is in one place at any instant.
            places = prompts.places()
            assert sorted(places) == sorted(expected)
            assert all(len(folders) == 1 for folders in places.values()), places
        running[who] = start[who]()
        for other, worker in running.items():
            # A worker of the document ends with its connection.
            if other.startswith("document") and worker.poll() is not None:
                running[other] = start[other]()

    print(f"{kills} kills; {prompts.count('pending', 'working')} prompts left")
    wait_until(lambda: prompts.count("pending", "working") == 0, "everything is worked off", limit=4 * LIMIT)
    # Whether a prompt has failed since the last kill.
    assert running["master"].wait() in (0, 1), running["master"].errors()
    assert prompts.places() == {name: [folder] for name, folder in expected.items()}
    for name in expected:
        with open(prompts.path(expected[name], name), encoding="utf-8") as file:
            assert file.read().startswith("sleep "), name

    # The next worker of this root ends what those have left that were killed together with their guards.
    for who in ("worker 0", "worker 1"):
        running[who].process.send_signal(signal.SIGTERM)
        assert running[who].wait() in (0, 1), running[who].errors()
    last = prompts.worker("true", "--patience", "0")
    assert last.wait() == 3
    # A guard may be about to end.
    lines = [line for line in leftovers.find(folder=prompts.root).values() if " guard --pid " not in line]
    assert [line for line in lines if "document_worker" not in line] == []
