"""Every verb of a client, a task and a job, and the errors with their codes."""

import datetime
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import LIMIT, push, wait_until

import llts
from llts import files


def test_a_tool_is_submitted_and_awaited(c):
    tool = push(c, "greet", 'echo "out $PARAM_name"; echo "err" >&2; echo "report $PARAM_count" > report.log; exit "$PARAM_code"')
    task = c.submit(tool, {"name": "Ada", "count": 3, "code": 0}, timeout=30, given_id="mine", priority=5)
    result = task.result(LIMIT)
    assert (result.id, result.status, result.outcome, result.exit_code, result.round) == (task.id, "FINISHED", "SUCCEEDED", 0, 0)
    assert (result.stdout, result.stderr, result.report) == ("out Ada\n", "err\n", "report 3\n")
    assert (task.stdout(), task.stderr(), task.report()) == ("out Ada\n", "err\n", "report 3\n")
    assert result.parameters["name"] == "Ada"
    assert (result.value, result.warm, result.files) == (None, False, {})
    assert result.fields["__GIVEN_ID__"] == "mine"
    assert c.wait(task.id).succeeded
    assert c.query(task).outcome == "SUCCEEDED"
    assert task.done()
    assert repr(task) == f"<llts.Task {task.id}>"


def test_a_task_that_fails_raises_its_result(c):
    task = c.run(["sh", "-c", "echo no >&2; exit 3"])
    assert task.wait(LIMIT).exit_code == 3
    with pytest.raises(llts.TaskFailed) as raised:
        task.result()
    assert raised.value.result.outcome == "FAILED"
    assert str(raised.value) == f"{task.id} FAILED, exit code 3: no"


def test_commands_have_folder_variables_and_input(c, tmp_path):
    script = 'printf "%s|%s|%s|" "$PWD" "$A" "$(umask)"; cat'
    task = c.run(["sh", "-c", script], env={"A": "1"}, stdin="hello")
    folder, variable, umask, text = task.stdout().split("|")
    assert (folder, variable, text) == (str(tmp_path), "1", "hello")
    assert f"Umask:\t{umask}\n" in Path("/proc/self/status").read_text()
    assert c.run("echo $((1 + 1)) | cat", cwd="/").stdout() == "2\n"
    assert c.run("pwd", cwd="/usr").stdout() == "/usr\n"
    assert c.run(["printenv", "HOME_OF_TEST"], env_all=True).wait(LIMIT).exit_code == 1


def test_a_signal_is_a_negative_code(c):
    assert c.run("kill -9 $$").wait(LIMIT).exit_code == -9


def test_policies_have_the_names_of_the_flags(c):
    late = c.run(["sleep", "60"], timeout=datetime.timedelta(seconds=0.2))
    assert late.wait(LIMIT).outcome == "TIMED_OUT"
    again = c.run('[ "$__ROUND__" -ge 2 ]', max_fails=2, retry_delay=0.01)
    assert again.result(LIMIT).round == 2
    expired = c.run(
        "true", start_after=datetime.timedelta(minutes=5), end_before=datetime.timedelta(minutes=6), tags=["none", "b"]
    )
    state = expired.query()
    assert state.status == "WAITING"
    assert state.fields["__NOT_BEFORE__"] - state.fields["__SUBMIT_TIME__"] == pytest.approx(300)
    assert sorted(state.fields["__TAGS__"].split(",")) == ["b", "none"]
    expired.kill("no longer wanted")
    assert expired.wait(LIMIT).outcome == "KILLED"
    moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    at = c.run("true", start_after=moment)
    assert at.query().fields["__START_AFTER__"] == pytest.approx(moment.timestamp(), abs=0.001)
    at.kill()


def test_every_flag_of_the_command_line_is_an_option():
    from conftest import BINARY

    from llts.submission import Policy

    text = subprocess.run([BINARY, "submit", "--help"], capture_output=True, text=True, check=True).stdout
    flags = {word.strip(",.").split("[")[0].split("=")[0] for word in text.split() if word.startswith("--")}
    # A key file is the business of a receiver, --sh and its words are `run`, and the rest is about the terminal.
    flags -= {"--color", "--help", "--sh", "--address-key-file"}
    options = {"--" + name.rstrip("_").replace("_", "-") for name in Policy.__annotations__} - {"--address-key"}
    assert {flag for flag in flags if flag.isascii() and flag[2:3].isalpha()} - options == set()


