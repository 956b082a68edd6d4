"""Frames, envelopes, and peers that are no REQ clients (docs/design/hazards.md, W5, W8, W9)."""

import os
import socket

import pytest
import zmq

from harness.client import parse
from harness.service import port_of
from harness.waiting import LIMIT_MS

QUERY = b'{"__TYPE__":"AGENT/QUERY"}'
STATISTIC = b'{"__TYPE__":"TASK/STATISTIC"}'


@pytest.fixture
def dealer(llts):
    """A DEALER, which says by itself what a REQ adds: the empty frame before the message."""
    dealer = zmq.Context.instance().socket(zmq.DEALER)
    dealer.linger = 0
    dealer.connect(llts.service.rep)
    yield dealer
    dealer.close()
    assert llts.client.code("AGENT/QUERY") == 0


def reply_frames(dealer):
    assert dealer.poll(LIMIT_MS), "no reply"
    return dealer.recv_multipart()


def test_dealer_with_the_delimiter(dealer):
    """Works like a REQ; several requests may be on their way, and the replies keep their order."""
    for message in (QUERY, STATISTIC, QUERY):
        dealer.send_multipart([b"", message])
    for kind in ("AGENT/QUERY", "TASK/STATISTIC", "AGENT/QUERY"):
        delimiter, data = reply_frames(dealer)
        assert delimiter == b"" and parse(data)["__TYPE__"] == kind


@pytest.mark.parametrize(
    "envelope", [[b"a"], [b"a", b"b"], [b"x" * 300], [b"\0\xff"]], ids=["one", "two", "300 bytes", "bytes"]
)
def test_envelope_comes_back(dealer, envelope):
    """W5: all frames up to the first empty one are the envelope; the reply carries it."""
    dealer.send_multipart([*envelope, b"", QUERY])
    frames = reply_frames(dealer)
    assert frames[:-1] == [*envelope, b""]
    assert parse(frames[-1])["__CODE__"] == 0


@pytest.mark.parametrize(
    "frames", [[QUERY], [QUERY, QUERY], [b""], [b"a", b""]], ids=["no delimiter", "none of two", "only", "no data"]
)
def test_no_delimiter_or_no_data(dealer, frames):
    """W5: dropped; the next request on the same connection is answered."""
    dealer.send_multipart(frames)
    dealer.send_multipart([b"", STATISTIC])
    delimiter, data = reply_frames(dealer)
    assert delimiter == b"" and parse(data)["__TYPE__"] == "TASK/STATISTIC"
    assert not dealer.poll(0)


@pytest.mark.parametrize(
    "frames",
    [[b"", b""], [b"", QUERY, b"more"], [b"", QUERY, QUERY], [b"", b"", b"", QUERY]],
    ids=["empty", "extra", "two", "delimiters"],
)
def test_other_than_one_frame_of_data(dealer, frames):
    """W5, code -1001: after the delimiter there is one frame, and it is JSON."""
    dealer.send_multipart(frames)
    delimiter, data = reply_frames(dealer)
    assert delimiter == b"" and parse(data)["__CODE__"] == -1001


GARBAGE = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + os.urandom(200),
    "zeros": bytes(4096),
    "noise": os.urandom(4096),
    "ZMTP 1.0": b"\x01\x00" + b"\x01\x7f" + bytes([len(QUERY) + 1]) + b"\x00" + QUERY,
    "greeting only": b"\xff" + bytes(8) + b"\x7f",
    "unknown mechanism": b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NOPE".ljust(20, b"\0") + bytes(32),
    "huge frame": b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32) + b"\x06" + b"\xff" * 8,
    "nothing": b"",
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("port", ["rep", "pub"])
def test_garbage_on_the_port(llts, port, data):
    """W8, W6 (light): closed or ignored; clients are served while such a peer is connected and after it left."""
    with socket.create_connection(("127.0.0.1", port_of(getattr(llts.service, port))), timeout=LIMIT_MS / 1000) as peer:
        peer.sendall(data)
        assert llts.client.code("AGENT/QUERY") == 0
    assert llts.client.code("AGENT/QUERY") == 0


@pytest.mark.parametrize(
    "kind", [zmq.PUSH, zmq.PUB, zmq.SUB, zmq.PULL, zmq.REP, zmq.ROUTER, zmq.PAIR], ids=lambda kind: kind.name
)
def test_other_socket_types(llts, kind):
    """W8: peers of a type that does not fit."""
    peer = zmq.Context.instance().socket(kind)
    peer.linger = 0
    if kind == zmq.SUB:
        peer.subscribe(b"")
    peer.connect(llts.service.rep)
    if kind in (zmq.PUSH, zmq.PUB, zmq.PAIR):
        try:
            peer.send(QUERY, zmq.DONTWAIT)
        except zmq.Again:
            pass
    assert llts.client.code("AGENT/QUERY") == 0
    peer.close()
    assert llts.client.code("AGENT/QUERY") == 0


def test_client_that_never_reads(llts):
    """W9 (light): others are served while replies to this one pile up, and after."""
    deaf = zmq.Context.instance().socket(zmq.DEALER)
    deaf.linger, deaf.rcvhwm, deaf.sndhwm = 0, 1, 0
    deaf.connect(llts.service.rep)
    for number in range(5000):
        deaf.send_multipart([b"", STATISTIC])
        if number % 500 == 0:
            assert llts.client.code("AGENT/QUERY") == 0
    assert llts.client.code("AGENT/QUERY") == 0
    deaf.close()
