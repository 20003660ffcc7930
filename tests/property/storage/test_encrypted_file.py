"""An encrypted file against plain bytes: any sequence of appends, cuts, writes over old bytes, reopenings and power cuts.

And over all of it, what the disk ever held: no nonce twice, and nothing plain."""

from __future__ import annotations

import hmac
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog._speed.log.encrypted_frames import BLOCK, FILE_HEADER, FRAME_HEADER
from tidelog.storage.disk import File
from tidelog.storage.encryption.decrypted_cache import DecryptedCache
from tidelog.storage.encryption.encrypted_file import EncryptedFile, EncryptedSource
from tidelog.testing import VirtualDisk

PATH = "/data/orders-0/00000000000000000000.log"
MARK = b"plain text of a client"
sizes = st.one_of(
    st.integers(1, 300), st.integers(1, 3 * BLOCK), st.sampled_from([BLOCK - 40, BLOCK - 41, BLOCK - 104])
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), sizes),
        st.tuples(st.just("cut"), st.floats(0, 1)),
        st.tuples(st.just("over"), st.tuples(st.floats(0, 1), sizes)),
        st.tuples(st.just("reopen"), st.booleans()),
        st.tuples(st.just("power"), st.integers(0, 1 << 30)),
        st.tuples(st.just("read"), st.tuples(st.floats(0, 1), sizes)),
    ),
    max_size=14,
)


class Key:
    def check(self) -> None:
        pass

    def session(self, session: bytes) -> bytes:
        return hmac.digest(b"k" * 32, session, "sha256")


class Watched:
    """Every frame that was ever written, by its session and counter."""

    def __init__(self, inner: File, frames: dict[bytes, bytes]) -> None:
        self.inner = inner
        self.path = inner.path
        self.frames = frames

    def write(self, data: Any, position: int) -> None:
        data = bytes(data)
        assert MARK not in data
        at = 0
        while position >= FILE_HEADER and len(data) - at > FRAME_HEADER:
            length = int.from_bytes(data[at : at + 4])
            if not 0 < length < BLOCK:
                at += BLOCK - (position + at - FILE_HEADER) % BLOCK
                continue
            nonce, frame = data[at + 8 : at + 24], data[at : at + FRAME_HEADER + length]
            assert self.frames.setdefault(nonce, frame) == frame, "a nonce was used twice"
            at += FRAME_HEADER + length
        self.inner.write(data, position)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Scene:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = VirtualDisk(Random(seed))
        self.disk.make_folder("/data/orders-0")
        self.frames: dict[bytes, bytes] = {}
        self.cache = DecryptedCache(1 << 20)
        self.plain = bytearray()
        self.synced = 0
        self.file = self.open()
        self.file._file.write(bytes(FILE_HEADER), 0)
        self.file.sync()
        for folder in ("/data/orders-0", "/data", "/"):
            self.disk.sync_folder(folder)

    def open(self) -> EncryptedFile:
        inner = Watched(self.disk.open(PATH, create=True), self.frames)
        return EncryptedFile(inner, Key(), False, self.cache, self.random.randbytes)  # type: ignore[arg-type]

    def data(self, size: int) -> bytes:
        return (MARK + self.random.randbytes(size))[:size]

    def check(self) -> None:
        assert self.file.size() == len(self.plain)
        assert self.file.read(len(self.plain) + 10, 0) == self.plain
        direct = EncryptedSource(self.disk.open_direct(PATH), Key())
        assert direct.size() == len(self.plain) and direct.read(len(self.plain), 0) == self.plain

    def append(self, size: int) -> None:
        data = self.data(size)
        self.file.write(data, len(self.plain))
        self.plain += data

    def cut(self, part: float) -> None:
        size = int(part * len(self.plain))
        self.file.truncate(size)
        del self.plain[size:]
        self.synced = min(self.synced, size)
        self.file.sync()  # what was cut stays so: a cut that was not synced may come back, as of a plain file

    def over(self, place: tuple[float, int]) -> None:
        position = int(place[0] * len(self.plain))
        data = self.data(place[1])
        self.file.write(data, position)
        self.plain[position : position + len(data)] = data
        self.file.sync()
        self.synced = len(self.plain)

    def reopen(self, sync: bool) -> None:
        if sync:
            self.file.sync()
            self.synced = len(self.plain)
        self.file = self.open()

    def power(self, seed: int) -> None:
        """What was synced is there.  What comes after is read as it is, or as zeros, and can be cut off."""
        self.disk.crash(Random(seed))
        self.file = self.open()
        size = self.file.size()
        assert size >= self.synced
        assert self.file.read(self.synced, 0) == self.plain[: self.synced]
        self.file.truncate(self.synced)
        del self.plain[self.synced :]
        self.file.sync()

    def read(self, place: tuple[float, int]) -> None:
        position = int(place[0] * len(self.plain))
        assert self.file.read(place[1], position) == self.plain[position : position + place[1]]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), steps)
