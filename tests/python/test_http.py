"""The HTTP door: the requests of the REP port, health, metrics and the changes of tasks; and who may ask what."""

import contextlib
import http.client
import json
import os
import stat
import subprocess
import sys

import pytest

from harness.client import parse
from harness.service import restart
from harness.waiting import LIMIT, wait_until

OPEN = {"http.ENABLED": True, "http.PORT": 0}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def session(start_service):
    return start_service(agents=1, **OPEN)


def token(session):
    with open(os.path.join(session.service.config["STATE_DIR"], "http.token"), encoding="ascii") as file:
        return {"Authorization": f"Bearer {file.read().strip()}"}


def ask(session, method, path, body=None, headers=None):
    """Status and body of one request."""
    with contextlib.closing(http.client.HTTPConnection(session.service.http, timeout=LIMIT)) as connection:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()


def post(session, request, **headers):
    status, body = ask(session, "POST", "/api", json.dumps(request), {**JSON, **headers})
    return status, parse(body)


def submit(session, tool, **fields):
    request = {"__TYPE__": "TASK/SUBMIT", "__OPERATION__": tool, **fields}
    status, answer = post(session, request, **token(session))
    assert (status, answer["__CODE__"]) == (200, 0), answer
    session.service.task_ids.append(answer["__TASK_ID__"])
    return answer["__TASK_ID__"]


def finished(session, task):
    request = {"__TYPE__": "TASK/QUERY", "__TASK_ID__": task, "__WAIT__": LIMIT * 1000}
    status, answer = post(session, request)
    assert (status, answer["__STATUS__"]) == (200, "FINISHED"), answer
    return answer


class Events:
    """GET /events, event by event."""

    def __init__(self, session, query="", **headers):
        self.connection = http.client.HTTPConnection(session.service.http, timeout=LIMIT)
        self.connection.request("GET", "/events" + query, headers=headers)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        assert self.answer.getheader("Content-Type") == "text/event-stream"

    def next(self):
        event = {}
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if not line and event:
                return event
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                event[name] = value

    def until(self, status):
        """The ids up to the event that has this status."""
        ids = []
        while True:
            event = self.next()
            assert event["event"] == "TASK/STATUS", event
            ids.append(event["id"])
            if parse(event["data"].encode())["__STATUS__"] == status:
                return ids

    def close(self):
        self.connection.close()


def test_a_task_is_submitted_and_asked_for_as_at_the_rep_port(session):
    tool = session.tools.add("over-http", "echo over HTTP > report.log\n")
    task = submit(session, tool)
    assert finished(session, task)["__REPORT_LOG__"] == "over HTTP\n"
    status, answer = post(session, {"__TYPE__": "TASK/NONSENSE"})
    assert (status, answer["__CODE__"] < 0) == (401, True), "it might change something"
    status, answer = post(session, {"__TYPE__": "TASK/NONSENSE"}, **token(session))
    assert (status, answer["__TYPE__"], answer["__CODE__"] < 0) == (200, "ERROR", True)


def test_what_changes_something_needs_the_token(session):
    path = os.path.join(session.service.config["STATE_DIR"], "http.token")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    for kind in ("TASK/SUBMIT", "TASK/KILL", "TASK/RETRY", "TASK/HOLD", "GATE/SET", "AGENT/DRAIN", "TASK/INTERNAL/APPLY"):
        status, answer = post(session, {"__TYPE__": kind})
        assert status == 401 and "Bearer" in answer["__ERROR_MSG__"], kind
        assert post(session, {"__TYPE__": kind}, Authorization="Bearer wrong")[0] == 401
    for kind in ("TASK/STATISTIC", "TASK/DETAILS", "AGENT/QUERY", "AGENT/DETAILS", "GATE/QUERY"):
        assert post(session, {"__TYPE__": kind})[0] == 200, kind


