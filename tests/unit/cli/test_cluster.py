from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tidelog.cli.cluster import dead_brokers


def topic(*replicas: tuple[int, ...]) -> Any:
    return SimpleNamespace(partitions=[SimpleNamespace(replicas=brokers) for brokers in replicas])


def test_brokers_that_have_replicas_and_do_not_run_are_dead() -> None:
    topics = [topic((1, 2), (2, 5)), topic((3, 1))]
    assert dead_brokers(topics, {1, 2, 7}) == [3, 5]
    assert dead_brokers(topics, {1, 2, 3, 5}) == []
    assert dead_brokers([], {1}) == []
