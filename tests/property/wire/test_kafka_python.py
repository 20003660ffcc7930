"""kafka-python's protocol classes agree with ours on every message they have."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from random import Random
from typing import Any

import pytest

from tests.property.wire.examples import EXTENDED_CASES, KAFKA_CASES, make
from tools.wire.schema import Message


def kafka_python_classes() -> dict[str, Any]:
    """All message classes of kafka-python, by Kafka's name."""
    kafka_protocol = importlib.import_module("kafka.protocol")

    found = {}
    for module in pkgutil.walk_packages(kafka_protocol.__path__, "kafka.protocol."):
        if ".old" in module.name or ".schemas" in module.name or module.name.endswith("generate_stubs"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, type) and getattr(value, "_json", None) is not None:
                found[name] = value
    return found


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # from the way it reads its own resources
    THEIRS = kafka_python_classes()


def has(message: Message, version: int) -> bool:
    theirs = THEIRS.get(message.name)
    return theirs is not None and version <= theirs.max_version


SHARED = [(message, version) for message, version in KAFKA_CASES if has(message, version)]


def test_kafka_python_has_the_apis_of_clients() -> None:
    assert len({message.name for message, _ in SHARED}) > 90


@pytest.mark.parametrize("part", range(4))
def test_kafka_python_reads_what_we_write_and_writes_it_back_unchanged(part: int) -> None:
    for message, version in SHARED[part::4]:
        for seed in range(4):
            ours: Any = make(Random(f"{message.name} {version} {seed}"), message, version)
            if message.name == "ApiVersionsResponse":
                ours.error_code = 0  # with an error, kafka-python reads version 0 whatever was asked
            data = ours.encode(version)
            again = through_kafka_python(message, version, data)
            assert again == data, f"{message.name} version {version} seed {seed}"
            assert type(ours).decode(again, version) == ours


def test_kafka_python_passes_over_the_fields_that_are_our_own() -> None:
    cases = [(message, version) for message, version in EXTENDED_CASES if has(message, version)]
    assert {message.name for message, _ in cases} >= {"ElectLeadersRequest", "DescribeLogDirsResponse"}
    for message, version in cases:
        for seed in range(20):
            ours: Any = make(Random(f"own {message.name} {version} {seed}"), message, version)
            data = ours.encode(version)
            again = through_kafka_python(message, version, data)
            without = type(ours).decode(again, version)
            assert through_kafka_python(message, version, without.encode(version)) == again


def through_kafka_python(message: Message, version: int, data: bytes) -> bytes:
    theirs = THEIRS[message.name]
    if message.kind == "data":
        # Its data classes carry their version in front.
        framed = version.to_bytes(2, "big") + data
        return bytes(theirs.decode(framed).encode())[2:]
    plain_encode = importlib.import_module("kafka.protocol.api_message").ApiMessage.encode
    return bytes(plain_encode(theirs.decode(data, version=version)))
