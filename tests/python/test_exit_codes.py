"""Every __EXIT_CODE__ (docs/sources/controller.md, 2.7; docs/design/hazards.md, P3, P4, X1, X2, X6); -128 is in test_kill.py."""

import tarfile

import pytest

from harness.archives import file_member, folder_member, special_member


@pytest.mark.parametrize(
    "script, expected",
    [
        ("exit 0", 0),
        ("exit 1", 1),
        ("exit 42", 42),
        ("exit 255", 255),
        ("exec sh -c 'exit 126'", 126),
        ("exec python3 -c 'import os; os._exit(256)'", 0),
        ("kill -TERM $$", -15),
        ("kill -KILL $$", -9),
        ("ulimit -c 0; kill -SEGV $$", -11),
    ],
)
def test_exit_code_of_run_sh(llts, script, expected):
    """2.7 other codes: that of run.sh. P3: a signal is its negative number, which no code of LLTS is."""
    end = llts.run_script("exits", script + "\n")
    assert end["__EXIT_CODE__"] == expected
    assert end["__OUTCOME__"] == ("FAILED" if expected else "SUCCEEDED")
    assert "__KILLED__" not in end


def test_no_archive(llts):
    """2.7: <operation>.tar.gz is not there: the task is accepted and ends at once. A submit can ask for a refusal instead."""
    end = llts.run("not-installed")
    assert (end["__EXIT_CODE__"], end["__OUTCOME__"]) == (-129, "FAILED")
    assert llts.client.code("TASK/SUBMIT", __OPERATION__="not-installed", __REQUIRE_TOOL__=True) == -1006


def test_archive_comes_later(llts):
    """P8: a tool that is installed or replaced is used by the next task."""
    assert llts.run("comes-later")["__EXIT_CODE__"] == -129
    for text in ("first", "second"):
        assert llts.run_script("comes-later", f"echo {text} > report.log\n")["__REPORT_LOG__"] == f"{text}\n"


def good_archive(llts):
    name = llts.tools.add("whole", "exit 0\n", files={"data": "x" * 10_000})
    with open(llts.tools.path(name), "rb") as archive:
        return archive.read()


@pytest.mark.parametrize("fault", ["empty", "text", "truncated", "flipped", "plain tar"])
def test_broken_archive(llts, fault):
    """2.7 code -130, X6: an archive that does not unpack."""
    whole = good_archive(llts)
    middle = len(whole) // 2
    data = {
        "empty": b"",
        "text": b"this is not an archive\n",
        "truncated": whole[:middle],
        "flipped": whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :],
        "plain tar": b"run.sh".ljust(1024, b"\0"),
    }[fault]
    task = llts.submit(llts.tools.add_bytes("broken", data))
    assert task.finish()["__EXIT_CODE__"] == -130
    assert "RUNNING" not in task.statuses()


@pytest.mark.parametrize(
    "fault", ["dot dot", "absolute", "through a link", "link out", "hard link out", "fifo", "device"]
)
def test_hostile_archive(llts, tmp_path, fault):
    """2.7 code -130, X1, X2: what would write outside, or is no file, is refused as a whole."""
    outside = tmp_path / "outside"
    outside.mkdir()
    target, evil = str(outside), b"evil"
    members = {
        "dot dot": [file_member("hostile/../../../evil", evil)],
        "absolute": [file_member(f"{target}/evil", evil)],
        "through a link": [
            special_member("hostile/link", tarfile.SYMTYPE, target=target),
            file_member("hostile/link/evil", evil),
        ],
        "link out": [special_member("hostile/link", tarfile.SYMTYPE, target="/etc/passwd")],
        "hard link out": [special_member("hostile/link", tarfile.LNKTYPE, target="/etc/hostname")],
        "fifo": [special_member("hostile/fifo", tarfile.FIFOTYPE)],
        "device": [special_member("hostile/null", tarfile.CHRTYPE)],
    }[fault]
    run_sh = file_member("hostile/run.sh", b"#!/bin/sh\nexit 0\n", 0o755)
    task = llts.submit(llts.tools.add_members("hostile", [folder_member("hostile"), run_sh, *members]))
    assert task.finish()["__EXIT_CODE__"] == -130
    assert list(outside.iterdir()) == []
    assert "RUNNING" not in task.statuses()


def test_no_run_sh(llts):
    """2.7 code -131, 3.1: a tool must contain run.sh. P4."""
    llts.tools.add_members("no-run-sh", [folder_member("no-run-sh"), file_member("no-run-sh/other", b"x")])
    assert llts.run("no-run-sh")["__EXIT_CODE__"] == -131


def test_run_sh_is_a_folder(llts):
    """P4: run.sh is not a file: -131."""
    llts.tools.add_members("folder-run-sh", [folder_member("folder-run-sh"), folder_member("folder-run-sh/run.sh")])
    assert llts.run("folder-run-sh")["__EXIT_CODE__"] == -131


def test_run_sh_without_execute_permission(llts):
    """P4: run.sh is made executable."""
    assert llts.run_script("mode-644", "exit 12\n", mode=0o644)["__EXIT_CODE__"] == 12


def test_run_sh_without_first_line(llts):
    """P4: a script without #! is given to /bin/sh."""
    assert llts.run_script("no-shebang", b"exit 13\n")["__EXIT_CODE__"] == 13


def test_empty_run_sh(llts):
    """P4: an empty script does nothing, with success."""
    assert llts.run_script("empty", b"")["__EXIT_CODE__"] == 0


@pytest.mark.parametrize("first_line", [b"#!/bin/sh\r\n", b"#!/no/such/interpreter\n"])
def test_bad_interpreter(llts, first_line):
    """P4: run.sh cannot be started: an error of the preparation, -131, and no hang."""
    assert llts.run_script("bad-interpreter", first_line + b"exit 0\n")["__EXIT_CODE__"] == -131


def test_run_sh_in_another_language(llts):
    """3.1: any commands can stand in run.sh; the first line says who reads it."""
    script = b"#!/usr/bin/env python3\nimport sys\nsys.exit(14)\n"
    assert llts.run_script("python", script)["__EXIT_CODE__"] == 14
