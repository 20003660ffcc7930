"""The last offset of every key in a stretch of a log, in a bounded amount of memory."""

from typing_extensions import Buffer

class KeyMap:
    """Grows with its keys until old and new table together would pass `memory_bytes`; `seed` has 16 bytes."""

    def __init__(self, memory_bytes: int, seed: bytes) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    def __len__(self) -> int: ...
    def get(self, key: Buffer) -> int:
        """-1 for a key that was never put."""
    def fingerprint(self, key: Buffer) -> bytes:
        """The 16 bytes that stand for a key."""
    def put(self, key: Buffer, offset: int) -> bool:
        """False, and nothing changed, when the key is new and the map is full."""
