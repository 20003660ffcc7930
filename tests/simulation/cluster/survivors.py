"""What power cuts and replaced disks left, replica by replica, and so which acknowledged records may be gone.

A holder (a member of the in-sync set, or an eligible one) has all that was acknowledged, until its machine loses power
or its disk.  As long as one holder has lost nothing, no acknowledged record may go.  When none is left, the log with
the newest epoch and, of these, the longest one decides: what is on it must survive, and only the rest may go.  All of
this is computed from the simulated disks and from every change of the stored metadata, not from what brokers say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tests.simulation.history import PartitionHistory
from tidelog import errors
from tidelog.metadata.image import changes
from tidelog.metadata.image.image import Image, PartitionImage, TopicImage, changed_partitions
from tidelog.metadata.store import Changes, Snapshot
from tidelog.record.reader import Batch, read_batches
from tidelog.storage.checkpoints import LEADER_EPOCHS, CorruptCheckpoint, decode_epochs
from tidelog.testing import Machine, VirtualDisk
from tidelog.types import TopicPartition

Problems = list[tuple[str, str]]

DIRECTORIES = ("/data", "/more")
"""Most brokers have the first one only."""


class SurvivingLog(NamedTuple):
    """A replica's log as its disk has it: up to the first byte that is missing or wrong."""

    epoch: int
    end: int
    segments: tuple[bytes, ...]

    @property
    def reach(self) -> tuple[int, int]:
        return self.epoch, self.end

    @property
    def records_reach(self) -> tuple[int, int]:
        """With the epoch of the last record: that of an election without a record may have come from restored metadata."""
        epochs = (
            batch.header.leader_epoch for segment in reversed(self.segments) for batch in _last(segment)
        )
        return next(epochs, -1), self.end

    @property
    def content(self) -> bytes:
        return b"".join(self.segments)

    def records(self) -> dict[int, bytes]:
        return {
            record.offset: record.value or b""
            for segment in self.segments
            for batch in read_batches(segment, check_crc=False)
            if not batch.header.control
            for record in batch.records()
        }

    @staticmethod
    def read(disk: VirtualDisk, name: TopicPartition) -> SurvivingLog:
        """A move that was interrupted leaves the log in both directories; the longer one counts."""
        logs = [SurvivingLog._read(disk, f"{directory}/{name}") for directory in DIRECTORIES]
        return max(logs, key=lambda kept: (bool(kept.segments), kept.end))

    @staticmethod
    def _read(disk: VirtualDisk, folder: str) -> SurvivingLog:
        content = disk.files(folder)
        files = {path: data for path, data in content.items() if path.endswith(".log")}
        segments: list[bytes] = []
        epoch, end = -1, 0
        for path in sorted(files):
            base = int(path.rsplit("/", 1)[1].removesuffix(".log"))
            if segments and base != end:
                break
            end, size = base, 0
            for batch in _sound_batches(files[path]):
                if batch.header.base_offset != end:
                    break
                epoch, end = batch.header.leader_epoch, batch.header.last_offset + 1
                size += batch.header.size
            segments.append(files[path][:size])
        known = _epochs(content.get(f"{folder}/{LEADER_EPOCHS}", b"")) if segments else []
        return SurvivingLog(
            max([epoch, *(began for began, start in known if start <= end)]), end, tuple(segments)
        )


def _last(segment: bytes) -> list[Batch]:
    return list(_sound_batches(segment))[-1:]


def _sound_batches(data: bytes) -> Iterable[Batch]:
    try:
        yield from read_batches(data)
    except (errors.CorruptMessage, errors.InvalidRecord):
        return


def _epochs(checkpoint: bytes) -> list[tuple[int, int]]:
    try:
        return list(decode_epochs(checkpoint))
    except CorruptCheckpoint:
        return []


def holders(partition: PartitionImage) -> set[int]:
    return {*partition.in_sync, *partition.eligible}


def doubted_nodes(partition: PartitionImage) -> set[int]:
    """Replicas that have reported that they may lack committed records."""
    return {tail.node for tail in partition.doubts}


