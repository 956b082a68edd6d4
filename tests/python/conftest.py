"""Conformance tests of llts from outside, by its documents: the real program, port 0, temporary folders, plain ZeroMQ.

Nothing here looks into the program, and nothing sleeps: tests wait for pushes, replies and output, with a bound.

A number such as 2.3 at the beginning of a docstring is a section of docs/sources/controller.md; A10 is a row of docs/design/hazards.md.
"""

import contextlib
import os

import pytest

from harness.service import BINARY, Service
from harness.session import Session


def pytest_sessionstart(session):
    if not os.access(BINARY, os.X_OK):
        pytest.exit(f"no program at {BINARY}: build it with `cargo build`, or set SERVICE_BINARY", returncode=2)


class SharedService:
    """One controller with two agents, for all tests that need no special ones."""

    def __init__(self, tmp_path_factory):
        self.tmp_path_factory = tmp_path_factory
        self.service = None

    def get(self):
        if self.service is None:
            self.service = Service(str(self.tmp_path_factory.mktemp("shared")), agents=2)
        return self.service

    def discard(self):
        service, self.service = self.service, None
        if service is not None:
            service.stop()


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory):
    shared = SharedService(tmp_path_factory)
    yield shared
    shared.discard()


@pytest.fixture
def llts(shared_service):
    """A session with the shared service, which is quiet and clean again after each test."""
    session = Session(shared_service.get())
    try:
        yield session
        session.settle()
    except BaseException:
        # One broken agent must not fail every test that follows.
        shared_service.discard()
        raise
    finally:
        session.close()


@pytest.fixture
def start_service(tmp_path):
    """Starts services of a test's own: `start_service(agents=1, KEY=value)` returns a session."""
    sessions = []

    def start(agents=0, **config):
        folder = tmp_path / f"service{len(sessions)}"
        folder.mkdir()
        session = Session(Service(str(folder), agents, **config))
        sessions.append(session)
        return session

    yield start
    with contextlib.ExitStack() as stack:
        # The stack stops all of them, also when one complains.
        for session in sessions:
            stack.callback(session.service.stop)
            stack.callback(session.close)


@pytest.fixture
def lone(start_service):
    """A controller without an agent: tasks stay WAITING, unless the test itself plays the agent."""
    return start_service(agents=0, AGENT_HEARTBEAT_INTERVAL=60_000)
