from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tidelog import Producer, Unreachable
from tidelog.errors import InvalidConfig
from tidelog.testing import InnerBroker, broker, child_broker


def test_a_broker_lives_as_long_as_its_block_and_leaves_no_threads() -> None:
    before = set(threading.enumerate())
    with broker({"num.partitions": "4"}) as running:
        with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
            assert producer.send("orders", b"x").get(30).offset == 0
            assert len(producer.partitions_for("orders")) == 4
        assert running.running
    assert not running.running
    with pytest.raises(Unreachable):
        Producer(bootstrap_servers=running.bootstrap_servers)
    assert set(threading.enumerate()) == before


def test_it_comes_back_on_the_same_port_with_its_data() -> None:
    with broker() as running, Producer(bootstrap_servers=running.bootstrap_servers) as producer:
        port = running.port
        producer.send("orders", b"x").get(30)
        running.restart()
        assert running.port == port
        assert producer.send("orders", b"y").get(30).offset == 1
        running.stop()
        running.stop()


def test_a_setting_that_cannot_be_is_an_error_at_once() -> None:
    with pytest.raises(InvalidConfig, match=r"no\.such\.setting"), broker({"no.such.setting": "1"}):
        pass


def test_a_child_can_be_killed_and_paused(tmp_path: Path) -> None:
    with child_broker(folder=tmp_path) as child:
        with Producer(bootstrap_servers=child.bootstrap_servers) as producer:
            producer.send("orders", b"x").get(30)
            child.pause()
            sent = producer.send("orders", b"y")
            assert not sent.done()
            child.resume()
            assert sent.get(30).offset == 1
            child.kill()
            child.start()
            assert producer.send("orders", b"z").get(30).offset == 2
        child.stop()
        assert not child.running
    assert (tmp_path / "broker.log").exists()


def test_the_fixtures_give_brokers(tidelog_broker: InnerBroker, fresh_tidelog_broker: InnerBroker) -> None:
    assert tidelog_broker.port != fresh_tidelog_broker.port
    start = time.monotonic()
    fresh_tidelog_broker.restart()
    assert time.monotonic() - start < 10
