"""The decision about an epoch of a sink: which transactions hold its rows.  Pure.

The decision is the single point of truth.  Before the decision is written, the epoch has not happened, whatever its tasks
have written.  After that, all of its parts must be committed, by any driver, as often as needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.pipeline.options.text import PipelineError


@dataclass(frozen=True, slots=True)
class Epoch:
    """One micro-batch of one sink of a query, in one run of the query."""

    query: str
    sink: str
    run: str
    number: int

    @property
    def key(self) -> str:
        return f"{self.query}/{self.sink}"

    @property
    def prefix(self) -> str:
        """The prefix of the transactional ids of the tasks.  Every run has its own prefix, so that a new run does not
        abort by accident what an old run has decided to commit."""
        return f"{self.sink_prefix}{sha256(self.run.encode()).hexdigest()[:10]}/"

    def may_be_of(self, run: str) -> bool:
        """True if `run` is, or may be, the same run of the query; sometimes only the application is known."""
        return run == self.run or ("/" in run and run.split("/")[0] == self.run.split("/")[0])

    @property
    def sink_prefix(self) -> str:
        """The prefix of this sink alone: sink names may contain dots, but no slashes."""
        return f"tidelog/{self.query}/{self.sink}/"


@dataclass(frozen=True, slots=True)
class Part:
    """What one task has written.  `transaction`: None if the task has written nothing.

    `rows` and `size` (bytes of keys and values) show whether a task that runs again has written the same."""

    index: int
    transaction: PreparedTransaction | None
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class EpochDecision:
    epoch: int
    run: str
    tasks: int
    parts: tuple[Part, ...]
    """The parts that have a transaction."""

    def to_bytes(self) -> bytes:
        parts = [
            [
                part.index,
                part.rows,
                part.size,
                part.transaction.transactional_id,
                part.transaction.producer_id,
                part.transaction.producer_epoch,
                part.transaction.implicit,
            ]
            for part in self.parts
            if part.transaction is not None
        ]
        made = {"epoch": self.epoch, "run": self.run, "tasks": self.tasks, "parts": parts}
        return json.dumps(made, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> EpochDecision:
        made: dict[str, Any] = json.loads(data)
        parts = tuple(
            Part(index, PreparedTransaction(name, producer, epoch, implicit), rows, size)
            for index, rows, size, name, producer, epoch, implicit in made["parts"]
        )
        return cls(made["epoch"], made["run"], made["tasks"], parts)


def decide(epoch: Epoch, parts: Iterable[Part]) -> EpochDecision:
    every = sorted(parts, key=lambda part: part.index)
    return EpochDecision(
        epoch.number, epoch.run, len(every), tuple(part for part in every if part.transaction is not None)
    )


def repair(
    decided: EpochDecision, lost: Iterable[Part], again: Mapping[int, Part], tasks: int
) -> EpochDecision:
    """The decision with its lost parts replaced by what the same tasks have written when the epoch ran again.

    Raises an error if those are not the same rows: then nothing can complete the epoch."""
    replaced = {}
    for part in lost:
        new = again.get(part.index)
        if (
            tasks != decided.tasks
            or new is None
            or new.transaction is None
            or (new.rows, new.size) != (part.rows, part.size)
        ):
            raise PipelineError(
                f"epoch {decided.epoch} is committed in part: the transaction of task {part.index} "
                f"({part.rows} rows) was aborted because no driver ended it in time, and the epoch, run again, has other "
                "rows there. Was the query or its number of tasks changed, or do its results differ from run to run? "
                "Continue with the unchanged query, or with a new checkpoint; a larger transactionTimeoutMs gives a "
                "driver more time to return"
            )
        replaced[part.index] = new
    return replace(decided, parts=tuple(replaced.get(part.index, part) for part in decided.parts))
