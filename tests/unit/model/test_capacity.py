"""The capacity planner: rules of thumb that can be checked by hand, and what limits first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidelog.model import amounts
from tidelog.model.capacity import BadLoad, BrokerCapacity, Load, Measured, compare, plan

LOAD = Load(messages_per_day=1e9, message_bytes=1e3, retention_s=7 * 86_400, replication=3, throughput=500e6)


def test_the_known_examples() -> None:
    found = plan(LOAD, BrokerCapacity())
    assert found.storage_bytes == pytest.approx(21e12)
    assert (found.brokers, found.limit) == (30, "throughput")
    assert found.partitions == 50
    assert found.rate_in == pytest.approx(1.5e9)


def test_the_peak_counts_for_rates_and_not_for_storage() -> None:
    mean = plan(replace(LOAD, throughput=None, peak=1), BrokerCapacity())
    busy = plan(replace(LOAD, throughput=None, peak=10), BrokerCapacity())
    assert busy.storage_bytes == mean.storage_bytes
    assert busy.rate_in == pytest.approx(10 * mean.rate_in)
    assert busy.partitions == 12 and mean.partitions == 2


@pytest.mark.parametrize(
    ("machine", "load", "limit", "brokers"),
    [
        (BrokerCapacity(disk_bytes=0.5e12), LOAD, "storage", 53),
        (BrokerCapacity(network_rate=10e6), LOAD, "network", 150),
        (BrokerCapacity(network_rate=10e6), replace(LOAD, groups=4), "network", 300),
        (BrokerCapacity(replicas_max=2), LOAD, "replicas", 75),
        (BrokerCapacity(), replace(LOAD, messages_per_day=1, throughput=1, replication=5), "throughput", 5),
    ],
)
def test_what_limits_first(machine: BrokerCapacity, load: Load, limit: str, brokers: int) -> None:
    found = plan(load, machine)
    assert (found.limit, found.brokers) == (limit, brokers)


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (replace(LOAD, messages_per_day=1e300, message_bytes=1e300), "more than 1 EB/s"),
        (replace(LOAD, messages_per_day=1e-300, message_bytes=1e-300), "nothing at all"),
        (
            replace(LOAD, throughput=1e3),
            "a peak throughput of 1 kB/s is less than the mean, which is 11.6 MB/s",
        ),
        (replace(LOAD, throughput=float("inf")), "is not possible"),
        (replace(LOAD, throughput=None, peak=0.1), "from 1 to 1,000,000, not 0.1"),
        (replace(LOAD, retention_s=float("inf")), "a thousand years"),
        (replace(LOAD, replication=33), "from 1 to 32, not"),
        (replace(LOAD, groups=-1), "groups"),
    ],
)
def test_what_cannot_be_planned_for_is_refused(load: Load, words: str) -> None:
    with pytest.raises(BadLoad, match=words):
        plan(load, BrokerCapacity())


@pytest.mark.parametrize(
    "machine",
    [
        BrokerCapacity(broker_rate=1e-300),
        BrokerCapacity(disk_bytes=float("inf")),
        BrokerCapacity(disk_fill=0),
    ],
)
def test_machines_that_cannot_be_are_refused(machine: BrokerCapacity) -> None:
    with pytest.raises(BadLoad):
        plan(LOAD, machine)


def test_the_largest_that_is_planned_for_has_a_plan() -> None:
    most = Load(1e18 * 86_400, 1, 1_000 * 365 * 86_400.0, 32, peak=1e6, groups=1_000_000)
    assert plan(most, BrokerCapacity(1, 1, 1, 1, 1, 0.001, 1)).brokers > 1e30


def test_a_slow_partition_needs_more_of_them() -> None:
    assert plan(LOAD, BrokerCapacity(partition_rate=5e6)).partitions == 100


def test_a_cluster_is_compared() -> None:
    cluster = Measured(
        brokers=3,
        partitions=10,
        replicas=30,
        stored_bytes=1e12,
        disk_bytes=12e12,
        disk_free_bytes=10e12,
        messages_per_s=1_000,
        message_bytes=1_000,
    )
    small = replace(LOAD, messages_per_day=1e7, throughput=1e6)
    fits = compare(small, BrokerCapacity(), cluster)
    assert fits.fits and fits.limit.resource == "replication" and fits.limit.share == 1
    # 10 TB free, of which a fifth of 12 TB has to stay; 3 MB/s with the replicas.
    assert fits.disk_full_s == pytest.approx(7.6e12 / 3e6)
    much = compare(LOAD, BrokerCapacity(), cluster)
    assert not much.fits and much.limit.resource == "throughput"
    assert much.limit.share == pytest.approx(10)
    stored = compare(replace(LOAD, throughput=12e6), BrokerCapacity(), cluster)
    assert not stored.fits and stored.limit.resource == "storage"
    quiet = compare(small, BrokerCapacity(), replace(cluster, messages_per_s=0, message_bytes=None))
    assert quiet.disk_full_s is None


@pytest.mark.parametrize(
    ("text", "size"),
    [("1KB", 1000), ("1 KiB", 1024), ("500MB/s", 5e8), ("10Gbit", 1.25e9), ("12", 12), ("1.5e3B", 1500)],
)
def test_sizes(text: str, size: float) -> None:
    assert amounts.size(text) == size


def test_times_and_counts() -> None:
    assert amounts.duration("7d") == 604_800 and amounts.duration("36h") == 129_600
    assert amounts.count("1e9") == 1e9 and amounts.count("20M") == 2e7 and amounts.count("1_000") == 1000


@pytest.mark.parametrize("text", ["", "x", "-1KB", "0", "1XB", "1e999", "1..2", "nan"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(amounts.BadAmount):
        amounts.size(text)


@pytest.mark.parametrize("text", ["7", "7x", "d", "0d", "-1d"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(amounts.BadAmount):
        amounts.duration(text)


def test_compression_makes_storage_and_rates_smaller() -> None:
    load = replace(LOAD, throughput=None, peak=10)
    plain, packed = plan(load, BrokerCapacity()), plan(replace(load, compression=4), BrokerCapacity())
    assert packed.storage_bytes == pytest.approx(plain.storage_bytes / 4)
    assert packed.rate_in == pytest.approx(plain.rate_in / 4) and packed.partitions < plain.partitions


def test_growth_counts_for_the_months_of_the_plan() -> None:
    grown = plan(replace(LOAD, growth=0.05, months=24), BrokerCapacity())
    assert grown.storage_bytes == pytest.approx(21e12 * 1.05**24)
    assert grown.rate_in == pytest.approx(1.5e9 * 1.05**24)
    assert plan(replace(LOAD, growth=0.05, months=0), BrokerCapacity()) == plan(LOAD, BrokerCapacity())
    shrunk = plan(replace(LOAD, growth=-0.5, months=1), BrokerCapacity())
    assert shrunk.storage_bytes == pytest.approx(21e12 / 2)


def test_a_growing_load_outgrows_a_cluster_at_a_month_that_can_be_checked() -> None:
    cluster = Measured(100, 100, 300, 0, 1e18, 1e18, 0, None)
    today = compare(replace(LOAD, growth=0.1, months=0), BrokerCapacity(), cluster)
    assert today.outgrown is not None and today.outgrown.resource == "throughput"
    months = today.outgrown.months
    assert pytest.approx(1.5e9 * 1.1**months) == 100 * 50e6
    later = compare(replace(LOAD, growth=0.1, months=6), BrokerCapacity(), cluster)
    assert later.outgrown is not None and later.outgrown.months == pytest.approx(months)
    full = compare(replace(LOAD, growth=0.1, months=0), BrokerCapacity(), replace(cluster, brokers=1))
    assert full.outgrown is not None and full.outgrown.months == 0
    assert compare(LOAD, BrokerCapacity(), cluster).outgrown is None


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (replace(LOAD, compression=0.5), "compression ratio must be from 1 to 1,000, not 0.5"),
        (replace(LOAD, compression=float("nan")), "compression ratio"),
        (replace(LOAD, growth=11), "growth must be from -90% to 1000% a month"),
        (replace(LOAD, growth=float("nan")), "growth"),
        (replace(LOAD, months=121), "for 0 to 120 months from now, not 121"),
        (replace(LOAD, growth=10, months=120), "more than 1 EB/s"),
    ],
)
def test_growth_and_compression_that_cannot_be_are_refused(load: Load, words: str) -> None:
    with pytest.raises(BadLoad, match=words):
        plan(load, BrokerCapacity())
