"""Memory for the page cache that costs every measurement the same.

A virtual machine may have given its free pages back to the host, and the first write to such a page waits for the
host: ten times the cost of the write itself, charged to whoever writes.  A file written and removed just before
leaves pages that the host has already provided, and they are taken first.  On other machines it does no harm.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

CHUNK_BYTES = 1 << 16


def provide(folder: Path, size: int) -> None:
    """Room for writing about `size` bytes; little of it ever reaches the disk."""
    chunk = bytes(CHUNK_BYTES)
    with tempfile.NamedTemporaryFile(dir=folder) as scratch:
        for _ in range(size * 3 // 2 // CHUNK_BYTES):
            os.write(scratch.fileno(), chunk)