def test_no_body_is_a_way_around_the_token(session, tmp_path):
    made = tmp_path / "made"
    command = {"__SHELL__": f"touch {made}"}
    many = json.dumps({"__TYPE__": "TASK/SUBMIT_MANY", "__TASKS__": [command]})
    bodies = [
        many,
        json.dumps({"__TASKS__": [command], "__TYPE__": "TASK/SUBMIT_MANY"}),
        many.replace("TASK/SUBMIT_MANY", "TASK\\/SUBMIT_MANY"),
        json.dumps({"__TYPE__": "GRAPH/SUBMIT", "__GRAPH__": "#" * 70000}),
        json.dumps({"__TYPE__": "TASK/QUERY", "a": {}}),
        "",
        "{",
        "[]",
        "{}",
    ]
    for body in bodies:
        status, answer = ask(session, "POST", "/api", body, JSON)
        assert (status, parse(answer)["__CODE__"]) == (401, -1011), body[:100]
    assert post(session, {"__TYPE__": "TASK/DETAILS"})[1]["__TOTAL__"] == 0 and not made.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_other_users_are_served_only_where_loopback_is_open(session, start_service):
    def status_of(service, path):
        host, port = service.http.rsplit(":", 1)
        code = (
            "import encodings.idna, http.client, os, sys; os.setuid(65534); c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]));"
            " c.request('GET', sys.argv[3]); r = c.getresponse(); print(r.status, r.read().decode())"
        )
        words = [sys.executable, "-c", code, host, port, path]
        return subprocess.run(words, check=True, capture_output=True, text=True, cwd="/").stdout

    for path in ("/metrics", "/events"):
        said = status_of(session.service, path)
        assert said.startswith("403 ") and "LOOPBACK" in said and "user 65534" in said, said
    assert status_of(session.service, "/healthz").startswith("200 ")
    assert status_of(start_service(LOOPBACK="open", **OPEN).service, "/metrics").startswith("200 ")


def test_a_page_in_a_browser_cannot_use_it(session):
    for headers, code in [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ]:
        request = json.dumps({"__TYPE__": "TASK/STATISTIC"})
        assert ask(session, "POST", "/api", request, {**JSON, **headers})[0] == code, headers
    for path in ("/metrics", "/events", "/healthz"):
        assert ask(session, "GET", path, headers={"Host": "evil.example"})[0] == 421
    status, _ = ask(session, "OPTIONS", "/api", headers={"Origin": f"http://{session.service.http}"})
    assert status == 405, "no permission is ever given"


def test_without_keys_at_the_rep_port_nothing_is_told_either(start_service):
    """A REP port that is closed is not open by another name."""
    closed = start_service(**OPEN)
    closed.service.controller.kill()
    closed.service.start_controller(rep_port="off")
    assert post(closed, {"__TYPE__": "TASK/STATISTIC"})[0] == 401
    assert ask(closed, "GET", "/metrics")[0] == 401
    assert ask(closed, "GET", "/events")[0] == 401
    assert ask(closed, "GET", "/metrics", headers=token(closed))[0] == 200
    assert ask(closed, "GET", "/healthz")[0] == 200


def test_health_readiness_and_paths_that_are_not_there(session):
    assert ask(session, "GET", "/healthz") == (200, b"ok\n")
    assert ask(session, "GET", "/readyz") == (200, b"ready\n")
    status, body = ask(session, "GET", "/nothing")
    assert status == 404 and "/metrics" in parse(body)["__ERROR_MSG__"]
    assert ask(session, "GET", "/api")[0] == 405


