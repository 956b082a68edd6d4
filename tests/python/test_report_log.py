"""report.log, of which the last 10,000 bytes come back (docs/sources/controller.md, 2.3, 3.3; docs/design/hazards.md, P6)."""

import pytest

LIMIT = 10_000


def tail_of(llts, name, script):
    end = llts.run(llts.tools.add(name, script))
    assert end["__EXIT_CODE__"] == 0, end
    return end["__REPORT_LOG__"]


def assert_is_tail(report, content):
    """The last 10,000 bytes; the line that the cut goes through may be missing."""
    tail = content[-LIMIT:]
    assert report in (tail, tail.split("\n", 1)[-1]), f"{len(report)} bytes: {report[:80]!r} …"


def test_short_report(llts):
    """3.3: what is appended comes back, whole."""
    assert tail_of(llts, "short", "echo one >> report.log\necho two >> report.log\n") == "one\ntwo\n"


def test_report_without_last_newline(llts):
    """3.3: bytes come back as they are."""
    assert tail_of(llts, "open-end", "printf 'a\\tb' > report.log\n") == "a\tb"


def test_no_report(llts):
    """2.3 row __REPORT_LOG__: the field is there when the file is not."""
    assert tail_of(llts, "no-report", "exit 0\n") == ""


def test_report_of_exactly_the_limit(llts):
    """3.3: 10,000 bytes are not too many."""
    line = "x" * 99 + "\n"
    assert tail_of(llts, "exact", f"yes {'x' * 99} | head -n 100 > report.log\n") == line * 100


def test_long_report(llts):
    """3.3: of 100 KB the last 10,000 bytes."""
    content = "".join(f"line {number}\n" for number in range(12_000))
    script = "awk 'BEGIN { for (n = 0; n < 12000; n++) print \"line \" n }' > report.log\n"
    assert_is_tail(tail_of(llts, "long", script), content)


def test_huge_report(llts):
    """P6: only the end of a report of 2 GiB is read, without the line that was cut."""
    script = "truncate -s 2G report.log\nprintf '\\nthe end\\n' >> report.log\n"
    assert tail_of(llts, "huge", script) == "the end\n"


def test_cut_inside_a_character(llts):
    """P6: a cut through a character of UTF-8 is no error, and the rest is whole."""
    script = "printf 'x' > report.log\nyes ü | tr -d '\\n' | head -c 20000 >> report.log\n"
    report = tail_of(llts, "characters", script)
    assert report.endswith("ü" * 4000) and len(report.encode()) <= LIMIT + 2


def test_invalid_bytes(llts):
    """P6: what is not UTF-8 is replaced; what is, stays."""
    report = tail_of(llts, "invalid", "printf 'before \\377\\376 after\\n' > report.log\n")
    assert report.startswith("before ") and report.endswith(" after\n")


def test_control_characters(llts):
    """3.3: any text is carried inside the JSON of the reply."""
    assert tail_of(llts, "control", "printf 'a\\000b\\033[31m\"\\\\\\n' > report.log\n") == 'a\0b\x1b[31m"\\\n'


def test_report_of_a_failed_task(llts):
    """3.3: errors written to report.log come back when the task fails."""
    end = llts.run_script("error", "echo 'cannot do it' > report.log\nexit 1\n")
    assert (end["__EXIT_CODE__"], end["__REPORT_LOG__"]) == (1, "cannot do it\n")


@pytest.mark.parametrize(
    "make",
    [
        "ln -s '{secret}' report.log",
        "ln -s /dev/zero report.log",
        "mkfifo report.log",
        "mkdir report.log",
        "cd .. && mv special away && ln -s '{folder}' special",
    ],
    ids=["link", "link to a device", "fifo", "folder", "folder replaced"],
)
def test_report_that_is_no_file(llts, tmp_path, make):
    """P6: never blocks, never another file's content; the field is empty."""
    secret = tmp_path / "report.log"
    secret.write_text("secret")
    script = make.format(secret=secret, folder=tmp_path) + "\n"
    assert tail_of(llts, "special", script) == ""
    assert secret.read_text() == "secret"


def test_standard_streams_have_limits(llts):
    """STDOUT_KEEP_BYTES, STDERR_KEEP_BYTES: the last 10,000 bytes of each; more does not block the tool."""
    script = "yes output | head -c 300000\nyes errors | head -c 300000 >&2\necho last\necho last >&2\n"
    end = llts.run_script("streams", script)
    assert end["__EXIT_CODE__"] == 0
    for field in ("__STDOUT__", "__STDERR__"):
        assert end[field].endswith("last\n") and LIMIT - 10 <= len(end[field]) <= LIMIT
