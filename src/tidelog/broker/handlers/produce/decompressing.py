"""Produce requests with batches that have to be decompressed, recompressed, or searched for schema ids.

The loop opens small batches itself, and the request continues as usual.  Threads open the others, and the registry may
have to be asked.  Meanwhile the connection is paused: its later requests wait, so that all batches are appended in the
order in which they were sent.  Once the batches of a request expand to more than `REQUEST_BYTES_MAX` in all, the others
are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from tidelog import errors
from tidelog.broker.handlers.produce.open_batch import OpenedBatch, open_batch
from tidelog.broker.handlers.produce.produce import (
    ADMIN_CLIENT,
    CODEC_AT,
    ProduceCaller,
    ProduceInFlight,
    produce_unheld,
)
from tidelog.metadata.topics.names import INTERNAL
from tidelog.record.codecs import Codec
from tidelog.replication import key_versions
from tidelog.replication.acceptance import Accepted
from tidelog.replication.partition import HostedPartition

LOOP_BYTES_MAX = 128 << 10
"""What the batches of one request may expand to before it is left to a thread, which takes a tenth of a millisecond
longer: less than half a millisecond of the loop's time."""
REQUEST_BYTES_MAX = 256 << 20
FAILED_BYTES = 32 << 10  # what a batch counts for that could not be opened
_CODEC_BITS = 0x07

Answer = bytes | asyncio.Future[bytes] | asyncio.Future[bytes | None] | None


class UnopenedBatch(NamedTuple):
    start: int
    size: int
    partition: HostedPartition
    of_keys: tuple[bool, ...]
    recompressed: bool


def produce_opened(request: ProduceInFlight, caller: ProduceCaller) -> Answer:
    unopened = list(_unopened(request))
    if not unopened:
        return produce_unheld(request)
    opened: dict[int, OpenedBatch] = {}
    bytes_left = LOOP_BYTES_MAX
    for batch in unopened:
        if batch.recompressed or batch.size > bytes_left:
            break
        # Opened batches are changed, and the frame's bytes are the connection's again when this returns.
        data = memoryview(bytearray(request.frame[batch.start : batch.start + batch.size]))
        result = open_batch(
            data, batch.partition.rules, batch.of_keys, request.services.clock.now_ms(), bytes_left
        )
        if result is None:
            break
        opened[batch.start] = result
        bytes_left -= result.expanded_bytes or FAILED_BYTES
    left = unopened[len(opened) :]
    unread = any(
        key_versions.knows_keys(batch.partition) and batch.partition.key_versions is None
        for batch in unopened
    )
    validation = request.services.registry.validation
    if not left and not unread and (not validation.topics or _schemas_known(request, unopened, opened)):
        verdicts = {start: result.verdict for start, result in opened.items()}
        return produce_unheld(request._replace(opened=verdicts))
    caller.pause()
    own = request._replace(frame=memoryview(bytearray(request.frame)))
    request.services.queued.take(len(own.frame))
    appending = asyncio.ensure_future(_append_later(own, unopened, left, opened))
    appending.add_done_callback(lambda _: _let_go(own, caller))
    # The answer is cancelled with its connection; what the client has sent is appended all the same.
    return asyncio.ensure_future(_answered(appending))


def _unopened(request: ProduceInFlight) -> Iterator[UnopenedBatch]:
    frame = request.frame
    for topic, parts in request.ask.topics:
        for index, start, size in parts:
            try:
                partition = request.services.partitions.led_here(topic, index)
            except errors.TidelogError:
                continue  # told when it is appended
            rules = partition.rules
            if rules.plain or size <= CODEC_AT:
                continue
            if partition.topic in INTERNAL and request.session.client_id != ADMIN_CLIENT:
                continue
            if not request.services.gate.may_write(request.session, partition.topic):
                continue  # nothing is opened for those who may not write it
            codec = frame[start + CODEC_AT] & _CODEC_BITS
            recodes = rules.recodes(codec)
            if rules.validated or rules.conditional or recodes or rules.opens(codec):
                of_keys = _of_keys(partition) if rules.validated else ()
                yield UnopenedBatch(
                    start, size, partition, of_keys, recodes and rules.codec is not Codec.NONE
                )


def _of_keys(partition: HostedPartition) -> tuple[bool, ...]:
    config = partition.log.config
    keys = (True,) if config.confluent_key_schema_validation else ()
    values = (False,) if config.confluent_value_schema_validation else ()
    return keys + values


def _schemas_known(
    request: ProduceInFlight, unopened: list[UnopenedBatch], opened: dict[int, OpenedBatch]
) -> bool:
    from tidelog.broker.handlers.produce.schema_validation import schemas_known

    return all(schemas_known(request, batch.partition, opened[batch.start].schemas) for batch in unopened)


async def _append_later(
    request: ProduceInFlight,
    unopened: list[UnopenedBatch],
    left: list[UnopenedBatch],
    opened: dict[int, OpenedBatch],
) -> Answer:
    services = request.services
    bytes_left = REQUEST_BYTES_MAX
    for batch in left:
        if bytes_left <= 0:
            too_large = errors.MessageTooLarge(
                f"the batches of one request expand to more than {REQUEST_BYTES_MAX} bytes"
            )
            opened[batch.start] = OpenedBatch(too_large, 0, [])
            continue
        data = request.frame[batch.start : batch.start + batch.size]
        result = await services.opening.open(
            data, batch.partition.rules, batch.of_keys, services.clock.now_ms()
        )
        opened[batch.start] = result
        bytes_left -= result.expanded_bytes or FAILED_BYTES
    verdicts: dict[int, Accepted | errors.TidelogError] = {
        start: result.verdict for start, result in opened.items()
    }
    for batch in unopened:
        await key_versions.load(batch.partition)
    if any(batch.of_keys for batch in unopened):
        await _check_schemas(request, unopened, opened, verdicts)
    return produce_unheld(request._replace(opened=verdicts))


async def _check_schemas(
    request: ProduceInFlight,
    unopened: list[UnopenedBatch],
    opened: dict[int, OpenedBatch],
    verdicts: dict[int, Accepted | errors.TidelogError],
) -> None:
    from tidelog.broker.handlers.produce.schema_validation import schema_problem

    refused = False
    for batch in unopened:
        problem = await schema_problem(request, batch.partition, opened[batch.start].schemas)
        if problem is not None:
            verdicts[batch.start] = problem
            refused = True
    if refused and request.ask.transactional_id is not None:
        # The transaction cannot be committed any more, so nothing of the request is worth keeping.
        why = errors.InvalidRecord("another batch of the request has records without a registered schema")
        for _, parts in request.ask.topics:
            for _, start, _ in parts:
                verdicts.setdefault(start, why)
                if isinstance(verdicts[start], Accepted):
                    verdicts[start] = why


def _let_go(request: ProduceInFlight, caller: ProduceCaller) -> None:
    request.services.queued.give_back(len(request.frame))
    caller.resume()


async def _answered(appending: asyncio.Future[Answer]) -> bytes | None:
    answer = await asyncio.shield(appending)
    if answer is None or isinstance(answer, bytes):
        return answer
    return await answer
