"""A networked cluster whose disks are replaced and rot, whose etcd is restored from a backup, and whose partitions move.

These faults overlap with those of `networked_cluster`.  Whoever strikes them has to leave one whole replica of every record:
one disk is replaced at a time, after all replicas were in sync, and different replicas rot in different places."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from tests.conformance import batches
from tests.conformance.process import wait_until
from tests.faults.broker import UNEXPECTED
from tests.faults.networked_cluster import MACHINES, PARTITIONS, SECONDS_MAX, SIZE, TOPIC, NetworkedCluster
from tests.unit.cli.commands import TIDELOG

SETTINGS = {
    "min.insync.replicas": "2",  # of internal topics too: one lost disk costs nothing then
    "tidelog.scrub.period.ms": "2000",
    "share.coordinator.state.topic.num.partitions": "3",
}
SMALL_SEGMENTS = {"segment.index.bytes": "240", "index.interval.bytes": "512"}
RESTORED = "tidelog.metadata.restored"
END_SECONDS_MAX = 20
NOTICED = re.compile(
    r"[^\n]* CRITICAL [^\n]*\nTraceback .*?RolledBack: [^\n]*restored from a backup[^\n]*\n", re.DOTALL
)
SEGMENTS_MIN = 6
THREADS = 3 * SIZE


class OperatedCluster(NetworkedCluster):
    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, SETTINGS)
        # A process ends with the thread that started it (--pdeathsig), so these threads live as long as the cluster.
        self.threads = ThreadPoolExecutor(THREADS)
        self.rotted: list[str] = []
        self._random = Random(seed)
        self._sealed: dict[int, dict[int, list[Path]]] = {}

    def end(self) -> None:
        self.threads.shutdown()
        super().end()

    def settle(self) -> None:
        """Waits until every replica has everything, so that one of them may be lost, and has enough of it to rot."""
        wait_until(self._have_segments, SECONDS_MAX, "there are some segments")
        self.wait_until_in_sync()
        self._sealed = {
            machine: {partition: self._segments(machine, partition)[:-1] for partition in range(PARTITIONS)}
            for machine in MACHINES
        }

    def _have_segments(self) -> bool:
        return all(
            len(self._segments(machine, partition)) > SEGMENTS_MIN
            for machine in MACHINES
            for partition in range(PARTITIONS)
        )

    def unexpected(self) -> list[str]:
        """What no broker may say, whatever was done to it; that its metadata were restored is no surprise here."""
        logs = (NOTICED.sub("", broker.log_text()) for broker in self.brokers.values())
        return [log[match.start() :][:2000] for log in logs for match in [UNEXPECTED.search(log)] if match]

    def wait_until_whole(self) -> None:
        """No replica of the topic has a damaged batch on its disk."""
        wait_until(lambda: not self._damaged(), SECONDS_MAX, f"all damage is repaired: {self.rotted}", 0.5)

    # Faults

    @contextmanager
    def replaced(self, machine: int) -> Iterator[None]:
        """The broker is killed and comes back with an empty disk."""
        with self._of_process[machine]:
            self.brokers[machine].kill()
            self._wipe(machine)
            yield
            self.start_broker(machine)

    @contextmanager
    def rotten(self, machine: int) -> Iterator[None]:
        """A byte on the disk of a running broker is another one."""
        self._rot(machine)
        yield

    @contextmanager
    def killed_and_rotten(self, machine: int) -> Iterator[None]:
        with self.killed(machine):
            self._rot(machine)
            yield

    @contextmanager
    def moved(self, machine: int) -> Iterator[None]:
        """The topic leaves this machine for a while."""
        others = [number for number in MACHINES if number != machine]
        began = self._reassign(others)
        yield
        if not began:
            print(f"no broker took the request to move partitions away from {machine}")
        wait_until(
            lambda: self._reassign([*others, machine]), SECONDS_MAX, "partitions are moved back", every=0.5
        )

    @contextmanager
    def etcd_restored(self, machine: int) -> Iterator[None]:
        """All members of etcd are put back to what they were at the beginning.  Brokers end by themselves when they notice,
        and all are started anew with the word that the metadata were restored; the one on `machine` is started first."""
        backup = self.folder / f"backup-{time.monotonic_ns()}"
        self._copy_etcd(backup)
        yield
        with ExitStack() as starts:
            # A broker is started before, and notices, or after, and is told.
            for lock in self._starting.values():
                starts.enter_context(lock)
            self._restore_etcd(backup)
            for broker in self.brokers.values():
                broker.settings[RESTORED] = "true"
            before = {number: broker.starts for number, broker in self.brokers.items()}
        order = [machine, *(number for number in MACHINES if number != machine)]
        list(self.threads.map(lambda number: self._start_restored(number, before[number]), order))
        for broker in self.brokers.values():
            del broker.settings[RESTORED]

    def _copy_etcd(self, backup: Path) -> None:
        for member in self.etcd.values():
            member.freeze()
        for number, member in self.etcd.items():
            shutil.copytree(self.network.machines[number].inside(member.home), backup / member.name)
        for member in self.etcd.values():
            member.thaw()

    def _restore_etcd(self, backup: Path) -> None:
        for member in self.etcd.values():
            member.kill()
        for number, member in self.etcd.items():
            home = self.network.machines[number].inside(member.home)
            shutil.rmtree(home)
            shutil.copytree(backup / member.name, home)
            member.spawn(self._peers)
        shutil.rmtree(backup)

    def _start_restored(self, machine: int, starts: int) -> None:
        """Unless another fault has started it since."""
        with self._of_process[machine]:
            broker = self.brokers[machine]
            if broker.starts > starts:
                return
            deadline = time.monotonic() + END_SECONDS_MAX
            while broker.alive() and time.monotonic() < deadline:
                time.sleep(0.05)
            if broker.alive():
                print(
                    f"broker {machine} did not notice that its metadata were restored, and is stopped by hand"
                )
                broker.send(signal.SIGTERM)
                broker.wait(SECONDS_MAX)
            self.start_broker(machine)

    def _wipe(self, machine: int) -> None:
        home = self.network.machines[machine].inside(self.brokers[machine].data)
        for entry in home.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def _segments(self, machine: int, partition: int) -> list[Path]:
        folder = self.network.machines[machine].inside(self.brokers[machine].data) / f"{TOPIC}-{partition}"
        return sorted(folder.glob("*.log"))

    def _rot(self, machine: int) -> None:
        """One byte of a batch that every replica had when all were in sync, in this machine's third of the log."""
        sealed = self._sealed[machine][partition := self._random.randrange(PARTITIONS)]
        share = (machine - 1 + self._random.uniform(0.2, 0.8)) / SIZE
        segments = sealed[int(share * len(sealed)) :][:1]
        if not segments or not segments[0].exists():
            print(f"partition {partition} of broker {machine} has too little that could rot")
            return
        data = bytearray(segments[0].read_bytes())
        batch = self._random.choice(batches.read(bytes(data)))
        at = data.index(batch.body) + self._random.randrange(len(batch.body))
        with segments[0].open("r+b") as file:
            file.seek(at)
            file.write(bytes([data[at] ^ 0x55]))
        self.rotted.append(f"broker {machine}, {TOPIC}-{partition}, offset {batch.base_offset}")
        print(f"rotten: {self.rotted[-1]}, {segments[0].name} at {at}")

    def _damaged(self) -> bool:
        for machine in MACHINES:
            for partition in range(PARTITIONS):
                for segment in self._segments(machine, partition)[:-1]:
                    try:
                        if not all(batch.crc_ok for batch in batches.read(segment.read_bytes())):
                            return True
                    except FileNotFoundError:
                        return True  # it was replaced just now: look again
        return False

    def _reassign(self, machines: list[int]) -> bool:
        plan = self.folder / "moves.json"
        moves = [
            {"topic": TOPIC, "partition": index, "replicas": machines[index:] + machines[:index]}
            for index in range(PARTITIONS)
        ]
        plan.write_text(json.dumps({"version": 1, "partitions": moves}))
        words = ["partitions", "reassign", "--plan", str(plan), "--execute", "--bootstrap", self.bootstrap]
        done = subprocess.run(
            [*self.network.hub.prefix, TIDELOG, *words], capture_output=True, text=True, timeout=SECONDS_MAX
        )
        if done.returncode:
            print(f"moves to {machines} were refused: {done.stderr.strip()[-300:]}")
        return done.returncode == 0
