from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import RunAsync
from tests.contract.etcd import Etcd


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """An etcd of one member, shared by the tests of this worker; each test has its own root in it."""
    running = Etcd(tmp_path_factory.mktemp("etcd"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """A cluster of three members for one test, which may kill and freeze its members."""
    running = Etcd(tmp_path_factory.mktemp("three"), size=3)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def run_async(request: pytest.FixtureRequest, run_async: RunAsync) -> RunAsync:
    """An `async def` test that has a world runs on the world's loop."""
    if "world" not in request.fixturenames:
        return run_async
    run: RunAsync = request.getfixturevalue("world").run
    return run
