from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.faults.broker import FaultyBroker
from tests.faults.disks import Namespace, missing

# Small segments (an index of a few entries is full soon), and background work that looks often.
SMALL = {
    "log.index.size.max.bytes": "96",
    "log.index.interval.bytes": "512",
    "log.segment.delete.delay.ms": "0",
    "log.retention.check.interval.ms": "100",
    "log.cleaner.backoff.ms": "50",
}

BrokerFactory = Callable[..., FaultyBroker]


def pytest_configure(config: pytest.Config) -> None:
    # kafka-python reads its message definitions through a deprecated function.
    for module in ("kafka", "importlib"):
        config.addinivalue_line("filterwarnings", f"ignore::DeprecationWarning:{module}.*")


@pytest.fixture
def new_broker(tmp_path: Path) -> Iterator[BrokerFactory]:
    """`new_broker({"setting": "value"})` makes a broker for this test alone, not started yet.  Whatever was done to
    it, its log must not tell of a bug."""
    made: list[FaultyBroker] = []

    def make(
        settings: dict[str, str] | None = None, dirs: Sequence[Path] = (), prefix: Sequence[str] = ()
    ) -> FaultyBroker:
        broker = FaultyBroker(tmp_path / f"broker{len(made)}", settings, dirs, prefix)
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.discard()
    for broker in made:
        assert not broker.unexpected(), broker.unexpected()[0]


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    if reason := missing():
        pytest.skip(reason)
    made = Namespace()
    yield made
    made.end()
