"""The decoders that a broker runs on what strangers send: whatever the bytes, they end soon, take little memory, and
either give a request or say that it is none."""

from __future__ import annotations

import tracemalloc
from random import Random
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.broker.requests import SERVED, Known, bent_frame, frame, message_of
from tests.property.wire.examples import class_of
from tidelog._speed.wire.fetch_frames import decode_fetch
from tidelog._speed.wire.produce_frames import decode_produce
from tidelog._speed.wire.request_header import request_header
from tidelog.broker.routes import FETCH, PRODUCE, ROUTES
from tidelog.wire.primitives import Malformed

KNOWN = Known(["orders", "keyed"], [UUID(int=7)], ["/data"])
MEMORY_MAX = 1 << 20


def decoded(request: bytes, api_key: int, version: int) -> bool:
    """As the router does it; anything else than these two exceptions is a failure of the test."""
    try:
        _, at = request_header(request, version >= ROUTES[api_key].flexible_from)
        if api_key == PRODUCE:
            decode_produce(request, at, version)
        elif api_key == FETCH:
            decode_fetch(request, at, version)
        else:
            class_of(message_of(api_key)).decode_prefix(request, version, at)
    except (ValueError, Malformed):
        return False
    return True


def test_sound_requests_decode() -> None:
    for api_key, version in SERVED:
        random = Random(f"{api_key} {version}")
        for _ in range(5):
            assert decoded(frame(random, api_key, version, KNOWN), api_key, version)


@settings(max_examples=500, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(SERVED))
def test_mutilated_requests_decode_or_are_refused(random: Random, served: tuple[int, int]) -> None:
    decoded(bent_frame(random, frame(random, *served, KNOWN)), *served)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(SERVED))
def test_bytes_at_random_decode_or_are_refused(data: bytes, served: tuple[int, int]) -> None:
    decoded(bytes(8) + data, *served)


def test_hostile_requests_take_little_memory() -> None:
    tracemalloc.start()
    try:
        for api_key, version in SERVED:
            random = Random(f"hostile {api_key} {version}")
            for _ in range(10):
                request = bent_frame(random, frame(random, api_key, version, KNOWN))
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                decoded(request, api_key, version)
                peak = tracemalloc.get_traced_memory()[1] - before
                assert peak < MEMORY_MAX, f"{ROUTES[api_key].name} {version}: {request.hex()}"
    finally:
        tracemalloc.stop()
