"""The two sockets of a client (docs/sources/controller.md, 2): a REQ that asks, a bound DEALER that hears of states."""

import json

import zmq

from .waiting import LIMIT_MS

# A parked request takes LIMIT_MS by itself.
_REPLY_LIMIT_MS = 2 * LIMIT_MS

# Their replies hold one object per task or agent; every other message is flat.
_NESTED = ("TASK/DETAILS", "AGENT/DETAILS")


def parse(data):
    """Reads one message of the service and checks what holds for every one of them."""
    assert data.startswith(b'{"__TYPE__":'), f"does not begin with __TYPE__: {data[:100]!r}"
    message = json.loads(data.decode("utf-8"), object_pairs_hook=_no_duplicates)
    if message["__TYPE__"] not in _NESTED:
        nested = [key for key, value in message.items() if isinstance(value, (dict, list))]
        assert not nested, f"not flat: {nested} in {message}"
    return message


def _no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), f"duplicate keys: {keys}"
    return dict(pairs)


class Client:
    """A plain REQ socket. Every reply is checked for what all replies share."""

    def __init__(self, address):
        self.socket = zmq.Context.instance().socket(zmq.REQ)
        self.socket.linger = 0
        self.socket.connect(address)

    def ask(self, kind, fields=None, **more):
        """Sends one request and returns its reply, which echoes the type."""
        self.send(kind, fields, **more)
        reply = self.receive()
        assert reply["__TYPE__"] == kind, reply
        return reply

    def accepted(self, kind, fields=None, **more):
        reply = self.ask(kind, fields, **more)
        assert reply["__CODE__"] == 0, reply
        return reply

    def code(self, kind, fields=None, **more):
        return self.ask(kind, fields, **more)["__CODE__"]

    def exchange(self, data):
        """Sends bytes as they are and returns the reply."""
        self.socket.send(data)
        return self.receive()

    def send(self, kind, fields=None, **more):
        message = {"__TYPE__": kind, **(fields or {}), **more}
        self.socket.send(json.dumps(message).encode())

    def receive(self, limit_ms=_REPLY_LIMIT_MS):
        assert self.socket.poll(limit_ms), f"no reply within {limit_ms} ms"
        frames = self.socket.recv_multipart()
        assert len(frames) == 1, frames
        reply = parse(frames[0])
        assert isinstance(reply["__CODE__"], int), reply
        if reply["__CODE__"] != 0:
            assert reply.get("__ERROR_MSG__"), f"an error without a message: {reply}"
        return reply

    def close(self):
        self.socket.close()


class Receiver:
    """A bound DEALER that keeps all pushes, by task, and checks what all pushes share. `keys` are those of zmq.curve_keypair()."""

    def __init__(self, endpoint="tcp://127.0.0.1:*", keys=None, context=None):
        self.socket = (context or zmq.Context.instance()).socket(zmq.DEALER)
        self.socket.linger = 0
        if keys:
            self.socket.curve_server = True
            self.socket.curve_publickey, self.socket.curve_secretkey = keys
        self.socket.bind(endpoint)
        self.address = self.socket.last_endpoint.decode()
        self.pushes = {}
        # Whether numbers may be left out: a controller that was killed does so.
        self.may_skip = False

    def next(self, limit_ms=LIMIT_MS):
        assert self.socket.poll(limit_ms), f"no push within {limit_ms} ms; so far: {self._so_far()}"
        frames = self.socket.recv_multipart()
        assert len(frames) == 1, frames
        push = parse(frames[0])
        assert push["__TYPE__"] == "TASK/STATUS", push
        earlier = self.pushes.setdefault(push["__TASK_ID__"], [])
        earlier.append(push)
        due = earlier[-2]["__SEQ__"] + 1 if len(earlier) > 1 else 1
        in_order = push["__SEQ__"] == due or self.may_skip and push["__SEQ__"] > due
        assert in_order, f"a push is missing, doubled or out of order: {earlier}"
        return push

    def until(self, task_id, status):
        """The first push of this status for this task, which may have come already."""
        while True:
            for push in self.pushes.get(task_id, ()):
                if push["__STATUS__"] == status:
                    return push
            self.next()

    def statuses(self, task_id):
        return [push["__STATUS__"] for push in self.pushes.get(task_id, ())]

    def _so_far(self):
        return {task_id: self.statuses(task_id) for task_id in self.pushes}

    def close(self):
        self.socket.close()
