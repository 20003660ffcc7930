"""Every message in every version comes back from its bytes, which are those of the plain reference."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.wire import reference
from tests.property.wire.examples import CASES, class_of, make
from tools.wire.schema import Message

UNKNOWN = [(77, b""), (78, b"\xff\x00"), (300, b"later" * 40)]
FLEXIBLE = [(message, version) for message, version in CASES if version in message.flexible]


@pytest.mark.parametrize("part", range(4))
def test_every_message_comes_back_from_its_bytes(part: int) -> None:
    for message, version in CASES[part::4]:
        for seed in range(4):
            made = make(Random(f"{message.name} {version} {seed}"), message, version)
            data = made.encode(version)
            where = f"{message.name} version {version} seed {seed}"
            assert data == reference.encode(message, made, version), where
            assert type(made).decode(data, version) == made, where
            inside = memoryview(b"head" + data)
            assert type(made).decode(inside, version, 4) == made, where
            assert type(made).decode_prefix(data + b"tail", version) == (made, len(data)), where


def test_a_message_of_defaults_comes_back_in_every_version() -> None:
    for message, version in CASES:
        kind = class_of(message)
        assert kind.decode(kind().encode(version), version) == kind()


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(CASES), st.randoms(use_true_random=False))
def test_any_message_agrees_with_the_reference(case: tuple[Message, int], random: Random) -> None:
    message, version = case
    made = make(random, message, version)
    data = made.encode(version)
    assert data == reference.encode(message, made, version)
    assert type(made).decode(data, version) == made


@pytest.mark.parametrize("part", range(2))
def test_tagged_fields_that_nobody_knows_are_skipped_in_every_struct(part: int) -> None:
    for message, version in FLEXIBLE[part::2]:
        made = make(Random(f"{message.name} {version}"), message, version)
        data = reference.encode(message, made, version, UNKNOWN)
        again = type(made).decode(data, version)
        assert again == made, f"{message.name} version {version}"
        assert again.encode(version) == reference.encode(message, made, version)
