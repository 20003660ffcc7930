"""The state of one shard of `__consumer_offsets`: the groups and committed offsets that its records add up to.

Each type of group
- lists its records in `groups/record_types.py`;
- has a row in `groups/record_replay.py` for each key type: a function `(machine, key, value, producer_id)` that applies a
  record to the state; `value` None deletes.  The function does the same for a new record and for one that is read at a
  load, and it must not fail: a record in the log is a fact;
- keeps its groups in `machine.groups` by group id, and implements `groups.group.Group`, so that offsets, ListGroups,
  DeleteGroups and expiry treat all types alike.  A record about a group of another type replaces an empty group of the
  old type.

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
