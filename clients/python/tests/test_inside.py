"""The same calls inside a tool: its children, with the address and the keys of its agent."""

from conftest import LIMIT, push

TOOL = """
import sys, llts
with llts.Client() as c:
    assert c.connection.endpoint.addresses[0] == __import__("os").environ["CONTROLLER_ADDRESS"]
    mine = c.run(["sh", "-c", "echo child"], cwd="/")
    job = c.job("inner")
    for n in range(10):
        job.run(["echo", str(n)], cwd="/")
    total = sum(int(t.result().stdout) for t in job.as_completed())
    free = c.run(["sleep", "60"], cwd="/", no_father=True)
    left = c.run(["sleep", "60"], cwd="/")
    print(mine.result().stdout.strip(), total, mine.query().fields["__FATHER_ID__"], mine.id, free.id, left.id)
"""


def tool(client):
    return push(client, "parent", "exec python3 tool.py", **{"tool.py": TOOL})


def test_a_tool_has_children(c):
    task = c.submit(tool(c), timeout=LIMIT)
    word, total, father, _, free, left = task.result(LIMIT).stdout.split()
    assert (word, total, father) == ("child", "45", task.id)
    # A child ends with its parent, and a task without one goes on.
    assert c.wait(left, LIMIT).outcome == "KILLED"
    assert c.query(free).status in ("RUNNING", "PREPARING", "DISPATCHED", "WAITING")
    c.kill(free)


def test_a_tool_that_waits_lends_its_slot(start_service):
    """With one agent, the children of a tool that waits for them need another one."""
    service = start_service(agents=1)
    with service.client() as client:
        task = client.submit(tool(client), timeout=LIMIT)
        result = task.wait(LIMIT)
        assert result.succeeded, result.stderr
        client.kill(result.stdout.split()[4])


def test_the_keys_of_the_agent_are_used(start_service):
    service = start_service(agents=2, init=("--listen", "127.0.0.1"), CONTROLLER_REP_PORT=0, CONTROLLER_PUB_PORT=0)
    with service.client() as client:
        result = client.submit(tool(client), timeout=LIMIT).wait(LIMIT)
        assert result.succeeded, result.stderr
        client.kill(result.stdout.split()[4])
