"""AGENT/QUERY and TASK/STATISTIC (docs/sources/controller.md, 2.4, 2.5), row by row; and AGENT/DETAILS."""

from harness.simple_agent import SimpleAgent
from harness.waiting import wait_until

PHASES = ("DISPATCHED", "WAITING", "PREPARING", "RUNNING", "ENDED", "FINISHED")


def agents(session):
    reply = session.client.accepted("AGENT/QUERY")
    counts = tuple(reply[key] for key in ("__TOTAL__", "__FREE__", "__BUSY__", "__LOST__"))
    assert all(type(count) is int for count in counts), reply
    assert counts[0] == sum(counts[1:]), reply
    return counts


def test_no_agents(lone):
    """2.4: all rows are there, also with nothing to count."""
    assert agents(lone) == (0, 0, 0, 0)


def test_free_and_busy(llts):
    """2.4 rows __TOTAL__, __FREE__, __BUSY__, with real agents."""
    assert agents(llts) == (2, 2, 0, 0)
    tool = llts.tools.add("busy", "exec sleep 600\n")
    first = llts.submit(tool)
    first.until("RUNNING")
    assert agents(llts) == (2, 1, 1, 0)
    second = llts.submit(tool)
    second.until("RUNNING")
    assert agents(llts) == (2, 0, 2, 0)
    assert first.query()["__AGENT_ID__"] != second.query()["__AGENT_ID__"]


def test_lost(start_service):
    """2.4 row __LOST__: no heartbeat for two intervals; a later heartbeat brings the agent back."""
    llts = start_service(AGENT_HEARTBEAT_INTERVAL=300)
    agent = SimpleAgent(llts.service, "AGENT_1.000000_silen")
    agent.heartbeat()
    wait_until(lambda: agents(llts) == (1, 0, 0, 1), "the silent agent is lost")
    wait_until(lambda: agent.heartbeat() and agents(llts) == (1, 1, 0, 0), "the agent is back")
    agent.close()


def test_agent_that_ends_leaves_the_pool(start_service):
    """2.4 row __TOTAL__: an agent that is ended by SIGTERM says so and is not counted as lost."""
    llts = start_service(agents=2)
    assert agents(llts) == (2, 2, 0, 0)
    leaving = llts.service.agents.pop()
    assert leaving.end()
    wait_until(lambda: agents(llts) == (1, 1, 0, 0), "one agent is left")


def test_agent_details(llts):
    """AGENT/DETAILS: one key per agent."""
    reply = llts.client.accepted("AGENT/DETAILS")
    found = {key for key, value in reply.items() if isinstance(value, dict)}
    assert found == {agent.name for agent in llts.service.agents}


def test_statistics_of_an_empty_service(lone):
    """2.5: every row is there."""
    reply = lone.client.accepted("TASK/STATISTIC")
    assert {phase: reply[phase] for phase in PHASES} == dict.fromkeys(PHASES, 0)


def test_statistics_follow_a_task(lone):
    """2.5: one row per state counts the tasks that are in it."""
    agent = SimpleAgent(lone.service, "AGENT_1.000000_stati")
    lone.submit_quietly("statistic")
    lone.submit_quietly("statistic")

    def counts():
        reply = lone.client.accepted("TASK/STATISTIC")
        return {phase: reply[phase] for phase in PHASES if reply[phase]}

    assert counts() == {"WAITING": 2}
    agent.heartbeat()
    order = agent.take()
    assert counts() == {"WAITING": 1, "DISPATCHED": 1}
    for phase in ("PREPARING", "RUNNING", "ENDED"):
        agent.report_all(order, phase)
        assert counts() == {"WAITING": 1, phase: 1}
    agent.finish(order)
    assert counts() == {"WAITING": 1, "FINISHED": 1}
    agent.close()


def test_id_in_use(start_service):
    """A10: a second agent of the same name is refused or renamed; the first is not disturbed."""
    llts = start_service(agents=1)
    first = llts.service.agents[0]
    task = llts.submit(llts.tools.add("first", "exec sleep 600\n"))
    task.until("RUNNING")
    second = llts.service.spawn_agent(first.name)
    name = llts.service.agent_name_of(second)
    if name is None:
        assert second.wait() != 0 and second.errors()
    else:
        assert name != first.name
    assert task.query()["__STATUS__"] == "RUNNING"
    task.kill()
    assert task.finish()["__AGENT_ID__"] == first.name
