"""`python -m bench.clients`: CPU and time per record of each client, as medians and as ratios to confluent-kafka.

One broker for all, clients one after the other in turns, each in a fresh process, so that what else the machine does
meets all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import uuid
from collections.abc import Iterable

from bench.clients.work import READERS, WRITERS
from tidelog.testing import child_broker

FIRST = "confluent-kafka"
# The slow ones get fewer records: what counts is the time of each.
SHARE = {"aiokafka": 10, "kafka-python": 10}


def measure(
    client: str, action: str, bootstrap: str, topic: str, size: int, count: int, settings: str
) -> dict[str, float]:
    command = [
        sys.executable,
        "-m",
        "bench.clients.work",
        client,
        action,
        bootstrap,
        topic,
        str(size),
        str(count),
        settings,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{client} failed to {action}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(
    bootstrap: str, action: str, size: int, count: int, settings: str, rounds: int, clients: Iterable[str]
) -> None:
    found: dict[str, list[dict[str, float]]] = {}
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    if action == "consume":
        measure("tidelog, Arrow", "produce", bootstrap, topic, size, count, "same")
    for _ in range(rounds):
        for client in clients:
            here = topic if action == "consume" else f"bench-{uuid.uuid4().hex[:8]}"
            one = measure(client, action, bootstrap, here, size, count // SHARE.get(client, 1), settings)
            found.setdefault(client, []).append(one)
    print(f"\n{action}, {size} B, {settings} settings, {count} records, median of {rounds}\n")
    print("| client | CPU us | ratio | wall us | ratio |\n|---|---|---|---|---|")
    base = {name: statistics.median(one[name] for one in found[FIRST]) for name in ("cpu_us", "wall_us")}
    for client, ones in found.items():
        cells = [client]
        for name in ("cpu_us", "wall_us"):
            median = statistics.median(one[name] for one in ones)
            cells += [f"{median:.2f}", f"{median / base[name]:.2f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("--only", default="produce,consume", help="produce, consume or both")
    parser.add_argument("--sizes", default="100,1000")
    parser.add_argument(
        "--settings", default="same,default", help="same: batches of 128 KiB, 5 ms; default: each its own"
    )
    parser.add_argument("--megabytes", type=int, default=50, help="how much each client moves in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", default="", help="names, with semicolons between; all without")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with child_broker({"log.retention.bytes": str(1 << 30)}) as broker:
        for action in options.only.split(","):
            known = WRITERS if action == "produce" else READERS
            chosen = [one for one in options.clients.split(";") if one in known] or list(known)
            if FIRST not in chosen:
                chosen.insert(0, FIRST)
            for settings in options.settings.split(",") if action == "produce" else ["default"]:
                for size in map(int, options.sizes.split(",")):
                    count = options.megabytes * 1_000_000 // size
                    compare(broker.bootstrap_servers, action, size, count, settings, options.rounds, chosen)
    print(f"\nload {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
