"""The Python blocks of docs/python.md run as they are written, from top to bottom."""

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import LIMIT

PAGE = Path(__file__).parents[3] / "docs/python.md"


def run(service, folder, code):
    (folder / "names.txt").write_text("b\na\n")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=service.env, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_blocks_of_the_page_run(service, tmp_path):
    found = blocks("python")
    assert len(found) >= 7
    said = run(service, tmp_path, "".join(found))
    for expected in ("0 a\nb\n", "hello, Ada", "[PosixPath('results/sorted.txt')]", "hello, Eve"):
        assert expected in said
    assert "196 4" in said and "-1006" in said and "SUCCEEDED" in said


def test_the_functions_of_the_page_run(service, stays, tmp_path):
    [code] = [block for block in blocks("python,no_run") if "executor" in block]
    code = code.replace(".executor(", f".executor(python={sys.executable!r}, ")
    said = run(service, tmp_path, "from llts import Client\n" + code)
    assert "[2.0, 5.0]" in said and "1024 TASK_" in said


def test_the_page_names_every_public_name():
    import llts

    text = PAGE.read_text()
    hidden = {"Error", "Executor", "File", "GraphRun", "GraphState", "Job", "Task", "TaskState", "aio"}
    assert [name for name in llts.__all__ if name not in text and name not in hidden] == []
    assert os.path.exists(PAGE)
