"""What a user sees and does, view by view."""

import gzip
import json
import os
import uuid

import pytest
from selenium.webdriver.common.keys import Keys

from harness.waiting import wait_until

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "llts", "http", "page")
TASKS = int(os.environ.get("PAGE_TASKS", "3000"))

GRAPH = {
    "name": "count",
    "steps": {
        "split": {"command": ["sh", "-c", 'mkdir -p ../out; for i in 1 2; do echo $i > ../out/p$i; done; ls -d "$__OUT__"/* > ../provide/parts'], "outputs": ["parts"]},
        "each": {"command": ["sh", "-c", 'wc "$INPUT_in" > ../out/counts && echo out/counts > ../provide/out'], "inputs": {"in": ["split.parts"]}, "tasks": "in"},
        "merge": {"command": ["sh", "-c", "xargs -d '\\n' cat < ../inputs/counts"], "inputs": {"counts": ["each.out"]}},
    },
}

VIEWS = {
    "": "Open jobs", "tasks": "newest first", "jobs": "Jobs", "agents": "Agents", "graphs": "Graphs", "gates": "Gates", "incidents": "the controller has started",
    "history": "Latest rounds", "prompts": "no prompt master answers", "lists": "no folder with task lists is named", "tdf": "this service works for no namespace of TDF",
}


def name(prefix):
    return f"{prefix}-{uuid.uuid4().hex[:6]}"


def until_file(path, after=""):
    """A command that runs until a file is there."""
    return f"while [ ! -e '{path}' ]; do sleep 0.05; done; {after}"


@pytest.fixture
def some_of_each(service, tmp_path):
    """A job with each state, a gate, a graph."""
    job = name("job")
    ok = service.submit("echo fine", __JOB__=job)
    bad = service.submit("echo 'cannot open /in/7.mov' >&2; exit 3", __JOB__=job)
    runs = service.submit(until_file(tmp_path / "never"), __JOB__=job)
    held = service.submit("true", __JOB__=job, __TAGS__="nobody", __GATE__="lic")
    service.ask("TASK/HOLD", __TASK_ID__=held)
    graph = service.ask("GRAPH/SUBMIT", __GRAPH__=json.dumps(GRAPH))["__GRAPH_ID__"]
    for task in (ok, bad):
        service.finished(task)
    return {"job": job, "ok": ok, "bad": bad, "runs": runs, "held": held, "graph": graph}


def test_all_files_together_are_small():
    total = 0
    for folder, _, files in os.walk(PAGE):
        for file in files:
            if file.endswith((".js", ".css", ".svg", ".html")):
                with open(os.path.join(folder, file), "rb") as content:
                    total += len(gzip.compress(content.read(), 9))
    assert total < 150_000, total


def test_every_view_shows_itself_without_an_error(page, some_of_each):
    for view, text in VIEWS.items():
        page.go(view)
        page.reads(text)
    page.go(f"task/{some_of_each['bad']}")
    page.reads("it ended as FAILED: exit code 3", "Life", "Output")
    page.click(".tabs button", "stderr")
    page.reads("cannot open /in/7.mov")
    page.go(f"job/{some_of_each['job']}")
    page.reads("2 of 4 finished")
    page.go("nowhere")
    page.reads("There is no view nowhere")


def test_the_counts_need_no_script(browser, service):
    page = browser(service)
    page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.driver.get(f"{service.url}/")
        assert "agents" in page.find("table.counts").text
    finally:
        page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_task_is_followed_from_its_submit_to_its_end(page, service, tmp_path):
    job = name("one")
    page.go(f"tasks?job={job}")
    page.reads("No task matches")
    flag = tmp_path / "flag"
    task = service.submit(f"echo begun; {until_file(flag, 'echo done')}", __JOB__=job)
    page.find(".row .state", "running")
    page.click(".row .cell", "while")
    page.find("h1", task[-5:])
    page.find("pre.output", "begun")
    flag.touch()
    page.find("pre.output", "done")
    page.find("header .state", "ok")
    page.reads("running", "waiting")
    page.press(Keys.ESCAPE)
    page.find(".row .state", "ok")
    page.was_not_reloaded()


