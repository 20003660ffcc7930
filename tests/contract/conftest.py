from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.etcd import Etcd


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One member, shared by the tests of this worker: each has a root of its own in it."""
    running = Etcd(tmp_path_factory.mktemp("etcd"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """A cluster of three for one test, which may do with it what it likes."""
    running = Etcd(tmp_path_factory.mktemp("three"), size=3)
    running.start()
    yield running
    running.stop()
