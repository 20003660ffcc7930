"""The state of one shard of `__consumer_offsets`: every group and every committed offset that its records add up to.

How a kind of group plugs in:
- its records are listed in `groups/record_types.py`;
- a function `(machine, key, value, producer_id)` for each kind of key puts a record into the state: a row in
  `groups/replays.py`.  `value` None deletes.  It must do the same whether the record was just decided on or is read back
  at a load, and it must not fail: a record in the log is a fact;
- its groups are in `machine.groups` under their id, and implement `groups.group.Group`, so that offsets, ListGroups,
  DeleteGroups and expiry treat all kinds alike.  A group of another kind may be in its place: a record about a new kind
  of group replaces an empty one of the old kind.

Pure.  `groups.coordinator.Groups` owns the shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.group import Group
from tidelog.groups.offsets.committed import OffsetsState

Replay = Callable[["GroupStateMachine", Any, Any, int], None]
"""(machine, key, value or None, producer id or -1)"""


class GroupStateMachine:
    def __init__(self, replays: Mapping[type, Replay]) -> None:
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetsState()
        self._replays = replays

    def replay(self, entry: CoordinatorRecord, producer_id: int) -> None:
        take = self._replays.get(type(entry.key))
        if take is not None:
            take(self, entry.key, entry.value, producer_id)

    def ended(self, producer_id: int, committed: bool) -> None:
        self.offsets.ended(producer_id, committed)
