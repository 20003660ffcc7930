"""Batches of one connection that were refused for the moment, and the answers to the batches after them.

An idempotent producer has often sent more batches after a refused one.  These leave a gap, which closes when the producer
sends the refused batch again.  So they get the same answer as the refused batch.  If librdkafka is told of a gap, it begins
a new epoch, and repeats batches without an answer to other partitions, which then have them twice."""

from __future__ import annotations

from typing import NamedTuple

from tidelog import errors
from tidelog._speed.log.batch import header_at

KEPT_MS = 10_000
"""A producer that does not send the refused batch again for so long has given it up, and is told of the gap."""
BATCHES_MAX = 5  # that a producer has in flight
PLACES_MAX = 1_000

Place = tuple[str | bytes, int, int, int]
"""Topic, partition, producer and its epoch."""


class RefusedBatch(NamedTuple):
    code: int
    message: str
    until_ms: int


class Refusals:
    __slots__ = ("_by_place",)

    def __init__(self) -> None:
        self._by_place: dict[Place, dict[int, RefusedBatch]] = {}

    def answer(
        self, topic: str | bytes, index: int, data: memoryview, problem: errors.TidelogError, now_ms: int
    ) -> errors.TidelogError:
        """The answer to the producer of a batch that could not be appended because of `problem`."""
        header = header_at(data)
        if header is None or header.producer_id < 0:
            return problem
        place = (topic, index, header.producer_id, header.producer_epoch)
        if isinstance(problem, errors.OutOfOrderSequenceNumber):
            expected = problem.expected
            if expected is None or expected >= header.base_sequence:
                return problem
            refused = self._by_place.get(place, {}).get(expected)
            if refused is None or refused.until_ms < now_ms:
                return problem
            return errors.by_code(refused.code)(refused.message)
        if problem.retriable:
            self._keep(
                place, header.base_sequence, RefusedBatch(problem.code, str(problem), now_ms + KEPT_MS)
            )
        return problem

    def _keep(self, place: Place, sequence: int, refused: RefusedBatch) -> None:
        if place not in self._by_place and len(self._by_place) >= PLACES_MAX:
            del self._by_place[next(iter(self._by_place))]
        batches = self._by_place.setdefault(place, {})
        batches.pop(sequence, None)
        batches[sequence] = refused
        if len(batches) > BATCHES_MAX:
            del batches[next(iter(batches))]
