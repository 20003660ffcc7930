"""One connection: answers in the order of the requests, whatever mixture; many connections beside each other."""

from __future__ import annotations

from typing import Any

from tests.conformance.batches import batch
from tests.conformance.raw import Connection
from tests.conformance.topics import append, fetch_fields, values


def test_pipelined_requests_of_many_kinds_are_answered_in_order(connection: Connection, topic: Any) -> None:
    known = topic()
    data = [{"name": known, "partition_data": [{"index": 0, "records": batch([b"x"])}]}]
    plan: list[tuple[str, int, dict[str, Any]]] = []
    for _ in range(10):
        plan += [
            ("produce", 11, {"acks": -1, "timeout": 5000, "topic_data": data}),
            ("metadata", 12, {"topics": [{"name": known}]}),
            ("fetch", 12, fetch_fields(known, 0)),
            ("api_versions", 0, {}),
            ("describe_configs", 4, {"resources": [{"resource_type": 2, "resource_name": known}]}),
            (
                "list_offsets",
                7,
                {"topics": [{"name": known, "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
            ),
        ]
    sent = [connection.send(api, version, **fields) for api, version, fields in plan]
    received = [connection.receive(api, version)[0] for api, version, _ in plan]
    assert received == sent


def test_a_long_poll_delays_what_was_sent_after_it(connection: Connection, topic: Any) -> None:
    known = topic()
    first = connection.send("fetch", 12, **fetch_fields(known, 0, max_wait=300, min_bytes=1))
    second = connection.send("api_versions", 0)
    assert connection.receive("fetch", 12)[0] == first
    assert connection.receive("api_versions", 0)[0] == second


def test_pipelined_produce_requests_land_in_order(connection: Connection, topic: Any) -> None:
    known = topic()
    count = 200
    for index in range(count):
        data = [{"name": known, "partition_data": [{"index": 0, "records": batch([b"%d" % index])}]}]
        connection.send("produce", 11, acks=1 if index % 2 else -1, timeout=5000, topic_data=data)
    offsets = [
        connection.receive("produce", 11)[1].responses[0].partition_responses[0].base_offset
        for _ in range(count)
    ]
    assert offsets == list(range(count))
    assert values(connection, known) == [b"%d" % index for index in range(count)]


def test_a_request_may_arrive_byte_by_byte(bootstrap: str, topic: Any) -> None:
    from tests.conformance.raw import encode_request

    known = topic()
    data = [{"name": known, "partition_data": [{"index": 0, "records": batch([b"slow"])}]}]
    frame = encode_request("produce", 11, 5, acks=-1, timeout=5000, topic_data=data)
    with Connection(bootstrap) as connection:
        for position in range(len(frame)):
            connection.send_bytes(frame[position : position + 1])
        assert connection.receive("produce", 11)[0] == 5


def test_many_connections_at_once(bootstrap: str, topic: Any) -> None:
    known = topic()
    connections = [Connection(bootstrap) for _ in range(200)]
    try:
        for connection in connections:
            connection.send("metadata", 12, topics=[{"name": known}])
        for connection in connections:
            assert connection.receive("metadata", 12)[1].topics[0].error_code == 0
    finally:
        for connection in connections:
            connection.close()


def test_a_client_that_leaves_in_the_middle_of_a_long_poll(bootstrap: str, topic: Any) -> None:
    known = topic()
    for _ in range(20):
        with Connection(bootstrap) as leaving:
            leaving.send("fetch", 12, **fetch_fields(known, 0, max_wait=10_000, min_bytes=1))
    with Connection(bootstrap) as staying:
        append(staying, known, batch([b"x"]))
        assert values(staying, known) == [b"x"]
