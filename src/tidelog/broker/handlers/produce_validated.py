"""Produce requests for topics that take only records with a registered schema.

Mostly every schema id is known here, and the request goes on as any other.  Otherwise it waits until the registry was
asked; later requests for the same partitions wait behind it, so that their order is kept.  A batch with a record whose
schema is not registered, or that has none, is refused as a whole with INVALID_RECORD, and the answer says which records.
Null keys and values have no schema and pass."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tidelog import errors
from tidelog.broker.handlers.produce import Key, ProduceInFlight, append_all
from tidelog.record.reader import read_batches
from tidelog.registry.validation import Wanted
from tidelog.replication.partition import Partition

IDS_MAX = 100  # that one batch may bring and nobody has asked for yet
_MAGIC = 0
_FRAME_SIZE = 5

Answer = bytes | asyncio.Future[bytes] | asyncio.Future[bytes | None] | None
Place = tuple[str, int]


class UnregisteredSchemas(errors.InvalidRecord):
    """`records` says which ones of the batch, and why, for the answer to the producer."""

    def __init__(self, message: str, records: list[tuple[int, str]]) -> None:
        super().__init__(message)
        self.records = records


class _Batch:
    """One batch for a topic with the setting: which schemas its records name, and which records name none."""

    __slots__ = ("bare", "key", "named", "place")

    def __init__(self, key: Key, partition: Partition, data: memoryview) -> None:
        self.key = key
        self.place: Place = (partition.topic, partition.index)
        self.bare: list[tuple[int, str]] = []
        self.named: dict[Wanted, list[int]] = {}
        config = partition.log.config
        sides = []
        if config.confluent_key_schema_validation:
            sides.append((True, config.confluent_key_subject_name_strategy))
        if config.confluent_value_schema_validation:
            sides.append((False, config.confluent_value_subject_name_strategy))
        try:
            records = [record for batch in read_batches(data) for record in batch.records()]
        except errors.TidelogError:
            return  # not a batch: the partition says so
        for at, record in enumerate(records):
            for is_key, strategy in sides:
                content = record.key if is_key else record.value
                if content is None:
                    continue
                if len(content) < _FRAME_SIZE or content[0] != _MAGIC:
                    self.bare.append(
                        (at, f"its {'key' if is_key else 'value'} does not begin with a schema id")
                    )
                    continue
                number = int.from_bytes(content[1:_FRAME_SIZE], "big")
                wanted = Wanted(partition.topic, is_key, strategy.rpartition(".")[2], number)
                self.named.setdefault(wanted, []).append(at)


def held_for_schemas(request: ProduceInFlight) -> asyncio.Future[bytes | None] | None:
    """The answer, when it has to be waited for or a batch is refused; None: go on."""
    validation = request.services.registry.validation
    batches = list(_batches(request))
    known = all(not batch.bare and all(map(validation.knows, batch.named)) for batch in batches)
    before = [one for one in (validation.held.get(batch.place) for batch in batches) if one is not None]
    if known and not before:
        return None
    # The frame's bytes are the connection's again when this returns.
    own = request._replace(frame=memoryview(bytearray(request.frame)))
    appending = asyncio.ensure_future(_append_later(own, batches, before))
    for batch in batches:
        validation.held[batch.place] = appending
    appending.add_done_callback(lambda done: _let_go(request, batches, done))
    return asyncio.ensure_future(_answered(appending))


def _batches(request: ProduceInFlight) -> Iterator[_Batch]:
    topics = request.services.registry.validation.topics
    for topic, parts in request.ask.topics:
        for index, start, size in parts:
            try:
                partition = request.services.partitions.led_here(topic, index)
            except errors.TidelogError:
                continue  # told when it is appended
            if partition.topic in topics:
                yield _Batch((topic, index), partition, request.frame[start : start + max(size, 0)])


async def _append_later(
    request: ProduceInFlight, batches: list[_Batch], before: list[asyncio.Future[Answer]]
) -> Answer:
    refused: dict[Key, errors.TidelogError] = {}
    for batch in batches:
        problem = await _problem(request, batch)
        if problem is not None:
            refused[batch.key] = problem
    if before:
        await asyncio.wait(before)
    if request.ask.transactional_id is None:
        return append_all(request, refused)
    if not refused:
        from tidelog.broker.handlers.produce_in_transaction import produce_in_transaction

        return produce_in_transaction(request)
    # The transaction cannot be committed any more, so nothing of the request is worth keeping.
    why = errors.InvalidRecord("another batch of the request has records without a registered schema")
    for topic, parts in request.ask.topics:
        for index, _, _ in parts:
            refused.setdefault((topic, index), why)
    return append_all(request, refused)


async def _problem(request: ProduceInFlight, batch: _Batch) -> errors.TidelogError | None:
    validation = request.services.registry.validation
    found = list(batch.bare)
    unknown = [wanted for wanted in batch.named if not validation.knows(wanted)]
    if len(unknown) > IDS_MAX:
        return errors.InvalidRecord(f"{len(unknown)} unknown schema ids in one batch are too many to ask for")
    for wanted in unknown:
        try:
            if await validation.registered(wanted):
                continue
        except errors.TidelogError as problem:
            return problem
        side = "key" if wanted.is_key else "value"
        why = f"schema id {wanted.id} of its {side} is not registered for topic {wanted.topic!r} ({wanted.strategy})"
        found += [(at, why) for at in batch.named[wanted]]
    if not found:
        return None
    found.sort()
    return UnregisteredSchemas(f"record {found[0][0]} of the batch is refused: {found[0][1]}", found)


async def _answered(appending: asyncio.Future[Answer]) -> bytes | None:
    answer = await appending
    if answer is None or isinstance(answer, bytes):
        return answer
    return await answer


def _let_go(request: ProduceInFlight, batches: list[_Batch], done: asyncio.Future[Answer]) -> None:
    held = request.services.registry.validation.held
    for batch in batches:
        if held.get(batch.place) is done:
            del held[batch.place]
