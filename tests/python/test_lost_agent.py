"""The task of a lost agent waits again with the next round; what the old round says is refused (docs/sources/controller.md, 6)."""

from harness.simple_agent import SimpleAgent
from harness.waiting import wait_until

# The agents of these tests are silent on purpose. Long enough that the second one is not lost by a slow machine.
INTERVAL = {"AGENT_HEARTBEAT_INTERVAL": 1000, "AGENT_KILL_INTERVAL": 100}


def test_task_of_a_lost_agent_runs_again(start_service):
    """Pushed WAITING, __ROUND__ 1, and the second agent gets it; a late report of the first changes nothing."""
    llts = start_service(**INTERVAL)
    first = SimpleAgent(llts.service, "AGENT_1480000000.120000_first")
    task = llts.submit("lost")
    first.heartbeat()
    order = first.take()
    first.report_all(order, "PREPARING", "RUNNING")

    # The loss counts when another agent can take the task: until then the first one may come back with its run.
    second = SimpleAgent(llts.service, "AGENT_1480000000.120000_secon")
    taken = []

    def has_taken():
        second.heartbeat()
        answer = second.apply()
        if answer["__CODE__"] == 0:
            taken.append(answer)
        return bool(taken)

    wait_until(has_taken, "the second agent has the task")
    retry = taken[0]
    assert (retry["__TASK_ID__"], retry["__ROUND__"]) == (task.id, 1)
    again = task.until("WAITING")
    assert (again["__ROUND__"], again["__SEQ__"]) == (1, 3)
    late = first.report(order, "FINISHED", __EXIT_CODE__=0, __REPORT_LOG__="late", __ROUND__=0)
    assert late["__CODE__"] != 0
    second.report_all(retry, "PREPARING", "RUNNING", "ENDED")
    second.finish(retry, exit_code=5, report_log="second")
    end = task.finish()
    assert task.statuses() == ["PREPARING", "RUNNING", "WAITING", "PREPARING", "RUNNING", "ENDED", "FINISHED"]
    assert (end["__EXIT_CODE__"], end["__REPORT_LOG__"], end["__ROUND__"]) == (5, "second", 1)
    assert end["__AGENT_ID__"] == second.id
    first.close()
    second.close()


def test_task_that_may_not_run_twice(start_service):
    """__MAX_LOSSES__ 0: the loss of the agent ends the task as LOST."""
    llts = start_service(**INTERVAL)
    agent = SimpleAgent(llts.service, "AGENT_1480000000.120000_first")
    task = llts.submit("lost", __MAX_LOSSES__=0)
    agent.heartbeat()
    agent.report_all(agent.take(), "PREPARING", "RUNNING")
    assert task.finish()["__OUTCOME__"] == "LOST"
    assert task.statuses()[-1] == "FINISHED" and "WAITING" not in task.statuses()
    agent.close()


def test_killed_agent(start_service):
    """A1: SIGKILL of a real agent. Its task runs again on another one; AGENT/QUERY shows the loss."""
    llts = start_service(agents=2, AGENT_HEARTBEAT_INTERVAL=1000)
    script = '[ "$__ROUND__" = 0 ] || exit 8\nexec sleep 600\n'
    task = llts.submit(llts.tools.add("survivor", script))
    name = task.until("RUNNING")["__AGENT_ID__"]
    victim = next(agent for agent in llts.service.agents if agent.name == name)
    victim.kill()
    assert task.until("WAITING")["__ROUND__"] == 1
    end = task.finish()
    assert (end["__EXIT_CODE__"], end["__ROUND__"]) == (8, 1)
    assert end["__AGENT_ID__"] != name
    assert llts.count_agents()["__LOST__"] == 1
    # An agent without a supervisor is followed by its next start, which ends what it ran and removes the folder.
    llts.service.spawn_agent(name)
    assert llts.service.agent_name_of(llts.service.agents[-1]) == name
    wait_until(lambda: not llts.service.leftovers([task.id]), "the processes of the dead agent are gone")
    wait_until(lambda: not llts.service.task_folders(), "the folder of the dead agent's task is gone")