def test_a_failing_job_is_found_by_its_pattern_and_retried(page, service, tmp_path):
    job, flag, word = name("broken"), tmp_path / "mended", name("lens")
    tasks = [service.submit(f"test -e '{flag}' || {{ echo 'no {word} in /data/film{number}.mov' >&2; exit 9; }}", __JOB__=job) for number in range(5)]
    for task in tasks:
        service.finished(task)
    # The page may show a part of them before.
    page.find(".failures li", "5 ×")
    group = page.find(".failures li", "in PATH.mov")
    assert "5 ×" in group.text and "ago" in group.text and "exit 9" in group.text, group.text
    flag.touch()
    page.click(".failures li:first-child button", "Retry all 5")
    assert "Retry 5 tasks?" in page.answer("Retry 5")
    page.reads("5 tasks run again.")
    wait_until(lambda: service.ask("JOB/QUERY", __JOB__=job)["SUCCEEDED"] == 5, "all have succeeded")
    page.reads_not("in PATH.mov")
    page.was_not_reloaded()


def test_tasks_that_were_skipped_are_not_success(page, service):
    job = name("chain")
    first = service.submit("echo broke >&2; exit 4", __JOB__=job)
    service.finished(first)
    second = service.submit("true", __JOB__=job, __AFTER__=first)
    service.finished(second)
    page.find(".failures li", "skipped")
    page.go("jobs")
    page.find(".row", "1 failed, 1 skipped")
    page.go(f"job/{job}")
    page.reads("2 of 2 finished", "1 failed, 1 skipped")


def test_a_graph_is_watched_to_its_end(page, service):
    page.go("graphs")
    graph = service.ask("GRAPH/SUBMIT", __GRAPH__=json.dumps(GRAPH))["__GRAPH_ID__"]
    page.click(f".row a[href*='{graph}']")
    page.find("header .state", "ok")
    assert page.count("svg .step") == 3
    for step in ("split", "each", "merge"):
        assert page.find(f"svg .step[aria-label^='{step}, completed']")
    page.click("svg .step[aria-label^='each']")
    page.reads("finished 2:")
    page.was_not_reloaded()


def test_a_long_list_scrolls_and_keeps_the_document_small(page, service):
    job = name("many")
    for first in range(0, TASKS, 1000):
        tasks = [{"__SHELL__": f"echo number {number}"} for number in range(first, min(first + 1000, TASKS))]
        service.ask("TASK/SUBMIT_MANY", __TASKS__=tasks, __JOB__=job, __TAGS__="nobody")
    page.go(f"job/{job}")
    page.find(".row", f"number {TASKS - 1}")
    assert page.count(".row") < 80
    page.press(Keys.END)
    page.find(".row.here", "echo number 0")
    # Each place is asked for when it comes into sight, also if somebody drags the bar of the list.
    for part in (3, 2, 4):
        page.run("const list = document.querySelector('.list'); list.scrollTop = list.scrollHeight / arguments[0]", part)
        page.waits("const row = document.querySelector('.row:not(.blank)'); return !document.querySelector('.row.blank') && row && row.getBoundingClientRect().top < 900", "rows in the middle")
    assert page.count("*") < 2000
    page.click("input[type=search]")
    page.press("number 77")
    page.find(".row", "echo number 77")
    page.reads_not("number 5")
    page.click("input[aria-label^='Select all']")
    page.click("button", "Kill…")
    matches = service.ask("TASK/ROWS", __JOB__=job, __TEXT__="number 77", __LIMIT__=0)["__TOTAL__"]
    assert f"Kill {matches:,} tasks?" in page.answer(f"Kill {matches:,}")
    page.reads(f"{matches:,} tasks killed.")
    page.click("button", "Kill job…")
    page.answer("Kill")
    wait_until(lambda: service.ask("JOB/QUERY", __JOB__=job)["__END_TIME__"], "all are killed")


def test_the_page_comes_back_after_a_kill_of_the_controller(browser, lone):
    page = browser(lone)
    page.may_lose = True
    before = lone.submit("echo said before")
    lone.finished(before)
    page.go(f"task/{before}")
    page.find("pre.output", "said before")
    lone.controller.kill()
    page.reads("The controller does not answer since", "no connection", "said before")
    lone.start_controller(*(int(address.rsplit(":", 1)[1]) for address in (lone.rep, lone.pub)))
    page.find(".status", "live")
    page.reads("said before")
    page.go("tasks")
    task = lone.submit("echo back")
    lone.finished(task)
    page.find(".row", task[-5:])
    page.reads_not("does not answer")
    page.was_not_reloaded()


def test_a_tab_in_the_background_is_up_to_date_when_it_is_looked_at_again(page, service):
    page.go("tasks")
    page.find(".status", "live")
    tab = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    task = service.submit("echo meanwhile")
    service.finished(task)
    page.driver.close()
    page.driver.switch_to.window(tab)
    page.find(".row", task[-5:])
    page.was_not_reloaded()


