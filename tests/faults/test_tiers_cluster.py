"""Remote storage under three brokers: leaders that are killed, and replicas that begin with what is in the store."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.conformance.process import wait_until
from tests.faults.test_cluster import Cluster
from tests.faults.test_dev import Dev, alive, new_dev
from tests.faults.tiered import KEEPS_ONE_SEGMENT, FolderStore, create, fill, local_bases, read, settings
from tidelog import Admin
from tidelog.types import TopicPartition

__all__ = ["new_dev"]

TOPIC, SECONDS_MAX = "kept", 120


def data_of(dev: Dev, broker: int) -> Path:
    return dev.folder / f"broker-{broker}"


def wait_until_little_is_local(dev: Dev, *brokers: int) -> None:
    def little() -> bool:
        return all(0 < len(local_bases(data_of(dev, broker), TOPIC)) <= 2 for broker in brokers)

    wait_until(little, SECONDS_MAX, "old segments leave the disk of every broker")


def test_a_new_leader_goes_on_where_the_old_one_stopped(tmp_path: Path, new_dev: Callable[..., Dev]) -> None:
    (tmp_path / "store").mkdir()
    store = FolderStore(tmp_path / "store")
    dev = new_dev(3, settings=settings(store.url))
    assert dev.start().startswith("ready kafka=")
    cluster = Cluster(dev)
    create(dev.addresses, TOPIC, {**KEEPS_ONE_SEGMENT, "min.insync.replicas": "2"}, replicas=3)
    fill(dev.addresses, TOPIC, 0, 4000)
    wait_until_little_is_local(dev, 1, 2, 3)
    end = 4000
    for _ in range(2):
        leader = cluster.leader()
        pid = cluster.pid(leader)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid), 10, "the leader is gone")  # noqa: B023
        wait_until(lambda: cluster.leader() != leader, SECONDS_MAX, "another one leads")  # noqa: B023
        fill(dev.addresses, TOPIC, end, 2000)
        end += 2000
        answer = dev.restart(leader)
        assert answer.returncode == 0, answer.stderr
        cluster.wait_until_in_sync()
    wait_until(lambda: store.copied_to(TOPIC) > end - 1100, SECONDS_MAX, "what the new leader took is copied")
    wait_until_little_is_local(dev, 1, 2, 3)
    segments = store.manifest(TOPIC)["segments"]
    assert [segment["start"] for segment in segments[1:]] == [segment["end"] for segment in segments[:-1]]
    assert len({segment["name"].split("-")[2] for segment in segments}) > 1, "several leaders have copied"
    wait_until(lambda: not store.strangers(TOPIC), SECONDS_MAX, "nothing is orphaned")
    assert read(dev.addresses, TOPIC, 0, end) == list(range(end))


def test_a_new_replica_fetches_only_what_is_not_in_the_store(
    tmp_path: Path, new_dev: Callable[..., Dev]
) -> None:
    (tmp_path / "store").mkdir()
    store = FolderStore(tmp_path / "store")
    dev = new_dev(3, settings=settings(store.url))
    assert dev.start().startswith("ready kafka=")
    cluster = Cluster(dev)
    create(dev.addresses, TOPIC, KEEPS_ONE_SEGMENT, replicas=2)
    fill(dev.addresses, TOPIC, 0, 6000)
    held = [broker for broker in (1, 2, 3) if (data_of(dev, broker) / f"{TOPIC}-0").exists()]
    (new,) = {1, 2, 3} - set(held)
    wait_until_little_is_local(dev, *held)
    with Admin(bootstrap_servers=dev.addresses) as admin:
        admin.reassign_partitions({TopicPartition(TOPIC, 0): [new]})
        wait_until(lambda: not admin.list_reassignments(), SECONDS_MAX, "the partition has moved")
    wait_until(lambda: cluster.leader() == new, SECONDS_MAX, "the new replica leads")
    assert local_bases(data_of(dev, new), TOPIC)[0] > 3000, "the records before are in the store only"
    assert read(dev.addresses, TOPIC, 0, 6000) == list(range(6000))
    fill(dev.addresses, TOPIC, 6000, 3000)
    wait_until(lambda: store.copied_to(TOPIC) > 7500, SECONDS_MAX, "the new leader copies")
    assert read(dev.addresses, TOPIC, 0, 9000) == list(range(9000))
