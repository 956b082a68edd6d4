"""The wire through libzmq, which has its own thread: to other machines, and with keys."""

from __future__ import annotations

import select
from collections.abc import Iterator

import zmq
from zmq.utils.monitor import parse_monitor_message

from llts.home import Keys
from llts.wire import ANSWER_MAX, CONNECT, PING, RETRY_MAX, RETRY_MIN, Arrival, State

# Plain numbers: a call with an enumeration of pyzmq takes some microseconds more.
SNDMORE, POLLIN, EVENTS = int(zmq.SNDMORE), int(zmq.POLLIN), int(zmq.EVENTS)


class ZmqWire:
    """See :class:`llts.wire.Wire`. Its descriptors show a change once, so whoever has used a socket must look for more."""

    # libzmq keeps the times.
    due = None

    def __init__(self, address: str, keys: Keys | None, poller: select.poll) -> None:
        self._poller = poller
        self._context = zmq.Context()
        self._is_made = False
        opened: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        opened.linger = 0
        opened.sndhwm = opened.rcvhwm = 0
        opened.connect_timeout = int(CONNECT * 1000)
        opened.reconnect_ivl, opened.reconnect_ivl_max = int(RETRY_MIN * 1000), int(RETRY_MAX * 1000)
        opened.heartbeat_ivl, opened.heartbeat_timeout = int(PING * 1000), int(ANSWER_MAX * 1000)
        if keys is not None:
            opened.curve_secretkey = keys.secret
            opened.curve_publickey = zmq.curve_public(keys.secret)
            opened.curve_serverkey = keys.server
        self._monitor: zmq.Socket[bytes] = opened.get_monitor_socket()
        opened.connect(address)
        self._socket = opened
        for each in (opened, self._monitor):
            poller.register(each.fileno(), select.POLLIN)

    def send(self, number: bytes, text: bytes) -> bool:
        """See :meth:`llts.wire.Wire.send`."""
        self._socket.send(number, SNDMORE)
        self._socket.send(b"", SNDMORE)
        self._socket.send(text)
        # To send may be to notice that something has arrived.
        return self.has_input()

    def has_input(self) -> bool:
        """See :meth:`llts.wire.Wire.has_input`."""
        return self._has(self._socket) or self._has(self._monitor)

    @staticmethod
    def _has(it: zmq.Socket[bytes]) -> bool:
        return bool(int(it.getsockopt(EVENTS)) & POLLIN)

    def take(self) -> Iterator[Arrival]:
        """See :meth:`llts.wire.Wire.take`."""
        while self._has(self._socket):
            number, _, answer = self._socket.recv(), self._socket.recv(), self._socket.recv()
            yield number, answer
        while self._has(self._monitor):
            event = parse_monitor_message(self._monitor.recv_multipart())["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._is_made = True
                yield State.MADE
            elif event in (zmq.EVENT_HANDSHAKE_FAILED_AUTH, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL):
                # ZeroMQ does not connect again after this.
                yield State.REFUSED
            elif event == zmq.EVENT_DISCONNECTED and self._is_made:
                self._is_made = False
                yield State.LOST
            elif event == zmq.EVENT_CONNECT_RETRIED:
                yield State.FAILED

    def close(self) -> None:
        """See :meth:`llts.wire.Wire.close`."""
        for each in (self._socket, self._monitor):
            self._poller.unregister(each.fileno())
        self._socket.disable_monitor()
        self._context.destroy(linger=0)
