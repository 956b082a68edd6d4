"""A plain client whose controller goes away and comes back on the same ports (what survives is not asked here)."""

import json

import zmq

from harness.client import parse
from harness.service import port_of, restart
from harness.waiting import LIMIT_MS


def test_request_sent_while_the_controller_is_away(lone):
    """2, note: a connected REQ socket sends again and again; its request waits for the controller to come back."""
    address = lone.service.rep
    assert lone.client.code("AGENT/QUERY") == 0
    # What libzmq writes before it sees the end of a connection is lost with it.
    away = lone.client.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    lone.service.controller.kill()
    assert away.poll(LIMIT_MS), "the client does not see the end of the controller"
    lone.client.send("AGENT/QUERY")
    lone.service.start_controller(port_of(lone.service.rep), port_of(lone.service.pub))
    assert lone.service.rep == address
    assert lone.client.receive()["__CODE__"] == 0


def test_client_in_the_middle_of_a_request(lone):
    """With REQ_RELAXED and REQ_CORRELATE a client asks again on the same socket."""
    task = lone.submit_quietly("restart")
    client = zmq.Context.instance().socket(zmq.REQ)
    client.linger, client.req_relaxed, client.req_correlate = 0, True, True
    client.connect(lone.service.rep)
    client.send(json.dumps({"__TYPE__": "TASK/QUERY", "__TASK_ID__": task.id, "__WAIT__": LIMIT_MS}).encode())
    # The second query is answered after the first has been parked: both came to the controller.
    assert task.query()["__STATUS__"] == "WAITING"
    restart(lone.service)
    client.send(b'{"__TYPE__":"AGENT/QUERY"}')
    assert client.poll(LIMIT_MS), "no reply after the restart"
    reply = parse(client.recv())
    assert (reply["__TYPE__"], reply["__CODE__"]) == ("AGENT/QUERY", 0)
    client.close()


def test_agents_come_back(start_service):
    """A6 (light): free agents find the restarted controller by themselves and take tasks."""
    llts = start_service(agents=1, AGENT_HEARTBEAT_INTERVAL=1000, AGENT_RECONNECT_INTERVAL_MAX=200)
    restart(llts.service)
    assert llts.run_script("back", "exit 3\n")["__EXIT_CODE__"] == 3


def test_no_state_goes_back(start_service, tmp_path):
    """A phase goes back only with a new round, and no __SEQ__ stands for two states, whatever dies."""
    llts = start_service(agents=1, AGENT_HEARTBEAT_INTERVAL=1000, AGENT_RECONNECT_INTERVAL_MAX=200)
    llts.receiver.may_skip = True
    go = tmp_path / "go"
    task = llts.submit(llts.tools.add("long", f"until [ -e {go} ]; do sleep 0.05; done\n"))
    task.until("RUNNING")
    for _ in range(2):
        assert task.query()["__STATUS__"] == "RUNNING"
        restart(llts.service)
    assert task.query()["__STATUS__"] == "RUNNING"
    go.touch()
    task.finish()
    order = ["PREPARING", "RUNNING", "ENDED", "FINISHED"]
    statuses = [order.index(status) for status in task.statuses()]
    assert statuses == sorted(statuses), task.statuses()


def test_an_accepted_task_keeps_its_terms(start_service):
    """What was agreed when it was accepted holds, whatever [task_defaults] says after a restart."""
    session = start_service(**{"task_defaults.MAX_FAILS": 2})
    task = session.submit(session.tools.add("fails", "exit 1\n"))
    session.service.config["task_defaults.MAX_FAILS"] = 0
    session.receiver.may_skip = True
    restart(session.service)
    session.service.start_agents(1)
    assert task.until("FINISHED")["__FAILS__"] == 3
