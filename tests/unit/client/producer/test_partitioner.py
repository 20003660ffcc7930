from __future__ import annotations

import warnings
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.murmur2 import murmur2 as murmur2_by_the_book
from tidelog._speed.client.intake import BY_CALL, ROUND_ROBIN, STICKY
from tidelog.client.producer.partitioner import another, by_key, kind_of, murmur2

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
    assert murmur2(key) == murmur2_of_kafka_python(key) & 0xFFFFFFFF == murmur2_by_the_book(key)


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_a_key_always_goes_to_the_same_partition(key: bytes, partitions: int) -> None:
    chosen = by_key("any", key, partitions)
    assert chosen is not None and 0 <= chosen < partitions
    assert (
        chosen == by_key("other", key, partitions) == (murmur2_of_kafka_python(key) & 0x7FFFFFFF) % partitions
    )


def test_records_without_a_key_may_go_anywhere() -> None:
    assert by_key("any", None, 5) is None


def test_moving_on_means_another_partition_if_there_is_one() -> None:
    random = Random(1)
    assert {another([0, 1, 2], 1, random) for _ in range(50)} == {0, 2}
    assert another([7], 7, random) == 7


def test_partitioners_go_by_name_or_are_functions() -> None:
    assert kind_of("sticky") == (STICKY, None) and kind_of("round_robin") == (ROUND_ROBIN, None)
    assert kind_of(by_key) == (BY_CALL, by_key)
    with pytest.raises(ValueError, match="partitioner cannot be 'random': use 'murmur2', 'sticky'"):
        kind_of("random")
