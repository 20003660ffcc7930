"""The fast check of a segment and the walk that recovery does come to the same verdict."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.storage.test_recovery import shapes, written
from tests.unit.storage.making import FOLDER, make_volume
from tidelog.storage.integrity.verification import SegmentCheck, find_damage
from tidelog.testing import VirtualDisk

PATH = f"{FOLDER}/{0:020d}.log"


@settings(max_examples=200, deadline=None)
@given(shape=shapes, chance=st.randoms(use_true_random=False), flips=st.integers(0, 3))
def test_both_ways_agree(shape: list[tuple[int, int]], chance: Random, flips: int) -> None:
    disk = VirtualDisk(Random(1))
    make_volume(disk)
    disk.make_folder(FOLDER)
    data, _, ends = written(shape)
    disk.open(PATH, create=True).write(data, 0)
    for _ in range(flips):
        disk.rot(PATH, chance.randrange(len(data)))
    check = SegmentCheck(disk, FOLDER, 0, len(data), False)
    while not check.done:
        check.step()
    ranges = find_damage(disk.open(PATH), 0, len(data), ends[-1])
    assert check.whole == (ranges == [])
    for before, after in pairwise(ranges):
        assert before.position + before.size <= after.position and before.end <= after.start
    if disk.read_file(PATH) == data:
        assert check.whole and ranges == []
