"""Tests of the page in a real browser, by what a user notices. The service is real; nothing here sleeps for a fixed time."""

import json
import os
import socket
import subprocess
import sys
import urllib.request

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service as Driver

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))

from browser import Page  # noqa: E402
from harness import service as program  # noqa: E402
from harness.waiting import LIMIT  # noqa: E402


def pytest_sessionstart(session):
    if not os.access(program.BINARY, os.X_OK):
        pytest.exit(f"no program at {program.BINARY}: build it with `cargo build`, or set SERVICE_BINARY", returncode=2)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Service(program.Service):
    """A service with the HTTP door, which keeps its port over a restart."""

    def __init__(self, folder, agents):
        super().__init__(folder, agents, **{"http.ENABLED": True, "http.PORT": free_port()})
        self.url, self.front = f"http://{self.http}", None
        # A program that serves the page from its sources, in front of the door, so that a change needs no build.
        if front := os.environ.get("PAGE_FRONT"):
            self.front = subprocess.Popen([*front.split(), self.folder, self.http], stdout=subprocess.PIPE, text=True)
            self.url = self.front.stdout.readline().strip()

    @property
    def token(self):
        with open(os.path.join(self.config["STATE_DIR"], "http.token"), encoding="ascii") as file:
            return file.read().strip()

    def ask(self, kind, **fields):
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        body = json.dumps({"__TYPE__": kind, **fields}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"http://{self.http}/api", body, headers), timeout=LIMIT) as answer:
            answer = json.load(answer)
        assert answer["__CODE__"] == 0, answer
        return answer

    def submit(self, shell, **fields):
        task = self.ask("TASK/SUBMIT", __SHELL__=shell, **fields)["__TASK_ID__"]
        self.task_ids.append(task)
        return task

    def finished(self, task):
        return self.ask("TASK/QUERY", __TASK_ID__=task, __WAIT__=LIMIT * 1000)

    def settle(self):
        """Ends every task, so that the next test begins with a quiet service."""
        rows = self.ask("TASK/ROWS", __STATES__="waiting,held,starting,running,ending", __LIMIT__=1000)
        for task in [name for name in rows if name.startswith("TASK_")]:
            self.ask("TASK/KILL", __TASK_ID__=task)
            self.finished(task)

    def stop(self):
        if self.front:
            self.front.kill()
            self.front.wait()
        super().stop()


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    service = Service(str(tmp_path_factory.mktemp("shared")), agents=3)
    yield service
    service.stop()


@pytest.fixture
def service(shared):
    yield shared
    shared.settle()


@pytest.fixture
def lone(tmp_path):
    """A service of the test's own, which it may kill."""
    service = Service(str(tmp_path), agents=1)
    yield service
    service.stop()


@pytest.fixture(scope="session")
def driver():
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1280,900"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Driver("/usr/bin/chromedriver"))
    yield driver
    driver.quit()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows what was on the screen."""
    report = yield
    if report.when == "call" and report.failed and (driver := item.funcargs.get("driver")):
        report.sections.append(("screen", driver.current_url + "\n" + driver.execute_script("return document.body.innerText")[:3000]))
    return report


@pytest.fixture
def browser(driver):
    """Opens a page of a service; afterwards the console must be without an error."""
    pages = []

    def start(service, token=None, width=1280, dark=False):
        page = Page(driver, service, width, dark)
        pages.append(page)
        page.open(service.token if token is None else token)
        return page

    yield start
    errors = [entry for page in pages for entry in page.errors()]
    driver.get("about:blank")
    assert not errors, errors


@pytest.fixture
def page(browser, service):
    return browser(service)