def test_the_clock_of_the_browser_does_not_matter(page, service):
    page.run("const real = Date.now; Date.now = () => real() + 3600e3")
    task = service.submit("true", __JOB__=(job := name("clock")))
    service.finished(task)
    page.go(f"job/{job}")
    row = page.find(".row", task[-5:]).text
    assert " min" not in row and " h" not in row, row


def test_failures_are_grouped_by_the_rule_of_the_program(page):
    # The cases of src/base/pattern.rs.
    cases = {
        "corrupt header in /data/film7.mov": "corrupt header in PATH.mov",
        "cannot open 37": "cannot open N",
        "took 2.5s, limit 2s.": "took Ns, limit Ns.",
        "no such key \"a b\"; nearest 'c'": "no such key \"…\"; nearest '…'",
        "segfault at 0x7fff12 in deadbeef01": "segfault at HEX in HEX",
        "don't panic, it isn't over": "don't panic, it isn't over",
        "line 12: error[E0308]: mismatched": "line N: error[EN]: mismatched",
        "PATH is N": "PATH is N",
    }
    found = page.driver.execute_async_script("const [lines, done] = arguments; import('/page/text.js').then(text => done(lines.map(text.pattern)))", list(cases))
    assert found == list(cases.values())


ATTACKS = ["<script>window.broken=1</script>", "<img src=x onerror=window.broken=1>", "'\"><svg onload=window.broken=1>", "a\u202egnp.exe", "b\u0007\u001b[31mred", "javascript:window.broken=1", "&lt;b&gt;", "__proto__"]


def test_what_a_task_says_is_text_in_every_field(page, service):
    tasks = []
    for attack in ATTACKS:
        fields = {"__GIVEN_ID__": attack, "__JOB__": attack, "__ENV__": json.dumps({"NOTE": attack}), "parameter " + attack: attack}
        shell = f"printf '%s\\n' \"$NOTE\"; printf '%s\\n' \"$NOTE\" >&2; printf '%s\\n' \"$NOTE\" > report.log; : '{attack.replace(chr(39), '')}'; exit 4"
        try:
            tasks.append(service.submit(shell, **fields))
        except AssertionError:
            # A name that the service itself refuses reaches no page.
            fields = {key: value for key, value in fields.items() if key == "__ENV__"}
            tasks.append(service.submit(shell, **fields))
    for task in tasks:
        service.finished(task)
    service.ask("GRAPH/SUBMIT", __GRAPH__=json.dumps({**GRAPH, "name": ATTACKS[0] + ATTACKS[1] + ATTACKS[3]}))
    for view in VIEWS:
        page.go(view)
        page.reads(VIEWS[view])
        page.find("main")
    for task in tasks:
        page.go(f"task/{task}")
        page.find("h1", task[-5:])
        page.find(".what")
        page.click(".tabs button", "stderr")
        page.find("pre.output")
    text = page.text
    assert not page.run("return window.broken"), "a script of a task has run"
    assert not page.count("main script, main img"), "a task has made elements"
    page.go(f"task/{tasks[3]}")
    page.reads("a\\u202egnp.exe")
    assert "\u202e" not in page.text + text
    page.go(f"task/{tasks[4]}")
    page.reads("b␇␛[31mred")


def test_an_output_of_one_long_line_is_cut(page, service):
    task = service.submit("head -c 10000000 /dev/zero | tr '\\0' x; printf 'end\\n\\377bad\\n'")
    service.finished(task)
    page.go(f"task/{task}")
    page.reads("more characters", "\ufffdbad", "Show earlier")
    assert len(page.text) < 100_000


def test_only_one_who_may_act_has_buttons(browser, service, some_of_each):
    page = browser(service, token="")
    page.find(".status", "read only")
    for view in [*VIEWS, f"task/{some_of_each['bad']}", f"job/{some_of_each['job']}"]:
        page.go(view)
        page.find("main h1, main h2")
        page.find(".status", "live")
        for word in ("Retry", "Kill", "Hold", "Release", "Drain", "Close…", "Pause", "New gate"):
            assert not page.run("return [...document.querySelectorAll('main button')].some(button => button.textContent.startsWith(arguments[0]))", word), (view, word)
    page.go("tasks")
    page.find(".row")
    page.press("x", "r", "K")
    assert not page.count("dialog")