def metrics(session):
    status, body = ask(session, "GET", "/metrics", headers={"Accept": "application/openmetrics-text"})
    assert status == 200
    assert body.endswith(b"# EOF\n")
    lines = [line for line in body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_metrics_count_what_has_happened(session):
    before = metrics(session)
    assert before['llts_agents{state="free"}'] == 1
    assert before["llts_store_writable"] == 1
    session.submit(session.tools.add("good", "exit 0\n")).finish()
    session.submit(session.tools.add("bad", "exit 1\n")).finish()
    after = metrics(session)
    assert after['llts_tasks{phase="FINISHED"}'] == 2
    assert after['llts_tasks_finished_total{outcome="SUCCEEDED"}'] == 1
    assert after['llts_tasks_finished_total{outcome="FAILED"}'] == 1
    for name in ("task_queued", "task_start", "task_run"):
        assert after[f"llts_{name}_seconds_count"] == 2, name
    # RUNNING, ENDED and FINISHED at least; they are counted when they are handed to the connection.
    assert after["llts_push_seconds_count"] >= 6
    assert after["llts_commit_seconds_count"] > before["llts_commit_seconds_count"]
    assert after["llts_store_bytes"] > 0
    assert after["llts_connections"] >= 2


def test_a_scraper_gets_the_format_that_it_accepts(session):
    """The older one names counters by their samples, and knows neither units nor an end."""
    with contextlib.closing(http.client.HTTPConnection(session.service.http, timeout=LIMIT)) as connection:
        connection.request("GET", "/metrics", headers={"Accept": "text/plain; version=0.0.4"})
        answer = connection.getresponse()
        text = answer.read().decode()
    assert answer.getheader("Content-Type").startswith("text/plain; version=0.0.4")
    assert "# TYPE llts_tasks_finished_total counter\n" in text
    assert "# UNIT" not in text and "# EOF" not in text
    assert 'llts_tasks_finished_total{outcome="LOST"} 0\n' in text, "the first one is an increase"


def test_events_tell_every_change_from_a_number_on(session):
    tool = session.tools.add("told", "exit 0\n")
    events = Events(session)
    first = submit(session, tool)
    ids = events.until("FINISHED")
    numbers = [int(event.split("-")[1]) for event in ids]
    assert numbers == list(range(1, len(ids) + 1))
    events.close()

    again = Events(session, "?from=2")
    assert again.until("FINISHED") == ids[1:]
    second = submit(session, tool)
    assert second != first
    later = again.until("FINISHED")
    assert int(later[0].split("-")[1]) == numbers[-1] + 1
    again.close()

    of_one = Events(session, f"?from=1&task={second}")
    assert of_one.until("FINISHED") == later
    of_one.close()
    back = Events(session, **{"Last-Event-ID": ids[-2]})
    assert back.next()["id"] == ids[-1]
    back.close()
    by_id = Events(session, f"?from={ids[1]}")
    assert by_id.next()["id"] == ids[1]
    by_id.close()
    for query in ("?from=x", "?task=x", "?since=1"):
        assert ask(session, "GET", "/events" + query)[0] == 400


def test_a_listener_of_before_a_restart_learns_that_it_has_missed_something(session):
    events = Events(session)
    submit(session, session.tools.add("told", "exit 0\n"))
    last = events.until("FINISHED")[-1]
    restart(session.service)
    with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
        events.answer.read()
    events.close()
    again = Events(session, **{"Last-Event-ID": last})
    assert again.next()["event"] == "gap"
    again.close()
    number = int(last.split("-")[1])
    for query in (f"?from={last}", f"?from={number + 1}", "?from=1000000"):
        ahead = Events(session, query)
        assert ahead.next()["event"] == "gap", f"{query}: the numbers began anew"
        ahead.close()


def test_a_client_that_goes_away_frees_its_place(session):
    """What is parked for it is forgotten, and the door goes on."""
    tool = session.tools.add("long", "exec sleep 1000\n")
    task = submit(session, tool)
    for _ in range(3):
        connection = http.client.HTTPConnection(session.service.http, timeout=LIMIT)
        query = json.dumps({"__TYPE__": "TASK/QUERY", "__TASK_ID__": task, "__WAIT__": 60_000})
        connection.request("POST", "/api", query, JSON)
        connection.close()
    assert post(session, {"__TYPE__": "TASK/KILL", "__TASK_ID__": task}, **token(session))[1]["__CODE__"] == 0
    assert finished(session, task)["__OUTCOME__"] == "KILLED"


def test_a_body_that_does_not_come_closes_nothing(start_service):
    """Connections that promise a body and send none give their places back."""
    session = start_service(**OPEN, **{"http.CONNECTIONS_MAX": 4, "http.HEAD_TIMEOUT": 500})
    head = b"POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            connection = http.client.HTTPConnection(session.service.http, timeout=LIMIT)
            stack.callback(connection.close)
            connection.connect()
            connection.sock.sendall(head)
        assert ask(session, "GET", "/healthz")[0] == 200


def test_a_client_that_has_pipelined_and_gone_keeps_no_place(start_service):
    session = start_service(agents=1, **OPEN, **{"http.CONNECTIONS_MAX": 2})
    task = submit(session, session.tools.add("long", "exec sleep 1000\n"))
    query = json.dumps({"__TYPE__": "TASK/QUERY", "__TASK_ID__": task, "__WAIT__": 600_000}).encode()
    head = b"POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    for _ in range(2):
        connection = http.client.HTTPConnection(session.service.http, timeout=LIMIT)
        connection.connect()
        connection.sock.sendall((head % len(query) + query) * 2)
        connection.close()
    assert post(session, {"__TYPE__": "TASK/KILL", "__TASK_ID__": task}, **token(session))[1]["__CODE__"] == 0
    assert finished(session, task)["__OUTCOME__"] == "KILLED"


def test_health_is_answered_while_all_places_are_taken(start_service):
    """Streams of events have a share of the places, requests that wait have the rest, and health has places of its own."""
    session = start_service(agents=1, **OPEN, **{"http.CONNECTIONS_MAX": 4, "http.HEAD_TIMEOUT": 500})
    task = submit(session, session.tools.add("long", "exec sleep 1000\n"))
    query = json.dumps({"__TYPE__": "TASK/QUERY", "__TASK_ID__": task, "__WAIT__": 600_000})
    with contextlib.ExitStack() as stack:

        def connect():
            connection = http.client.HTTPConnection(session.service.http, timeout=LIMIT)
            stack.callback(connection.close)
            return connection

        statuses = []
        for _ in range(3):
            events = connect()
            events.request("GET", "/events")
            statuses.append(events.getresponse().status)
        assert statuses == [200, 200, 503], "half of the places are for streams"
        events.close()
        for _ in range(2):
            connect().request("POST", "/api", query, JSON)
        wait_until(lambda: post(session, {"__TYPE__": "AGENT/QUERY"})[0] == 503, "all places are taken")
        for path in ("/healthz", "/readyz"):
            assert ask(session, "GET", path)[0] == 200


def test_too_large_a_request_and_an_endless_head_are_cut(start_service):
    session = start_service(**OPEN, MESSAGE_BYTES_MAX=200_000, VALUE_BYTES_MAX=1000)
    status, answer = ask(session, "POST", "/api", "x" * 300_000, JSON)
    assert status == 413
    assert b"300000 bytes; at most 200000 are accepted (MESSAGE_BYTES_MAX" in answer
    with contextlib.closing(http.client.HTTPConnection(session.service.http, timeout=LIMIT)) as connection:
        connection.connect()
        with contextlib.suppress(ConnectionError):
            connection.sock.sendall(b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 200_000)
        with contextlib.suppress(ConnectionError):
            assert b" 431 " in connection.sock.recv(4096)
    assert ask(session, "GET", "/healthz")[0] == 200


def test_a_peer_that_does_not_finish_its_head_is_closed(start_service):
    """http.HEAD_TIMEOUT: its place is free again."""
    session = start_service(**OPEN, **{"http.HEAD_TIMEOUT": 200, "http.CONNECTIONS_MAX": 1})
    with contextlib.closing(http.client.HTTPConnection(session.service.http, timeout=LIMIT)) as silent:
        silent.connect()
        silent.sock.sendall(b"GET /healthz HTTP/1.1\r\n")
        while silent.sock.recv(4096):
            pass
        assert ask(session, "GET", "/healthz")[0] == 200


def test_a_token_that_others_may_read_stops_the_start(session):
    """With the file and the command that mends it."""
    path = os.path.join(session.service.config["STATE_DIR"], "http.token")
    os.chmod(path, 0o644)
    session.service.controller.kill()
    with pytest.raises(AssertionError, match="chmod 600"):
        session.service.start_controller()
    os.chmod(path, 0o600)
    session.service.start_controller()
    wait_until(lambda: ask(session, "GET", "/readyz")[0] == 200, "it is open again")


def test_a_full_queue_is_not_ready(start_service):
    full = start_service(**OPEN, WAITING_TASKS_MAX=2)
    for n in range(2):
        assert ask(full, "GET", "/readyz")[0] == 200, n
        full.submit("mytool")
    status, body = ask(full, "GET", "/readyz")
    assert status == 503 and "2 tasks wait (WAITING_TASKS_MAX)" in parse(body)["__ERROR_MSG__"]
