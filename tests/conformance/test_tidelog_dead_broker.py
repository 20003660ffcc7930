"""Every call of Tidelog's clients on a broker that is frozen or gone: each ends within its time, with an error that
can be told apart, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow
import pytest

from tests.conformance.process import BrokerProcess
from tests.conformance.share_client import SHARE_SETTINGS
from tests.conformance.test_consumer_failures import sockets
from tidelog import (
    Admin,
    ConfigResource,
    Consumer,
    DeliveryTimedOut,
    NewTopic,
    Producer,
    ShareConsumer,
    TidelogError,
    TopicPartition,
    Unreachable,
    errors,
)

Factory = Callable[..., BrokerProcess]
# What a call may take beyond its own second or two, on a busy machine; without a bound of its own it would take 30 s.
SPARE_S = 10
PLACE = TopicPartition("t", 0)


class Clients:
    """One of each, at work on a topic, with short patience."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        common: dict[str, Any] = {"bootstrap_servers": bootstrap, "request_timeout_ms": 1_000}
        reading: dict[str, Any] = {**common, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 100}
        writing: dict[str, Any] = {**common, "delivery_timeout_ms": 2_000, "max_block_ms": 1_000}
        self.producer = Producer(**writing)
        self.producer.send("t", b"x").get(30)
        self.admin = Admin(**common)
        self.admin.alter_configs({ConfigResource("group", "s"): {"share.auto.offset.reset": "earliest"}})
        self.members = [
            Consumer("t", group_id=f"g-{protocol}", group_protocol=protocol, **reading)
            for protocol in ("classic", "consumer")
        ]
        self.reader = Consumer(**reading)
        self.reader.assign([PLACE])
        self.sharer = ShareConsumer(
            "t", group_id="s", bootstrap_servers=bootstrap, request_timeout_ms=1_000, fetch_max_wait_ms=100
        )
        for one in (*self.members, self.reader, self.sharer):
            while not one.poll(1_000):
                pass
        self.transactional = Producer(transactional_id="x", **writing)
        self.transactional.begin_transaction()
        self.transactional.send("t", b"y").get(30)

    def calls(self) -> dict[str, Callable[[], object]]:
        """Those that need the broker: each raises, and says which error that may be."""
        admin, reader, member = self.admin, self.reader, self.members[0]
        return {
            "commit": member.commit,
            "commit, 300 ms": lambda: member.commit(timeout_ms=300),
            "committed": member.committed,
            "end_offsets": lambda: reader.end_offsets([PLACE]),
            "offsets_for_times": lambda: reader.offsets_for_times({PLACE: 0}),
            "partitions_for": lambda: reader.partitions_for("unheard-of"),
            "list_topics": admin.list_topics,
            "create_topics": lambda: admin.create_topics([NewTopic("new")]),
            "delete_records": lambda: admin.delete_records({PLACE: 1}),
            "describe_cluster": admin.describe_cluster,
            "describe_groups": lambda: admin.describe_groups(["g-classic"]),
            "list_groups": admin.list_groups,
            "list_group_offsets": lambda: admin.list_group_offsets("g-classic"),
            "list_offsets": lambda: admin.list_offsets({PLACE: "latest"}),
            "send to a new topic": lambda: self.producer.send("unheard-of", b"x"),
            "get": lambda: self.producer.send("t", b"z").get(0.2),
            "get for ever": lambda: self.producer.send("t", b"z").get(),
            "flush": lambda: (self.producer.send("t", b"z"), self.producer.flush(0.2)),
            "commit_transaction": self.transactional.commit_transaction,
            "a new producer": lambda: Producer(bootstrap_servers=self.bootstrap, connect_timeout_ms=1_000),
            "a new admin": lambda: Admin(bootstrap_servers=self.bootstrap, connect_timeout_ms=1_000),
        }

    def waits(self) -> dict[str, Callable[[], object]]:
        """Those that end with nothing, or with the reason."""
        assert pyarrow  # loading it is not what takes time here
        return {
            "poll": lambda: self.members[0].poll(300),
            "poll, new protocol": lambda: self.members[1].poll(300),
            "poll without a group": lambda: self.reader.poll(300),
            "poll_arrow": lambda: self.reader.poll_arrow(300),
            "poll of a share group": lambda: self.sharer.poll(300),
        }

    def endings(self) -> dict[str, Callable[[], object]]:
        return {
            "producer": lambda: self.producer.close(0.2),
            "classic": lambda: self.members[0].close(timeout=0.3),
            "consumer": self.members[1].close,
            "reader": self.reader.close,
            "sharer": self.sharer.close,
            "transactional": lambda: self.transactional.close(1),
            "admin": self.admin.close,
        }


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["frozen", "killed"])
def test_no_call_outlasts_its_time(number: signal.Signals, own_broker: Factory) -> None:
    broker = own_broker(SHARE_SETTINGS)  # whose port is held by sockets of its own
    sockets_before, threads_before = sockets(), threading.active_count()
    clients = Clients(broker.bootstrap)
    os.kill(broker.pid, number)
    try:
        for name, call in clients.waits().items():
            within(name, call)
        for name, call in clients.calls().items():
            problem = within(name, call)
            assert isinstance(problem, errors.RequestTimedOut | Unreachable), f"{name}: {problem!r}"
            assert problem.retriable, f"{name}: {problem!r}"
        late = clients.producer.send("t", b"never")
        for name, call in clients.endings().items():
            problem = within(name, call)
            expected = {"producer": DeliveryTimedOut, "classic": errors.RequestTimedOut}.get(name, type(None))
            assert type(problem) is expected, f"{name}: {problem!r}"
        with pytest.raises(TidelogError):
            late.get(0)
    finally:
        if number is signal.SIGSTOP:
            os.kill(broker.pid, signal.SIGCONT)
    assert sockets() == sockets_before
    assert threading.active_count() == threads_before


def within(name: str, call: Callable[[], object]) -> TidelogError | None:
    """The error that it ends with."""
    begun = time.monotonic()
    try:
        call()
    except TidelogError as problem:
        return problem
    finally:
        took = time.monotonic() - begun
        assert took < 2 + SPARE_S, f"{name} took {took:.1f} s"
    return None
