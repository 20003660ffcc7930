"""Cuts of three brokers: no record is below one partition's end without the record that it followed from, in another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.backed_up import TIMEOUT_MS, back_up, cluster_at, restore
from tests.faults.test_dev import Dev, new_dev
from tests.faults.tiered import fill, read
from tidelog.aio import Admin, NewTopic, Producer
from tidelog.backup import cut as cuts
from tidelog.backup.cut import take_whole_cut
from tidelog.testing import broker
from tidelog.types import TopicPartition

__all__ = ["new_dev"]

CUTS = 15


async def create_on_each(bootstrap: str, names: list[str]) -> None:
    """A topic on each broker, in their order."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics(
            [NewTopic(name, assignments={0: [node]}) for node, name in enumerate(names, 1)]
        )


async def test_a_cut_has_no_effect_without_its_cause(tmp_path: Path, new_dev: Callable[..., Dev]) -> None:
    dev = new_dev(3)
    assert dev.start().startswith("ready kafka=")
    names = ["first", "second", "third"]
    await create_on_each(dev.addresses, names)
    stopping = asyncio.Event()

    async def write() -> int:
        """Number n to each topic, in their order, each after the one before is acknowledged."""
        number = 0
        async with Producer(bootstrap_servers=dev.addresses, acks="all", linger_ms=0) as producer:
            while not stopping.is_set():
                for name in names:
                    await (await producer.send(name, str(number).encode()))
                number += 1
        return number

    writing = asyncio.create_task(write())
    ends: list[list[int]] = []
    try:
        async with cluster_at(dev.addresses) as cluster:
            while len(ends) < CUTS:
                cut = await take_whole_cut(cluster, TIMEOUT_MS)
                ends.append([cut.ranges[TopicPartition(name, 0)].end for name in names])
    finally:
        stopping.set()
        number = await writing
    assert number > CUTS
    for first, second, third in ends:
        assert first >= second >= third >= first - 1, ends
    assert ends[0] != ends[-1], "the cluster was written to meanwhile"


async def test_a_cluster_of_three_is_restored_as_one_broker(
    tmp_path: Path, new_dev: Callable[..., Dev]
) -> None:
    dev = new_dev(3)
    assert dev.start().startswith("ready kafka=")
    await create_on_each(dev.addresses, ["first", "second", "third"])
    for name, count in (("first", 100), ("second", 200), ("third", 300)):
        fill(dev.addresses, name, 0, count)
    created = await back_up(dev.addresses, f"file://{tmp_path}/store", "one")
    assert created.manifest.clock_difference_ms < cuts.HOLD_MS_MAX
    await restore(f"file://{tmp_path}/store", "one", tmp_path / "new")
    with broker({}, folder=tmp_path / "new") as fresh:
        for name, count in (("first", 100), ("second", 200), ("third", 300)):
            assert read(fresh.bootstrap_servers, name, 0, count) == list(range(count))
            fill(fresh.bootstrap_servers, name, count, 1)


async def test_clocks_that_cannot_be_compared_are_told(
    new_dev: Callable[..., Dev], monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = new_dev(2)
    assert dev.start().startswith("ready kafka=")
    monkeypatch.setattr(cuts, "HOLD_MS_MAX", 0)
    async with cluster_at(dev.addresses) as cluster:
        with pytest.raises(cuts.NoCommonMoment, match="could not be read at one moment"):
            await take_whole_cut(cluster, 2_000)
