"""A file with encrypted bytes on the disk and plain bytes for its callers: `tidelog.storage.disk.File` over another one.

Positions and sizes are those of the plain bytes.  A write at the end appends frames and changes no earlier bytes, so a
power cut tears it like a plain write.  A write over older bytes (repair) keeps the places of frames and encrypts each again.
No nonce is used twice: the frames of one object are one session with a random name, whose counter only grows, also after
truncations and failures.  Bytes that fail authentication read as zeros, which fail every batch's checksum: the broker
finds, records and repairs them like the rotten bytes of a plain file.

There is one object for each file; the flusher's threads and the loop use it, one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from tidelog._speed.log.encrypted_frames import BLOCK, FILE_HEADER, FRAME_HEADER, FrameSealer
from tidelog.storage.disk import File, ReadableFile
from tidelog.storage.encryption.decrypted_cache import WINDOW, DecryptedCache
from tidelog.storage.encryption.frame_map import FrameMap, block_start

_SESSION_BYTES = 12
_FRAMES_SPARE = 1 << 28  # more than a write can need
_CACHED_READ_MAX = 2 * WINDOW
_FILL = b"\xff"  # of what is left of a place: zeros would say that the block ends there


class FileKey(Protocol):
    def session(self, session: bytes) -> bytes:
        """KeyUnavailable when the key is not here (any more)."""
        ...

    def check(self) -> None:
        """As `session`."""
        ...


class EncryptedSource:
    """For reading what the device has."""

    def __init__(self, inner: ReadableFile, key: FileKey) -> None:
        self.path = inner.path
        self._key = key
        self._map = FrameMap(inner, key.session)
        self._found = False

    def size(self) -> int:
        if not self._found:
            self._map.find_end()
            self._found = True
        return self._map.end + max(0, self._map.inner.size() - self._map.physical_end - FRAME_HEADER)

    def read(self, size: int, position: int) -> bytes:
        self._key.check()
        stop = min(position + size, self.size())
        return bytes(self._map.read(position, stop)) if position < stop else b""


class EncryptedFile:
    __slots__ = (
        "__weakref__",
        "_batches",
        "_beyond",
        "_cache",
        "_file",
        "_found",
        "_key",
        "_lock",
        "_map",
        "_number",
        "_random_bytes",
        "_reserved",
        "_sealer",
        "found_rotten",
        "path",
    )

    def __init__(
        self,
        inner: File,
        key: FileKey,
        batches: bool,
        cache: DecryptedCache,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """`batches`: record batches are written, and frames end where they do, so that any of them can be cut off."""
        self.path = inner.path
        self._file = inner
        self._key = key
        self._batches = batches
        self._cache = cache
        self._number = cache.new_file()
        self._random_bytes = random_bytes
        self._lock = threading.RLock()
        self._map = FrameMap(inner, key.session)
        self._sealer: FrameSealer | None = None
        self.found_rotten = False
        """A reader met bytes that are not what was sealed: they have to be checked."""
        self._found = False
        self._beyond = False  # bytes that are no frames lie behind the last one
        self._reserved = False  # and these are zeros

    def __del__(self) -> None:
        self._cache.drop(self._number)

    def size(self) -> int:
        with self._lock:
            self._find()
            if not self._beyond:
                return self._map.end
            return self._map.end + max(0, self._file.size() - self._map.physical_end - FRAME_HEADER)

    def _find(self) -> None:
        if not self._found:
            self._map.find_end()
            self._beyond = self._file.size() > self._map.physical_end
            self._found = True

    def check(self) -> None:
        """KeyUnavailable when its bytes cannot be had."""
        try:
            self._key.check()
        except OSError:
            self._map.forget_keys()
            self._sealer = None
            self._cache.drop(self._number)
            raise

    # Reading

    def read(self, size: int, position: int) -> bytes:
        with self._lock:
            self.check()
            self._find()
            stop = min(position + size, self._map.end)
            if stop - position <= 0:
                return (
                    b"" if not self._beyond else bytes(max(0, min(position + size, self.size()) - position))
                )
            if stop - position > _CACHED_READ_MAX:
                data = bytes(self._map.read(position, stop))
            else:
                data = self._read_windows(position, stop)
            if self._beyond and stop < position + size:
                data += bytes(max(0, min(position + size, self.size()) - stop))
            return data

    def _read_windows(self, start: int, stop: int) -> bytes:
        first, last = start // WINDOW, (stop - 1) // WINDOW
        if first == last:
            base = first * WINDOW
            return bytes(memoryview(self._window(first, stop))[start - base : stop - base])
        pieces = [self._window(number, min(stop, (number + 1) * WINDOW)) for number in range(first, last + 1)]
        return b"".join(pieces)[start - first * WINDOW : stop - first * WINDOW]

    def _window(self, number: int, stop: int) -> bytearray:
        """From the start of the window to `stop` at least."""
        base = number * WINDOW
        data = self._cache.get(self._number, number)
        if base + len(data) < stop:
            more = self._map.read(base + len(data), min(base + WINDOW, self._map.end))
            if data and not self._map.rotten:
                data += more
            else:
                data = data + more if data else more
            if self._map.rotten:
                self.found_rotten = True
            else:
                self._cache.put(self._number, number, data)
        return data

    def send(self, socket: Any, position: int, size: int) -> int:
        """As much as one window has: what the socket does not take is in the cache for the next call."""
        number, at = divmod(position, WINDOW)
        size = min(size, WINDOW - at)
        with self._lock:
            self.check()
            self._find()
            if position + size > self._map.end:
                sent: int = socket.send(self.read(size, position))
            else:
                with (
                    memoryview(self._window(number, position + size)) as window,
                    window[at : at + size] as part,
                ):
                    sent = socket.send(part)
            return sent

    # Writing

    def write(self, data: Any, position: int) -> None:
        view = memoryview(data).cast("B")
        with self._lock:
            self.check()
            self._find()
            end = self._map.end
            if position < end:
                over = min(len(view), end - position)
                self._write_over(view[:over], position)
                view, position = view[over:], end
            if len(view):
                gap = bytes(position - end) if position > end else b""
                self._append(gap + bytes(view) if gap else view)

    def _append(self, view: Any) -> None:
        frames = self._map
        sealed = self._session().seal(view, frames.end, frames.physical_end, self._batches)
        if self._beyond and not self._reserved:
            self._file.truncate(frames.physical_end)
            self._beyond = False
        begin, end = frames.physical_end, frames.end
        try:
            self._file.write(sealed, begin)
        except OSError:
            self._beyond, self._reserved = True, False
            raise
        for block in range(frames.blocks, (begin + len(sealed) - FILE_HEADER + BLOCK - 1) // BLOCK):
            at = block_start(block) - begin
            frames.starts(block, int.from_bytes(sealed[at + 4 : at + 8]))
        frames.end, frames.physical_end = end + len(view), begin + len(sealed)
        self._note_appended(view, end)

    def _note_appended(self, view: Any, position: int) -> None:
        """Adds the appended bytes to the cache, so that a reader of the tail need not decrypt them."""
        number, at = divmod(position, WINDOW)
        if at and at + len(view) <= WINDOW:
            window = self._cache.get(self._number, number)
            if len(window) == at:
                window += view
                self._cache.put(self._number, number, window)

    def _session(self) -> FrameSealer:
        if self._sealer is None or self._sealer.frames_left < _FRAMES_SPARE:
            session = self._random_bytes(_SESSION_BYTES)
            self._sealer = FrameSealer(session, self._key.session(session))
        return self._sealer

    def _write_over(self, view: memoryview, position: int) -> None:
        """Frame by frame, each in its place."""
        frames, stop = self._map, position + len(view)
        self._cache.drop(self._number, position // WINDOW)
        block = frames.block_of(position)
        reached = frames.first(block)
        while block < frames.blocks and reached < stop:
            start = block_start(block)
            raw = self._file.read(min(BLOCK, frames.physical_end - start), start)
            bound = self._first_sound(block + 1, stop)
            plain = bytearray(max(0, bound - reached))
            frames.opener.walk(raw, start, reached, reached, bound, plain, True, True)
            first, places = reached, _places(frames.opener.slots, start, len(raw), reached, bound)
            for physical, logical, length, slot_bytes in places:
                low, high = max(logical, position), min(logical + length, stop)
                if low < high:
                    plain[low - first : high - first] = view[low - position : high - position]
                    sealed = self._session().seal_slot(
                        plain[logical - first : logical - first + length], logical
                    )
                    self._file.write(sealed.ljust(slot_bytes, _FILL), physical)
                reached = logical + length
            block += 1

    def _first_sound(self, block: int, stop: int) -> int:
        """The plain position of the first sound frame from the block on; at most `end`."""
        frames = self._map
        if block >= frames.blocks:
            return frames.end
        start = block_start(block)
        frames.opener.walk(self._file.read(BLOCK, start), start, -1, 0, 0, None, True, True)
        slots = frames.opener.slots
        return slots[0][1] if slots else min(stop, frames.end)

    def truncate(self, size: int) -> None:
        with self._lock:
            self._find()
            frames = self._map
            if size >= frames.end:
                if size <= self.size():
                    self._file.truncate(frames.physical_end)
                    self._beyond = self._reserved = False
                return
            kept, physical, rest = (0, FILE_HEADER, b"") if size == 0 else self._frames_below(size)
            self._file.truncate(physical)
            frames.cut(kept, physical)
            self._beyond = self._reserved = False
            self._cache.drop(self._number, size // WINDOW)
            if rest:
                self._append(rest)

    def _frames_below(self, size: int) -> tuple[int, int, bytes]:
        """Where the last frame below `size` ends, in the plain and in the real file, and what lies between it and `size`:
        nothing in a log, whose batches begin with frames."""
        self.check()
        frames = self._map
        block = frames.block_of(size)
        start, first = block_start(block), frames.first(block)
        frames.opener.walk(self._file.read(BLOCK, start), start, first, 0, 0, None, False, True)
        below = [slot for slot in frames.opener.slots if slot[1] + slot[2] <= size]
        if not below:
            return first, start, bytes(frames.read(first, size)) if first < size else b""
        physical, logical, length = below[-1]
        end = logical + length
        rest = bytes(frames.read(end, size)) if end < size else b""
        return end, physical + FRAME_HEADER + length, rest

    def allocate(self, size: int) -> None:
        with self._lock:
            self._find()
            self._file.allocate(FILE_HEADER + size + size // 64)
            self._beyond = self._reserved = True

    def sync(self) -> None:
        self._file.sync()


def _places(
    slots: list[tuple[int, int, int]], start: int, size: int, first: int, bound: int
) -> list[tuple[int, int, int, int]]:
    """(physical position, plain position, length, bytes of the slot) of the sound frames of a block, and of the gaps in
    place of rotten frames."""
    places: list[tuple[int, int, int, int]] = []
    physical, logical = start, first
    for slot in [*slots, None]:
        behind = (start + size, bound) if slot is None else (slot[0], slot[1])
        if logical < behind[1]:
            slot_bytes = behind[0] - physical
            places.append(
                (physical, logical, min(behind[1] - logical, slot_bytes - FRAME_HEADER), slot_bytes)
            )
        if slot is not None:
            places.append((*slot, FRAME_HEADER + slot[2]))
            physical, logical = slot[0] + FRAME_HEADER + slot[2], slot[1] + slot[2]
    return places
