from __future__ import annotations

import warnings
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.partitioner import Sticky, by_key, murmur2

with warnings.catch_warnings():
    # It reads its message definitions through a deprecated function.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

# From the tests of Kafka's Java client (UtilsTest.testMurmur2), as signed numbers.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), JAVA.items())
def test_murmur2_is_that_of_the_java_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


@given(st.binary(max_size=100))
def test_murmur2_agrees_with_kafka_python(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) & 0xFFFFFFFF


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_a_key_always_goes_to_the_same_partition(key: bytes, partitions: int) -> None:
    chosen = by_key("any", key, partitions)
    assert chosen is not None and 0 <= chosen < partitions
    assert (
        chosen == by_key("other", key, partitions) == (murmur2_of_kafka_python(key) & 0x7FFFFFFF) % partitions
    )


def test_records_without_a_key_may_go_anywhere() -> None:
    assert by_key("any", None, 5) is None


def test_sticky_stays_for_about_a_batch_then_moves_on() -> None:
    sticky = Sticky(1000, Random(1))
    visited = []
    for _ in range(40):
        partition = sticky.stay(100)
        visited.append(sticky.move(range(4), 100) if partition is None else partition)
    runs = [visited[at : at + 10] for at in range(0, 40, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(before[0] != after[0] for before, after in pairwise(runs))


def test_sticky_with_one_partition_has_no_choice() -> None:
    sticky = Sticky(10, Random(1))
    assert [sticky.move([7], 10) for _ in range(3)] == [7, 7, 7]
