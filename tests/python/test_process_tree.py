"""When a task is FINISHED, every process that it started is gone (docs/design/hazards.md, P1, P2)."""

import random

import pytest

from harness import leftovers
from harness.waiting import wait_until

# What a tool leaves behind. MARKER is a number of seconds that no other process sleeps for.
TREES = {
    "background": "sleep MARKER &",
    "session": "setsid sleep MARKER &",
    "double fork": "( ( sleep MARKER & ) & )",
    "daemon": "( setsid sh -c 'sleep MARKER & sleep MARKER' & )",
    "deaf": "( trap '' TERM HUP INT; while :; do sleep MARKER; done ) &",
    "deaf session": "setsid sh -c 'trap \"\" TERM; while :; do sleep MARKER; done' &",
    "stopped": "sleep MARKER & kill -STOP $!",
    "without environment": "env -i setsid sh -c 'cd / && exec sleep MARKER' &",
    "fork loop": "setsid ./fork.sh MARKER &",
}

# Each generation starts the next one and ends. The counter ends it where the service fails to.
FORK_LOOP = """#!/bin/sh
generation=${2:-0}
[ "$generation" -lt 2000 ] || exit 0
sleep 0.01
setsid sh fork.sh "$1" $((generation + 1)) &
"""


@pytest.fixture
def marker():
    """Finds the processes of one test, also those without its cookie and folder, and ends what was left."""
    text = f"6{random.randrange(10**8):08}"
    yield text
    leftovers.end_all(marker=text)


def plant(llts, name, tree, marker, then):
    script = TREES[tree].replace("MARKER", marker) + "\n" + then
    return llts.submit(llts.tools.add(name, "chmod +x fork.sh\n" + script, files={"fork.sh": FORK_LOOP}))


def assert_gone(llts, task, marker):
    left = leftovers.find(folder=llts.service.work, task_ids=[task.id], marker=marker, but_staying=True)
    assert not left, f"processes were left behind: {left}"


@pytest.mark.parametrize("tree", TREES)
def test_nothing_is_left_after_the_end(llts, marker, tree):
    """P1: run.sh has ended by itself; FINISHED comes when all that it left is gone. Its exit code stays."""
    task = plant(llts, "tree-ends", tree, marker, "exit 5\n")
    end = task.finish()
    assert_gone(llts, task, marker)
    assert (end["__EXIT_CODE__"], end["__OUTCOME__"]) == (5, "FAILED")


@pytest.mark.parametrize("tree", TREES)
def test_nothing_is_left_after_a_kill(llts, marker, tree, tmp_path):
    """P1, 2.2: the same when the task is killed."""
    ready = tmp_path / "ready"
    task = plant(llts, "tree-killed", tree, marker, f"touch '{ready}'\nexec sleep {marker}\n")
    wait_until(ready.exists, "the tree stands")
    assert leftovers.find(marker=marker)
    task.kill()
    task.finish()
    assert_gone(llts, task, marker)


def test_open_output_does_not_delay_the_end(llts, marker):
    """P2: a daemon that keeps stdout open. The end of run.sh counts, not the end of its output."""
    script = f"echo before\nsetsid sleep {marker} &\necho after\n"
    task = llts.submit(llts.tools.add("keeps-stdout", script))
    end = task.finish()
    assert end["__STDOUT__"] == "before\nafter\n"
    assert_gone(llts, task, marker)


def test_next_task_finds_nothing(start_service, marker):
    """P1: the slot is free only when the processes are gone: the next task on the same agent sees none."""
    llts = start_service(agents=1)
    first = plant(llts, "tree-before", "deaf session", marker, "exit 0\n")
    look = f"ps -eo args | grep -v grep | grep -c 'sleep {marker}' > report.log || :\n"
    second = llts.submit(llts.tools.add("looks", look))
    assert second.finish()["__REPORT_LOG__"] == "0\n"
    assert first.statuses()[-1] == "FINISHED"


def test_agent_survives_its_tools(llts, marker):
    """P1, P7: after all this the agents still run."""
    for tree in ("daemon", "fork loop"):
        plant(llts, "tree-agents", tree, marker, "kill -KILL $$\n").finish()
    assert [agent.process.poll() for agent in llts.service.agents] == [None, None]


def test_working_directory_that_is_removed(llts):
    """P7: a tool that deletes its own folder ends as usual."""
    end = llts.run_script("removes-itself", 'rm -rf "$PWD"\nexit 3\n')
    assert (end["__EXIT_CODE__"], end["__REPORT_LOG__"]) == (3, "")
