"""Fixtures for pytest, found by it when Tidelog is installed: a real broker, without Docker and JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.local_broker import InnerBroker


@pytest.fixture(scope="session")
def tidelog_broker() -> Iterator[InnerBroker]:
    """A broker that all tests of the run share: give your topics names of their own."""
    from tidelog.testing import broker

    with broker() as running:
        yield running


@pytest.fixture
def fresh_tidelog_broker() -> Iterator[InnerBroker]:
    """An empty broker for this test alone; it may be stopped and started again."""
    from tidelog.testing import broker

    with broker() as running:
        yield running
