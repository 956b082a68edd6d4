"""What a running tool finds around it (docs/sources/controller.md, 3.1, 3.2, 3.4)."""

import json
import os

from harness.service import port_of


def report(llts, name, script, fields=None, **tool):
    """Runs a tool and returns what it wrote to report.log."""
    end = llts.run(llts.tools.add(name, script, **tool), fields)
    assert end["__EXIT_CODE__"] == 0, end
    return end["__REPORT_LOG__"]


def test_working_directory(llts):
    """3.2, 3.4: AGENT_WORK_DIR/<task>/<tool>, where run.sh stands. The path has a space in it."""
    task = llts.submit(llts.tools.add("where", "pwd > report.log\n[ -f ./run.sh ]\n"))
    end = task.finish()
    assert end["__REPORT_LOG__"] == os.path.join(llts.service.work, task.id, "where") + "\n"
    assert end["__EXIT_CODE__"] == 0


def test_what_a_tool_is_started_with(llts):
    """There is no input, and PWD names the tool's folder, not that of the agent."""
    script = "readlink /proc/$$/fd/0 > report.log\ntr '\\0' '\\n' < /proc/$$/environ | grep PWD= >> report.log\n"
    task = llts.submit(llts.tools.add("surroundings", script))
    folder = os.path.join(llts.service.work, task.id, "surroundings")
    assert task.finish()["__REPORT_LOG__"] == f"/dev/null\nPWD={folder}\n"


def test_files_around(llts):
    """3.2, 3.4: controller.info, task.info and the folder of the tool; task.json and the outputs are ours."""
    found = report(llts, "around", "ls -A .. > report.log\n").split()
    assert sorted(set(found) - {"task.json", "stdout", "stderr"}) == ["around", "controller.info", "task.info"]


def test_everything_of_the_tool_is_there(llts):
    """3.1 2), 3.4 other_files: the whole archive, in a fresh copy for each task."""
    script = "cat other_file deep/er/file > report.log\n[ ! -e trace ]\ntouch trace\nrm other_file\n"
    files = {"other_file": "one\n", "deep/er/file": "two\n"}
    for _ in range(2):
        assert report(llts, "files", "set -e\n" + script, files=files) == "one\ntwo\n"
        assert llts.run("files")["__EXIT_CODE__"] == 0


def test_files_without_a_folder(llts):
    """X7: an archive with run.sh at its top looks the same to the tool as one with the folder <tool>/."""
    script = 'set -e\nbasename "$PWD" > report.log\ncat other_file >> report.log\n[ -f ../task.info ]\n'
    for flat in (False, True):
        assert report(llts, "flat-or-not", script, files={"other_file": "x\n"}, flat=flat) == "flat-or-not\nx\n"


def test_task_info(llts):
    """3.2: one key=value a line: the submitted fields as they came, then the id of the task (and its round)."""
    tool = llts.tools.add("info", "cat ../task.info > report.log\n")
    task = llts.submit_quietly(tool, {"param1": "value1", "param2": "a = b; $(c) 'd' \"e\" ü", "number": 5})
    assert task.result()["__REPORT_LOG__"].split("\n") == [
        "__TYPE__=TASK/SUBMIT",
        "__OPERATION__=info",
        "param1=value1",
        "param2=a = b; $(c) 'd' \"e\" ü",
        "number=5",
        f"__TASK_ID__={task.id}",
        "__ROUND__=0",
        "",
    ]


def test_task_json(llts):
    """task.json holds the exact values."""
    fields = {"text": "two\nlines \x1b \u2028", "number": 5, "yes": True, "fraction": 0.25}
    task = json.loads(report(llts, "json", "cat ../task.json > report.log\n", fields))
    assert {key: task[key] for key in fields} == fields
    assert task["__OPERATION__"] == "json"


def test_controller_info(llts):
    """3.2: the address of the controller, and the IP of the agent."""
    assert report(llts, "controller-info", "cat ../controller.info > report.log\n").split("\n") == [
        f"CONTROLLER_ADDRESS=tcp://127.0.0.1:{port_of(llts.service.rep)}",
        "AGENT_IP=127.0.0.1",
        "",
    ]


def test_environment(llts):
    """The same facts are in the environment: our fields by name, other parameters as PARAM_<key>."""
    tool = llts.tools.add("environment", "env > report.log\n")
    task = llts.submit_quietly(
        tool, {"__GIVEN_ID__": "g 1", "param1": "a = b", "number": 5, "not an identifier": "x", "1st": "x"}
    )
    found = dict(line.split("=", 1) for line in task.result()["__REPORT_LOG__"].splitlines())
    expected = {
        "__TASK_ID__": task.id,
        "__OPERATION__": "environment",
        "__GIVEN_ID__": "g 1",
        "__ROUND__": "0",
        "CONTROLLER_ADDRESS": f"tcp://127.0.0.1:{port_of(llts.service.rep)}",
        "AGENT_IP": "127.0.0.1",
        "PARAM_param1": "a = b",
        "PARAM_number": "5",
    }
    assert {key: found.get(key) for key in expected} == expected
    parameters = {key for key in found if key.startswith("PARAM_")}
    assert parameters == {"PARAM_param1", "PARAM_number", "PARAM_1st"}


def test_tool_gets_no_sockets(llts):
    """P9: of the agent's descriptors a tool gets 0, 1 and 2 only."""
    found = report(llts, "descriptors", "ls -l /proc/$$/fd > report.log\n")
    assert "socket:" not in found and "anon_inode" not in found


def test_standard_input_is_empty(llts):
    """A tool that reads its standard input gets the end of file and does not hang."""
    assert report(llts, "stdin", "wc -c < /dev/stdin > report.log\ncat >> report.log\n").strip() == "0"


def test_tool_submits_a_task(llts):
    """3.1, 3.2: a process of a task can submit tasks through CONTROLLER_ADDRESS."""
    script = b"""#!/usr/bin/env python3
import json, zmq
info = dict(line.rstrip("\\n").split("=", 1) for line in open("../controller.info"))
task = dict(line.rstrip("\\n").split("=", 1) for line in open("../task.info"))
socket = zmq.Context.instance().socket(zmq.REQ)
socket.connect(info["CONTROLLER_ADDRESS"])
def ask(**fields):
    socket.send(json.dumps(fields).encode())
    return json.loads(socket.recv())
child = ask(__TYPE__="TASK/SUBMIT", __OPERATION__="child", __FATHER_ID__=task["__TASK_ID__"], word="from the father")
end = ask(__TYPE__="TASK/QUERY", __TASK_ID__=child["__TASK_ID__"], __WAIT__=30000)
open("report.log", "w").write(end["__REPORT_LOG__"])
"""
    llts.tools.add("child", "sed -n 's/^word=//p' ../task.info > report.log\n")
    assert report(llts, "father", script) == "from the father\n"


def test_folder_is_gone_at_the_end(llts):
    """2.3 FINISHED: the task is cleaned up; also folders that the tool made hard to remove."""
    script = "mkdir -p a/b/c\ntouch a/b/c/d\nchmod 000 a/b/c a/b\nchmod 555 a .\n"
    task = llts.submit(llts.tools.add("clean", script))
    task.until("RUNNING")
    task.finish()
    assert task.id not in os.listdir(llts.service.work)
