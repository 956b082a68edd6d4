"""Values of a submit that leave the controller: operation, parameters, address (docs/design/hazards.md, F1, F2, F3)."""

import pytest

from harness.service import port_of


@pytest.mark.parametrize(
    "operation",
    [
        "",
        ".",
        "..",
        "../../etc/x",
        "/abs",
        "a/b",
        "a\\b",
        ".hidden",
        "-rf",
        "a\0b",
        "a b",
        "x%2e",
        "name\n",
        "n\u0430me",
        "ｘ",
        "a;b",
        "$(id)",
        "*",
        "a" * 129,
        "a" * 5000,
        5,
        True,
        None,
    ],
    ids=repr,
)
def test_bad_operation(llts, operation):
    """F1, code -1006: letters, digits and . _ + - only, at most 128, not beginning with . or -."""
    assert llts.client.code("TASK/SUBMIT", __OPERATION__=operation) == -1006


def test_longest_operation(llts):
    """F1: 128 characters are allowed."""
    assert llts.run_script("o" * 128, "exit 3\n")["__EXIT_CODE__"] == 3


def show_info(llts, fields):
    """What task.info holds between the lines of __OPERATION__ and __TASK_ID__; None if the submit is refused."""
    tool = llts.tools.add("show-info", "cat ../task.info > report.log\n")
    reply = llts.client.ask("TASK/SUBMIT", {"__OPERATION__": tool, **fields})
    if reply["__CODE__"] != 0:
        assert reply["__CODE__"] == -1007
        return None
    task = llts.keep(reply)
    end = task.result()
    assert end["__EXIT_CODE__"] == 0, end
    before, after = "__TYPE__=TASK/SUBMIT\n__OPERATION__=show-info\n", f"__TASK_ID__={task.id}\n__ROUND__=0\n"
    text = end["__REPORT_LOG__"]
    assert text.startswith(before) and text.endswith(after), text
    return text[len(before) : -len(after)]


@pytest.mark.parametrize(
    "value, line",
    [
        ("x\n__OPERATION__=evil", "x\\n__OPERATION__=evil"),
        ("x\r__OPERATION__=evil", "x\\r__OPERATION__=evil"),
        ("x\r\ny", "x\\r\\ny"),
        ("a\0b", "a\\u0000b"),
        ("\x1b[31m", "\\u001b[31m"),
        ("\x7f", "\\u007f"),
    ],
)
def test_control_characters_in_values(llts, value, line):
    """F2: they are written as escapes, so that no value makes a line of its own; the task runs."""
    shown = show_info(llts, {"param": value})
    assert shown.replace("\\u001B", "\\u001b").replace("\\u007F", "\\u007f") == f"param={line}\n"


@pytest.mark.parametrize("separator", ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"], ids=repr)
def test_no_reader_sees_a_forged_line(llts, separator):
    """F2: neither a reader that splits at newlines, nor one that splits as Unicode (and Python) does."""
    for fields in ({"param": f"x{separator}__OPERATION__=evil"}, {f"param{separator}__OPERATION__": "evil"}):
        shown = show_info(llts, fields)
        if shown is not None:
            assert not [line for line in shown.splitlines() if line.startswith("__OPERATION__")], shown
            assert len(shown.splitlines()) == 1


@pytest.mark.parametrize("key", ["a=b", "__TASK_ID__=x", "=", ""])
def test_keys_with_an_equals_sign(llts, key):
    """F2: a reader that splits at the first = never sees a key that was not sent."""
    shown = show_info(llts, {key: "value"})
    if shown is not None:
        assert shown.split("=", 1)[0] not in ("a", "__TASK_ID__")


BAD_ADDRESSES = [
    "nowhere",
    "127.0.0.1:5555",
    "ipc:///var/run/docker.sock",
    "inproc://zeromq.zap.01",
    "ws://127.0.0.1:5555",
    "udp://127.0.0.1:5555",
    "http://127.0.0.1:5555/",
    "tcp://",
    "tcp://127.0.0.1",
    "tcp://127.0.0.1:0",
    "tcp://127.0.0.1:70000",
    "tcp://127.0.0.1:-1",
    "tcp://127.0.0.1:*",
    "tcp://*:5555",
    "tcp://127.0.0.1:5555 ",
    "tcp://127.0.0.1:5555\n",
    "tcp://127.0.0.1:5555/path",
    "tcp://eth0:0;127.0.0.1:5555",
    "tcp://127.0.0.1:0;127.0.0.1:5555",
    "tcp://169.254.169.254:80",
    "tcp://[fe80::1]:5555",
    "tcp://[::ffff:169.254.169.254]:80",
    "tcp://999.0.0.1:5555",
    "tcp://" + "a" * 5000 + ":5555",
    5,
    True,
]


@pytest.mark.parametrize("address", BAD_ADDRESSES, ids=lambda address: repr(address)[:40])
def test_bad_address(llts, address):
    """F3, code -1007: only tcp, one address, a real port, nothing link-local."""
    reply = llts.client.ask("TASK/SUBMIT", __OPERATION__="not-installed", __ADDRESS__=address)
    assert reply["__CODE__"] == -1007
    assert "__ADDRESS__" in reply["__ERROR_MSG__"]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"])
def test_our_own_ports_are_no_address(llts, host):
    """F3: the service does not push to itself."""
    for port in (port_of(llts.service.rep), port_of(llts.service.pub)):
        address = f"tcp://{host}:{port}"
        assert llts.client.code("TASK/SUBMIT", __OPERATION__="not-installed", __ADDRESS__=address) == -1007
