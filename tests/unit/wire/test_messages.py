"""Defaults, versions and bad values, on messages that show each case."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import pytest

from tidelog import errors
from tidelog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from tidelog.wire.messages.fetch import FetchRequest, ReplicaState
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.messages.offset_commit_record import OffsetCommitKey
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.primitives import ZERO_UUID, Malformed, Unencodable


def test_fields_start_with_kafkas_defaults() -> None:
    assert FetchRequest() == FetchRequest(
        cluster_id=None,
        replica_id=-1,
        replica_state=ReplicaState(replica_id=-1, replica_epoch=-1),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0x7FFFFFFF,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[],
        forgotten_topics_data=[],
        rack_id="",
    )
    assert MetadataRequest().topics == []
    assert MetadataRequest().allow_auto_topic_creation is True
    assert MetadataResponse().cluster_id is None
    assert MetadataRequestTopic().topic_id == ZERO_UUID


def test_every_message_has_lists_and_structs_of_its_own() -> None:
    one, other = FetchRequest(), FetchRequest()
    assert one.topics is not other.topics
    assert one.replica_state is not other.replica_state


def test_messages_are_compared_and_printed_by_value() -> None:
    assert Cursor("a", 1) == Cursor(topic_name="a", partition_index=1)
    assert Cursor("a", 1) != Cursor("a", 2)
    assert Cursor("a", 1) != ("a", 1)
    assert repr(Cursor("a", 1)) == "Cursor(topic_name='a', partition_index=1)"


def test_null_is_not_the_empty_list() -> None:
    choices: tuple[list[MetadataRequestTopic] | None, ...] = (None, [])
    for topics in choices:
        request = MetadataRequest(topics=topics)
        assert MetadataRequest.decode(request.encode(12), 12).topics == topics


def test_a_nullable_struct_comes_back() -> None:
    for cursor in (None, Cursor("orders", 3)):
        request = DescribeTopicPartitionsRequest(cursor=cursor)
        assert DescribeTopicPartitionsRequest.decode(request.encode(0), 0).cursor == cursor


@pytest.mark.parametrize("version", [-1, 14, 32767])
def test_a_version_that_does_not_exist_is_refused_both_ways(version: int) -> None:
    with pytest.raises(errors.UnsupportedVersion, match="versions 0 to 13"):
        MetadataRequest().encode(version)
    with pytest.raises(errors.UnsupportedVersion, match="versions 0 to 13"):
        MetadataRequest.decode(b"", version)


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (MetadataRequest(allow_auto_topic_creation=False), 3, "MetadataRequest.allow_auto_topic_creation"),
        (
            MetadataRequest(include_cluster_authorized_operations=True),
            11,
            "include_cluster_authorized_operations",
        ),
        (FetchRequest(replica_id=3), 15, "FetchRequest.replica_id"),
        (FetchRequest(replica_state=ReplicaState(3, 1)), 14, "FetchRequest.replica_state"),
        (FindCoordinatorRequest(coordinator_keys=["a"]), 3, "FindCoordinatorRequest.coordinator_keys"),
        (FindCoordinatorRequest(key="a"), 4, "FindCoordinatorRequest.key"),
    ],
)
def test_a_field_the_version_cannot_carry_is_refused_by_name(message: Any, version: int, field: str) -> None:
    with pytest.raises(errors.UnsupportedVersion, match=field):
        message.encode(version)


def test_an_ignorable_field_is_dropped_where_the_version_lacks_it() -> None:
    request = FetchRequest(session_id=5, rack_id="r1", cluster_id="c")
    assert FetchRequest.decode(request.encode(6), 6) == FetchRequest()


def test_null_where_the_version_does_not_allow_it_is_refused_by_name() -> None:
    with pytest.raises(errors.UnsupportedVersion, match=r"MetadataRequest\.topics"):
        MetadataRequest(topics=None).encode(0)
    with pytest.raises(errors.UnsupportedVersion, match=r"MetadataRequestTopic\.name"):
        MetadataRequest(topics=[MetadataRequestTopic(name=None)]).encode(9)


@pytest.mark.parametrize(
    "message",
    [
        CreateTopicsRequest(timeout_ms=1 << 31),
        CreateTopicsRequest(timeout_ms="soon"),  # type: ignore[arg-type]
        CreateTopicsRequest(topics=[CreatableTopic(name=None)]),  # type: ignore[arg-type]
        CreateTopicsRequest(topics=[CreatableTopic(name="x" * 32_768)]),
        CreateTopicsRequest(topics=[CreatableTopic(name="\udcff")]),
        CreateTopicsRequest(topics=5),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("version", [4, 7])
def test_a_value_its_type_cannot_carry_is_refused(message: CreateTopicsRequest, version: int) -> None:
    with pytest.raises(Unencodable):
        message.encode(version)


@pytest.mark.parametrize(
    ("kind", "version", "data", "problem"),
    [
        (MetadataRequest, 0, struct.pack(">i", -1), "MetadataRequest.topics is null"),
        (MetadataRequest, 1, struct.pack(">i", -2), "claims -2 elements"),
        (MetadataRequest, 1, struct.pack(">i", 0x7FFFFFFF), "claims 2147483647 elements, but only 0 bytes"),
        (MetadataRequest, 1, struct.pack(">ih", 1, -1), "MetadataRequestTopic.name is null"),
        (MetadataRequest, 1, struct.pack(">ih", 1, -5), "negative length"),
        (MetadataRequest, 1, struct.pack(">ih", 1, 9) + b"short", "cut off"),
        (MetadataRequest, 1, struct.pack(">ih", 1, 1) + b"\xff", "not UTF-8"),
        (MetadataRequest, 1, struct.pack(">i", 0) + b"\0", "1 bytes are left over"),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\x07" + b"\0" * 9, "claims 2147483646 elements"),
        (MetadataRequest, 9, b"\x02\0" + b"\0" * 6, "MetadataRequestTopic.name is null"),
        (MetadataRequest, 9, b"\x02\x81\x80\x02" + b"\0" * 6, "longer than the 32767"),
        (MetadataRequest, 9, b"\x01\0\0\0\x01\x05\x20", "cut off"),
    ],
)
def test_bad_bytes_are_malformed(kind: Any, version: int, data: bytes, problem: str) -> None:
    with pytest.raises(Malformed, match=problem):
        kind.decode(data, version)


def test_a_tagged_field_whose_size_lies_is_malformed() -> None:
    good = FetchRequest(cluster_id="abc").encode(13)
    assert good.endswith(b"\x01\x00\x04\x04abc")
    for size in (3, 5):
        with pytest.raises(Malformed):
            FetchRequest.decode(good[:-5] + bytes([size]) + good[-4:], 13)


def test_known_tagged_fields_may_come_in_any_order() -> None:
    start = FetchRequest().encode(15)[:-1]
    replica_state = struct.pack(">iq", 3, 9) + b"\0"
    tags = b"\x02" + b"\x01" + bytes([len(replica_state)]) + replica_state + b"\x00\x02\x02c"
    decoded = FetchRequest.decode(start + tags, 15)
    assert (decoded.cluster_id, decoded.replica_state) == ("c", ReplicaState(3, 9))


def test_a_tagged_field_of_a_later_version_is_skipped() -> None:
    replica_state = struct.pack(">iq", 3, 9) + b"\0"
    data = FetchRequest().encode(14)[:-1] + b"\x01\x01" + bytes([len(replica_state)]) + replica_state
    assert FetchRequest.decode(data, 14) == FetchRequest()


def test_uuids_and_records_are_carried_as_they_are() -> None:
    topic_id = uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF)
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id, None)])
    assert topic_id.bytes in request.encode(12)
    assert MetadataRequest.decode(request.encode(12), 12) == request
    assert ProduceRequest.decode(ProduceRequest(acks=-1).encode(9), 9).acks == -1


def test_data_that_others_frame_may_be_followed_by_what_a_newer_version_added() -> None:
    subscription = ConsumerProtocolSubscription(topics=["orders"], user_data=b"u")
    data = subscription.encode(1)
    assert ConsumerProtocolSubscription.decode_prefix(b"\0\x09" + data + b"later", 1, 2) == (
        subscription,
        2 + len(data),
    )


def test_records_of_internal_topics_know_their_type() -> None:
    assert OffsetCommitKey.RECORD_TYPE == 1
    assert OffsetCommitKey("g", "orders", 3).encode(0) == b"\0\x01g\0\x06orders\0\0\0\x03"
