"""What a REQ client can send in its one frame (docs/design/hazards.md, W1, W2, W3, W4). Each gets a coded reply; the socket stays usable."""

import json

import pytest

from harness.client import Client

QUERY = b'{"__TYPE__":"AGENT/QUERY"}'

NOT_AN_OBJECT = {
    "nothing": b"",
    "space": b"  \n",
    "text": b"hello",
    "array": b"[]",
    "null": b"null",
    "empty string": b'""',
    "string": b'"TASK/QUERY"',
    "number": b"5",
    "cut": QUERY[:-1],
    "trailing text": QUERY + b"x",
    "two objects": QUERY + QUERY,
    "byte order mark": b"\xef\xbb\xbf" + QUERY,
    "bad UTF-8": b'{"__TYPE__":"AGENT/QUERY","a":"\xff\xfe"}',
    "UTF-16": QUERY.decode().encode("utf-16"),
    "NUL after": QUERY + b"\0",
    "NUL inside": b'{"__TYPE__":"AGENT/QUERY","a":"\0"}',
    "newline in a string": b'{"__TYPE__":"AGENT/QUERY","a":"\n"}',
    "lone surrogate": b'{"__TYPE__":"AGENT/QUERY","a":"\\ud800"}',
    "huge number": b'{"__TYPE__":"AGENT/QUERY","a":1e400}',
    "NaN": b'{"__TYPE__":"AGENT/QUERY","a":NaN}',
    "single quotes": b"{'__TYPE__':'AGENT/QUERY'}",
    "trailing comma": b'{"__TYPE__":"AGENT/QUERY",}',
    "key without quotes": b'{__TYPE__:"AGENT/QUERY"}',
}

DUPLICATES = {
    "type": b'{"__TYPE__":"AGENT/QUERY","__TYPE__":"TASK/STATISTIC"}',
    "same value": b'{"__TYPE__":"AGENT/QUERY","__TYPE__":"AGENT/QUERY"}',
    "escaped": b'{"__TYPE__":"AGENT/QUERY","\\u005f_TYPE__":"TASK/STATISTIC"}',
    "other key": b'{"__TYPE__":"TASK/SUBMIT","__OPERATION__":"x","a":"1","a":"2"}',
}


@pytest.fixture
def usable(llts):
    """A client whose socket must still work after the test."""
    yield llts.client
    assert llts.client.code("AGENT/QUERY") == 0


@pytest.mark.parametrize("data", NOT_AN_OBJECT.values(), ids=NOT_AN_OBJECT)
def test_not_an_object(usable, data):
    """W1, code -1001: not JSON, or no object."""
    reply = usable.exchange(data)
    assert (reply["__CODE__"], reply["__TYPE__"]) == (-1001, "ERROR")


@pytest.mark.parametrize("depth", [200, 20_000])
def test_depth(usable, depth):
    """W1: deep nesting is refused before it costs anything, as bad JSON or as a nested value."""
    data = b'{"__TYPE__":"AGENT/QUERY","a":' + b"[" * depth + b"]" * depth + b"}"
    assert usable.exchange(data)["__CODE__"] in (-1001, -1007)


@pytest.mark.parametrize("data", DUPLICATES.values(), ids=DUPLICATES)
def test_duplicate_keys(usable, data):
    """W2, code -1001: a key that stands twice, however it is written."""
    assert usable.exchange(data)["__CODE__"] == -1001


def test_spaces_and_escapes_are_json(usable):
    """2: any serialisation of the object will do."""
    data = b' \r\n\t{ "\\u005f_TYPE__" :\n"AGENT\\/QUERY" } \n'
    reply = usable.exchange(data)
    assert (reply["__CODE__"], reply["__TYPE__"]) == (0, "AGENT/QUERY")


@pytest.mark.parametrize("message", [{}, {"a": "b"}, {"__type__": "AGENT/QUERY"}, {"TYPE": "AGENT/QUERY"}])
def test_no_type(usable, message):
    """W3, code -1002."""
    reply = usable.exchange(json.dumps(message).encode())
    assert (reply["__CODE__"], reply["__TYPE__"]) == (-1002, "ERROR")


@pytest.mark.parametrize(
    "kind", ["", "TASK", "TASK/", "TASK/NOPE", "task/query", "TASK/QUERY ", "TASK/STATUS", "x" * 10_000]
)
def test_unknown_type(usable, kind):
    """W3, code -1003: types are exact, and case matters."""
    assert usable.exchange(json.dumps({"__TYPE__": kind}).encode())["__CODE__"] == -1003


@pytest.mark.parametrize("kind", [5, 1.5, True, None])
def test_type_that_is_no_string(usable, kind):
    """W3, code -1003."""
    reply = usable.exchange(json.dumps({"__TYPE__": kind}).encode())
    assert (reply["__CODE__"], reply["__TYPE__"]) == (-1003, "ERROR")


def submit(client, fields):
    return client.ask("TASK/SUBMIT", {"__OPERATION__": "not-installed", **fields})


@pytest.mark.parametrize("nested", [{}, [], {"a": "b"}, ["a"], [[]]])
def test_nested(usable, nested):
    """W4, 2: flat objects only."""
    assert submit(usable, {"param": nested})["__CODE__"] == -1007


def test_big_numbers(llts):
    """W4: a number beyond 2^53 comes back as it was, or is refused; it is never another number."""
    for number in (2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 2**80):
        reply = submit(llts.client, {"__OPERATION__": llts.tools.add("kept", "exit 0\n"), "number": number})
        if reply["__CODE__"] == 0:
            assert llts.keep(reply).query()["number"] == number
        else:
            assert reply["__CODE__"] in (-1001, -1007)


@pytest.mark.parametrize(
    "fields",
    [{f"key{number}": "x" for number in range(300)}, {f"k{number}": 0 for number in range(10_000)}],
    ids=["300 fields", "10,000 fields"],
)
def test_too_many_fields(usable, fields):
    """W4: at most 256 fields."""
    assert submit(usable, fields)["__CODE__"] in (-1007, -1008)


@pytest.mark.parametrize(
    "fields", [{"k" * 129: "x"}, {"ü" * 65: "x"}, {"key": "x" * 65_537}], ids=["name", "name in UTF-8", "value"]
)
def test_too_long(usable, fields):
    """W4, code -1007: a name of more than 128 bytes, a value of more than 64 KiB."""
    assert submit(usable, fields)["__CODE__"] == -1007


def test_largest(llts):
    """W4: what is just small enough is accepted, and kept whole."""
    fields = {"k" * 128: "x", "long": "y" * 65_536, **{f"key{number}": "x" for number in range(240)}}
    task = llts.keep(submit(llts.client, {"__OPERATION__": llts.tools.add("kept", "exit 0\n"), **fields}))
    reply = task.query()
    assert {key: reply[key] for key in fields} == fields


def test_message_of_a_megabyte(llts):
    """W4: it is refused, or the peer is cut off; all other peers are served."""
    attacker = Client(llts.service.rep)
    attacker.send("TASK/SUBMIT", __OPERATION__="not-installed", param="x" * 1_000_000)
    assert llts.client.code("AGENT/QUERY") == 0
    if attacker.socket.poll(300):
        assert attacker.receive()["__CODE__"] in (-1001, -1007, -1008)
    attacker.close()
    assert llts.client.code("AGENT/QUERY") == 0
