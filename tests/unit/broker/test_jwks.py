"""The keys of a token provider, from a real one over HTTPS, on a clock of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from tests.conformance.certificates import make_certificates
from tests.conformance.token_provider import TokenProvider
from tidelog.access.oauth import JwkSet, TokenRefused, key_id_of, validate_token
from tidelog.broker.jwks import KeySource
from tidelog.clock import SystemClock
from tidelog.config.oauth import KeyEndpoint, ProviderConnection

HOUR = 3_600_000


class HandClock(SystemClock):
    def __init__(self) -> None:
        self.ms = 1_000_000

    def monotonic_ms(self) -> int:
        return self.ms


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[TokenProvider]:
    make_certificates(tmp_path)
    running = TokenProvider(tmp_path)
    running.start()
    yield running
    running.stop()


class Scene:
    def __init__(self, provider: TokenProvider) -> None:
        self.provider, self.clock = provider, HandClock()
        self.source = KeySource(self.clock)
        self.endpoint = KeyEndpoint(provider.jwks_url, ProviderConnection(str(provider.ca), 2_000, 2_000))

    async def keys(self, token: str) -> JwkSet:
        return await self.source.keys(self.endpoint, key_id_of(token))

    async def counts(self, token: str) -> bool:
        from tidelog.access.oauth import TokenPolicy

        try:
            validate_token(token, await self.keys(token), TokenPolicy(), self.clock.now_ms())
        except TokenRefused:
            return False
        return True

    @property
    def loads(self) -> int:
        return self.provider.requests["/jwks"]


async def test_a_new_key_counts_with_the_first_token_that_names_it(provider: TokenProvider) -> None:
    scene = Scene(provider)
    old = provider.token("ann")
    assert await scene.counts(old) and scene.loads == 1
    provider.rotate()
    scene.clock.ms += scene.endpoint.reload_ms_min
    assert await scene.counts(provider.token("ann")) and scene.loads == 2
    assert not await scene.counts(old)


async def test_a_flood_of_made_up_key_ids_asks_the_provider_once_in_a_while(provider: TokenProvider) -> None:
    scene = Scene(provider)
    good = provider.token("ann")
    assert await scene.counts(good)
    stranger = TokenProvider(provider.folder)
    scene.clock.ms += scene.endpoint.reload_ms_min
    for _ in range(5):
        made_up = []
        for _ in range(10):
            stranger.rotate()
            made_up.append(stranger.token("ann"))
        answers = await asyncio.gather(*map(scene.counts, made_up))
        assert not any(answers) and await scene.counts(good)
        scene.clock.ms += scene.endpoint.reload_ms_min // 5
    assert scene.loads == 2


async def test_old_keys_serve_for_a_bounded_time_while_the_provider_is_away(provider: TokenProvider) -> None:
    scene = Scene(provider)
    token = provider.token("ann")
    assert await scene.counts(token)
    provider.stop()
    scene.clock.ms += scene.endpoint.refresh_ms
    assert await scene.counts(token)
    scene.clock.ms += scene.endpoint.stale_ms_max - 1
    assert await scene.counts(token)
    scene.clock.ms += 1
    assert not await scene.counts(token)
    provider.start()
    scene.clock.ms += scene.endpoint.retry_ms_max
    assert await scene.counts(token)


async def test_a_refresh_that_is_due_holds_nobody_up(provider: TokenProvider) -> None:
    scene = Scene(provider)
    token = provider.token("ann")
    assert await scene.counts(token)
    provider.delay_s = 1.5
    scene.clock.ms += scene.endpoint.refresh_ms
    assert await scene.counts(token)
    assert scene.loads == 1  # it is on its way, and nobody has waited for it
    provider.delay_s = 0


async def test_a_provider_without_an_answer_is_given_up(provider: TokenProvider) -> None:
    scene = Scene(provider)
    scene.endpoint = replace(scene.endpoint, connection=ProviderConnection(str(provider.ca), 200, 200))
    provider.delay_s = 5
    assert not await asyncio.wait_for(scene.counts(provider.token("ann")), 4)


@pytest.mark.parametrize("ca", ["other-ca.pem", None])
async def test_a_provider_that_is_not_trusted_gives_no_keys(provider: TokenProvider, ca: str | None) -> None:
    scene = Scene(provider)
    trusted = None if ca is None else str(provider.folder / ca)
    scene.endpoint = replace(scene.endpoint, connection=ProviderConnection(trusted))
    assert not await scene.counts(provider.token("ann"))
    assert scene.loads == 0