def test_a_wrong_token_is_answered_with_the_command_that_helps(browser, service):
    page = browser(service, token="wrong")
    page.may_refuse = True
    page.reads("llts open")
    page.find(".status", "read only")


def test_the_keyboard_is_enough(page, service, some_of_each):
    page.press("g", "t")
    page.find("h1", "Tasks")
    page.find(".row")
    page.press("/", "cannot open")
    wait_until(lambda: page.address.endswith("text=cannot+open"), "the filter is in the address")
    page.waits("const rows = document.querySelectorAll('.row').length; return rows && rows === document.querySelectorAll('.row .s-failed').length", "only failures")
    page.press(Keys.ENTER, "x")
    page.reads("1 of")
    page.press("r")
    assert "Retry 1 task?" in page.find("dialog").text
    page.press(Keys.ESCAPE)
    wait_until(lambda: not page.count("dialog"), "the question is gone")
    assert service.ask("TASK/QUERY", __TASK_ID__=some_of_each["bad"])["__STATUS__"] == "FINISHED"
    page.press(Keys.ESCAPE, Keys.ESCAPE)
    page.reads_not("selected")
    page.go(f"job/{some_of_each['job']}")
    page.find(".row", some_of_each["held"][-5:])
    page.press("j", "k", "j", Keys.ENTER)
    page.find("h1", some_of_each["runs"][-5:])
    page.find("button", "Kill…")
    page.press("K")
    assert "Kill 1 task?" in page.find("dialog").text
    page.press(Keys.ENTER)
    page.find("header .state", "killed")
    page.press("?")
    page.find("dialog", "select all that match")
    page.press(Keys.ESCAPE)
    wait_until(lambda: not page.count("dialog"), "the list of keys is gone")
    for key, title in (("o", "Overview"), ("j", "Jobs"), ("a", "Agents"), ("g", "Graphs"), ("l", "Gates"), ("i", "Incidents"), ("h", "History")):
        page.press("g", key)
        wait_until(lambda title=title: title in page.driver.title, title)


def test_a_gate_is_set_closed_and_opened(page, service):
    gate = name("gate")
    page.go("gates")
    page.click("button", "New gate…")
    page.find("dialog input").send_keys(gate)
    page.answer("Set")
    service.submit("true", __GATE__=gate, __TAGS__="nobody")
    page.click(".row button", "Close…")
    page.answer("Close")
    wait_until(lambda: service.ask("GATE/QUERY", __GATE__=gate)["__STATUS__"] == "CLOSED", "the gate is closed")
    page.find(".row .state", "closed")
    page.click(".row button", "Open…")
    page.answer("Open")
    wait_until(lambda: service.ask("GATE/QUERY", __GATE__=gate)["__STATUS__"] == "OPEN", "the gate is open")


def test_an_agent_is_drained(page, service):
    page.go("agents")
    page.click("button[aria-label='Drain agent1']")
    assert "Drain 1 agent, agent1?" in page.answer("Drain 1")
    page.find(".agent", "drained")
    page.click("button[aria-label='Undrain agent1']")
    page.answer("Give it tasks")
    page.reads_not("drained")


def test_each_view_fits_a_telephone(browser, service, some_of_each):
    page = browser(service, width=360)
    for view in [*VIEWS, f"task/{some_of_each['bad']}", f"job/{some_of_each['job']}", f"graph/{some_of_each['graph']}"]:
        page.go(view)
        page.find("main h1, main h2")
        page.find(".status", "live")
        assert page.run("return document.documentElement.scrollWidth") <= 360, view


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 1280), (True, 360)])
def test_axe_finds_nothing_serious(browser, service, some_of_each, dark, width):
    page = browser(service, dark=dark, width=width)
    with open(os.environ["AXE"], encoding="utf-8") as source:
        axe = source.read()
    page.run(axe + "; window.axe = axe")
    for view in [*VIEWS, f"task/{some_of_each['bad']}", f"job/{some_of_each['job']}", f"graph/{some_of_each['graph']}"]:
        page.go(view)
        page.find("main h1, main h2")
        page.waits("return !document.body.innerText.includes('Loading…')", "the view is there")
        found = page.driver.execute_async_script(
            "const done = arguments[0]; axe.run({ resultTypes: ['violations'] }).then(r => done(r.violations.map(v => [v.impact, v.id,"
            " v.nodes[0].html.slice(0, 200), v.nodes[0].failureSummary])), e => done([['serious', String(e)]]))"
        )
        serious = [each for each in found if each[0] in ("serious", "critical")]
        assert not serious, (view, serious)
