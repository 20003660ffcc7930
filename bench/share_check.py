"""`python -m bench.share_check`: what it costs a broker to check batches before a share fetch gives them out.

Two brokers of this checkout take turns; one of them has the check taken out.  CPU of the broker for each GB of records."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path

import tidelog
from bench import usage
from tests.conformance.tidelog_broker import TidelogBroker

ROUNDS, BYTES = 7, 100_000_000
RECORD_BYTES = 1000
TOPIC = "shared"
GROUPS = [f"workers-{number}" for number in range(ROUNDS)]
UNCHECKED = """
import tidelog.groups.share.log_window as log_window
log_window.crc_ok = lambda data, at=0: True
"""


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        patch = Path(folder) / "patch"
        patch.mkdir()
        (patch / "sitecustomize.py").write_text(UNCHECKED)
        brokers: dict[str, TidelogBroker] = {}
        try:
            for name, path in (("checked", ""), ("not checked", str(patch))):
                os.environ["PYTHONPATH"] = path
                brokers[name] = TidelogBroker(Path(folder) / name.replace(" ", "-"), {})
                brokers[name].start()
                _fill(brokers[name])
            costs = {name: list[float]() for name in brokers}
            for number, group in enumerate(GROUPS):
                for name in sorted(brokers, reverse=bool(number % 2)):
                    costs[name].append(_fetch(brokers[name], group))
        finally:
            for broker in brokers.values():
                broker.discard()
    for name, each in costs.items():
        print(f"{name}: {statistics.median(each):.3f} ({min(each):.3f}..{max(each):.3f}) s/GB")


def _fill(broker: TidelogBroker) -> None:
    with tidelog.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(
            [tidelog.NewTopic(TOPIC, partitions=1, configs={"queue.groups": ",".join(GROUPS)})]
        )
    with tidelog.Producer(bootstrap_servers=broker.bootstrap, linger_ms=20, batch_size=65_536) as producer:
        for _ in range(BYTES // RECORD_BYTES):
            producer.send(TOPIC, bytes(RECORD_BYTES))


def _fetch(broker: TidelogBroker, group: str) -> float:
    """All records once, by one consumer that acknowledges them with its next poll."""
    before, left = usage.cpu_seconds(broker.pid), BYTES // RECORD_BYTES
    with tidelog.ShareConsumer(
        TOPIC, group_id=group, bootstrap_servers=broker.bootstrap, check_crcs=False
    ) as consumer:
        while left > 0:
            left -= len(consumer.poll(timeout_ms=5_000))
    return (usage.cpu_seconds(broker.pid) - before) / (BYTES / 1e9)


if __name__ == "__main__":
    main()
