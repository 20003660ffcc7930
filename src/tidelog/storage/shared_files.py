"""Files that two clusters share: a fork has hard links to sealed segments of the cluster that it was made of.

Nobody changes bytes of a sealed segment, with few exceptions: a truncation, a repair in place, and an append after a crash
that has lost the segment behind it.  Each first calls `make_own`.  Only a file system has links: a path of a simulated disk
has none."""

from __future__ import annotations

import os

COPY_BYTES = 4 << 20
TEMPORARY = ".tmp"
"""The next start removes a copy that was not finished."""


def make_own(path: str) -> bool:
    """If the file has another name, `path` gets a durable copy of its own, and the answer is true.  Who has the file open
    goes on with the shared one.  Blocks."""
    try:
        if os.stat(path).st_nlink == 1:
            return False
    except FileNotFoundError:
        return False
    fresh = path + TEMPORARY
    with open(path, "rb") as shared, open(fresh, "wb") as own:
        while data := shared.read(COPY_BYTES):
            own.write(data)
        own.flush()
        os.fsync(own.fileno())
    os.replace(fresh, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True
