"""`tidelog log dump` on the files of a real broker, while it runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance.process import BrokerProcess, wait_until
from tests.unit.cli.commands import execute, invoke


def items(path: Path) -> list[Any]:
    shown = invoke("log", "dump", "--json", "--records", str(path))
    assert shown.exit_code == 0, shown.stderr
    return [json.loads(line) for line in shown.stdout.splitlines()]


def test_what_was_produced_is_in_the_files(broker: BrokerProcess, topic: Callable[..., str]) -> None:
    fresh = topic(config={"index.interval.bytes": "1"})
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        shown = execute(
            *("produce", fresh, "--compression", codec, "--bootstrap", broker.bootstrap),
            input=f"{codec} 1\n{codec} 2\n".encode(),
        )
        assert shown.returncode == 0, shown.stderr
    (log,) = broker.data.rglob(f"{fresh}-0/*.log")
    found = items(log)
    assert [one["value"] for one in found if one["type"] == "record"] == [
        f"{codec} {at}" for codec in ("none", "gzip", "snappy", "lz4", "zstd") for at in (1, 2)
    ]
    batches = [one for one in found if one["type"] == "batch"]
    assert {one["crc"] for one in batches} == {"ok"}
    assert {one["codec"] for one in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert all(one["producer_id"] >= 0 and one["leader_epoch"] >= 0 for one in batches)
    positions = {one["position"] for one in batches}
    index = [one for one in items(log.with_suffix(".index")) if one["type"] == "entry"]
    assert index and {one["position"] for one in index} <= positions
    wait_until(lambda: len(items(log.with_suffix(".timeindex"))) > 1, 20, "the time index has entries")
