"""The tools that come with the service (tools/), packed and run as a user would."""

import os
import subprocess
import sys

import pytest

from harness.service import REPOSITORY, environment
from harness.waiting import LIMIT

TOOLS = os.path.join(REPOSITORY, "tools")
NAMES = sorted(name for name in os.listdir(TOOLS) if os.path.isdir(os.path.join(TOOLS, name)))
PI = "pi = 3.14159265358979323846264338327950288419716939937510"


def pack(session, name):
    return session.tools.add_folder(name, os.path.join(TOOLS, name))


@pytest.mark.parametrize("name", NAMES)
def test_form(name):
    """3.1: a run.sh that can be executed and that sh can read."""
    path = os.path.join(TOOLS, name, "run.sh")
    assert os.stat(path).st_mode & 0o777 == 0o755
    with open(path, encoding="utf-8") as script:
        assert script.readline() == "#!/bin/sh\n"
        assert script.readline().startswith(f"# {name}: ")
        assert "\nset -eu\n" in script.read()
    subprocess.run(["sh", "-n", path], check=True)


@pytest.mark.parametrize(
    "fields, greeting",
    [({}, "hello, world\n"), ({"name": "Ada L."}, "hello, Ada L.\n"), ({"name": ""}, "hello, world\n")],
)
def test_helloworld(llts, fields, greeting):
    """3.1, 3.4 the helloworld example."""
    end = llts.run(pack(llts, "helloworld"), fields)
    assert (end["__EXIT_CODE__"], end["__REPORT_LOG__"]) == (0, greeting)


def test_count(llts):
    """A tool that stays has one task after the other."""
    tool = pack(llts, "count")
    ends = [llts.run(tool) for _ in range(3)]
    # Each agent has a process of it.
    by_agent = {end["__AGENT_ID__"]: end["__VALUE__"] for end in ends}
    assert sum(map(int, by_agent.values())) == 3
    assert [end["__WARM__"] for end in ends].count(False) == len(by_agent)


@pytest.mark.parametrize("number, code, value", [(91, 0, "7"), (99991, 0, "99991"), (2, 0, "2"), (1, 2, None)])
def test_primes(llts, number, code, value):
    """A tool that loads something once."""
    end = llts.run(pack(llts, "primes"), number=number)
    assert (end["__EXIT_CODE__"], end.get("__VALUE__")) == (code, value)


def test_sleeper(llts):
    """A task that ends by itself, and one that is killed and says so."""
    end = llts.run(pack(llts, "sleeper"), seconds="0.1")
    assert (end["__EXIT_CODE__"], end["__REPORT_LOG__"]) == (0, "slept for 0.1 seconds\n")


def test_sleeper_is_killed(llts):
    """2.2: SIGTERM gives a tool the time to say what happened."""
    task = llts.submit(pack(llts, "sleeper"), seconds=600)
    task.until("RUNNING")
    # RUNNING comes when run.sh is started, which may be before it has set its trap.
    task.kill()
    end = task.finish()
    assert end["__OUTCOME__"] == "KILLED"
    assert (end["__EXIT_CODE__"], end["__REPORT_LOG__"]) in [(143, "ended by SIGTERM\n"), (-15, "")]


def test_checksums(llts, tmp_path):
    """A job on real files: the first run writes the manifest, the next ones compare."""
    pack(llts, "checksums")
    photos, manifest = tmp_path / "my photos", tmp_path / "photos.sha256"
    (photos / "a b").mkdir(parents=True)
    (photos / "a b" / "one").write_text("1")
    (photos / "two").write_text("2")

    def check():
        end = llts.run("checksums", path=str(photos), manifest=str(manifest))
        return end["__EXIT_CODE__"], end["__REPORT_LOG__"]

    assert check() == (0, "2 files, manifest written\n")
    assert check() == (0, "2 files, none differs\n")
    (photos / "two").write_text("changed")
    (photos / "three").write_text("3")
    code, report = check()
    assert code == 1
    assert report.count("./two") == 2 and report.count("> ") == 2 and report.count("./three") == 1
    assert "./a b/one" not in report and report.endswith("3 files, some differ\n")


@pytest.mark.parametrize(
    "fields", [{}, {"path": "relative", "manifest": "/tmp/m"}, {"path": "/no/such/folder", "manifest": "/tmp/m"}]
)
def test_checksums_with_bad_parameters(llts, fields):
    """3.3: what was wrong stands in report.log."""
    end = llts.run(pack(llts, "checksums"), fields)
    assert end["__EXIT_CODE__"] == 2 and end["__REPORT_LOG__"]


def outcomes_of_children(llts, task):
    details = llts.client.accepted("TASK/DETAILS", __FATHER_ID__=task.id)
    return [child["__OUTCOME__"] for child in details.values() if isinstance(child, dict)]


def test_pi_with_one_other_agent(llts):
    """3.1, 3.3: dispatcher and workers in one tool; one free agent does the parts; no worker outlives it."""
    task = llts.submit(pack(llts, "pi"), parts=5, terms=200)
    end = task.finish()
    assert end["__EXIT_CODE__"] == 0, end
    assert "5 parts: " in end["__REPORT_LOG__"] and PI in end["__REPORT_LOG__"]
    assert outcomes_of_children(llts, task) == ["SUCCEEDED"]


def test_pi_with_many_agents(start_service):
    """3.1: as many workers as there are other agents."""
    llts = start_service(agents=4)
    task = llts.submit(pack(llts, "pi"), parts=12, terms=400)
    end = task.finish()
    assert end["__EXIT_CODE__"] == 0 and PI in end["__REPORT_LOG__"], end
    assert outcomes_of_children(llts, task) == ["SUCCEEDED"] * 3


def test_pi_alone(start_service):
    """1.1: one task per agent: a dispatcher on the only one does not wait for workers that cannot start."""
    llts = start_service(agents=1)
    end = llts.run(pack(llts, "pi"), parts=3, terms=100)
    assert end["__EXIT_CODE__"] == 0, end
    assert "one agent only" in end["__REPORT_LOG__"] and PI in end["__REPORT_LOG__"]


def test_pi_with_a_bad_parameter(llts):
    """3.3: a wrong parameter is said in report.log."""
    end = llts.run(pack(llts, "pi"), parts="none")
    assert (end["__EXIT_CODE__"], end["__REPORT_LOG__"]) == (2, "parts is not a positive number: 'none'\n")


def test_pi_without_pyzmq(tmp_path):
    """3.3: a missing module is said in report.log, with what to do."""
    subprocess.run(["cp", "-R", os.path.join(TOOLS, "pi"), str(tmp_path)], check=True)
    (tmp_path / "task.info").write_text("__OPERATION__=pi\n")
    (tmp_path / "controller.info").write_text("AGENT_IP=127.0.0.1\n")
    bare = tmp_path / "bin"
    bare.mkdir()
    # -S leaves out the packages that were installed.
    (bare / "python3").write_text(f"#!/bin/sh\nexec '{sys.executable}' -S \"$@\"\n")
    (bare / "python3").chmod(0o755)
    path = str(bare) + os.pathsep + os.environ["PATH"]
    result = subprocess.run(["./run.sh"], cwd=tmp_path / "pi", env=environment(PATH=path), timeout=LIMIT)
    assert result.returncode == 3
    assert "pi needs pyzmq" in (tmp_path / "pi" / "report.log").read_text()
