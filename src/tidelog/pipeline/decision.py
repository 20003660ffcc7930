"""What was decided about an epoch of a sink: which transactions hold its rows.  Pure.

The decision is the one point of truth: before it is written an epoch has not happened, whatever its tasks have
written; after it, all of its parts are to be committed, whoever does it and how often.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.pipeline.option_text import PipelineError


@dataclass(frozen=True, slots=True)
class Epoch:
    """One micro-batch of one sink of a query, in one of the query's lives (`run`)."""

    query: str
    sink: str
    run: str
    number: int

    @property
    def key(self) -> str:
        return f"{self.query}/{self.sink}"

    @property
    def prefix(self) -> str:
        """Of the transactional ids of its tasks.  Every life has its own, so that a new one does not abort by
        accident what an old one has decided to commit."""
        return f"{self.sink_prefix}{sha256(self.run.encode()).hexdigest()[:10]}/"

    def may_be_of(self, run: str) -> bool:
        """Whether that was the same life of the query; where only the application is known, it may have been."""
        return run == self.run or ("/" in run and run.split("/")[0] == self.run.split("/")[0])

    @property
    def sink_prefix(self) -> str:
        """Of no other sink: names of sinks have dots in them, but no slashes."""
        return f"tidelog/{self.query}/{self.sink}/"


@dataclass(frozen=True, slots=True)
class Part:
    """What one task has written; `transaction` is None when that was nothing.

    `rows` and `size` (bytes of keys and values) tell whether a task that is run again has written the same."""

    index: int
    transaction: PreparedTransaction | None
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class Decision:
    epoch: int
    run: str
    tasks: int
    parts: tuple[Part, ...]
    """Those that have a transaction."""

    def to_bytes(self) -> bytes:
        parts = [
            [
                one.index,
                one.rows,
                one.size,
                one.transaction.transactional_id,
                one.transaction.producer_id,
                one.transaction.producer_epoch,
                one.transaction.implicit,
            ]
            for one in self.parts
            if one.transaction is not None
        ]
        made = {"epoch": self.epoch, "run": self.run, "tasks": self.tasks, "parts": parts}
        return json.dumps(made, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Decision:
        made: dict[str, Any] = json.loads(data)
        parts = tuple(
            Part(index, PreparedTransaction(name, producer, epoch, implicit), rows, size)
            for index, rows, size, name, producer, epoch, implicit in made["parts"]
        )
        return cls(made["epoch"], made["run"], made["tasks"], parts)


def decide(epoch: Epoch, parts: Iterable[Part]) -> Decision:
    every = sorted(parts, key=lambda one: one.index)
    return Decision(
        epoch.number, epoch.run, len(every), tuple(one for one in every if one.transaction is not None)
    )


def repair(decided: Decision, lost: Iterable[Part], again: Mapping[int, Part], tasks: int) -> Decision:
    """The decision with its lost parts replaced by what the same tasks have written when the epoch was run again.

    Raises when those are not the same rows: then nothing can make the epoch whole."""
    replaced = {}
    for one in lost:
        new = again.get(one.index)
        if (
            tasks != decided.tasks
            or new is None
            or new.transaction is None
            or (new.rows, new.size) != (one.rows, one.size)
        ):
            raise PipelineError(
                f"epoch {decided.epoch} is committed in part: the transaction of task {one.index} "
                f"({one.rows} rows) was aborted because nobody ended it in time, and the epoch, run again, has other "
                "rows there. Was the query or its number of tasks changed, or are its results not the same every "
                "time? Go on with the query as it was, or with a new checkpoint; a larger transactionTimeoutMs "
                "gives a driver more time to come back"
            )
        replaced[one.index] = new
    return replace(decided, parts=tuple(replaced.get(one.index, one) for one in decided.parts))
