"""Requests that are not wholly there take memory, which `queued.max.request.bytes` bounds."""

from __future__ import annotations

import threading
from typing import Any

from tests.conformance.batches import batch
from tests.conformance.raw import Connection, encode_request
from tests.conformance.topics import PRODUCE, create_topic, list_offset

MEBIBYTE = 1 << 20
CLIENTS, BYTES = 12, 4 * MEBIBYTE


def test_clients_get_through_that_send_more_at_the_same_time_than_may_be_queued(own_broker: Any) -> None:
    broker = own_broker(
        {"queued.max.request.bytes": str(6 * MEBIBYTE), "message.max.bytes": str(8 * MEBIBYTE)}
    )
    create_topic(broker.bootstrap, "large")
    data = [{"name": "large", "partition_data": [{"index": 0, "records": batch([bytes(BYTES)])}]}]
    frame = encode_request("produce", PRODUCE, 1, acks=1, timeout=10_000, topic_data=data)
    connections = [Connection(broker.bootstrap) for _ in range(CLIENTS)]
    for connection in connections:
        connection.send_bytes(frame[:MEBIBYTE])
    # Those that send little are not held up.
    with Connection(broker.bootstrap) as other:
        assert list_offset(other, "large", -1).offset == 0
        senders = [
            threading.Thread(target=connection.send_bytes, args=(frame[MEBIBYTE:],))
            for connection in connections
        ]
        for sender in senders:
            sender.start()
        for connection in connections:
            _, answer = connection.receive("produce", PRODUCE)
            assert answer.responses[0].partition_responses[0].error_code.name == "none", answer
        for sender in senders:
            sender.join()
        assert list_offset(other, "large", -1).offset == CLIENTS
    for connection in connections:
        connection.close()
