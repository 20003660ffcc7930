"""`tidelog model`: fits of files, and figures measured on a real broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from tests.conformance.consuming import fill, indexes, until
from tests.conformance.test_cli_topics import failed, ok
from tests.unit.cli.commands import invoke
from tidelog.aio import Consumer


def test_a_fit_has_tables_advice_and_a_plot(tmp_path: Path) -> None:
    figures, picture = tmp_path / "figures.csv", tmp_path / "plot.svg"
    figures.write_text("consumers,throughput\n1,100\n2,190\n4,340\n8,540\n16,640\n")
    shown = ok("model", "fit", str(figures), "--arrival", "300", "--svg", str(picture))
    assert "contention 0.0" in shown and "<- best" in shown and "Mean latency at 300 records/s" in shown
    assert picture.read_text().count("<circle") == 5
    parsed = json.loads(ok("model", "fit", str(figures), "--arrival", "300", "--json"))
    best = next(one for one in parsed["predictions"] if one["consumers"] == parsed["best"]["consumers"])
    assert best["capacity"] > 300 and best["depth"] > 0 and best["latency_p99_ms"] > best["latency_ms"]
    assert parsed["predictions"][0]["utilisation"] is None  # one consumer serves 100 of 300
    figures.write_text("consumers,throughput\n1,x\n")
    assert "line 2: throughput must be a number" in failed("model", "fit", str(figures))


def test_a_queue_for_a_latency() -> None:
    shown = json.loads(
        ok("model", "queue", "--arrival", "900", "--service-ms", "5", "--latency-ms", "50", "--json")
    )
    assert shown["best"]["consumers"] == 6
    assert "the load needs 1001 consumers" in failed(
        "model", "queue", "--arrival", "1000", "--service-ms", "1000"
    )
    assert invoke("model", "queue", "--arrival", "0", "--service-ms", "5").exit_code == 2


def test_consumers_are_measured_and_their_topic_goes(bootstrap: str) -> None:
    on = ("--bootstrap", bootstrap)
    shown = json.loads(
        ok("model", "measure", "--consumers", "1,2,3", "--records", "300", "--work-ms", "3", "--json", *on)
    )
    alone, two, three = (one["throughput"] for one in shown["figures"])
    # Three milliseconds for each record, and no more than the consumers there are.
    assert 0 < alone < 1000 / 3 and 0 < two < 2000 / 3 and 0 < three < 1000
    assert "tidelog-model-" not in ok("topics", "list", *on)
    assert invoke("model", "measure", "--consumers", "1,2", *on).exit_code == 2


async def test_a_group_is_watched(bootstrap: str, topic: Callable[..., str]) -> None:
    known = topic(partitions=1)
    fill(bootstrap, known, partitions=1)
    async with Consumer(
        known,
        bootstrap_servers=bootstrap,
        group_id=known,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        await until(lambda: len(indexes(consumer)) == 1, consumer)
        watching = asyncio.create_task(
            asyncio.to_thread(
                ok, "model", "group", known, "--seconds", "2", "--json", "--bootstrap", bootstrap
            )
        )
        await consumer.commit({next(iter(consumer.assignment())): 2})
        offset = 2
        while not watching.done():
            await asyncio.sleep(0.1)
            offset = min(offset + 1, 9)
            await consumer.commit({next(iter(consumer.assignment())): offset})
        shown = json.loads(await watching)
    assert shown["members"] == 1 and shown["throughput"] > 0
    assert shown["saturated"] and shown["depth"] > 0  # the lag is eaten up
    said = await asyncio.to_thread(failed, "model", "group", known, "--bootstrap", bootstrap)
    assert "has no members" in said
