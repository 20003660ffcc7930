"""The native codecs of the hot requests against the generated messages: same bytes, same values, same refusals."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog._speed.wire.fetch_frames import FetchAnswer, decode_fetch, encode_fetch
from tidelog._speed.wire.produce_frames import ProduceAnswer, decode_produce, encode_produce
from tidelog._speed.wire.request_header import request_header
from tidelog.errors import InvalidRequest
from tidelog.wire.frame import RequestHeader, encode_request, encode_response
from tidelog.wire.messages import fetch as fetching
from tidelog.wire.messages import produce as producing

PRODUCE, FETCH = 0, 1
PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)

names = st.text(max_size=12)
ids = st.uuids()
int16, int32 = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)


def frame_of(api_key: int, version: int, body: bytes) -> bytes:
    return encode_request(RequestHeader(api_key, version, 77, "client-1"), body)[4:]


def topic_key(version: int, from_version: int, name: str, topic_id: UUID) -> str | bytes:
    return topic_id.bytes if version >= from_version else name


@st.composite
def produce_requests(draw: Any) -> producing.ProduceRequest:
    partitions = st.builds(
        producing.PartitionProduceData, index=int32, records=st.none() | st.binary(max_size=40)
    )
    topics = st.builds(
        producing.TopicProduceData,
        name=names,
        topic_id=ids,
        partition_data=st.lists(partitions, max_size=3),
    )
    return producing.ProduceRequest(
        transactional_id=draw(st.none() | names),
        acks=draw(int16),
        timeout_ms=draw(int32),
        topic_data=draw(st.lists(topics, max_size=3)),
    )


@given(produce_requests(), st.sampled_from(PRODUCE_VERSIONS))
def test_produce_requests_decode_as_the_message_does(request: producing.ProduceRequest, version: int) -> None:
    frame = frame_of(PRODUCE, version, request.encode(version))
    client_id, at = request_header(frame, version >= 9)
    ask = decode_produce(frame, at, version)
    assert client_id == "client-1"
    assert (ask.transactional_id, ask.acks, ask.timeout_ms) == (
        request.transactional_id,
        request.acks,
        request.timeout_ms,
    )
    got = [
        (topic, [(index, None if size < 0 else frame[start : start + size]) for index, start, size in parts])
        for topic, parts in ask.topics
    ]
    assert got == [
        (
            topic_key(version, 13, topic.name, topic.topic_id),
            [(part.index, part.records) for part in topic.partition_data],
        )
        for topic in request.topic_data
    ]


@st.composite
def fetch_requests(draw: Any, version: int) -> fetching.FetchRequest:
    partitions = st.builds(
        fetching.FetchPartition,
        partition=int32,
        current_leader_epoch=int32,
        fetch_offset=int64,
        last_fetched_epoch=int32 if version >= 12 else st.just(-1),
        log_start_offset=int64,
        partition_max_bytes=int32,
    )
    topics = st.builds(
        fetching.FetchTopic, topic=names, topic_id=ids, partitions=st.lists(partitions, max_size=3)
    )
    forgotten = st.builds(
        fetching.ForgottenTopic, topic=names, topic_id=ids, partitions=st.lists(int32, max_size=3)
    )
    request = fetching.FetchRequest(
        max_wait_ms=draw(int32),
        min_bytes=draw(int32),
        max_bytes=draw(int32),
        isolation_level=draw(st.integers(0, 1)),
        session_id=draw(int32),
        session_epoch=draw(int32),
        topics=draw(st.lists(topics, max_size=3)),
        forgotten_topics_data=draw(st.lists(forgotten, max_size=2)) if version >= 7 else [],
        rack_id=draw(names),
        cluster_id=draw(st.none() | names) if version >= 12 else None,
    )
    if version >= 15:
        request.replica_state = fetching.ReplicaState(replica_id=draw(int32), replica_epoch=draw(int64))
    else:
        request.replica_id = draw(int32)
    return request


@given(st.data(), st.sampled_from(FETCH_VERSIONS))
def test_fetch_requests_decode_as_the_message_does(data: Any, version: int) -> None:
    request = data.draw(fetch_requests(version))
    frame = frame_of(FETCH, version, request.encode(version))
    ask = decode_fetch(frame, request_header(frame, version >= 12)[1], version)
    replica = request.replica_state.replica_id if version >= 15 else request.replica_id
    assert (ask.replica_id, ask.max_wait_ms, ask.min_bytes, ask.max_bytes) == (
        replica,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
    )
    assert ask.read_committed == (request.isolation_level == 1)
    if version >= 7:
        assert (ask.session_id, ask.session_epoch) == (request.session_id, request.session_epoch)
    if version >= 11:
        assert ask.rack == request.rack_id
    assert ask.topics == [
        (
            topic_key(version, 13, topic.topic, topic.topic_id),
            [
                (
                    part.partition,
                    part.current_leader_epoch if version >= 9 else -1,
                    part.fetch_offset,
                    part.last_fetched_epoch,
                    part.log_start_offset if version >= 5 else -1,
                    part.partition_max_bytes,
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    assert ask.forgotten == [
        (topic_key(version, 13, topic.topic, topic.topic_id), topic.partitions)
        for topic in request.forgotten_topics_data
    ]


produce_answers = st.tuples(
    int32,
    int16,
    int64,
    int64,
    int64,
    st.none() | names,
    st.none() | st.tuples(int32, int32),
    st.lists(st.tuples(int32, st.none() | names), max_size=2),
)


endpoints_of_leaders = st.lists(st.tuples(int32, names, int32, st.none() | names), max_size=3)


@given(
    st.lists(st.tuples(names, ids, st.lists(produce_answers, max_size=3)), max_size=3),
    int32,
    endpoints_of_leaders,
    st.sampled_from(PRODUCE_VERSIONS),
)
def test_produce_answers_encode_as_the_message_does(
    topics: Any, throttle_ms: int, endpoints: Any, version: int
) -> None:
    native = encode_produce(
        version,
        5,
        [
            (topic_key(version, 13, name, topic_id), [ProduceAnswer(*answer) for answer in answers])
            for name, topic_id, answers in topics
        ],
        throttle_ms,
        endpoints,
    )
    response = producing.ProduceResponse(throttle_time_ms=throttle_ms)
    if version >= 10:
        response.node_endpoints = [producing.NodeEndpoint(*one) for one in endpoints]
    for name, topic_id, answers in topics:
        row = producing.TopicProduceResponse(name=name, topic_id=topic_id)
        for index, error, base, time, start, message, leader, bad in answers:
            part = producing.PartitionProduceResponse(
                index=index,
                error_code=error,
                base_offset=base,
                log_append_time_ms=time,
                log_start_offset=start,
                error_message=message,
                record_errors=[
                    producing.BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=why)
                    for at, why in bad
                ]
                if version >= 8
                else [],
            )
            if leader is not None and leader != (-1, -1) and version >= 10:
                part.current_leader = producing.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
            row.partition_responses.append(part)
        response.responses.append(row)
    if not any(answer[6] == (-1, -1) for _, _, answers in topics for answer in answers):
        assert native == encode_response(PRODUCE, version, 5, response.encode(version))


fetch_answers = st.tuples(
    int32,
    int16,
    int64,
    int64,
    int64,
    st.none() | st.tuples(st.integers(0, 9), st.integers(0, 99)),
    st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.none() | st.lists(st.tuples(int64, int64), max_size=2),
    int32,
    st.none() | st.binary(min_size=1, max_size=30),
)


def fetch_answer(
    index: int,
    error: int,
    high_watermark: int,
    last_stable_offset: int,
    log_start: int,
    diverging: Any,
    leader: Any,
    aborted: Any,
    preferred_replica: int,
    records: Any,
) -> FetchAnswer:
    answer = FetchAnswer(index, error, high_watermark, last_stable_offset, log_start)
    answer.diverging, answer.leader, answer.aborted = diverging, leader, aborted
    answer.preferred_replica, answer.records = preferred_replica, records
    return answer


@given(
    st.lists(st.tuples(names, ids, st.lists(fetch_answers, max_size=3)), max_size=3),
    int32,
    int16,
    int32,
    endpoints_of_leaders,
    st.sampled_from(FETCH_VERSIONS),
)
@settings(deadline=None)
def test_fetch_answers_encode_as_the_message_does(
    topics: Any, throttle_ms: int, error: int, session_id: int, endpoints: Any, version: int
) -> None:
    if version < 7:
        error = session_id = 0
    pieces = encode_fetch(
        version,
        5,
        throttle_ms,
        error,
        session_id,
        [
            (topic_key(version, 13, name, topic_id), [fetch_answer(*answer) for answer in answers])
            for name, topic_id, answers in topics
        ],
        endpoints,
    )
    response = fetching.FetchResponse(throttle_time_ms=throttle_ms, error_code=error, session_id=session_id)
    if version >= 16:
        response.node_endpoints = [fetching.NodeEndpoint(*one) for one in endpoints]
    for name, topic_id, answers in topics:
        row = fetching.FetchableTopicResponse(topic=name, topic_id=topic_id)
        for index, code, committed, stable, start, diverging, leader, aborted, replica, records in answers:
            part = fetching.PartitionData(
                partition_index=index,
                error_code=code,
                high_watermark=committed,
                last_stable_offset=stable,
                log_start_offset=start,
                aborted_transactions=None
                if aborted is None
                else [fetching.AbortedTransaction(producer_id=one, first_offset=two) for one, two in aborted],
                preferred_read_replica=replica if version >= 11 else -1,
                records=records or b"",
            )
            if version >= 12 and diverging is not None:
                part.diverging_epoch = fetching.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
            if version >= 12 and leader is not None:
                part.current_leader = fetching.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
            row.partitions.append(part)
        response.responses.append(row)
    assert b"".join(pieces) == encode_response(FETCH, version, 5, response.encode(version))


@given(produce_requests(), st.sampled_from(PRODUCE_VERSIONS), st.data())
def test_a_damaged_request_is_refused_by_both_or_read_alike(
    request: producing.ProduceRequest, version: int, data: Any
) -> None:
    body = bytearray(request.encode(version))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    damaged = bytes(body[:cut])
    try:
        message, _ = producing.ProduceRequest.decode_prefix(damaged, version)
    except InvalidRequest:
        message = None
    try:
        ask = decode_produce(b"xxxxxxxx" + damaged, 8, version)
    except ValueError:
        ask = None
    assert (ask is None) == (message is None)
    if ask is not None and message is not None:
        assert [len(parts) for _, parts in ask.topics] == [
            len(topic.partition_data) for topic in message.topic_data
        ]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_hostile_count_takes_no_memory(version: int) -> None:
    head = struct.pack(">iiib", 0, 0, 0, 0) + (struct.pack(">ii", 0, 0) if version >= 7 else b"")
    head = (struct.pack(">i", -1) if version <= 14 else b"") + head
    count = b"\xff\xff\xff\xff\x07" if version >= 12 else b"\x7f\xff\xff\xff"
    with pytest.raises(ValueError, match="an array of"):
        decode_fetch(b"xxxxxxxx" + head + count, 8, version)
