"""Two or three things go wrong at the same time on real machines: brokers, disks, links, etcd, and an operator who restarts
brokers and moves partitions meanwhile.  Nothing acknowledged is lost, and the cluster heals by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.process import wait_until
from tests.faults.cluster_history import COMMITTED, UNCOMMITTED_TOO, values
from tests.faults.concurrent_faults import KINDS, Strike, machines_of, plan, strike_all
from tests.faults.networked_cluster import PARTITIONS, SECONDS_MAX
from tests.faults.networked_traffic import Traffic
from tests.faults.operated_cluster import SMALL_SEGMENTS, OperatedCluster

SEED, SEEDS = 1, range(2, 9)
STRIKES, STRIKES_MANY = 6, 15


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[OperatedCluster]:
    made = OperatedCluster(tmp_path, request.param)
    try:
        made.start()
        yield made
    finally:
        made.end()
    assert not made.unexpected(), made.unexpected()[0]


def run(cluster: OperatedCluster, strikes: list[Strike]) -> None:
    print("planned:", *strikes, sep="\n  ")  # pytest shows it when the test fails
    cluster.create_topic(**SMALL_SEGMENTS)
    traffic = Traffic(cluster, groups=True)
    cluster.wait_for_topics("__consumer_offsets", "__transaction_state", "__share_group_state")
    strike_all(cluster, strikes, traffic.read_late)
    history = traffic.end()
    same = lambda: all(len(set(cluster.logs(part).values())) == 1 for part in range(PARTITIONS))  # noqa: E731
    try:
        wait_until(same, SECONDS_MAX, "the replicas are the same, byte for byte")
    except AssertionError:
        pass  # the history tells which ones differ
    history.logs = {part: cluster.logs(part) for part in range(PARTITIONS)}
    anomalies = history.anomalies()
    if anomalies:
        cluster.keep_logs()
        (cluster.folder / "transactions.txt").write_text("\n".join(map(repr, history.transactions)))
        pytest.fail("\n".join(anomalies[:30]))
    committed = [one for one in history.transactions if one.outcome == COMMITTED]
    total = len(list(values(history.found[UNCOMMITTED_TOO])))
    print(
        f"{len(strikes)} strikes, {total} records, {len(committed)} transactions committed, "
        f"{len(history.offset_commits)} commits and {len(history.offset_reads)} reads of offsets, "
        f"{len(history.late_reads)} late readers, no anomaly"
    )
    assert total > 100 and len(committed) > 5 and history.offset_reads and history.late_reads


@pytest.mark.parametrize("cluster", [SEED], indirect=True)
def test_nothing_acknowledged_is_lost_when_things_fail_at_the_same_time(cluster: OperatedCluster) -> None:
    run(cluster, plan(SEED, STRIKES))


@pytest.mark.deep
@pytest.mark.parametrize(
    ("cluster", "seed"), [(seed, seed) for seed in SEEDS], indirect=["cluster"], ids=map(str, SEEDS)
)
def test_nothing_acknowledged_is_lost_through_many_more(cluster: OperatedCluster, seed: int) -> None:
    run(cluster, plan(seed, STRIKES_MANY))


def test_plans_strike_every_kind_and_never_the_same_part_of_a_machine_twice() -> None:
    for seed in range(50):
        strikes = plan(seed, STRIKES_MANY)
        assert {fault.kind for strike in strikes for fault in strike.faults} == set(KINDS)
        for strike in strikes:
            machines = machines_of(strike, {"the leader": 1, "the controller": 2, "the leader of etcd": 3})
            parts = [
                (machine, part)
                for fault, machine in zip(strike.faults, machines, strict=True)
                for part in KINDS[fault.kind].parts
            ]
            assert len(parts) == len(set(parts)), strike
