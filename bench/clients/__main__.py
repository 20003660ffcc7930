"""`python -m bench.clients`: CPU and rate of Python's Kafka clients, as medians and as ratios to confluent-kafka."""

from __future__ import annotations

import argparse
import datetime
import json
import os
from pathlib import Path

from bench import machine
from bench.clients.compare import cases, compare
from bench.noise import Meter
from tidelog.testing import child_broker

RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    options = _options()
    meter = Meter()
    path = RESULTS / f"clients-{datetime.datetime.now():%Y%m%d-%H%M%S}.json"
    path.parent.mkdir(exist_ok=True)
    chosen = cases(
        options.only.split(","), [int(one) for one in options.sizes.split(",")], options.settings.split(",")
    )
    clients = [one for one in options.clients.split(";") if one]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; medians of {options.rounds}")
    done: list[object] = []
    with child_broker({"log.retention.bytes": str(1 << 30)}) as broker:
        facts = machine.facts(RESULTS)
        for figures in compare(broker.bootstrap_servers, chosen, options.megabytes, options.rounds, clients):
            print(f"\n{figures}", flush=True)
            done.append(figures.as_json())
            path.write_text(json.dumps({"machine": facts, "clients": done}, indent=1))
    print(f"\nload {os.getloadavg()[0]:.1f}, others took {meter.cores():.2f} cores; in {path}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("--only", default="produce,consume", help="produce, consume or both")
    parser.add_argument("--sizes", default="100,1000")
    parser.add_argument(
        "--settings", default="same,default", help="same: batches of 128 KiB, 5 ms; default: each its own"
    )
    parser.add_argument("--megabytes", type=int, default=50, help="how much each client moves in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", default="", help="names, with semicolons between; all without")
    return parser.parse_args()


if __name__ == "__main__":
    main()
