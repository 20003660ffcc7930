"""Whose data a log directory holds: `meta.properties`, and the marks that tell how the last run ended."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from tidelog.errors import InconsistentClusterId, InvalidConfig
from tidelog.storage.checkpoints import CorruptCheckpoint, id_of, id_text
from tidelog.storage.disk import Disk

PROPERTIES = "meta.properties"
CLEAN = ".clean-shutdown"
RUNNING = ".running"
FAILED = ".disk-failed"


class Identity(NamedTuple):
    cluster_id: str
    node_id: int
    directory_id: UUID
    siblings: frozenset[UUID] = frozenset()
    """All directories that this broker has had, this one included."""


def read_identity(disk: Disk, folder: str) -> Identity | None:
    """None when the folder is not a log directory yet."""
    path = f"{folder}/{PROPERTIES}"
    if not disk.exists(path):
        return None
    facts = dict(
        line.split("=", 1)
        for line in disk.read_file(path).decode(errors="replace").splitlines()
        if "=" in line and not line.startswith("#")
    )
    try:
        directory_id = id_of(facts["directory.id"])
        siblings = frozenset(map(id_of, facts.get("directory.siblings", "").split()))
        return Identity(facts["cluster.id"], int(facts["node.id"]), directory_id, siblings)
    except (KeyError, ValueError, CorruptCheckpoint) as problem:
        raise InvalidConfig(
            f"{path} does not say whose data this is ({problem}): restore it, or use another directory"
        ) from None


def write_identity(disk: Disk, folder: str, identity: Identity) -> None:
    text = (
        f"version=1\ncluster.id={identity.cluster_id}\nnode.id={identity.node_id}\n"
        f"directory.id={id_text(identity.directory_id)}\n"
        f"directory.siblings={' '.join(sorted(map(id_text, identity.siblings)))}\n"
    )
    disk.replace_file(f"{folder}/{PROPERTIES}", text.encode())


def check_identity(folder: str, identity: Identity, cluster_id: str, node_id: int) -> None:
    if identity.cluster_id != cluster_id:
        raise InconsistentClusterId(
            f"{folder} belongs to cluster {identity.cluster_id}, and this broker to cluster {cluster_id}: "
            f"use another data directory"
        )
    if identity.node_id != node_id:
        raise InvalidConfig(
            f"{folder} belongs to broker {identity.node_id}, and this is broker {node_id}: "
            f"start it with --id {identity.node_id}, or use another data directory"
        )


class LastRun(NamedTuple):
    clean: bool
    power_lost: bool
    """What was written and not synced may be gone; only meaningful when it was not clean."""
    failed: bool
    """The disk failed.  The system may hold bytes as written that it could not write, until it is started anew."""


def read_last_run(disk: Disk, folder: str) -> LastRun:
    clean = disk.exists(f"{folder}/{CLEAN}")
    path = f"{folder}/{RUNNING}"
    text = disk.read_file(path).decode(errors="replace") if disk.exists(path) else ""
    boot, _, mark = text.partition("\n")
    failed = mark != "" or disk.exists(f"{folder}/{FAILED}")
    return LastRun(clean, boot == "" or boot != disk.boot_id(), failed)


def mark_running(disk: Disk, folder: str) -> None:
    """From here on, a stop without `mark_clean` is unclean.  After recovery: until it is done, the next start has to
    know which boot the data was written in."""
    disk.replace_file(f"{folder}/{RUNNING}", disk.boot_id().encode())
    disk.remove(f"{folder}/{CLEAN}")
    disk.remove(f"{folder}/{FAILED}")
    disk.sync_folder(folder)


def mark_failed(disk: Disk, folder: str) -> bool:
    """In two ways: bytes behind those of a small file find room where a new name does not.  Not synced: it matters only
    as long as the system that it happened to runs.  False when neither could be written."""
    marked = False
    try:
        file = disk.open(f"{folder}/{RUNNING}")
        file.write(b"\nfailed", file.size())
        marked = True
    except OSError:
        pass
    try:
        disk.open(f"{folder}/{FAILED}", create=True)
        marked = True
    except OSError:
        pass
    return marked


def mark_clean(disk: Disk, folder: str) -> None:
    disk.replace_file(f"{folder}/{CLEAN}", b"")
