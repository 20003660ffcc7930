from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from bench.admin import Identity, Topic
from bench.micro.timing import Case
from bench.requests import FETCH_VERSION, PRODUCE_VERSION, FetchFrame, ProduceFrame, single
from tidelog._speed.wire.fetch_frames import FetchAnswer, decode_fetch, encode_fetch
from tidelog._speed.wire.produce_frames import ProduceAnswer, decode_produce, encode_produce
from tidelog._speed.wire.request_header import request_header

TOPIC = Topic("bench", UUID(int=1), 1)


def cases() -> Iterator[Case]:
    produce = memoryview(ProduceFrame(TOPIC, 0, single(100), Identity(1, 0)).renew(0))[4:]
    fetch = memoryview(FetchFrame(TOPIC, 0).at_offset(0))[4:]
    _client, at = request_header(produce, True)
    produced: list[tuple[str | bytes, list[ProduceAnswer]]] = [
        (TOPIC.id.bytes, [ProduceAnswer(0, 0, 1234, -1, 0)])
    ]
    partition = FetchAnswer(0, 0, 1234, 1234, 0)
    partition.records = b""
    fetched: list[tuple[str | bytes, list[FetchAnswer]]] = [(TOPIC.id.bytes, [partition])]
    yield Case("request_header", lambda: request_header(produce, True))
    yield Case("decode_produce, one partition", lambda: decode_produce(produce, at, PRODUCE_VERSION))
    yield Case("encode_produce, one partition", lambda: encode_produce(PRODUCE_VERSION, 1, produced, 0))
    yield Case("decode_fetch, one partition", lambda: decode_fetch(fetch, at, FETCH_VERSION))
    yield Case("encode_fetch, one partition", lambda: encode_fetch(FETCH_VERSION, 1, 0, 0, 0, fetched))
