"""What must hold in a cluster beyond what holds for every partition."""

from __future__ import annotations

from tests.simulation.cluster.world import Cluster
from tidelog.record.reader import read_batches
from tidelog.replication.partition import HostedPartition
from tidelog.types import TopicPartition


class OneLeaderPerEpoch:
    """No two brokers ever lead a partition in the same epoch.  Looked at again and again."""

    def __init__(self) -> None:
        self._seen: dict[tuple[TopicPartition, int], int] = {}

    def look(self, cluster: Cluster) -> list[tuple[str, str]]:
        problems = []
        for name in cluster.partitions:
            if cluster.survivors.is_restored(name):
                # An epoch without a record may be given again: nothing stands in the logs of it.
                self._seen = {key: node for key, node in self._seen.items() if key[0] != name}
                continue
            for node, held in cluster.replicas(name):
                if held.leader == node:
                    epoch = int(held.state.epoch)
                    before = self._seen.setdefault((name, epoch), node)
                    if before != node:
                        problems.append(
                            ("OneLeaderPerEpoch", f"{name}: {before} and {node} led in epoch {epoch}")
                        )
        return problems


class CommittedIsHeldByAll:
    """What a leader calls committed, every member of the stored in-sync set that runs has, to the byte."""

    def look(self, cluster: Cluster) -> list[tuple[str, str]]:
        problems = []
        for name, history in cluster.partitions.items():
            stored = cluster.stored(name)
            held = dict(cluster.replicas(name))
            if stored is None or stored.leader not in held or cluster.survivors.is_restored(name):
                continue
            leader = held[stored.leader]
            if leader.leader != stored.leader or leader.state.epoch != stored.leader_epoch:
                continue
            committed = leader.state.committed
            for node in stored.in_sync:
                other = held.get(node)
                if other is None or history.compacted or stored.doubts:
                    continue
                # One that has not joined the epoch yet still has to drop what an older one left it.
                if other.state.epoch != leader.state.epoch:
                    continue
                if other.log.end < committed:
                    problems.append(
                        (
                            "CommittedIsHeldByAll",
                            f"{name}: committed is {committed} and {node} has {other.log.end}",
                        )
                    )
        return problems


class LogsAgree:
    """Below what is committed, all replicas have the same batches."""

    def look(self, cluster: Cluster) -> list[tuple[str, str]]:
        problems = []
        for name, history in cluster.partitions.items():
            held = dict(cluster.replicas(name))
            if history.compacted or len(held) < 2:
                continue
            start = max(one.log.start for one in held.values())
            end = min(one.state.committed for one in held.values())
            contents = {node: _content(one, start, end) for node, one in held.items()}
            if len(set(contents.values())) > 1:
                sizes = {node: len(content) for node, content in contents.items()}
                problems.append(("LogsAgree", f"{name}: {start} to {end} differ: {sizes} bytes"))
        return problems


def _content(partition: HostedPartition, start: int, end: int) -> bytes:
    content = b""
    offset = start
    while offset < end:
        part = partition.log.reader.read(offset, 1 << 20, end)
        if part is None:
            break
        data = part.file.read(part.size, part.position)
        content += data
        for batch in read_batches(data):
            offset = batch.header.last_offset + 1
    return content


class QuietIsQuiet:
    """Without clients, brokers ask each other a few times a second, and nobody goes round in circles."""

    REQUESTS_MAX = 30  # a second, of one broker: each of the others has a fetch that waits for half a second

    def __init__(self, cluster: Cluster) -> None:
        self._before = self._requests(cluster)
        self._since_ms = cluster.clock.monotonic_ms()

    def look(self, cluster: Cluster) -> list[tuple[str, str]]:
        seconds = (cluster.clock.monotonic_ms() - self._since_ms) / 1000
        problems = []
        for node, count in self._requests(cluster).items():
            asked = count - self._before.get(node, 0)
            if asked > self.REQUESTS_MAX * seconds:
                problems.append(("QuietIsQuiet", f"broker {node} was asked {asked} times in {seconds} s"))
        return problems

    def _requests(self, cluster: Cluster) -> dict[int, int]:
        return {
            node: sum(connection.frames for connection in broker._server.connections)
            for node, broker in cluster.brokers.items()
        }
