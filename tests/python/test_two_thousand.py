"""Many tasks at once. SOAK_TASKS sets how many, on the 30 agents of the original (docs/sources/controller.md, 4.1); without it 300 tasks on 8 agents."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.client import Client, Receiver
from harness.service import REPOSITORY

CLIENTS = 4
LIFE = ["PREPARING", "RUNNING", "ENDED", "FINISHED"]


def submit_and_follow(service, names, start):
    """One client: submits all its tasks, then follows each to its end. Returns what it saw."""
    client, receiver = Client(service.rep), Receiver()
    start.wait()
    tasks = {}
    for name in names:
        reply = client.accepted("TASK/SUBMIT", __OPERATION__="helloworld", __ADDRESS__=receiver.address, name=name)
        tasks[reply["__TASK_ID__"]] = name
    for task_id, name in tasks.items():
        end = receiver.until(task_id, "FINISHED")
        assert (end["__EXIT_CODE__"], end["__REPORT_LOG__"]) == (0, f"hello, {name}\n"), end
    lives = {task_id: receiver.statuses(task_id) for task_id in receiver.pushes}
    receiver.close()
    client.close()
    assert set(lives) == set(tasks)
    return lives


@pytest.mark.soak
def test_many_tasks(start_service):
    """1.1, 2.1, 4.1: four clients at once; every task is pushed whole and in order, and all agents are free again."""
    wanted = os.environ.get("SOAK_TASKS")
    count, agents = (int(wanted), 30) if wanted else (300, 8)
    llts = start_service(agents=agents)
    llts.tools.add_folder("helloworld", os.path.join(REPOSITORY, "tools", "helloworld"))
    start = threading.Barrier(CLIENTS)
    shares = [
        [f"client {client} task {number}" for number in range(client, count, CLIENTS)] for client in range(CLIENTS)
    ]
    with ThreadPoolExecutor(CLIENTS) as pool:
        lives = {}
        for result in pool.map(lambda names: submit_and_follow(llts.service, names, start), shares):
            lives.update(result)
    assert len(lives) == count
    assert [task_id for task_id, states in lives.items() if states != LIFE] == []
    llts.wait_until_all_free()
    assert llts.count_agents()["__TOTAL__"] == agents
    statistic = llts.client.accepted("TASK/STATISTIC")
    assert statistic["FINISHED"] == count
    assert statistic["WAITING"] == statistic["RUNNING"] == 0
    llts.service.task_ids.extend(lives)
