"""A broker's answers are lost on their way, and the client goes on with what it believes."""

from __future__ import annotations

import threading
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.conformance.process import free_port
from tests.conformance.proxy import Proxy
from tests.faults.cluster_transactions import read_to_end
from tests.faults.conftest import BrokerFactory

SECONDS_MAX = 180
AWAY_SECONDS = 1.0


def test_records_that_get_the_numbers_of_aborted_ones_are_not_taken_for_them(
    new_broker: BrokerFactory,
) -> None:
    """librdkafka drops the records of an aborted transaction, those too that it had sent without getting an answer, and
    numbers the next ones as if they had never been."""
    port = free_port()
    broker = new_broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    broker.start()
    acknowledged: dict[int, bytes] = {}

    def told(error: Any, message: Any) -> None:
        if error is None:
            acknowledged[message.offset()] = message.value()

    with Proxy(port, (broker.host, broker.port)) as proxy:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(SECONDS_MAX)
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "transactional.id": "t",
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        producer.init_transactions(SECONDS_MAX)
        producer.begin_transaction()
        producer.produce("t", b"acknowledged", on_delivery=told)
        assert producer.flush(SECONDS_MAX) == 0
        proxy.lose_answers()
        producer.produce("t", b"unanswered", on_delivery=told)
        assert producer.flush(AWAY_SECONDS) == 1
        threading.Timer(AWAY_SECONDS, proxy.speak).start()
        producer.abort_transaction(SECONDS_MAX)
        refused = 0
        while True:
            producer.begin_transaction()
            producer.produce("t", b"committed", on_delivery=told)
            try:
                producer.commit_transaction(SECONDS_MAX)
                break
            except confluent_kafka.KafkaException as problem:
                assert problem.args[0].txn_requires_abort() and not refused, problem
                refused += 1
                producer.abort_transaction(SECONDS_MAX)
        found = {
            level: dict(read_to_end(f"127.0.0.1:{port}", "t", 1, level, SECONDS_MAX)[0])
            for level in ("read_committed", "read_uncommitted")
        }
    assert b"unanswered" in found["read_uncommitted"].values()  # otherwise nothing was tested
    assert list(found["read_committed"].values()) == [b"committed"]
    assert acknowledged.items() <= found["read_uncommitted"].items()
