"""Where the plain bytes of an encrypted file lie in it: which block has a position, and where the frames end.

Blocks begin with a frame, whose header says its plain position, so a search by halves over the blocks finds any position;
what was found is kept.  Reads are native (`FrameOpener`).  The owner sees to it that one thread at a time is here."""

from __future__ import annotations

from collections.abc import Callable

from tidelog._speed.log.encrypted_frames import BLOCK, FILE_HEADER, FRAME_HEADER, FrameOpener, walk_headers
from tidelog.storage.disk import ReadableFile
from tidelog.storage.encryption.key_service import KeyUnavailable

_READ_BLOCKS = 32
_NOWHERE = 1 << 62


def block_start(block: int) -> int:
    return FILE_HEADER + block * BLOCK


class FrameMap:
    def __init__(self, inner: ReadableFile, derive: Callable[[bytes], bytes]) -> None:
        self.inner = inner
        self._derive = derive
        self._opener: FrameOpener | None = None
        self._firsts: dict[int, int] = {0: 0}
        self.end = 0
        """Behind the last frame, in the plain file."""
        self.physical_end = FILE_HEADER
        self.rotten = False
        """The last read met bytes that are not what was sealed."""

    @property
    def opener(self) -> FrameOpener:
        if self._opener is None:
            self._opener = FrameOpener(self._derive)
        return self._opener

    def forget_keys(self) -> None:
        self._opener = None

    def find_end(self) -> None:
        """From the last block that has a frame.  What lies behind that is no frame: a torn write, or reserved."""
        block = self._last_used((self.inner.size() - FILE_HEADER + BLOCK - 1) // BLOCK - 1)
        self.end, self.physical_end = 0, FILE_HEADER
        while block >= 0:
            start = block_start(block)
            ends = self._end_of_block(self.inner.read(BLOCK, start), start)
            if ends is not None:
                self.end, self.physical_end = ends
                return
            block -= 1

    def _end_of_block(self, raw: bytes, start: int) -> tuple[int, int] | None:
        try:
            opener = self.opener
            opener.walk(raw, start, -1, _NOWHERE, _NOWHERE)
        except KeyUnavailable:
            last_frame = walk_headers(raw, start)
            return None if last_frame is None else last_frame[1:]
        return None if opener.end < 0 else (opener.end, opener.physical_end)

    def _last_used(self, last: int) -> int:
        """The last block that does not begin with zeros: a file that had room reserved ends with many that do."""
        if last < 0 or any(self._head(last)):
            return last
        low, high = -1, last
        while high - low > 1:
            middle = (low + high) // 2
            if any(self._head(middle)):
                low = middle
            else:
                high = middle
        return low

    def _head(self, block: int) -> bytes:
        return self.inner.read(8, block_start(block))

    # Finding

    @property
    def blocks(self) -> int:
        return (self.physical_end - FILE_HEADER + BLOCK - 1) // BLOCK

    def first(self, block: int) -> int:
        """The plain position of the first frame in the block, or of one before where its header is not plausible."""
        while block > 0:
            first = self._firsts.get(block)
            if first is None:
                head = self._head(block)
                length, position = int.from_bytes(head[:4]), int.from_bytes(head[4:])
                if 0 < length <= BLOCK - FRAME_HEADER and 0 < position <= block * BLOCK:
                    first = self._firsts[block] = position
            if first is not None:
                return first
            block -= 1
        return 0

    def block_of(self, position: int) -> int:
        low, high = 0, max(1, self.blocks)
        while high - low > 1:
            middle = (low + high) // 2
            if self.first(middle) <= position:
                low = middle
            else:
                high = middle
        return low

    def starts(self, block: int, position: int) -> None:
        self._firsts[block] = position

    def cut(self, end: int, physical_end: int) -> None:
        self.end, self.physical_end = end, physical_end
        blocks = self.blocks
        self._firsts = {block: first for block, first in self._firsts.items() if block == 0 or block < blocks}

    # Reading

    def read(self, start: int, stop: int) -> bytearray:
        """Plain bytes; zeros in place of a frame that fails authentication, and after the last frame."""
        out = bytearray(stop - start)
        self.rotten = False
        sound_stop = min(stop, self.end)
        if start < sound_stop:
            block = self.block_of(start)
            self._read(out, start, sound_stop, block, verify=False)
            if self.rotten:
                # A header that rotted may have led past frames that are whole.
                out = bytearray(stop - start)
                self._firsts = {0: 0}
                self._read(out, start, sound_stop, max(0, min(block, self.block_of(start)) - 1), verify=True)
        return out

    def _read(self, out: bytearray, start: int, stop: int, block: int, verify: bool) -> None:
        opener, reached = self.opener, self.first(block)
        if self._firsts.get(block) is None:
            reached = -1
        while True:
            count = min(_READ_BLOCKS, max(0, stop - max(reached, 0)) // (BLOCK - 2 * FRAME_HEADER) + 1)
            raw = self.inner.read(
                min(count * BLOCK, self.physical_end - block_start(block)), block_start(block)
            )
            if not raw:
                return
            reached = opener.walk(raw, block_start(block), reached, start, stop, out, verify)
            self.rotten = self.rotten or opener.rotten
            block += count
            if reached >= stop or block >= self.blocks:
                return
