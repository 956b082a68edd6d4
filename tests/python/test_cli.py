"""The command line: llts submit, run, wait, query, kill against a controller of ours."""

import json
import subprocess

import pytest

from harness.service import BINARY, environment
from harness.waiting import LIMIT


@pytest.fixture
def cli(llts, tmp_path):
    """Runs the command line in an empty folder and returns what it said."""

    def run(*arguments, controller=llts.service.rep, **more):
        command = [BINARY, *(["--controller", controller] if controller else []), *arguments]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    return run


def said(result, code=0):
    assert result.returncode == code, (result.returncode, result.stdout, result.stderr)
    return result.stdout


def test_submit_prints_the_id(llts, cli):
    """llts submit OP key=value…: the id of the task, which has the parameters."""
    tool = llts.tools.add("cli-submit", "sed -n 's/^word=//p' ../task.info > report.log\nexit 3\n")
    task = llts.keep({"__TASK_ID__": said(cli("submit", tool, "word=a = b c")).strip()})
    end = task.result()
    assert (end["__EXIT_CODE__"], end["__REPORT_LOG__"]) == (3, "a = b c\n")


def test_run_is_the_tool(llts, cli):
    """llts run OP: prints the report and exits with the tool's exit code."""
    tool = llts.tools.add(
        "cli-run", ". ./lib\n", files={"lib": 'echo "hello, $PARAM_name" > report.log\nexit $PARAM_code\n'}
    )
    assert "hello, Ada" in said(cli("run", tool, "name=Ada", "code=0"))
    assert "hello, Bob" in said(cli("run", tool, "name=Bob", "code=7"), code=7)


def test_run_of_a_missing_tool(cli):
    """llts run: a tool that is not there is a failure, not a success."""
    result = cli("run", "not-installed")
    assert result.returncode != 0


def test_wait_returns_at_the_end(llts, cli):
    """llts wait ID: returns when the task is FINISHED."""
    task = llts.submit_quietly(llts.tools.add("cli-wait", "sleep 0.2\n"))
    cli("wait", task.id)
    assert task.query()["__STATUS__"] == "FINISHED"


def test_query_and_kill(llts, cli):
    """llts query ID, llts kill ID."""
    task = llts.submit(llts.tools.add("cli-kill", "exec sleep 600\n"))
    task.until("RUNNING")
    assert "RUNNING" in said(cli("query", task.id))
    said(cli("kill", task.id))
    assert task.finish()["__KILLED__"] == "TRUE"
    assert cli("kill", "TASK_1.000000_AAAAA").returncode != 0


def test_json_output(llts, cli):
    """--output wire: one JSON document on stdout, and nothing else."""
    task = llts.submit(llts.tools.add("cli-json", "exit 4\n"))
    task.finish()
    reply = json.loads(said(cli("--output", "wire", "query", task.id)))
    assert (reply["__STATUS__"], reply["__EXIT_CODE__"]) == ("FINISHED", 4)


def test_controller_from_the_environment(llts, cli):
    """CONTROLLER_ADDRESS, which every running tool has, is the default of --controller."""
    tool = llts.tools.add("cli-environment", "exit 5\n")
    said(cli("run", tool, controller=None, CONTROLLER_ADDRESS=llts.service.rep), code=5)


def test_command_line_inside_a_tool(llts):
    """3.1: a tool can submit tasks: in a shell script with this very command."""
    llts.tools.add("cli-inner", "echo inner > report.log\nexit 6\n")
    script = f"code=0\n'{BINARY}' run cli-inner > report.log || code=$?\nexit $code\n"
    end = llts.run_script("cli-outer", script)
    assert (end["__EXIT_CODE__"], "inner" in end["__REPORT_LOG__"]) == (6, True)


def test_nobody_answers(cli):
    """4.3 ZMQ_RECV_TIMEOUT: without a controller the command ends with an error, on stderr."""
    result = cli("query", "TASK_1.000000_AAAAA", controller="tcp://127.0.0.1:1", LLTS_ZMQ_RECV_TIMEOUT="200")
    assert result.returncode != 0 and result.stderr and not result.stdout
