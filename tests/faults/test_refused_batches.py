"""Batches that were sent behind one that the broker could not take."""

from __future__ import annotations

from typing import Any

from tests.conformance.batches import batch
from tests.conformance.raw import Connection
from tests.conformance.topics import create_topic, produce
from tests.faults.conftest import BrokerFactory


def test_they_are_refused_as_it_was_until_it_comes_again(new_broker: BrokerFactory) -> None:
    broker = new_broker()
    broker.start()

    def told(connection: Connection, sequence: int, **more: Any) -> str:
        sent = batch(producer_id=7, producer_epoch=0, base_sequence=sequence, **more)
        return str(produce(connection, "t", sent).error_code.name)

    with Connection(broker.bootstrap) as one, Connection(broker.bootstrap) as other:
        create_topic(broker.bootstrap, "t")
        assert told(one, 0) == "none"
        assert told(one, 1, crc=1) == "corrupt_message"
        assert told(one, 2) == told(one, 3) == "corrupt_message"
        assert told(other, 2) == "out_of_order_sequence_number"  # nothing was refused there
        assert [told(one, sequence) for sequence in (1, 2, 3)] == ["none"] * 3
        assert told(one, 5) == "out_of_order_sequence_number"
