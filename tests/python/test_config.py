"""Keys of the configuration that can be seen from outside (docs/sources/controller.md, 4.3)."""

import os
import re
import subprocess

import pytest

from harness.service import BINARY, environment
from harness.waiting import LIMIT, wait_until


def try_controller(tmp_path, text, **more):
    """Starts a controller that must refuse its configuration."""
    config = tmp_path / "config.toml"
    config.write_text(text)
    return subprocess.run(
        [BINARY, "controller", "--config", str(config)],
        cwd=tmp_path,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


def test_logs_and_reports(start_service):
    """4.3 CONTROLLER_LOG_FILE, AGENT_LOG_FILE, AGENT_WORK_DIR, REPORT_LOG_KEEP_BYTES with other values."""
    llts = start_service(
        agents=1, CONTROLLER_LOG_FILE="c.txt", AGENT_LOG_FILE="a.txt", REPORT_LOG_KEEP_BYTES=100, LOG_LEVEL="debug"
    )
    script = "yes 123456789 | head -n 100 > report.log\n"
    end = llts.run_script("config", script)
    assert end["__REPORT_LOG__"] == "123456789\n" * 10
    name = llts.service.agents[0].name
    wait_until(lambda: {"c.txt", f"a.txt.{name}"} <= set(os.listdir(llts.service.logs)), "both logs are there")


def test_names_of_the_logs(llts):
    """4.3, 3.4: controller.log, and one agent.log.<AGENT_ID> for each agent."""
    expected = {"controller.log", *(f"agent.log.{agent.name}" for agent in llts.service.agents)}
    assert expected <= set(os.listdir(llts.service.logs))


def test_ports_can_be_chosen(start_service):
    """4.3 CONTROLLER_REP_PORT, CONTROLLER_PUB_PORT: the ready line names them; two services never share one."""
    one, other = start_service(), start_service()
    addresses = {one.service.rep, one.service.pub, other.service.rep, other.service.pub}
    assert len(addresses) == 4
    assert all(address.startswith("tcp://127.0.0.1:") for address in addresses)


@pytest.mark.parametrize(
    "text, named",
    [
        ("CONTROLLER_REP_PROT = 0\n", "CONTROLLER_REP_PORT"),
        ("CONTROLLER_REP_PORT = 'x'\n", "CONTROLLER_REP_PORT"),
        ("CONTROLLER_REP_PORT = 70000\n", "CONTROLLER_REP_PORT"),
        ("CONTROLLER_REP_PORT = \n", ""),
        ("CONTROLLER_IP = '0.0.0.0'\n", "ALLOW_INSECURE"),
        ("LOG_FORMATTER = '%(levelnme)s'\n", "LOG_FORMATTER"),
    ],
)
def test_bad_configuration(tmp_path, text, named):
    """A key that does not exist, or a value that cannot be, ends the start with a sentence that names it."""
    result = try_controller(tmp_path, text)
    assert result.returncode != 0
    assert result.stderr and named in result.stderr


def test_environment_overrides_the_file(tmp_path):
    """LLTS_<KEY> comes before the file."""
    result = try_controller(tmp_path, "CONTROLLER_REP_PORT = 0\n", LLTS_CONTROLLER_REP_PORT="x")
    assert result.returncode != 0 and "CONTROLLER_REP_PORT" in result.stderr


def test_a_foreign_variable_is_a_warning(tmp_path):
    """A variable LLTS_… that is not a key may belong to another program: it is named in a warning, and no command fails for it."""
    result = try_controller(tmp_path, "CONTROLLER_REP_PORT = 'x'\n", LLTS_NO_SUCH_KEY="1")
    assert result.returncode != 0 and "NO_SUCH_KEY" not in result.stderr, "the reason of the end is another one"
    command = [BINARY, "config"]
    limits = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": LIMIT}
    result = subprocess.run(command, cwd="/", env=environment(LLTS_CONTROLLER_IPP="1"), **limits)
    assert result.returncode == 0
    assert "LLTS_CONTROLLER_IPP" in result.stderr and "LLTS_CONTROLLER_IP" in result.stderr.replace("IPP", "")


def test_lines_of_the_log(start_service):
    """4.3 LOG_FORMATTER: the format of the document gives its order and its brackets, and another format is obeyed."""
    llts = start_service(LOG_FORMATTER="%(asctime)s %(filename)s[line:%(lineno)d] %(levelname)s")
    line = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \w+\.rs\[line:\d+\] (INFO|WARN|ERROR) \S.*")
    with open(os.path.join(llts.service.logs, "controller.log"), encoding="utf-8") as log:
        lines = log.read().splitlines()
    assert lines and all(line.fullmatch(text) for text in lines), lines
    other = start_service(LOG_FORMATTER="<%(levelname)s> %(message)s | %(process)d")
    with open(os.path.join(other.service.logs, "controller.log"), encoding="utf-8") as log:
        lines = log.read().splitlines()
    end = f" | {other.service.controller.process.pid}"
    assert lines and all(re.match(r"<\w+> \S", text) and text.endswith(end) for text in lines), lines
