"""pytest fixtures of a real broker, without Docker and JVM; pytest finds them when Tidelog is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.local_broker import InnerBroker


@pytest.fixture(scope="session")
def tidelog_broker() -> Iterator[InnerBroker]:
    """A broker that all tests of the run share: give each test's topics unique names."""
    from tidelog.testing import broker

    with broker() as running:
        yield running


@pytest.fixture
def fresh_tidelog_broker() -> Iterator[InnerBroker]:
    """An empty broker for this test alone; the test may stop it and start it again."""
    from tidelog.testing import broker

    with broker() as running:
        yield running
