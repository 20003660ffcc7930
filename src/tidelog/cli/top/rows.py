"""From two frames to figures: what each topic, group and broker did between them.  Pure.

All of it comes through the Kafka protocol, so it works on any cluster: records in are ends of logs that moved, bytes in
are logs that grew, records out are offsets that groups committed, and bytes out are those records at the mean size of
the topic's records.  Readers without a group are not seen.  A log that shrank, because retention or compaction took
something, has no growth for that time.  None stands for what is not known."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidelog.cli.top.frame import Frame, GroupSeen, Seen
from tidelog.client.cluster.topology import Partition, under_replicated
from tidelog.types import TopicPartition

Partitions = Mapping[TopicPartition, float]


@dataclass(frozen=True, slots=True)
class TopicRow:
    """`size_bytes` and `records` as the leaders have them; `lag`: of all groups together."""

    name: str
    internal: bool
    partitions: int
    replication_factor: int
    records_in_per_sec: float | None
    bytes_in_per_sec: float | None
    records_out_per_sec: float | None
    bytes_out_per_sec: float | None
    records: int | None
    size_bytes: int | None
    groups: int
    lag: int | None
    under_replicated: int
    offline: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    """`lag_per_sec`: by how much the lag grows; `caught_up_sec`: when it will be nothing, if it goes on like this."""

    name: str
    type: str
    state: str
    members: int | None
    topics: int
    partitions: int
    lag: int | None
    lag_per_sec: float | None
    records_out_per_sec: float | None
    caught_up_sec: float | None
    coordinator: int
    lags: tuple[int, ...] = ()
    """The lag at the last looks, oldest first."""


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """`under_replicated`: partitions led here that lack replicas; `out_of_sync`: replicas here that are behind."""

    id: int
    address: str
    rack: str | None
    controller: bool
    leaders: int
    replicas: int
    under_replicated: int
    out_of_sync: int
    groups: int
    records_in_per_sec: float | None
    bytes_in_per_sec: float | None
    size_bytes: int | None
    disk_bytes: int | None
    disk_free_bytes: int | None
    problem: str | None


def growth(
    before: Mapping[TopicPartition, Seen], now: Mapping[TopicPartition, Seen]
) -> dict[TopicPartition, float]:
    """A second, of each partition that is known at two times; what shrank did not grow."""
    rates = {}
    for partition, seen in now.items():
        old = before.get(partition)
        if old is not None and seen.at_ms > old.at_ms:
            rates[partition] = max(0, seen.value - old.value) * 1000 / (seen.at_ms - old.at_ms)
    return rates


def topic_rows(before: Frame | None, now: Frame) -> list[TopicRow]:
    records_in = _by_topic(growth(before.ends, now.ends) if before else {})
    bytes_in = _by_topic(growth(before.sizes, now.sizes) if before else {})
    records_out, bytes_out = _read(before, now)
    ends = _by_topic({partition: seen.value for partition, seen in now.ends.items()})
    starts = _by_topic({partition: start for partition, start in now.starts.items() if partition in now.ends})
    sizes = _by_topic({partition: seen.value for partition, seen in now.sizes.items()})
    lags: defaultdict[str, int] = defaultdict(int)
    groups: Counter[str] = Counter()
    for group, _, _ in now.groups.values():
        groups.update({partition.topic for partition in group.committed})
        for partition, lag in _lags(group, now).items():
            lags[partition.topic] += lag
    rows = []
    for topic in now.topics:
        name, parts = topic.name, topic.partitions
        is_known = name in ends and name in starts
        rows.append(
            TopicRow(
                name=name,
                internal=topic.internal,
                partitions=len(parts),
                replication_factor=max((len(partition.replicas) for partition in parts), default=0),
                records_in_per_sec=records_in.get(name),
                bytes_in_per_sec=bytes_in.get(name),
                records_out_per_sec=records_out.get(name),
                bytes_out_per_sec=bytes_out.get(name),
                records=max(0, int(ends[name] - starts[name])) if is_known else None,
                size_bytes=int(sizes[name]) if name in sizes else None,
                groups=groups[name],
                lag=lags.get(name),
                under_replicated=sum(_lacks(partition, now) for partition in parts),
                offline=sum(partition.leader < 0 for partition in parts),
            )
        )
    return rows


def group_rows(before: Frame | None, now: Frame, lags: Mapping[str, tuple[int, ...]]) -> list[GroupRow]:
    """`lags`: of each group at the last looks."""
    rows = []
    for name, (group, node, at_ms) in sorted(now.groups.items()):
        lag = lag_of(group, now)
        trend = read = caught_up = None
        if before is not None and name in before.groups:
            old, _, old_ms = before.groups[name]
            old_lag = lag_of(old, before)
            # The lag moves with the ends, too: it is as old as the looks are, not as the coordinator's word is.
            seconds = (now.at_ms - before.at_ms) / 1000
            if lag is not None and old_lag is not None and seconds > 0:
                trend = (lag - old_lag) / seconds
            if at_ms > old_ms:
                read = sum(_moved(old, group).values()) * 1000 / (at_ms - old_ms)
        if lag == 0:
            caught_up = 0.0
        elif lag is not None and trend is not None and trend < 0:
            caught_up = lag / -trend
        rows.append(
            GroupRow(
                name=name,
                type=group.type,
                state=group.state,
                members=group.members,
                topics=len({partition.topic for partition in group.committed}),
                partitions=len(group.committed),
                lag=lag,
                lag_per_sec=trend,
                records_out_per_sec=read,
                caught_up_sec=caught_up,
                coordinator=node,
                lags=lags.get(name, ()),
            )
        )
    return rows


def broker_rows(before: Frame | None, now: Frame) -> list[BrokerRow]:
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    lacking: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    records_in: defaultdict[int, float] = defaultdict(float)
    bytes_in: defaultdict[int, float] = defaultdict(float)
    records = growth(before.ends, now.ends) if before else {}
    sizes = growth(before.sizes, now.sizes) if before else {}
    for topic in now.topics:
        for info in topic.partitions:
            leaders[info.leader] += 1
            replicas.update(info.replicas)
            lacking[info.leader] += _lacks(info, now)
            behind.update(node for node in info.replicas if node not in info.in_sync)
            partition = TopicPartition(topic.name, info.index)
            for rates, totals in ((records, records_in), (sizes, bytes_in)):
                if partition in rates:
                    totals[info.leader] += rates[partition]
    rows = []
    for node in sorted({*now.nodes, *replicas}):
        address, seen = now.nodes.get(node), now.brokers.get(node)
        rows.append(
            BrokerRow(
                id=node,
                address="" if address is None else f"{address.host}:{address.port}",
                rack=None if address is None else address.rack,
                controller=node == now.controller,
                leaders=leaders[node],
                replicas=replicas[node],
                under_replicated=lacking[node],
                out_of_sync=behind[node],
                groups=0 if seen is None else len(seen.groups),
                records_in_per_sec=records_in.get(node),
                bytes_in_per_sec=bytes_in.get(node),
                size_bytes=None if seen is None else sum(seen.sizes.values()),
                disk_bytes=None if seen is None else seen.disk_bytes,
                disk_free_bytes=None if seen is None else seen.disk_free_bytes,
                problem="is not running" if address is None else now.problems.get(node),
            )
        )
    return rows


def _lacks(partition: Partition, now: Frame) -> bool:
    return under_replicated(
        partition.replicas,
        now.adding.get(TopicPartition(partition.topic, partition.index), ()),
        partition.in_sync,
    )


def lag_of(group: GroupSeen, frame: Frame) -> int | None:
    """None for a group that has committed nothing."""
    lags = _lags(group, frame)
    return sum(lags.values()) if lags else None


def _lags(group: GroupSeen, frame: Frame) -> Mapping[TopicPartition, int]:
    """In offsets.  What retention has taken can never be read, so it is no lag."""
    if group.lags is not None:
        return group.lags
    return {
        partition: max(0, frame.ends[partition].value - max(offset, frame.starts.get(partition, 0)))
        for partition, offset in group.committed.items()
        if partition in frame.ends
    }


def _moved(old: GroupSeen, new: GroupSeen) -> dict[TopicPartition, int]:
    """Records that the group has done with; a group that went back has read nothing."""
    return {
        partition: max(0, offset - old.committed[partition])
        for partition, offset in new.committed.items()
        if partition in old.committed
    }


def _read(before: Frame | None, now: Frame) -> tuple[dict[str, float], dict[str, float]]:
    """By topic: records and bytes a second that groups have read."""
    records: defaultdict[str, float] = defaultdict(float)
    sizes: defaultdict[str, float] = defaultdict(float)
    if before is None:
        return records, sizes
    for name, (group, _, at_ms) in now.groups.items():
        old, _, old_ms = before.groups.get(name, (None, 0, 0))
        if old is None or at_ms <= old_ms:
            continue
        for partition, moved in _moved(old, group).items():
            rate = moved * 1000 / (at_ms - old_ms)
            records[partition.topic] += rate
            mean = _mean_bytes(partition, now)
            if mean is not None:
                sizes[partition.topic] += rate * mean
    return records, sizes


def _mean_bytes(partition: TopicPartition, frame: Frame) -> float | None:
    """Bytes for each offset of the log."""
    end, start = frame.ends.get(partition), frame.starts.get(partition)
    size = frame.sizes.get(partition)
    if end is None or start is None or size is None:
        return None
    return size.value / (end.value - start) if end.value > start else 0.0


def _by_topic(values: Mapping[TopicPartition, float]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for partition, value in values.items():
        sums[partition.topic] = sums.get(partition.topic, 0) + value
    return sums


def total(values: Iterable[float | None]) -> float | None:
    """The sum of the values that are not None; None if there are none."""
    amounts = [value for value in values if value is not None]
    return sum(amounts) if amounts else None
