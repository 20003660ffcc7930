"""What in a log's folder is not durable yet besides the bytes of segments: names of files, the name of the folder
itself, small files, and the leader epochs.

Several syncs of one log may be under way at the same time.  Each one that starts takes everything that no finished sync
has made durable, so that it may be believed whatever becomes of the others; and `leader-epoch-checkpoint` is written by
one thread at a time, never with older epochs than it has.  Used by `durability`.
"""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import NamedTuple

from tidelog.storage import checkpoints
from tidelog.storage.disk import Disk
from tidelog.storage.flush.flusher import Plan, sync
from tidelog.storage.leader_epochs import Epochs


class Covered(NamedTuple):
    """What of a folder a plan makes durable: all of its first `changes` changes, and this version of the epochs."""

    changes: int
    epochs: int


class LogFolder:
    __slots__ = (
        "_changes",
        "_disk",
        "_durable",
        "_epochs",
        "_lock",
        "_log_dir",
        "_small",
        "_unborn",
        "_written",
        "path",
    )

    def __init__(self, disk: Disk, log_dir: str, path: str, epochs: Epochs) -> None:
        self.path = path
        self._disk = disk
        self._log_dir = log_dir
        self._epochs = epochs
        self._changes = 0
        self._durable = Covered(0, 0)  # the epochs as they were read
        self._small: list[tuple[int, str]] = []
        self._unborn = False
        self._lock = Lock()  # held while the epochs are written
        self._written = 0  # the version of the epochs in the file

    @property
    def epochs_saved(self) -> bool:
        return self._durable.epochs == self._epochs.version

    def created(self) -> None:
        """The name of the folder itself is not durable either."""
        self._unborn = True
        self.changed()

    def changed(self) -> None:
        """The folder has new names that are not durable, or names whose removal is not durable."""
        self._changes += 1

    def wrote(self, path: str) -> None:
        """A small file in it."""
        self._changes += 1
        self._small.append((self._changes, path))

    def plan(self, plan: Plan) -> Covered:
        """Adds what is not durable to the plan of a sync: call `synced` when that has succeeded."""
        epochs, durable = self._epochs, self._durable
        if durable.changes < self._changes:
            plan.others.extend(partial(_sync_file, self._disk, path) for _, path in self._small)
            if self._unborn:
                plan.others.append(partial(self._disk.sync_folder, self._log_dir))
            plan.folder = self.path
        if durable.epochs < epochs.version:
            plan.others.append(partial(self._save, epochs.version, checkpoints.encode_epochs(epochs)))
        return Covered(self._changes, epochs.version)

    def synced(self, covered: Covered) -> None:
        durable = self._durable
        if covered.changes > durable.changes:
            self._unborn = False
            self._small = [(change, path) for change, path in self._small if change > covered.changes]
        self._durable = Covered(max(covered.changes, durable.changes), max(covered.epochs, durable.epochs))

    def settle(self, renames: list[tuple[str, str]] | None) -> None:
        """For closing: writes what is not written yet.  The caller makes it durable, and then does `renames`; without
        them the one file that must be replaced as a whole is made durable here."""
        version = self._epochs.version
        if not self.epochs_saved:
            data = checkpoints.encode_epochs(self._epochs)
            if renames is None:
                self._save(version, data)
            else:
                renames.append(self._write_beside(version, data))
        self.synced(Covered(self._changes, version))

    def _save(self, version: int, data: bytes) -> None:
        """In any thread."""
        with self._lock:
            if version > self._written:
                self._disk.replace_file(f"{self.path}/{checkpoints.LEADER_EPOCHS}", data)
                self._written = version

    def _write_beside(self, version: int, data: bytes) -> tuple[str, str]:
        path = f"{self.path}/{checkpoints.LEADER_EPOCHS}"
        with self._lock:
            fresh = self._disk.open(path + ".tmp", create=True)
            fresh.truncate(0)
            fresh.write(data, 0)
            self._written = version
        return path + ".tmp", path


def _sync_file(disk: Disk, path: str) -> None:
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return  # its segment is gone, and it with it
    sync(file)
