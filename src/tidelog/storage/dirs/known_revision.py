"""The newest revision of the metadata that this broker has seen, kept on its own disk.

A store that is behind it was restored from a backup.  Written from time to time and without a sync: an older number only
makes the check weaker."""

from __future__ import annotations

from tidelog.storage.disk import Disk

FILE = "metadata-revision"


def read_known_revision(disk: Disk, folder: str) -> int:
    """0 when nothing is known."""
    try:
        return int(disk.read_file(f"{folder}/{FILE}"))
    except (OSError, ValueError):
        return 0


def write_known_revision(disk: Disk, folder: str, revision: int) -> None:
    disk.replace_file(f"{folder}/{FILE}", b"%d\n" % revision)
