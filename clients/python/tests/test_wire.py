"""The plain wire at a unix socket, against a peer of the tests' own."""

import select
import socket
import struct
import threading
import time

import pytest
from conftest import LIMIT, wait_until

from llts import wire
from llts.wire import COMMAND, GREETING, LONG, MORE, PlainWire, State, command, frame

READY = command(b"READY", b"\x0bSocket-Type" + struct.pack(">I", 6) + b"ROUTER")


class Peer:
    """A controller at a unix socket, as far as its bytes go."""

    def __init__(self, folder):
        self.path = str(folder / "s")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.listener.settimeout(LIMIT)
        self.poller = select.poll()
        self.wire = PlainWire(self.path, self.poller)
        self.socket = None

    def accept(self, sent=GREETING + READY):
        wait_until(lambda: self.step() or self.wire._socket, "an attempt")
        self.socket, _ = self.listener.accept()
        self.socket.settimeout(LIMIT)
        self.socket.sendall(sent)

    def step(self, pause=10):
        """One turn of a connection."""
        self.poller.poll(pause)
        return list(self.wire.take())

    def until(self, wanted):
        """What has arrived until something wanted did."""
        seen = []
        wait_until(lambda: seen.extend(self.step()) or wanted in seen, f"{wanted} among {seen}")
        return seen

    def read(self, size):
        data = b""
        while len(data) < size:
            data += self.socket.recv(size - len(data))
        return data

    def made(self):
        self.accept()
        assert self.until(State.MADE) == [State.MADE]
        assert self.read(len(GREETING)) == GREETING
        assert self.read(len(wire.READY)) == wire.READY


@pytest.fixture
def peer(tmp_path):
    peer = Peer(tmp_path)
    yield peer
    peer.wire.close()
    peer.listener.close()
    if peer.socket:
        peer.socket.close()


def answer(number, text):
    return frame(MORE, number) + frame(MORE, b"") + frame(0, text)


def test_a_request_is_three_frames_and_its_answer_comes_in_any_pieces(peer):
    peer.made()
    assert not peer.wire.send(b"7", b"{}")
    assert peer.read(9) == b"\x01\x017\x01\x00\x00\x02{}"
    for byte in answer(b"7", b"x" * 300):
        peer.socket.sendall(bytes((byte,)))
        peer.step(0)
    rest = answer(b"8", b"y") + answer(b"9", b"z" * 1_000_000)
    threading.Thread(target=peer.socket.sendall, args=(rest,)).start()
    seen = peer.until((b"9", b"z" * 1_000_000))
    assert [number for number, _ in seen] in ([b"8", b"9"], [b"7", b"8", b"9"])


def test_what_does_not_fit_is_sent_when_there_is_room(peer):
    peer.made()
    text = b"x" * 5_000_000
    assert peer.wire.send(b"1", text), "the poller is to be asked anew"
    assert not [it for it in peer.poller.poll(0) if it[1] & select.POLLOUT]
    got = []
    reader = threading.Thread(target=lambda: got.append(peer.read(len(answer(b"1", text)))))
    reader.start()
    wait_until(lambda: peer.step() or not reader.is_alive(), "all is sent")
    assert got == [answer(b"1", text)]
    assert peer.poller.poll(0) == [], "an empty output does not wake the poller"


def test_a_ping_is_answered_with_its_context(peer):
    peer.made()
    peer.socket.sendall(command(b"PING", b"\x00\x64context"))
    peer.step()
    assert peer.read(14) == command(b"PONG", b"context")


@pytest.mark.parametrize(
    "sent",
    [
        GREETING[:12] + b"CURVE".ljust(20, b"\0") + GREETING[32:],
        GREETING + command(b"ERROR", b"\x02no"),
    ],
    ids=["keys", "error"],
)
def test_a_controller_that_takes_no_plain_client_is_not_asked_again(peer, sent):
    peer.accept(sent)
    peer.until(State.REFUSED)
    assert peer.wire.due is None


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(64),
        GREETING + answer(b"1", b"before the handshake"),
        GREETING + READY + frame(0, b"no envelope"),
        GREETING + READY + frame(MORE, b"1") + frame(MORE, b"not empty") + frame(0, b"{}"),
        GREETING + READY + bytes((LONG | COMMAND,)) + b"\xff" * 8 + bytes(100),
        GREETING + READY + frame(COMMAND, b""),
    ],
    ids=["http", "too early", "no envelope", "another envelope", "too long", "no name"],
)
def test_garbage_ends_the_connection_and_the_next_one_is_made(peer, garbage, monkeypatch):
    monkeypatch.setattr(wire, "FRAME_BYTES_MAX", 1_000_000)
    peer.accept(garbage)
    ends = {State.FAILED, State.LOST}
    seen = []
    wait_until(lambda: seen.extend(peer.step()) or ends & set(seen), "it has ended")
    peer.made()


def test_a_lost_connection_is_made_again_with_pauses_that_grow(peer):
    peer.made()
    peer.listener.close()
    peer.socket.close()
    assert peer.until(State.LOST) == [State.LOST]
    pauses = []
    while len(pauses) < 5:
        pauses.append(peer.wire.due - time.monotonic())
        wait_until(lambda: peer.step(0) == [State.FAILED], "an attempt")
    assert pauses[0] < pauses[2] < pauses[3] <= 0.2


def test_a_silent_controller_is_pinged_and_then_given_up(peer, monkeypatch):
    monkeypatch.setattr(wire, "PING", 0.05)
    monkeypatch.setattr(wire, "ANSWER_MAX", 0.5)
    peer.made()
    pinged = len(wire.PING_COMMAND)
    reader = threading.Thread(target=lambda: peer.read(pinged))
    reader.start()
    wait_until(lambda: peer.step() or not reader.is_alive(), "a ping")
    peer.socket.sendall(command(b"PONG", b""))
    assert peer.until(State.LOST) == [State.LOST]


def test_a_process_that_did_not_look_asks_before_it_gives_the_controller_up(peer, monkeypatch):
    monkeypatch.setattr(wire, "ANSWER_MAX", 0.2)
    monkeypatch.setattr(wire, "PING", 0.1)
    peer.made()
    now = time.monotonic()
    monkeypatch.setattr("llts.wire.time.monotonic", lambda: now + 60)
    assert peer.step(0) == []
    assert peer.read(len(wire.PING_COMMAND)) == wire.PING_COMMAND
    monkeypatch.undo()
