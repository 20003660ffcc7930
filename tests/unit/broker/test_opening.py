"""What is found in a batch that is opened."""

from __future__ import annotations

import asyncio

import pytest

from tidelog import errors
from tidelog.broker.opening import SCHEMAS_MAX, Opening, open_batch
from tidelog.config import TopicConfig
from tidelog.record import Codec, Record, build_batch
from tidelog.replication.acceptance import RECORDS_TOLD_MAX, Accepted, Rules

NOW = 1_700_000_000_000
RULES = Rules.of(TopicConfig(confluent_value_schema_validation=True, confluent_key_schema_validation=True))


def named(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4) + b"content"


def batch(records: list[tuple[bytes | None, bytes | None]], codec: Codec = Codec.ZSTD) -> memoryview:
    made = build_batch([Record(0, NOW, key, value) for key, value in records], codec=codec)
    return memoryview(bytearray(made))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_tells_which_records_name_which_schema(codec: Codec) -> None:
    data = batch(
        [
            (named(1), named(7)),
            (None, named(8)),
            (named(1), None),
            (b"bare", named(7)),
            (b"\0\0\0\0", b"\1xxxx"),
        ],
        codec,
    )
    opened = open_batch(data, RULES, (True, False), NOW)
    assert opened is not None and isinstance(opened.verdict, Accepted)
    assert [tuple(schemas) for schemas in opened.schemas] == [
        (True, {1: [0, 2]}, [3, 4]),
        (False, {7: [0, 3], 8: [1]}, [4]),
    ]


def test_only_so_many_places_of_a_schema_are_noted_and_others_are_still_found() -> None:
    many = RECORDS_TOLD_MAX + 5
    data = batch([(None, named(1))] * many + [(None, b"bare")] * many + [(None, named(2)), (None, named(1))])
    opened = open_batch(data, RULES, (False,), NOW)
    assert opened is not None
    (schemas,) = opened.schemas
    assert schemas.ids == {1: list(range(RECORDS_TOLD_MAX)), 2: [2 * many]}
    assert schemas.bare == list(range(many, many + RECORDS_TOLD_MAX))


def test_a_batch_that_names_too_many_schemas_is_refused() -> None:
    opened = open_batch(
        batch([(None, named(number)) for number in range(SCHEMAS_MAX + 1)]), RULES, (False,), NOW
    )
    assert opened is not None and isinstance(opened.verdict, errors.InvalidRecord)


async def test_the_loop_goes_on_while_a_large_batch_is_opened() -> None:
    rules = Rules.of(TopicConfig(cleanup_policy=("compact",)))
    data = batch([(b"k", bytes(30 << 20))])
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticker = asyncio.ensure_future(tick())
    assert open_batch(data, rules, (), NOW, bytes_max=1 << 20) is None
    opened = await Opening().open(data, rules, (), NOW)
    ticker.cancel()
    assert isinstance(opened.verdict, Accepted) and opened.expanded_bytes > 30 << 20
    assert ticks > 1
