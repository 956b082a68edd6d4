"""One test's view of a running service: a client, a receiver, and the tasks that the test submitted."""

from .client import Client, Receiver
from .waiting import LIMIT_MS, wait_until


class Session:
    """One test's view of a service: a client, a receiver, and the tasks that this test submitted."""

    def __init__(self, service):
        self.service = service
        self.tools = service.tools
        self.client = Client(service.rep)
        self.receiver = Receiver()
        self.tasks = []

    def submit(self, operation, fields=None, **more):
        """Submits a task whose states come to the receiver."""
        reply = self.client.accepted(
            "TASK/SUBMIT", {"__OPERATION__": operation, "__ADDRESS__": self.receiver.address, **(fields or {})}, **more
        )
        return self.keep(reply)

    def submit_quietly(self, operation, fields=None, **more):
        """Submits a task without an `__ADDRESS__`."""
        return self.keep(self.client.accepted("TASK/SUBMIT", {"__OPERATION__": operation, **(fields or {})}, **more))

    def keep(self, reply):
        task = Task(self, reply)
        self.tasks.append(task)
        self.service.task_ids.append(task.id)
        return task

    def run(self, operation, fields=None, **more):
        """Submits a task and returns its last push."""
        return self.submit(operation, fields, **more).finish()

    def run_script(self, name, script, **tool):
        """Makes a tool, runs it without parameters, and returns the last push."""
        return self.run(self.tools.add(name, script, **tool))

    def count_agents(self):
        return self.client.accepted("AGENT/QUERY")

    def wait_until_all_free(self):
        def free():
            counts = self.count_agents()
            return counts["__FREE__"] == counts["__TOTAL__"]

        wait_until(free, "all agents are free")

    def settle(self):
        """Ends the tasks of this test and checks that no trace of them is left."""
        self.service.check_alive()
        for task in self.tasks:
            if task.query()["__STATUS__"] != "FINISHED":
                task.kill()
        for task in self.tasks:
            wait_until(lambda task=task: task.query()["__STATUS__"] == "FINISHED", f"{task.id} has finished")
        self.wait_until_all_free()
        left = self.service.leftovers([task.id for task in self.tasks])
        assert not left, f"processes were left behind: {left}"
        assert not self.service.task_folders()

    def close(self):
        self.client.close()
        self.receiver.close()


class Task:
    """A submitted task, seen through the session that submitted it."""

    def __init__(self, session, reply):
        self.session = session
        self.reply = reply
        self.id = reply["__TASK_ID__"]

    def until(self, status):
        return self.session.receiver.until(self.id, status)

    def finish(self):
        return self.until("FINISHED")

    def statuses(self):
        return self.session.receiver.statuses(self.id)

    def query(self, **fields):
        return self.session.client.accepted("TASK/QUERY", __TASK_ID__=self.id, **fields)

    def result(self):
        """The reply to a query that waits for the end: needs no push."""
        reply = self.query(__WAIT__=LIMIT_MS)
        assert reply["__STATUS__"] == "FINISHED", reply
        return reply

    def kill(self):
        return self.session.client.accepted("TASK/KILL", __TASK_ID__=self.id)
