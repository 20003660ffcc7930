"""What docs/guide/client.md shows does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.unit.client.guide import GUIDES, Enough, Printed, blocks, run_example
from tests.unit.schema.stub import registry_stub
from tidelog import Admin, ConfigResource, Consumer, NewTopic, Producer
from tidelog.testing import InnerBroker, broker

EXAMPLES = GUIDES.parents[1] / "examples"
BLOCKS = blocks("client.md")


class Busy(Exception): ...


class BadPicture(Exception): ...


def resize(value: bytes) -> None:
    """Says something else about each picture; has seen enough when one comes again."""
    problem = {b"0 pears": None, b"1 pears": BadPicture(), b"2 pears": Busy()}[value]
    if problem is not None:
        seen.append(value)
        if len(seen) == 3:
            raise Enough
        raise problem


seen: list[bytes] = []


async def bill(record: tidelog.Record) -> None:
    if record.value == b"2 pears":
        raise Enough


def prepare(running: InnerBroker) -> None:
    with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions=1) for name in ("orders", "pictures")])
        admin.alter_configs({ConfigResource("group", "resizers"): {"share.auto.offset.reset": "earliest"}})
    with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
        for number in range(3):
            for topic in ("orders", "pictures"):
                producer.send(topic, b"%d pears" % number, key=b"alice")
    # A group that has been there, for the administration.
    with Consumer(
        "orders",
        group_id="billing",
        bootstrap_servers=running.bootstrap_servers,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    ) as consumer:
        while not consumer.poll(1_000, max_records=1):
            pass


def names(said: Printed) -> dict[str, Any]:
    return {
        "print": said,
        "bill": bill,
        "resize": resize,
        "Busy": Busy,
        "BadPicture": BadPicture,
        "secret": "secret",
        "fetch_token": lambda: "token",
    }


@pytest.mark.parametrize("number", range(len(BLOCKS)), ids=[heading for heading, _ in BLOCKS])
def test_the_examples_run(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heading, code = BLOCKS[number]
    monkeypatch.chdir(tmp_path)
    seen.clear()
    said = Printed(3 if "for record in consumer" in code else 1_000)
    known = names(said)
    if "SQLiteOffsets" in code:
        monkeypatch.syspath_prepend(EXAMPLES)
    with (
        broker(
            {"group.initial.rebalance.delay.ms": "0", "share.coordinator.state.topic.num.partitions": "1"}
        ) as running,
        registry_stub() as stub,
    ):
        prepare(running)
        run_example(code.replace("http://127.0.0.1:8090", stub.url), running, known)
    if "print" in code:
        assert said, f"{heading} has shown nothing"
    if "ShareConsumer" in code:
        assert seen == [b"1 pears", b"2 pears", b"2 pears"]


def test_options_are_listed_with_their_defaults() -> None:
    """Every option of producer and consumer is named; those of one row in a table stand with their defaults."""
    import inspect

    import tidelog.aio

    text = (GUIDES / "client.md").read_text()
    for client in (tidelog.aio.Producer, tidelog.aio.Consumer):
        for name, one in inspect.signature(client.__init__).parameters.items():
            if one.kind is inspect.Parameter.KEYWORD_ONLY:
                assert f"`{name}`" in text or f"{name}=" in text, (
                    f"{client.__name__}: {name} is not in the guide"
                )
                row = re.search(rf"^\| `{name}` \| `?([^`|]*?)`? \|", text, re.MULTILINE)
                if row is not None and row[1].strip('"').isdigit():
                    assert int(row[1]) == one.default, name
