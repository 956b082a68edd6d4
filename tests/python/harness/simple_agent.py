"""An agent written from the document alone: a REQ socket, a SUB socket, and no run.sh."""

import zmq

from .client import Client, parse
from .waiting import LIMIT_MS


class SimpleAgent:
    def __init__(self, service, agent_id, subscribe=b""):
        self.id = agent_id
        self.client = Client(service.rep)
        self.news = zmq.Context.instance().socket(zmq.SUB)
        self.news.linger = 0
        self.news.subscribe(subscribe)
        self.news.connect(service.pub)

    def heartbeat(self, status="FREE", **fields):
        return self.client.accepted("AGENT/HEARTBEAT", __AGENT_ID__=self.id, __AGENT_STATUS__=status, **fields)

    def apply(self, **fields):
        return self.client.ask("TASK/INTERNAL/APPLY", __AGENT_ID__=self.id, **fields)

    def take(self):
        """Applies for a task that must be there."""
        task = self.apply()
        assert task["__CODE__"] == 0, task
        return task

    def report(self, task, status, **fields):
        return self.client.ask(
            "TASK/INTERNAL/REPORT", __AGENT_ID__=self.id, __TASK_ID__=task["__TASK_ID__"], __STATUS__=status, **fields
        )

    def report_all(self, task, *statuses):
        for status in statuses:
            reply = self.report(task, status)
            assert reply["__CODE__"] == 0, reply

    def finish(self, task, exit_code=0, report_log=""):
        reply = self.report(task, "FINISHED", __EXIT_CODE__=exit_code, __REPORT_LOG__=report_log)
        assert reply["__CODE__"] == 0, reply

    def leave(self):
        return self.client.accepted("AGENT/EXIT", __AGENT_ID__=self.id)

    def hear(self, kind, limit_ms=LIMIT_MS):
        """The next broadcast of this type, or None when there is none in time."""
        while self.news.poll(limit_ms):
            message = parse(self.news.recv())
            if message["__TYPE__"] == kind:
                return message
        return None

    def close(self):
        self.client.close()
        self.news.close()
