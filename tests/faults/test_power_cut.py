"""Machines lose their power under traffic, with real processes on a real file system: nothing is lost that was promised."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.faults.networked_cluster import MACHINES
from tests.faults.networked_traffic import Traffic
from tests.faults.powered_cluster import PoweredCluster

pytestmark = pytest.mark.deep  # it needs loop devices, which many containers do not have

SOME: Sequence[tuple[int, ...]] = ((1,), (2, 3), (3, 1), (2,), (1, 2), (3,))
SYNCED = {"log.flush.interval.messages": "1"}
TRAFFIC_S = 2.0


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[PoweredCluster]:
    made = PoweredCluster(tmp_path, request.param)
    try:
        made.start()
        yield made
    finally:
        made.end()
    for broker in made.brokers.values():
        assert not broker.unexpected(), broker.unexpected()[0]


def run(cluster: PoweredCluster, cuts: Sequence[tuple[int, ...]]) -> None:
    cluster.create_topic()
    traffic = Traffic(cluster)
    for machines in cuts:
        time.sleep(TRAFFIC_S)
        with cluster.power_cut(*machines):
            time.sleep(0.3)
        cluster.wait_until_in_sync()
    history = traffic.end()
    anomalies = history.anomalies()
    if anomalies:
        cluster.keep_logs()
        pytest.fail("\n".join(anomalies[:30]))
    assert sum(len(writer.acknowledged) for writer in history.written) > 100


@pytest.mark.parametrize("cluster", [{}], indirect=True, ids=["unsynced"])
def test_one_machine_with_power_keeps_what_was_acknowledged(cluster: PoweredCluster) -> None:
    run(cluster, SOME)
    assert cluster.lost_bytes > 0, "a power cut that takes nothing proves nothing"


@pytest.mark.parametrize("cluster", [SYNCED], indirect=True, ids=["synced"])
def test_what_is_synced_before_it_is_acknowledged_survives_a_cut_of_all(cluster: PoweredCluster) -> None:
    run(cluster, [tuple(MACHINES)] * 4)
