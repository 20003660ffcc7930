"""The data directories of several processes: one part for each broker, and the metadata store beside them.

    DIR/processes.json      the ids of the brokers; in the first data directory
    DIR/processes.lock      locked while the processes run
    DIR/metadata/           the metadata store that they share, unless etcd has it
    DIR/broker-N/           the data of broker N, in each data directory

What one broker left directly in DIR becomes the part of that broker.  Each rename can be the last thing that happens: the
next start goes on with the rest."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tidelog.app.processes.plan import broker_folder
from tidelog.config.properties import parse_properties
from tidelog.errors import InvalidConfig
from tidelog.storage.dirs.log_dir import LOCK

KEPT = "processes.json"
RUNNING = "processes.lock"
METADATA = "metadata"
METADATA_FILES = "metadata.sqlite"
SECURE = "secure"
IDENTITY = "meta.properties"
WAIT_S_MAX = 40.0
LOOK_S = 0.1
_PARTITION = re.compile(r".+-[0-9]+")


def brokers_in(folder: str) -> list[int]:
    """The ids of the brokers whose parts are in the data directory; empty for that of one broker."""
    try:
        ids: list[int] = json.loads(Path(folder, KEPT).read_text())["brokers"]
    except OSError:
        return []
    except (ValueError, KeyError, TypeError):
        raise InvalidConfig(f"{Path(folder, KEPT)} is damaged: restore it from a backup") from None
    return ids


def check_single(folder: str) -> None:
    """One broker must not begin anew beside the parts of several."""
    ids = brokers_in(folder)
    if ids:
        raise InvalidConfig(
            f"{folder} has the data of {len(ids)} processes: start it with --processes {len(ids)}"
        )


@contextmanager
def locked(folder: str) -> Iterator[None]:
    """Processes inherit the lock, so the folder is free only when the last of them has ended: those of a supervisor that
    was killed end by themselves, a moment later."""
    os.makedirs(folder, exist_ok=True)
    descriptor = os.open(os.path.join(folder, RUNNING), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not _flock(descriptor, WAIT_S_MAX):
            raise InvalidConfig(f"{folder} is in use: another `tidelog serve` runs there")
        yield
    finally:
        os.close(descriptor)


def _flock(descriptor: int, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOOK_S)


def prepare(folders: Sequence[str], ids: Sequence[int], shares_metadata: bool) -> None:
    """Makes the parts of the brokers `ids`.  InvalidConfig if that would leave data behind."""
    before = brokers_in(folders[0])
    for folder in folders:
        _check_left_out(folder, sorted(set(before) - set(ids)))
    adopted = {
        folder: _broker_of(folder) for folder in folders if os.path.exists(os.path.join(folder, IDENTITY))
    }
    for folder, node in adopted.items():
        if node not in ids:
            raise InvalidConfig(
                f"{folder} has the data of broker {node}, and the processes are the brokers {ids[0]} to {ids[-1]}: give "
                f"--id {node}"
            )
    with ExitStack() as unused:
        for folder in adopted:
            unused.enter_context(_unused(folder))
        _keep(folders[0], ids)
        for folder, node in adopted.items():
            _adopt(folder, node)
    if shares_metadata:
        _adopt_metadata(folders[0])


def _keep(folder: str, ids: Sequence[int]) -> None:
    if brokers_in(folder) == list(ids):
        return
    os.makedirs(folder, exist_ok=True)
    kept = Path(folder, KEPT)
    new = kept.with_suffix(".new")
    with new.open("w") as file:
        file.write(json.dumps({"brokers": list(ids)}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(kept)
    _sync(folder)


def _check_left_out(folder: str, ids: Sequence[int]) -> None:
    for node in ids:
        part = broker_folder(folder, node)
        replicas = [entry for entry in _entries(part) if _PARTITION.fullmatch(entry)]
        if replicas:
            raise InvalidConfig(
                f"broker {node} still has {len(replicas)} replica(s) in {part}: start it again, move them away with "
                f"`tidelog brokers drain {node} --execute --wait`, stop, and then start with fewer processes"
            )


def _broker_of(folder: str) -> int:
    identity = parse_properties(Path(folder, IDENTITY).read_text(encoding="utf-8"))
    node = identity.get("node.id", identity.get("broker.id", ""))
    if not node.isdecimal():
        raise InvalidConfig(f"{Path(folder, IDENTITY)} is damaged: restore it from a backup")
    return int(node)


def _adopt(folder: str, node: int) -> None:
    """What one broker wrote into the folder becomes its part; its identity last, which says that there is more."""
    part = broker_folder(folder, node)
    os.makedirs(part, exist_ok=True)
    own = {KEPT, RUNNING, METADATA, SECURE, IDENTITY, LOCK}
    for entry in _entries(folder):
        is_part = entry.startswith("broker-") and entry.removeprefix("broker-").isdecimal()
        if entry not in own and not is_part and not entry.startswith(METADATA_FILES):
            os.rename(os.path.join(folder, entry), os.path.join(part, entry))
    _sync(part)
    os.rename(os.path.join(folder, IDENTITY), os.path.join(part, IDENTITY))
    _sync(part)
    _sync(folder)


def _adopt_metadata(folder: str) -> None:
    """SQLite's own file last: without it the others are of no use, and a start in between finds it."""
    files = sorted(
        (entry for entry in _entries(folder) if entry.startswith(METADATA_FILES)), key=len, reverse=True
    )
    if not files:
        return
    target = os.path.join(folder, METADATA)
    os.makedirs(target, exist_ok=True)
    for entry in files:
        os.rename(os.path.join(folder, entry), os.path.join(target, entry))
    _sync(target)
    _sync(folder)


@contextmanager
def _unused(folder: str) -> Iterator[None]:
    """No broker runs in the folder, and none starts meanwhile."""
    descriptor = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not _flock(descriptor, 0):
            raise InvalidConfig(f"{folder} is in use: stop the broker that runs there first")
        yield
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, LOCK))
    finally:
        os.close(descriptor)


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
