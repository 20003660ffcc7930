"""A log whose damaged ranges were written anew knows the same producers and transactions as one that was never damaged."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.storage.making import FOLDER, NOW_MS, append, make_volume, open_log
from tidelog._speed.log.batch import walk
from tidelog._speed.log.records import Record
from tidelog.config import TopicConfig
from tidelog.record import EndMarker, Marker, build_batch, build_marker
from tidelog.storage.files import OpenFiles
from tidelog.storage.integrity.damage_notes import note_damage
from tidelog.storage.integrity.restoring import fits, restore
from tidelog.storage.integrity.verification import find_damage
from tidelog.storage.log import Log
from tidelog.storage.recovery import Recovery
from tidelog.testing import VirtualDisk

CONFIG = TopicConfig(segment_bytes=700, index_interval_bytes=100)
PRODUCERS = 3

# What one producer does next: sends in its transaction, commits, aborts, or (all of them) sends outside of any.
steps = st.lists(
    st.tuples(st.integers(0, PRODUCERS - 1), st.sampled_from(["send", "send", "commit", "abort", "plain"])),
    min_size=5,
    max_size=40,
)


def write(log: Log, steps: list[tuple[int, str]]) -> None:
    sequences, opened = [0] * PRODUCERS, [False] * PRODUCERS
    for producer, step in steps:
        base = log.next
        if step == "plain":
            data = build_batch([Record(base, NOW_MS, None, b"plain", ())], base_offset=base, leader_epoch=0)
        elif step == "send":
            data = build_batch(
                [Record(base, NOW_MS, None, b"sent", ())],
                base_offset=base,
                leader_epoch=0,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequences[producer],
                transactional=True,
            )
            sequences[producer] += 1
            opened[producer] = True
        elif opened[producer]:
            marker = Marker.COMMIT if step == "commit" else Marker.ABORT
            data = build_marker(
                EndMarker(marker, 1),
                producer_id=producer,
                producer_epoch=0,
                timestamp=NOW_MS,
                base_offset=base,
                leader_epoch=0,
            )
            opened[producer] = False
        else:
            continue
        append(log, data)
        for header in walk(data):
            if header.producer_id >= 0:
                log.appender.learned(header, partial(bytes, data))


def facts(log: Log) -> object:
    producers = [
        (one.id, one.epoch, one.next_sequence, one.transaction_start, [tuple(kept) for kept in one.batches])
        for one in sorted(log.producers, key=lambda one: one.id)
    ]
    return log.aborted(0, log.end), producers, log.producers.unstable_below(log.end)


@settings(max_examples=150, deadline=None)
@given(steps=steps, chance=st.randoms(use_true_random=False), count=st.integers(1, 3), late=st.booleans())
async def test_a_restored_log_knows_the_transactions_of_one_that_was_never_damaged(
    steps: list[tuple[int, str]], chance: Random, count: int, late: bool
) -> None:
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    log = open_log(volume, CONFIG)
    write(log, steps)
    expected, end = facts(log), log.end
    log.close()
    disk.kill()
    paths = [f"{FOLDER}/{name}" for name in sorted(disk.list(FOLDER)) if name.endswith(".log")]
    original = {path: disk.read_file(path) for path in paths}
    batches = [(path, header) for path in paths for header in walk(original[path])][:-1]
    rotten = chance.sample(batches, min(count, len(batches)))
    # Of what rots `late` the log has learned before.
    for path, header in rotten[late:]:
        disk.rot(path, header.position + 61 + chance.randrange(header.size - 61))
    volume = replace(volume, files=OpenFiles(16), damaged={})
    report = Recovery(volume, FOLDER, CONFIG, power_lost=False).run(0, 0)
    assert report.end == end
    log = open_log(volume, CONFIG, recovery_point=end)
    assert facts(log) == expected or log.damaged
    for path, header in rotten[:late]:
        disk.rot(path, header.position + 61 + chance.randrange(header.size - 61))
        segment = log.segments[log.segments.holding(header.base_offset)]
        note_damage(log, segment, find_damage(disk.open(path), segment.base, segment.size, segment.end))
    for bad in log.damaged:
        data = original[f"{FOLDER}/{bad.base:020d}.log"][bad.position : bad.position + bad.size]
        assert fits(bad, len(data))
        assert await restore(log, bad, data, walk(data))
    assert not log.damaged and facts(log) == expected
    log.close()
    disk.kill()
    volume = replace(volume, files=OpenFiles(16), damaged={})
    assert facts(open_log(volume, CONFIG, recovery_point=end)) == expected
