from __future__ import annotations

import asyncio
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.cli.records.input_lines import Lines, LineTooLong


async def lines_of(*writes: bytes, line_bytes_max: int = 1000) -> list[bytes]:
    """What comes out when a pipe gets these writes, one after the other was read."""
    reading, writing = os.pipe()
    try:
        lines = Lines(reading, line_bytes_max)
        for data in writes:
            os.write(writing, data)
        os.close(writing)
        return [line async for chunk in lines for line in chunk]
    finally:
        os.close(reading)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=30)), st.booleans())
def test_lines_come_as_they_are_however_they_are_cut(texts: list[bytes], ends_in_newline: bool) -> None:
    texts = [text.replace(b"\n", b"") for text in texts]
    data = b"\n".join(texts) + (b"\n" if ends_in_newline else b"")
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    assert asyncio.run(lines_of(*pieces)) == expected


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(LineTooLong):
        asyncio.run(lines_of(b"x" * 1001))


async def test_a_thread_that_waits_for_input_does_not_hold_up_the_end() -> None:
    reading, _writing = os.pipe()
    lines = Lines(reading, 1000)
    lines.close()


async def test_a_descriptor_that_cannot_be_read_raises() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with pytest.raises(OSError):
            async for _ in Lines(writing, 1000):  # the writing end: reading it fails
                pass
    finally:
        os.close(writing)