def test_the_last_round_is_read(c):
    task = c.run('echo "round $__ROUND__"; [ "$__ROUND__" -ge 1 ]', max_fails=1, retry_delay=0.01)
    assert task.stdout() == "round 1\n"
    assert b"".join(task.logs(round=0)) == b"round 0\n"


def test_bytes_that_are_no_characters_travel(c, tmp_path):
    strange = os.fsdecode(b"a\xff")
    (tmp_path / strange).mkdir()
    script = 'printf "%s|%s|" "$1" "$V"; pwd'
    task = c.run(["sh", "-c", script, "-", strange], cwd=strange, env={"V": strange})
    assert task.result(LIMIT)
    assert b"".join(task.logs()) == b"a\xff|a\xff|" + os.fsencode(tmp_path / strange) + b"\n"
    (tmp_path / "x").write_text("x")
    copied = c.run(["sh", "-c", 'cp "$1" "$1.out"', "-", strange], in_={strange: "x"}, out=[f"{strange}.*"])
    assert set(copied.files()) == {f"{strange}.out"}
    assert copied.fetch("got") == [Path("got") / f"{strange}.out"]


def test_dependencies(c):
    first = c.run("true")
    second = c.run("exit 1", after=first)
    third = c.run("true", after_failed=[second], after_any=[first, second])
    assert third.result(LIMIT)
    assert c.run("true", after=second).wait(LIMIT).outcome == "SKIPPED"


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda c: c.submit("there-is-no-such-tool"), -1006),
        (lambda c: c.run("true", priority=101), -1007),
        (lambda c: c.run("true", merge=True, fail_on_stderr=True), -1007),
        (lambda c: c.query("TASK_1480000000.120000_AZazA"), -1004),
        (lambda c: c.kill("TASK_1480000000.120000_AZazA"), -1004),
        (lambda c: c.wait("TASK_1480000000.120000_AZazA"), -1004),
        (lambda c: c.graph("GRAPH_1480000000.120000_AZazA").query(), -1004),
        (lambda c: c.connection.ask("NO/SUCH/TYPE").result(), -1003),
    ],
)
def test_refusals_have_their_codes(c, ask, code):
    with pytest.raises(llts.Refused) as raised:
        ask(c)
    assert raised.value.code == code
    assert isinstance(raised.value, llts.NoSuchTask) == (code == -1004)
    assert str(raised.value).endswith(f"({code})")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda c: c.run([]), "must have a first word"),
        (lambda c: c.run(""), "must have a first word"),
        (lambda c: c.run(["echo", "a\0b"]), "without the byte 0"),
        (lambda c: c.run(["true"], env={"A": 5}), "must be a dict of texts"),
        (lambda c: c.run(["true"], env="A"), "must be a dict of texts"),
        (lambda c: c.run(["cat"], stdin=b"ab"), "stdin must be a text"),
        (lambda c: c.run(["true"], timeout="x"), "timeout is 'x'; give seconds"),
        (lambda c: c.submit("helloworld", 5), "parameters of a tool are 5; give a dict"),
        (lambda c: c.submit_many("helloworld", [5]), "parameters of a tool are 5; give a dict"),
        (lambda c: c.task(None), "None is no task"),
        (lambda c: llts.Client(timeout="a"), "timeout is 'a'"),
        (lambda c: llts.Client(timeout=0), "timeout is 0"),
    ],
)
def test_arguments_of_a_wrong_type_are_named(c, wrong, said):
    with pytest.raises((TypeError, ValueError), match=said):
        wrong(c)


