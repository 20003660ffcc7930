"""What a broker does when one of its background loops ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tidelog import errors
from tidelog.app.environment import system
from tidelog.app.lifecycle import Broker
from tidelog.config import BrokerConfig


async def started(folder: Path) -> Broker:
    config = BrokerConfig.of({"log.dirs": str(folder), "listeners": "PLAINTEXT://127.0.0.1:0"})
    broker = Broker(config, replace(system(config), http=False))
    await broker.start()
    return broker


async def test_a_loop_that_is_cancelled_ends_the_broker_with_a_word(tmp_path: Path) -> None:
    """Whatever the reason, a broker without its registration or its metadata must not continue to serve."""

    broker = await started(tmp_path)
    broker._tasks[0].cancel()
    with pytest.raises(errors.UnknownServerError, match=r"following the metadata failed: cancelled"):
        await asyncio.wait_for(broker.ended, 30)
    await broker.stop()


async def test_a_broker_that_stops_does_not_complain_of_its_loops(tmp_path: Path) -> None:
    broker = await started(tmp_path)
    await broker.stop()
    await asyncio.sleep(0)
    assert not broker.ended.done()
