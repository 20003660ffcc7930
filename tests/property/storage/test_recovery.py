"""Every way to cut the tail of a log leaves the longest whole prefix."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.storage.making import FOLDER, append, batch, make_volume, offsets, open_log
from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.recovery.recovery import Recovery
from tidelog.testing import VirtualDisk

CONFIG = TopicConfig(index_interval_bytes=100)
PATH = f"{FOLDER}/{0:020d}.log"

shapes = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 120)), min_size=1, max_size=6)


def written(shape: list[tuple[int, int]]) -> tuple[bytes, list[int], list[int]]:
    """The bytes of a log, where each batch ends in them, and the offset after each."""
    data, positions, ends, offset = b"", [], [], 0
    for count, size in shape:
        data += batch(offset, count, value=bytes(size))
        offset += count
        positions.append(len(data))
        ends.append(offset)
    return data, positions, ends


@settings(max_examples=8, deadline=None)
@given(shape=shapes, power_lost=st.booleans(), noise=st.binary(max_size=80))
def test_every_truncation_recovers_the_longest_whole_prefix(
    shape: list[tuple[int, int]], power_lost: bool, noise: bytes
) -> None:
    data, positions, ends = written(shape)
    for size in range(len(data) + 1):
        disk = VirtualDisk(Random(1))
        volume = make_volume(disk)
        disk.make_folder(FOLDER)
        found = data[:size] + noise
        disk.open(PATH, create=True).write(found, 0)
        report = Recovery(volume, FOLDER, CONFIG, power_lost).run(0, 0)
        # Noise may complete what was cut.
        whole = sum(found[:position] == data[:position] for position in positions)
        assert report.end == (ends[whole - 1] if whole else 0)
        assert not report.damaged
        log = open_log(volume, CONFIG, recovery_point=report.end)
        assert offsets(log) == list(range(report.end))


@settings(max_examples=60, deadline=None)
@given(shape=shapes, chance=st.randoms(use_true_random=False), flips=st.integers(1, 4))
def test_no_record_that_rotted_is_served(shape: list[tuple[int, int]], chance: Random, flips: int) -> None:
    """Of a killed process's log every record is there as it was, or reported, and the rest is read around it."""
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    log = open_log(volume, CONFIG)
    data, positions, ends = written(shape)
    starts = [0, *positions[:-1]]
    for start, position in zip(starts, positions, strict=True):
        append(log, data[start:position])
    disk.kill()
    struck = set()
    for _ in range(flips):
        at = chance.randrange(len(data))
        number = sum(position <= at for position in positions)
        if not 8 <= at - starts[number] < 12 and at - starts[number] < 16:
            continue  # base offset and leader epoch are covered by no checksum
        byte = disk.open(PATH).read(1, at)[0]
        disk.rot(PATH, at, bytes([byte ^ (1 << chance.randrange(8))]))
        if (
            disk.open(PATH).read(positions[number] - starts[number], starts[number])
            != data[starts[number] : positions[number]]
        ):
            struck.add(number)
        else:
            struck.discard(number)
    volume = replace(volume, files=OpenFiles(16))
    report = Recovery(volume, FOLDER, CONFIG, False).run(0, 0)
    log = open_log(volume, CONFIG, recovery_point=report.end)
    good = [
        offset
        for number, end in enumerate(ends)
        if number not in struck
        for offset in range(ends[number - 1] if number else 0, end)
    ]
    served: list[int] = []
    for offset in range(log.end):
        try:
            found = log.reader.read(offset, 1, log.end)
        except CorruptMessage:
            assert any(bad.start <= offset < bad.end for bad in report.damaged)
        else:
            assert found is not None
            if offset in good:
                served.append(offset)
            else:
                raise AssertionError(f"{offset} rotted and was served")
    assert served == good
