"""kill -9 at any moment: what was acknowledged is there afterwards, once and in order."""

from __future__ import annotations

import random
import time

import pytest

from tests.conformance.process import wait_until
from tests.conformance.topics import create_topic
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import SMALL, BrokerFactory
from tests.faults.history import Writer, check

TOPIC = "numbers"


def kill_again_and_again(broker: FaultyBroker, times: int, config: dict[str, str]) -> None:
    broker.start()
    create_topic(broker.bootstrap, TOPIC, 3, config)
    with Writer(broker.bootstrap, TOPIC, 3) as writer:
        for number in range(times):
            reached = writer.acknowledged + 300
            wait_until(lambda: writer.acknowledged > reached, 30, f"acknowledgements in round {number}")  # noqa: B023
            time.sleep(random.random() / 20)  # not always at the same point of the client's cycle
            broker.kill()
            broker.start()
    check(writer, broker.bootstrap)
    assert len(list((broker.data / f"{TOPIC}-0").glob("*.log"))) > 3, "segments were to be rolled"
    broker.stop()
    broker.start()
    check(writer, broker.bootstrap)


@pytest.mark.parametrize("flush", ["1", "9223372036854775807"])
def test_nothing_acknowledged_is_lost_or_doubled(flush: str, new_broker: BrokerFactory) -> None:
    kill_again_and_again(new_broker(SMALL), 4, {"flush.messages": flush})


@pytest.mark.deep
@pytest.mark.parametrize("flush", ["1", "7", "9223372036854775807"])
def test_nothing_acknowledged_is_lost_or_doubled_in_many_kills(flush: str, new_broker: BrokerFactory) -> None:
    kill_again_and_again(new_broker(SMALL), 50, {"flush.messages": flush})