def test_wrong_arguments_are_refused_here(c):
    for call in (
        lambda: c.submit("helloworld", cwd="/"),
        lambda: c.submit("helloworld", nonsense=1),
    ):
        with pytest.raises(TypeError):
            call()
    for call in (
        lambda: c.submit("helloworld", {"__JOB__": "x"}),
        lambda: c.run("true", cwd="/", out="*"),
        lambda: c.submit_many("helloworld", [{}], submit_key="x"),
        lambda: c.run("true", timeout=float("nan")),
    ):
        with pytest.raises(ValueError):
            call()


def test_a_key_makes_one_task(c):
    tasks = [c.run("true", submit_key="once", cwd="/") for _ in range(3)]
    assert len({task.id for task in tasks}) == 1
    with pytest.raises(llts.Refused):
        c.run("false", submit_key="once", cwd="/")
    job = c.job("keys")
    tasks = [job.run("true", submit_key="twice", cwd="/") for _ in range(3)]
    assert len({task.id for task in job.as_completed(timeout=LIMIT)}) == 1
    tasks[0].result()
    assert job.run("true", submit_key="twice", cwd="/").result(LIMIT).id == tasks[0].id


def test_submit_many_accepts_all_or_says_which(c):
    tool = push(c, "number", 'echo "$PARAM_n"')
    tasks = c.submit_many(tool, ({"n": n} for n in range(600)), timeout=30)
    assert [task.result(LIMIT).stdout for task in tasks[::100]] == [f"{n}\n" for n in range(0, 600, 100)]
    assert len({task.id for task in tasks}) == 600
    with pytest.raises(llts.Refused, match="no-such"):
        c.submit_many("no-such", [{"n": n} for n in range(3)])


def test_a_wrong_submit_in_a_frame_fails_alone(c):
    job = c.job("mixed")
    tasks = [job.run("true", cwd="/", priority=101 if n % 10 == 3 else 1) for n in range(50)]
    for n, task in enumerate(tasks):
        if n % 10 == 3:
            with pytest.raises(llts.Refused, match="PRIORITY"):
                task.wait(LIMIT)
        else:
            task.result(LIMIT)
    assert len(list(job.as_completed(timeout=LIMIT))) == 50
    assert job.wait(LIMIT)["total"] == 45


def test_waits_have_a_limit(c):
    task = c.run(["sleep", "60"])
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        task.wait(0.05)
    with pytest.raises(TimeoutError):
        list(llts.as_completed([task], timeout=0.05))
    assert time.monotonic() - began < LIMIT
    assert not task.done()
    task.kill("the test is over")
    state = task.wait(LIMIT)
    assert state.outcome == "KILLED"
    assert "the test is over" in state.reason


def test_hold_release_retry(c, tmp_path):
    c.set_gate("shut", closed_until=time.time() + 3600)
    task = c.run(["sh", "-c", f"test -e {tmp_path}/there"], gate="shut")
    task.hold()
    assert "held" in task.explain()
    c.set_gate("shut", closed_until=None)
    c.release(task)
    assert task.wait(LIMIT).outcome == "FAILED"
    (tmp_path / "there").touch()
    c.retry(task)
    assert task.result(LIMIT).round == 1


