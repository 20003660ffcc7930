"""Counts of ISR shrinks, ISR expansions and leader elections, for the metrics of this broker.  Pure.

The counts come from the updates of the metadata, whichever broker caused the change."""

from __future__ import annotations

from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import PartitionImage, changed_partitions
from tidelog.types import NodeId


class IsrAndElectionCounts:
    """The leader counts changes of the ISR, the controller counts elections: each change counts once in the cluster."""

    def __init__(self, node: NodeId) -> None:
        self._node = node
        self.shrinks = 0
        self.expands = 0
        self.elections = 0
        self.unclean_elections = 0

    def applied(self, update: Update) -> None:
        controls = update.image.controller == self._node
        for name in update.topics:
            before, after = update.before.topics.get(name), update.image.topics.get(name)
            if before is None or after is None or before.id != after.id:
                continue
            for old, new in changed_partitions(before, after):
                if old is not None:
                    self._changed(old, new, controls)

    def _changed(self, old: PartitionImage, new: PartitionImage, controls: bool) -> None:
        if new.leader == self._node:
            self.shrinks += len(new.in_sync) < len(old.in_sync)
            self.expands += len(new.in_sync) > len(old.in_sync)
        if controls and new.leader is not None and new.leader != old.leader:
            self.elections += 1
            self.unclean_elections += new.leader not in old.in_sync