class Survivors:
    """`problems` are leaders that were elected although another replica has, or may have, more."""

    def __init__(
        self,
        machines: Mapping[int, Machine],
        histories: Mapping[TopicPartition, PartitionHistory],
        committed: Callable[[TopicPartition], int],
    ) -> None:
        self.image = Image()
        self.problems: Problems = []
        self.operators_choice: set[TopicPartition] = set()
        """Partitions whose next leader an operator has chosen, whatever it costs."""
        self.losses: dict[TopicPartition, int] = {}
        """How often a partition has lost committed records that no holder had kept."""
        self.on_loss: list[Callable[[TopicPartition], None]] = []
        self._machines = machines
        self._histories = histories
        self._committed = committed
        self._committed_before: dict[TopicPartition, int] = {}
        self._doubts: dict[TopicPartition, dict[int, SurvivingLog | None]] = {}
        self._whole_when_restored: dict[TopicPartition, set[int]] = {}
        """Who had everything, of partitions whose metadata are from a backup, until all have reported and one leads."""
        self._starting: set[int] = set()
        self._at_power_cut: dict[int, dict[TopicPartition, SurvivingLog]] = {}
        self._unreported: set[int] = set()
        """Machines that were without power, and whose brokers have not registered since."""
        self._elected_while_starting: dict[TopicPartition, tuple[PartitionImage, PartitionImage]] = {}
        """Elections of brokers that had yet to report, before and after: they are judged when these brokers register."""

    # What happens to machines

    def power_lost(self, node: int) -> None:
        """From now on nobody knows what this machine has; once it is on again, its disk tells.  A replica that was in doubt
        before, reported or not, has at most what it had then: it has not been elected since."""
        disk = self._machines[node].disk
        self._unreported.add(node)
        logs = self._at_power_cut[node] = {}
        for name, partition in self.partitions():
            if node in partition.replicas:
                before = self._committed_before.get(name, 0)
                self._committed_before[name] = max(before, self._committed(name))
                log = logs[name] = SurvivingLog.read(disk, name)
                doubts = self._doubts.setdefault(name, {})
                doubts[node] = log if node in doubts or node in doubted_nodes(partition) else None

    def power_on(self, node: int) -> None:
        """After the disk was left as the power cut left it, before the broker starts.  A replica that has lost nothing by
        it is as good as before, whatever its broker can know of that."""
        self._starting.add(node)
        before = self._at_power_cut.pop(node, {})
        for name, doubts in self._doubts.items():
            if node in doubts:
                had_all = doubts[node] is None
                log = doubts[node] = SurvivingLog.read(self._machines[node].disk, name)
                if had_all and name in before and before[name].content == log.content:
                    del doubts[node]

    def doubted(self, name: TopicPartition) -> Mapping[int, SurvivingLog | None]:
        """The replicas that may lack committed records, with what they have; None while the machine is off."""
        return self._doubts.get(name, {})

    def is_empty(self, name: TopicPartition, node: int) -> bool:
        """This replica has no record, on a machine that is on."""
        log = self._doubts.get(name, {}).get(node) or SurvivingLog.read(self._machines[node].disk, name)
        return not self._machines[node].is_down and log.end == 0

    def sure_holders(self, name: TopicPartition) -> set[int]:
        partition = self.image.partition(*name)
        if partition is None:
            return set()
        whole = self._whole_when_restored.get(name, holders(partition)) & set(partition.replicas)
        return whole - self.doubted(name).keys()

    def is_restored(self, name: TopicPartition) -> bool:
        """What is stored of this partition is from a backup: nobody leads by it who has started since."""
        return name in self._whole_when_restored

    def partitions(self) -> Iterable[tuple[TopicPartition, PartitionImage]]:
        for topic in self.image.topics.values():
            for partition in topic.partitions:
                yield TopicPartition(topic.name, partition.index), partition

    # What happens to the metadata

    def restored(self, snapshot: Snapshot) -> None:
        """A backup is in the place of what was stored, with the same topics on the same replicas."""
        for name, partition in self.partitions():
            whole = holders(partition) - self.doubted(name).keys()
            self._whole_when_restored.setdefault(name, whole)
        self.image = changes.read(snapshot)

    def stored(
        self, happened: Changes, author: str = ""
    ) -> list[tuple[TopicPartition, PartitionImage, PartitionImage]]:
        """Called at the instant of every change that `author` makes; the partitions that differ, before and after."""
        update = changes.advance(self.image, happened)
        self.image = update.image
        registered = {node for node in update.image.brokers if author == f"broker-{node}"}
        self._starting -= registered
        self._unreported -= registered
        changed = []
        for topic_name in update.topics:
            topic, earlier = update.image.topics.get(topic_name), update.before.topics.get(topic_name)
            if earlier is not None and (topic is None or topic.id != earlier.id):
                self._deleted(earlier)
            if topic is None:
                continue
            for before, after in changed_partitions(earlier, topic):
                if before is not None:
                    name = TopicPartition(topic_name, after.index)
                    self._changed(name, before, after, author)
                    changed.append((name, before, after))
        self._registered(registered)
        return changed

    def _registered(self, nodes: set[int]) -> None:
        """Whoever registers has reported: if it still leads by an election from before, that election counts."""
        for name, (before, after) in list(self._elected_while_starting.items()):
            now = self.image.partition(*name)
            if now is None or now.leader_epoch != after.leader_epoch:
                del self._elected_while_starting[name]
            elif after.leader in nodes:
                del self._elected_while_starting[name]
                self._judge(name, before, int(after.leader))

    def _deleted(self, topic: TopicImage) -> None:
        for partition in topic.partitions:
            name = TopicPartition(topic.name, partition.index)
            by_names: tuple[dict[TopicPartition, Any], ...] = (
                self._doubts,
                self._committed_before,
                self._whole_when_restored,
                self._elected_while_starting,
            )
            for by_name in by_names:
                by_name.pop(name, None)
            for logs in self._at_power_cut.values():
                logs.pop(name, None)

    def _changed(
        self, name: TopicPartition, before: PartitionImage, after: PartitionImage, author: str
    ) -> None:
        doubts = self._doubts.get(name, {})
        if after.rolled_back and not before.rolled_back:
            self._whole_when_restored.setdefault(name, holders(before) - doubts.keys())
        for node in set(after.in_sync) - set(before.in_sync):
            if doubts.get(node) is not None and node != after.leader and node not in self._unreported:
                del doubts[
                    node
                ]  # it has fetched all that was committed, and has it even if it was killed since
        leads = after.leader is not None and (after.leader, after.leader_epoch) != before[2:4]
        if leads and name in self.operators_choice:
            self._operator_chose(name, int(after.leader or 0))
        elif leads and self._has_yet_to_report(name, before, int(after.leader or 0), author):
            self._elected_while_starting[name] = before, after
        elif leads:
            self._judge(name, before, int(after.leader or 0))
        if before.rolled_back and not after.rolled_back:
            self._whole_when_restored.pop(name, None)

    def _has_yet_to_report(
        self, name: TopicPartition, before: PartitionImage, node: int, author: str
    ) -> bool:
        """One that starts just now, and has other records than it reported the last time, does not lead before it has."""
        if node not in self._starting or author == f"broker-{node}":
            return False
        reach = SurvivingLog.read(self._machines[node].disk, name).reach
        return not any((tail.epoch, tail.end) == reach for tail in before.doubts if tail.node == node)

    def _judge(self, name: TopicPartition, before: PartitionImage, leader: int) -> None:
        if self.is_restored(name):
            self._elected_after_restoration(name, before, leader)
        else:
            self._elected(name, before, leader)

    def _elected_after_restoration(self, name: TopicPartition, before: PartitionImage, leader: int) -> None:
        if not before.rolled_back or self._machines[leader].is_down:
            return  # whoever that is reports before it leads
        if silent := set(before.replicas) - doubted_nodes(before):
            self._problem(
                "AllHoldersReport", name, f"broker {leader} leads before {silent} have reported: {before}"
            )
        doubts = self._doubts.get(name, {})
        off = {node for node in before.replicas if node in doubts and doubts[node] is None}
        known = {node: SurvivingLog.read(self._machines[node].disk, name) for node in before.replicas}
        best = max((known[node] for node in known.keys() - off), key=lambda kept: kept.records_reach)
        if known[leader].records_reach < best.records_reach:
            reaches = {node: kept.records_reach for node, kept in known.items()}
            self._problem(
                "LongestLogLeads", name, f"broker {leader} leads, and records reach {reaches}: {before}"
            )
        if not self.sure_holders(name):
            self._lost(name, best)
        doubts.pop(leader, None)

    def _elected(self, name: TopicPartition, before: PartitionImage, leader: int) -> None:
        doubts, candidates = self._doubts.get(name, {}), holders(before)
        if leader not in candidates:
            self._problem("OnlyHoldersLead", name, f"broker {leader} leads and the holders were {candidates}")
            return
        log = doubts.get(leader)
        if log is None or self._machines[leader].is_down:
            return  # it has everything; or it is off, and says what it lacks before it leads
        complete = candidates - doubts.keys()
        if sure := complete - doubted_nodes(before):
            self._problem(
                "DoubtedNeverLead", name, f"broker {leader} was without power, and {sure} have everything"
            )
            return
        known = {node: found for node in candidates if (found := doubts.get(node)) is not None}
        known |= {node: SurvivingLog.read(self._machines[node].disk, name) for node in complete}
        if off := candidates - known.keys():
            self._problem("AllHoldersReport", name, f"broker {leader} leads before {off} are back")
            return
        best = max(known.values(), key=lambda kept: kept.reach)
        if log.reach < best.reach and not log.content.startswith(best.content):
            # One that has all of the best log and more has kept what an epoch without its records has replaced: nobody
            # was promised that, and nothing is lost by it.
            reaches = {node: kept.reach for node, kept in known.items()}
            self._problem(
                "LongestLogLeads", name, f"broker {leader} leads, and logs reach {reaches}: {before}"
            )
        if not complete:
            self._lost(name, best)
        del doubts[leader]

    def _operator_chose(self, name: TopicPartition, leader: int) -> None:
        self.operators_choice.discard(name)
        self._lost(name, SurvivingLog.read(self._machines[leader].disk, name), chosen=True)
        self._doubts.get(name, {}).pop(leader, None)

    def _lost(self, name: TopicPartition, kept: SurvivingLog, chosen: bool = False) -> None:
        """No holder has more than `kept`: only what it has is still promised.  A topic that syncs before it answers has
        lost nothing by that, unless an operator chose so."""
        history = self._histories.get(name)
        if history is not None and (chosen or not history.synced):
            history.cut_to(kept.end, kept.records())
        committed = max(self._committed_before.pop(name, 0), history.committed if history else 0)
        if kept.end < committed:
            self.losses[name] = self.losses.get(name, 0) + 1
            for told in self.on_loss:
                told(name)

    def _problem(self, rule: str, name: TopicPartition, text: str) -> None:
        self.problems.append((rule, f"{name}: {text}"))