def test_several_threads_wait_for_one_task(c):
    task = c.run("sleep 0.2")
    found = []
    threads = [threading.Thread(target=lambda: found.append(task.result(LIMIT).exit_code)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0] * 8


def test_list_yields_every_task(c):
    tasks = c.submit_many("helloworld", ({"name": f"n{n}"} for n in range(1120)), job="listed", priority=-100)
    ids = {task.id for task in tasks}
    listed = [state.id for state in c.list(job="listed")]
    assert set(listed) == ids and len(listed) == len(ids) == 1120
    assert [state.parameters["name"] for state in c.list(job="listed", name="n7")] == ["n7"]
    assert [state.id for state in c.list(job="listed", limit=3)] == listed[:3]
    c.job("listed").kill("enough")
    c.job("listed").wait(LIMIT)


def test_logs_are_live_bytes(c, tmp_path):
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    task = c.run(["sh", "-c", f"echo one; cat {fifo}; echo err >&2"])
    parts = task.logs()
    assert next(parts) == b"one\n"
    assert task.query().status == "RUNNING"
    fifo.write_text("later\n")
    assert b"".join(parts) == b"later\n"
    assert b"".join(c.logs(task, "STDERR")) == b"err\n"
    assert task.stdout() == "one\nlater\n"


def test_outputs_are_bytes(c):
    task = c.run(r"printf 'a\377\n'")
    task.result(LIMIT)
    assert b"".join(task.logs()) == b"a\xff\n"
    assert task.stdout() == "a\ufffd\n"


def test_large_outputs_are_whole(c):
    assert c.run(["seq", "100000"]).stdout() == "".join(f"{n}\n" for n in range(1, 100001))


def test_logs_of_a_running_task_can_end_at_its_present_end(c):
    task = c.run("echo first; sleep 60")
    wait_until(lambda: b"".join(task.logs(follow=False)) == b"first\n", "the first line is there")
    task.kill()
    task.wait(LIMIT)


def test_files_travel(c, tmp_path):
    (tmp_path / "in.txt").write_text("b\na\n")
    big = os.urandom(700_000)
    (tmp_path / "big").write_bytes(big)
    (tmp_path / "prog").write_text("#!/bin/sh\nsort in.txt > out/sorted.txt\n")
    (tmp_path / "prog").chmod(0o755)
    task = c.run(
        "mkdir out; ./prog; cp data out/copy", in_={"in.txt": tmp_path / "in.txt", "prog": "prog", "data": "big"}, out=["out/*"]
    )
    assert task.result(LIMIT)
    assert set(task.files()) == set(c.files(task.id)) == {"out/sorted.txt", "out/copy"}
    target = tmp_path / "target"
    paths = task.fetch(target)
    assert (target / "out/sorted.txt").read_text() == "a\nb\n"
    assert (target / "out/copy").read_bytes() == big
    assert sorted(paths) == [target / "out/copy", target / "out/sorted.txt"]
    task.fetch(target)
    (target / "out/copy").write_text("mine")
    with pytest.raises(FileExistsError):
        task.fetch(target)
    task.fetch(target, force=True)
    assert (target / "out/copy").read_bytes() == big
    job = c.job("files")
    job.run("cp in.txt out.txt", in_=["in.txt"], out="*.txt")
    [task] = job.as_completed(timeout=LIMIT)
    assert "out.txt" in task.files()


def test_a_file_that_becomes_shorter_while_it_is_sent_is_named(c, tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes(os.urandom(20))
    inputs = files.read_inputs([path])
    path.write_bytes(b"shorter")
    with pytest.raises(llts.Error, match=rf"{path} ends after 7 of its 20 bytes"):
        files.put_inputs(c.connection, inputs)


def test_a_sender_without_commands_sends_files_of_tools(start_service, tmp_path):
    (tmp_path / "in.txt").write_bytes(os.urandom(300_000))
    with start_service(agents=1, ALLOW_COMMANDS="no").client() as own:
        with pytest.raises(llts.Refused) as raised:
            own.run("true")
        assert raised.value.code == -1011
        with pytest.raises(llts.Refused) as raised:
            push(own, "mine", "true")
        assert raised.value.code == -1011

        def sent():
            # The service does not expect the files of a submit that has waited until its tool was read.
            with suppress(llts.Refused):
                return own.submit("helloworld", {"name": "Ada"}, in_=["in.txt"])

        assert wait_until(sent, "the tool is read").result(LIMIT).report == "hello, Ada\n"
        assert own.job("files").submit("helloworld", {"name": "Bob"}, in_={"b": "in.txt"}).result(LIMIT)


def test_a_job_yields_its_tasks_as_they_end(c, tmp_path):
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    job = c.job("order")
    slow = job.run(["cat", str(fifo)])
    quick = [job.run(["echo", str(n)], cwd="/") for n in range(20)]
    ends = job.as_completed(timeout=LIMIT)
    first = [next(ends) for _ in quick]
    assert set(first) == set(quick)
    fifo.write_text("x")
    assert list(ends) == [slow]
    assert [task.result().stdout for task in quick] == [f"{n}\n" for n in range(20)]
    state = job.wait(LIMIT)
    assert (state["total"], state["succeeded"], state["job"]) == (21, 21, "order")
    assert job.query()["finished"] == 21
    assert any(each["job"] == "order" for each in c.jobs())
    # A job that rests and is used again.
    assert job.run("true").result(LIMIT)


def test_a_job_can_be_held_and_killed(c):
    job = c.job("held")
    tasks = [job.run("true", start_after=datetime.timedelta(minutes=10)) for _ in range(3)]
    assert {task.query().status for task in tasks} == {"WAITING"}
    assert job.hold() == 3
    assert job.release() == 3
    assert job.kill("the test is over") == 3
    assert {task.wait(LIMIT).outcome for task in tasks} == {"KILLED"}
    failing = c.job("failing")
    bad = failing.run("exit 1")
    bad.wait(LIMIT)
    assert failing.retry() == 1


def test_progress_needs_no_tqdm(c, monkeypatch, capsys):
    job = c.job("bar")
    for _ in range(3):
        job.run("true")
    assert len(list(job.as_completed(progress=True, timeout=LIMIT))) == 3
    assert "3/3" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert len(list(job.as_completed(progress=True, timeout=LIMIT))) == 3
    assert capsys.readouterr().err == ""


def test_the_service_tells_of_itself(c):
    assert set(c.stats()) >= {"waiting", "running", "finished"}
    agents = c.agents()
    assert len(agents) == 2
    c.set_gate("api", max_running=1, max_starts=4, interval=60)
    gate = c.gates()["api"]
    assert (gate["status"], gate["max_running"], gate["max_starts"]) == ("OPEN", 1, 4)
    assert c.run("true", gate="api").result(LIMIT)
    c.set_gate("api", max_running=None, max_starts=None)


def test_a_closed_client_says_so(service):
    client = service.client()
    task = client.run("sleep 60")
    waiting = task.end()
    client.close()
    client.close()
    with pytest.raises(llts.Error, match="closed"):
        waiting.result(LIMIT)
    with pytest.raises(llts.Error, match="closed"):
        client.stats()
    with pytest.raises(llts.Error, match="closed"):
        client.job("x").run("true").wait()
    with service.client() as other:
        other.kill(task.id)


def test_a_client_without_references_closes_itself(service):
    before = threading.active_count()
    client = service.client()
    client.stats()
    assert threading.active_count() == before + 1
    del client
    assert threading.active_count() == before

    # A task keeps its client open, and a job that rests does not.
    task = service.client().job("kept").run("true")
    assert task.result(LIMIT)
    assert threading.active_count() == before + 1
    del task
    assert threading.active_count() == before


def test_a_client_does_not_survive_a_fork(service):
    code = """
import llts, os
c = llts.Client()
task = c.run(["sleep", "60"])
# Nobody in the child gets the answer to this.
task.done()
child = os.fork()
if child == 0:
    for call in (c.stats, task.wait, task.end().result, lambda: next(llts.as_completed([task]))):
        try: call()
        except llts.Error as error: print(error, flush=True)
    llts.Client().stats()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
task.kill()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=service.env, capture_output=True, text=True, timeout=LIMIT
    )
    assert (done.returncode, done.stderr, done.stdout.count("make another one\n")) == (0, "", 4)


def test_a_program_that_closes_nothing_ends(service):
    code = "import llts, sys; t = llts.Client().run(['sleep', '0.1']); t.end(); print('done')"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=service.env, capture_output=True, text=True, timeout=LIMIT
    )
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_a_send_that_is_interrupted_loses_nothing(service, monkeypatch):
    with service.client() as c:
        c.stats()
        connection = c.connection
        whole = connection._transmit

        def interrupted(number, batch):
            monkeypatch.setattr(connection, "_transmit", whole)
            os.kill(os.getpid(), signal.SIGINT)
            return whole(number, batch)

        monkeypatch.setattr(connection, "_transmit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            c.run(["true"], cwd="/", given_id="whole")
        assert c.run(["true"], cwd="/").result(LIMIT).succeeded
        wait_until(lambda: [it.outcome for it in c.list(__GIVEN_ID__="whole")] == ["SUCCEEDED"], "it was sent, once")
