"""What a broker counts: clients up to a bound, rates over a minute, errors in answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from tidelog.broker.pulse import Pulse
from tidelog.broker.tallies import OTHERS, Clients, Tallies
from tidelog.replication.partitions import Counts
from tidelog.wire.error_codes import error_codes
from tidelog.wire.messages.heartbeat import HeartbeatResponse
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

pytestmark = pytest.mark.simulated


@dataclass
class Ended:
    client_id: str | None
    frames: int = 3
    bytes_in: int = 100
    bytes_out: int = 10


def test_clients_are_told_apart_up_to_a_bound() -> None:
    clients = Clients(clients_max=2)
    for name in ("a", "b", "c", "d", "a"):
        clients.ended(Ended(name))
    clients.failed("e")
    found = {name: (one.requests, one.errors) for name, one in clients.snapshot().items()}
    assert found == {"a": (6, 0), "b": (3, 0), OTHERS: (6, 1)}
    assert clients.name_of("a") == "a" and clients.name_of("new") == OTHERS


def test_errors_are_counted_by_api_and_by_client() -> None:
    tallies = Tallies()
    tallies.failed(3, 5, "web", 2)
    tallies.failed(3, 5, None)
    assert tallies.requests.errors == {(3, 5): 3}
    assert {name: one.errors for name, one in tallies.clients.snapshot().items()} == {"web": 2, "": 1}


def test_codes_are_found_however_deep() -> None:
    assert list(error_codes(HeartbeatResponse(error_code=27))) == [27]
    assert list(error_codes(HeartbeatResponse())) == []
    partitions = [MetadataResponsePartition(error_code=code) for code in (0, 5, 9)]
    answer = MetadataResponse(topics=[MetadataResponseTopic(error_code=3, partitions=partitions)])
    assert list(error_codes(answer)) == [3, 5, 9]


async def test_rates_are_over_the_last_minute() -> None:
    count = 0
    pulse = Pulse(lambda: Counts(count, 0, 0, 0, 0))
    task = asyncio.get_running_loop().create_task(pulse.run())
    await asyncio.sleep(10.5)
    count = 105
    assert round(pulse.rates().messages_in) == 10  # the broker runs for no longer
    await asyncio.sleep(20)
    assert 3 <= pulse.rates().messages_in <= 4
    await asyncio.sleep(41)
    assert pulse.rates().messages_in == 0  # that was more than a minute ago
    count += 600
    assert 9 <= pulse.rates().messages_in <= 12
    task.cancel()
