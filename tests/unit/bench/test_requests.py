"""The load the bench makes is valid: what it patches into encoded requests, the codec and the checks agree with."""

from __future__ import annotations

from uuid import UUID

import pytest

from bench.admin import Identity, Topic
from bench.requests import (
    FETCH_VERSION,
    PRODUCE_ERROR_AT,
    PRODUCE_VERSION,
    FetchFrame,
    ProduceFrame,
    batch,
    check_produced,
    fetched,
    single,
)
from tidelog import errors
from tidelog._speed.log.batch import crc_ok, header_at
from tidelog.record import read_records
from tidelog.wire.frame import decode_request_header, encode_response
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tidelog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

TOPIC = Topic("orders", UUID(int=77), 4)


def sent(frame: bytearray) -> bytes:
    """The batch in a request."""
    header, at = decode_request_header(bytes(frame[4:]))
    request = ProduceRequest.decode(bytes(frame[4:]), header.api_version, at)
    (topic,) = request.topic_data
    (part,) = topic.partition_data
    assert (topic.topic_id, part.index) == (TOPIC.id, 3)
    assert part.records is not None
    return part.records


@pytest.mark.parametrize("sequence", [0, 590, 2**31 - 1, 2**31])
def test_each_request_of_an_idempotent_producer_has_its_sequence_under_a_right_checksum(
    sequence: int,
) -> None:
    frame = ProduceFrame(TOPIC, 3, batch(100, 65_536), Identity(9, 2))
    frame.renew(12345)
    data = sent(frame.renew(sequence))
    header = header_at(data)
    assert header is not None and crc_ok(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, sequence % 2**31)


def test_a_request_without_an_identity_is_the_batch_as_it_was_built() -> None:
    content = single(100)
    assert sent(ProduceFrame(TOPIC, 3, content, None).renew(0)) == content.data


def test_batches_are_as_full_as_asked_and_their_keys_are_numbered() -> None:
    content = batch(100, 65_536, first_key=5)
    records = list(read_records(content.data))
    assert 65_536 - 130 < len(content.data) <= 65_536
    assert [r.key for r in records] == [b"key-%012d" % number for number in range(5, 5 + content.records)]
    assert {len(r.value or b"") for r in records} == {100}
    assert single(1000).records == 1


def test_a_fetch_asks_for_the_offset_it_was_moved_to() -> None:
    frame = FetchFrame(TOPIC, 3)
    frame.at_offset(1)
    data = bytes(frame.at_offset(424_242)[4:])
    header, at = decode_request_header(data)
    (topic,) = FetchRequest.decode(data, header.api_version, at).topics
    assert (topic.topic_id, topic.partitions[0].partition, topic.partitions[0].fetch_offset) == (
        TOPIC.id,
        3,
        424_242,
    )


@pytest.mark.parametrize("aborted", [None, []])
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 1 << 20])
def test_the_records_of_a_fetch_answer_are_found_without_decoding_it(
    size: int, aborted: list[None] | None
) -> None:
    records = bytes(range(256)) * (size // 256 + 1)
    part = PartitionData(partition_index=3, aborted_transactions=aborted, records=records[:size])  # type: ignore[arg-type]
    body = FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC.id, partitions=[part])])
    answer = encode_response(1, FETCH_VERSION, 7, body.encode(FETCH_VERSION))
    position, found = fetched(memoryview(answer))
    assert answer[position : position + found] == records[:size]


def test_a_refused_request_is_noticed() -> None:
    part = PartitionProduceResponse(index=3, error_code=errors.OutOfOrderSequenceNumber.code, base_offset=-1)
    body = ProduceResponse(responses=[TopicProduceResponse(topic_id=TOPIC.id, partition_responses=[part])])
    answer = bytearray(encode_response(0, PRODUCE_VERSION, 7, body.encode(PRODUCE_VERSION)))
    with pytest.raises(errors.OutOfOrderSequenceNumber):
        check_produced(answer)
    answer[PRODUCE_ERROR_AT : PRODUCE_ERROR_AT + 2] = b"\0\0"
    check_produced(answer)
