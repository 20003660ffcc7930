"""Bytes that are not a request, on the port for requests: the connection ends, and nobody else notices."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

import pytest

from tests.conformance.batches import batch
from tests.conformance.process import BrokerProcess
from tests.conformance.raw import Connection, encode_request
from tests.conformance.topics import append, describe, fetch_fields, values

LARGEST_FRAME = 104_857_600  # socket.request.max.bytes
HTTP = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
TLS_HELLO = bytes.fromhex("160301020001000001fc0303") + bytes(200)
MIB = 1 << 20


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(key: int, version: int, flexible: bool = False, client_id: bytes = b"raw") -> bytes:
    tags = b"\0" if flexible else b""
    return struct.pack(">hhih", key, version, 9, len(client_id)) + client_id + tags


PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_RECORDS = 0, 1, 2, 3, 18, 19, 21
LONGEST_VARINT = b"\xff\xff\xff\xff\x0f"

CLOSED = {
    "an HTTP request": HTTP,
    "a TLS hello": TLS_HELLO,
    "a negative length": struct.pack(">i", -1),
    "the most negative length": struct.pack(">i", -(2**31)),
    "a length above the limit": struct.pack(">i", LARGEST_FRAME + 1),
    "the largest length": struct.pack(">i", 2**31 - 1),
    "a length of 0": struct.pack(">i", 0),
    "half a header": frame(b"\0\x03\0"),
    "an unknown api key": frame(header(9999, 0)),
    "a negative api key": frame(header(-1, 0)),
    "an api key of the past": frame(header(4, 0)),  # LeaderAndIsr
    "an unknown version": frame(header(METADATA, 99)),
    "a negative version": frame(header(METADATA, -1)),
    "a version that was dropped": frame(header(FETCH, 3)),
    "a client id longer than the frame": frame(struct.pack(">hhih", METADATA, 1, 9, 32767) + b"x"),
    "a client id of negative length": frame(struct.pack(">hhih", METADATA, 1, 9, -7)),
    "no body": frame(header(METADATA, 1)),
    "half a body": frame(header(METADATA, 1) + b"\0\0"),
    "an array longer than the frame": frame(header(METADATA, 1) + struct.pack(">i", 2**31 - 1)),
    "an array of negative length": frame(header(LIST_OFFSETS, 1) + struct.pack(">ii", -1, -5)),
    "a compact array longer than the frame": frame(header(METADATA, 12, True) + LONGEST_VARINT),
    "a varint without an end": frame(header(METADATA, 12, True) + b"\xff" * 20),
    "a string longer than the frame": frame(header(METADATA, 1) + struct.pack(">ih", 1, 32767)),
    "a null string where there must be one": frame(header(METADATA, 1) + struct.pack(">ih", 1, -1)),
    "records longer than the frame": frame(
        header(PRODUCE, 7) + struct.pack(">hhiihciii", -1, 1, 100, 1, 1, b"t", 1, 0, 2**31 - 1)
    ),
    "a produce request of hostile arrays": frame(
        header(PRODUCE, 9, True) + b"\0" + struct.pack(">hi", 1, 100) + LONGEST_VARINT
    ),
    "a fetch request of hostile arrays": frame(header(FETCH, 12, True) + bytes(25) + LONGEST_VARINT),
    "too many tagged fields": frame(header(METADATA, 12) + LONGEST_VARINT),
    "a tagged field longer than the frame": frame(header(METADATA, 12) + b"\x01\x63" + LONGEST_VARINT),
    "a list of offsets of hostile arrays": frame(
        header(LIST_OFFSETS, 6, True) + struct.pack(">ib", -1, 0) + LONGEST_VARINT
    ),
    "topics to create of hostile arrays": frame(header(CREATE_TOPICS, 7, True) + LONGEST_VARINT),
    "a request that only controllers take": frame(header(52, 0)),  # Vote
}


@pytest.mark.parametrize("case", CLOSED)
def test_the_connection_ends_and_its_neighbour_goes_on(case: str, bootstrap: str, topic: Any) -> None:
    known = topic()
    with Connection(bootstrap) as neighbour, Connection(bootstrap) as bad:
        append(neighbour, known, batch([b"before"]))
        try:
            bad.send_bytes(CLOSED[case])
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert bad.closed_by_broker()
        append(neighbour, known, batch([b"after"]))
        assert values(neighbour, known) == [b"before", b"after"]


def test_what_was_sent_before_the_bad_frame_is_answered(connection: Connection, topic: Any) -> None:
    known = topic()
    connection.send("metadata", 12, topics=[{"name": known}])
    connection.receive("metadata", 12)
    connection.send_bytes(HTTP)
    assert connection.closed_by_broker()


@pytest.mark.parametrize("size", [0, 1, 3, 4, 10, 40])
def test_a_frame_cut_off_by_its_sender(size: int, bootstrap: str, topic: Any) -> None:
    known = topic()
    whole = encode_request("metadata", 12, 1, topics=[{"name": known}])
    with Connection(bootstrap) as leaving:
        leaving.send_bytes(whole[:size])
    with Connection(bootstrap) as neighbour:
        assert describe(neighbour, known).error_code == 0


def test_a_connection_reset_in_the_middle_of_a_frame(bootstrap: str, topic: Any) -> None:
    known = topic()
    leaving = Connection(bootstrap)
    leaving.send_bytes(struct.pack(">i", 10_000) + b"x" * 100)
    leaving.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    leaving.close()
    with Connection(bootstrap) as neighbour:
        assert describe(neighbour, known).error_code == 0


def test_unknown_tagged_fields_are_skipped(connection: Connection, topic: Any) -> None:
    known = topic().encode()
    in_header = b"\x01\x63\x03abc"  # one field, tag 99, three bytes
    in_topic = b"\x02\x62\x01x\x63\x02yz"
    in_body = b"\x01\xe8\x07\x00"
    body = b"\x02" + bytes(16) + bytes([len(known) + 1]) + known + in_topic + b"\x01\x00" + in_body
    connection.send_bytes(frame(header(METADATA, 12) + in_header + body))
    correlation_id, answer = connection.receive("metadata", 12)
    assert correlation_id == 9
    assert answer.topics[0].name.encode() == known


@pytest.mark.parametrize(
    ("api", "version", "body"),
    [("api_versions", 0, b""), ("metadata", 1, bytes(4)), ("metadata", 12, b"\x01\x01\0\0")],
)
def test_bytes_after_the_request_are_ignored(
    api: str, version: int, body: bytes, connection: Connection
) -> None:
    """librdkafka sends some after Metadata."""
    key = API_VERSIONS if api == "api_versions" else METADATA
    connection.send_bytes(frame(header(key, version, version >= 9) + body + b"more than it should be"))
    assert connection.receive(api, version)[0] == 9


def test_random_bytes_never_hurt_the_neighbour(bootstrap: str, topic: Any) -> None:
    known = topic()
    with Connection(bootstrap) as neighbour:
        for key in (PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_RECORDS):
            for version in (1, 5, 7, 9, 12):
                with Connection(bootstrap) as bad:
                    bad.socket.settimeout(2)
                    bad.send_bytes(frame(header(key, version, version >= 9) + os.urandom(64)))
                    bad.socket.shutdown(socket.SHUT_WR)
                    try:
                        while bad.socket.recv(65536):
                            pass
                    except (TimeoutError, ConnectionResetError):
                        pass
        assert describe(neighbour, known).error_code == 0


def test_a_smaller_limit_for_requests_is_kept(own_broker: Any) -> None:
    broker = own_broker({"socket.request.max.bytes": "20000"})
    with Connection(broker.bootstrap) as fine:
        assert fine.call("api_versions", 0).error_code == 0
        with Connection(broker.bootstrap) as bad:
            try:
                bad.send_bytes(frame(header(API_VERSIONS, 0) + bytes(20_001)))
            except (ConnectionResetError, BrokenPipeError):
                pass
            assert bad.closed_by_broker()
        assert fine.call("api_versions", 0).error_code == 0


def grown(broker: BrokerProcess, before: int) -> int:
    return broker.resident_bytes() - before


def own_tidelog(own_broker: Any) -> Any:
    broker = own_broker()
    if broker.name == "kafka":
        pytest.skip("a JVM's memory says nothing here")
    return broker


def test_announced_but_unsent_bytes_cost_no_memory(own_broker: Any) -> None:
    broker = own_tidelog(own_broker)
    before = broker.resident_bytes()
    hostile = [Connection(broker.bootstrap) for _ in range(50)]
    try:
        for connection in hostile:
            connection.send_bytes(struct.pack(">i", LARGEST_FRAME) + header(PRODUCE, 7) + bytes(1000))
        with Connection(broker.bootstrap) as neighbour:
            assert neighbour.call("api_versions", 0).error_code == 0
        assert grown(broker, before) < 50 * MIB
    finally:
        for connection in hostile:
            connection.close()


def test_answers_that_nobody_reads_cost_bounded_memory(own_broker: Any) -> None:
    broker = own_tidelog(own_broker)
    with Connection(broker.bootstrap) as writer:
        from tests.conformance.topics import create_topic

        create_topic(broker.bootstrap, "unread", 1)
        for _ in range(8):
            append(writer, "unread", batch([bytes(900_000)]))
        before = broker.resident_bytes()
        hostile = [Connection(broker.bootstrap) for _ in range(20)]
        try:
            request = encode_request("fetch", 12, 1, **fetch_fields("unread", 0, partition_max_bytes=1 << 24))
            for connection in hostile:
                connection.send_bytes(request * 20)  # asks for about 140 MB each
            for _ in range(10):
                append(writer, "unread", batch([b"x"]))
            assert grown(broker, before) < 100 * MIB
        finally:
            for connection in hostile:
                connection.close()


def test_hostile_lengths_cost_no_memory(own_broker: Any) -> None:
    broker = own_tidelog(own_broker)
    before = broker.resident_bytes()
    for _ in range(20):
        for bytes_sent in CLOSED.values():
            with Connection(broker.bootstrap) as bad:
                try:
                    bad.send_bytes(bytes_sent)
                except (ConnectionResetError, BrokenPipeError):
                    pass
                assert bad.closed_by_broker()
    assert grown(broker, before) < 50 * MIB