def test_it_reads_back_what_a_plain_file_would_have(seed: int, played: list[tuple[str, Any]]) -> None:
    scene = Scene(seed)
    for name, argument in played:
        getattr(scene, name)(argument)
        scene.check()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.lists(sizes, min_size=1, max_size=6), st.data())
def test_what_rotted_reads_as_zeros_and_can_be_written_anew(
    seed: int, appended: list[int], data: st.DataObject
) -> None:
    scene = Scene(seed)
    for size in appended:
        scene.append(size)
    scene.file.sync()
    physical = len(scene.disk.files()[PATH])
    scene.disk.rot(PATH, data.draw(st.integers(FILE_HEADER, physical - 1)))
    scene.file = scene.open()
    found, whole = scene.file.read(len(scene.plain), 0), bytes(scene.plain)
    if len(found) < len(whole):
        return  # the last frame's header: torn, as the end of a plain file would be
    wrong = [at for at in range(len(whole)) if found[at] != whole[at]]
    if not wrong:
        return  # in what is not used of a block, or zeros where zeros were
    first, last = wrong[0], wrong[-1] + 1
    assert last - first <= BLOCK
    assert set(found[first:last]) <= {0} | {
        byte for at, byte in enumerate(whole[first:last]) if found[first + at] == byte
    }
    scene.file.write(whole[first:last], first)
    assert scene.open().read(len(whole), 0) == whole


@pytest.mark.parametrize("size", [1, BLOCK - FRAME_HEADER, 5 * BLOCK + 7])
def test_a_record_batch_begins_a_frame(size: int) -> None:
    """So that any batch can be cut off without writing those before it anew."""
    scene = Scene(1)
    scene.file = EncryptedFile(scene.disk.open(PATH), Key(), True, scene.cache, scene.random.randbytes)
    batches = [
        bytes(8) + (61 + size * n - 12).to_bytes(4) + scene.random.randbytes(49 + size * n) for n in range(4)
    ]
    scene.file.write(b"".join(batches), 0)
    for kept in (3, 2, 1):
        before = scene.disk.files()[PATH]
        scene.file.truncate(sum(map(len, batches[:kept])))
        after = scene.disk.files()[PATH]
        assert before.startswith(after) and len(after) < len(before)
        assert scene.open().read(1 << 30, 0) == b"".join(batches[:kept])


def test_the_cache_is_bounded_and_forgets_what_was_cut() -> None:
    scene = Scene(2)
    scene.cache.bytes_max = 300_000
    scene.append(2_000_000)
    for position in range(0, 2_000_000, 50_000):
        assert scene.file.read(1000, position) == scene.plain[position : position + 1000]
        assert scene.cache.size <= 300_000
    scene.file.read(1000, 1_999_000)
    scene.cut(0.99)
    scene.append(50_000)
    scene.check()
