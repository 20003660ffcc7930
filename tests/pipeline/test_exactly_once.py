"""Every row once, whatever is killed: driver, Python workers, broker.

The answer is compared with a batch's: what a reader of committed records finds in the sinks' topics, no row missing,
none twice.  The seed decides who is killed when; a failure names it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.process import BrokerProcess, wait_until
from tests.conformance.topics import create_topic
from tidelog import Admin, Consumer, Producer, TopicPartition

RECORDS, KEYS, PARTITIONS = 6_000, 5, 2
FIRST_MS = 1_790_000_000_000
WAIT_S = 400
# A driver that is away is waited for so long; the first epoch of a life takes some seconds, on a busy machine many.
SHORT_MS, LONG_MS = 30_000, 90_000


class Driver:
    """`copier` as a process of its own, started again whenever it ends."""

    def __init__(self, home: Path, arguments: list[str]) -> None:
        self._home = home
        self._command = [sys.executable, "-m", "tests.pipeline.copier", *arguments]
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        self.starts += 1
        with (self._home / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def keep(self) -> None:
        """Restarts the driver when it has failed, as a supervisor does."""
        if self._process is None or self._process.poll() is not None:
            self.kill()
            self.start()

    def kill(self) -> None:
        """Kills the driver and its JVM at once."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._process.wait()
            self._process = None

    def workers(self) -> list[int]:
        """Spark's Python workers: children of its daemon."""
        return [pid for pid in self._descendants() if b"worker_daemon" in _command_of(pid)]

    def _descendants(self) -> list[int]:
        assert self._process is not None
        parents: dict[int, list[int]] = {}
        for path in Path("/proc").iterdir():
            if path.name.isdigit():
                try:
                    fields = (path / "stat").read_text().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                parents.setdefault(int(fields[1]), []).append(int(path.name))
        descendants, new = [], [self._process.pid]
        while new:
            new = [child for parent in new for child in parents.get(parent, [])]
            descendants += new
        return descendants

    def log(self) -> str:
        return (self._home / "driver.log").read_text(errors="replace")[-4000:]


def _kill_one(processes: list[int], chance: random.Random) -> None:
    try:
        os.kill(chance.choice(processes), signal.SIGKILL)
    except (ProcessLookupError, IndexError):
        pass  # Spark was quicker.


def _command_of(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


class Feed:
    """Records of known times, sent a few at a time; the last ones are so late that every window before them closes."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self.sent = 0

    def send(self, count: int) -> None:
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            for number in range(self.sent, self.sent + count):
                producer.send(
                    self._topic,
                    b"%d" % number,
                    key=b"k%d" % (number % KEYS),
                    timestamp=FIRST_MS + number * 20,
                    partition=number % PARTITIONS,
                )
            producer.flush(120)
        self.sent += count

    def close_windows(self, late: int) -> None:
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            for partition in range(PARTITIONS):
                producer.send(
                    self._topic,
                    b"late",
                    key=b"late",
                    timestamp=FIRST_MS + 3_600_000 + late,
                    partition=partition,
                )
            producer.flush(120)

    def copied(self) -> Counter[bytes]:
        return Counter(b"%d" % number for number in range(self.sent))

    def counted(self) -> Counter[bytes]:
        windows: Counter[tuple[int, int]] = Counter()
        for number in range(self.sent):
            seconds = (FIRST_MS + number * 20) // 10_000 * 10
            windows[seconds, number % KEYS] += 1
        return Counter(b"%d/k%d/%d" % (*window, count) for window, count in windows.items())


def committed(bootstrap: str, topic: str) -> Counter[bytes]:
    """The values that a reader of committed records finds, without the late ones."""
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        places = [TopicPartition(topic, partition) for partition in consumer.partitions_for(topic)]
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        values: Counter[bytes] = Counter()
        while any(consumer.position(partition) < ends[partition] for partition in places):
            for record in consumer.poll(200):
                if b"late" not in (record.value or b""):
                    values[record.value or b""] += 1
    return values


def all_ended(bootstrap: str) -> bool:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return not admin.list_transactions(states=["Ongoing", "PrepareCommit", "PrepareAbort"])


def run(
    home: Path, broker: BrokerProcess, faults: list[str], chance: random.Random, transaction_timeout_ms: int
) -> str:
    """Injects one fault after the other, each after some progress; then compares."""
    topics = {role: f"eo-{role}" for role in ("source", "copy", "counts")}
    for name in topics.values():
        create_topic(broker.bootstrap, name, PARTITIONS, {"retention.ms": "-1"})
    arguments = [item for name, topic in topics.items() for item in (f"--{name}", topic)]
    arguments += ["--bootstrap", broker.bootstrap, "--checkpoint", str(home / "checkpoint")]
    driver = Driver(home, [*arguments, "--transaction-timeout-ms", str(transaction_timeout_ms)])
    feed = Feed(broker.bootstrap, topics["source"])

    def reached(count: int) -> None:
        def there() -> bool:
            driver.keep()
            return committed(broker.bootstrap, topics["copy"]).total() >= count

        wait_until(there, WAIT_S, f"{count} rows of the copy; {driver.log()}", every=0.5)

    def working() -> list[int]:
        driver.keep()
        return driver.workers()

    step = RECORDS // (len(faults) + 1)
    try:
        driver.start()
        for fault in faults:
            feed.send(step)
            reached(feed.sent - step + chance.randrange(1, step))
            time.sleep(chance.random())
            if fault == "driver":
                driver.kill()
            elif fault == "away":
                driver.kill()
                wait_until(lambda: all_ended(broker.bootstrap), 300, "the time-out of all transactions")
            elif fault == "worker":
                wait_until(working, WAIT_S, f"a Python worker to kill; {driver.log()}")
                _kill_one(driver.workers(), chance)
            elif fault == "broker":
                broker.kill()
                time.sleep(chance.random())
                broker.start()
        feed.send(RECORDS - feed.sent)
        feed.close_windows(0)
        reached(RECORDS)
        late = 0

        def closed() -> bool:
            nonlocal late
            late += 1_000
            driver.keep()
            feed.close_windows(late)
            return committed(broker.bootstrap, topics["counts"]).total() >= feed.counted().total()

        wait_until(closed, WAIT_S, f"the last windows; {driver.log()}", every=1)
    finally:
        driver.kill()
    wait_until(lambda: all_ended(broker.bootstrap), 300, "the end of all transactions")
    for name, wanted in (("copy", feed.copied()), ("counts", feed.counted())):
        values = committed(broker.bootstrap, topics[name])
        assert values == wanted, (
            f"{name}: missing {list((wanted - values).items())[:5]}, too many {list((values - wanted).items())[:5]}"
        )
    return f"{driver.starts} starts"


@pytest.mark.timeout(900)
def test_every_row_once_through_three_kills(own_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    seed = int(os.environ.get("TIDELOG_SEED", "7"))
    chance = random.Random(seed)
    faults = ["away", "worker", "broker"]
    chance.shuffle(faults)
    print(f"seed {seed}: {faults}")
    print(run(tmp_path, own_broker(), faults, chance, SHORT_MS))


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_every_row_once_through_thirty_kills(
    own_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    seed = int(os.environ.get("TIDELOG_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
    chance = random.Random(seed)
    faults = ["driver"] * 8 + ["away"] * 2 + ["worker"] * 10 + ["broker"] * 10
    chance.shuffle(faults)
    print(f"TIDELOG_SEED={seed}: {faults}")
    print(run(tmp_path, own_broker(), faults, chance, LONG_MS))
