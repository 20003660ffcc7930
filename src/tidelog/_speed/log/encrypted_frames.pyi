"""Frames of an encrypted file: sealed when bytes are written, found and opened when they are read."""

from collections.abc import Callable

from typing_extensions import Buffer

from tidelog.errors import TidelogError

FILE_HEADER: int
BLOCK: int
FRAME_HEADER: int

class CryptoMissing(TidelogError): ...

class AesGcm:
    """One key of 32 bytes.  For few and small texts: data keys, checks."""

    def __init__(self, key: bytes) -> None: ...
    def seal(self, nonce: bytes, plain: bytes, associated: bytes) -> bytes:
        """The ciphertext and its tag."""
    def open(self, nonce: bytes, sealed: bytes, associated: bytes) -> bytes | None:
        """None when it is not what was sealed."""

class FrameSealer:
    """The frames of one session, in the order they are made."""

    def __init__(self, session: bytes, key: bytes, counter: int = 0) -> None: ...
    @property
    def counter(self) -> int:
        """Of the last frame."""
    @property
    def frames_left(self) -> int: ...
    def seal(self, data: Buffer, logical: int, physical: int, batches: bool) -> bytes:
        """What to write at `physical` for plain bytes at `logical`.  `batches`: a frame ends where a record batch does."""
    def seal_slot(self, data: Buffer, logical: int) -> bytes:
        """One frame, to take the place of another one."""

class FrameOpener:
    """Finds and opens the frames of one file.  `derive` gives the key of a session by its name."""

    def __init__(self, derive: Callable[[bytes], bytes]) -> None: ...
    @property
    def end(self) -> int:
        """Behind the last sound frame of the last walk, in the plain file; -1 when there was none."""
    @property
    def physical_end(self) -> int: ...
    @property
    def rotten(self) -> bool:
        """The last walk met bytes that are no frame, or not what was sealed."""
    @property
    def slots(self) -> list[tuple[int, int, int]]: ...
    def walk(
        self,
        raw: Buffer,
        physical: int,
        expected: int,
        start: int,
        stop: int,
        out: Buffer | None = None,
        verify: bool = False,
        listed: bool = False,
    ) -> int:
        """Passes the frames in `raw`, which begins with a block at `physical`, where the plain position `expected` is
        next; -1 if that is not known.  Those with plain bytes from `start` to `stop` are opened into `out`, whose first
        byte is the one of `start`; what cannot be opened is left as it is there.  `verify`: all are opened.  `listed`:
        `slots` gets (physical, plain position, length) of each sound frame.  Gives `end`."""

def walk_headers(raw: Buffer, physical: int) -> tuple[int, int, int] | None:
    """(plain position of the first frame, plain end, physical end) of the frames in one block, as their headers say, without
    a key; None where none begins.  A frame that is cut ends the walk."""
