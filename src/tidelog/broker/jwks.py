"""The keys that bearer tokens are checked with, from `sasl.oauthbearer.jwks.endpoint.url`: a file or a provider's address.

They are loaded when the first token comes.  When their refresh is due, the next token starts it and does not wait for it.
A token whose key is unknown waits for a load of its own, as after a rotation; such loads keep a distance, because anybody
can make up key ids.  While the provider is away, the last good keys serve for a bounded time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from tidelog.access.oauth import JwkSet, parse_jwks
from tidelog.clock import Clock
from tidelog.config.oauth import KeyEndpoint, ProviderConnection
from tidelog.net.provider_request import ProviderFailed, ask_provider

log = logging.getLogger("tidelog.login")

ENDPOINTS_MAX = 100
Load = Callable[[str, ProviderConnection], bytes]
NO_KEYS = JwkSet(())


class KeySource:
    """The keys of all providers that listeners name."""

    def __init__(self, clock: Clock, load: Load = ask_provider) -> None:
        self._clock = clock
        self._load = load
        self._providers: dict[KeyEndpoint, _ProviderKeys] = {}

    async def keys(self, endpoint: KeyEndpoint | None, key_id: str | None) -> JwkSet:
        """`key_id`: which key the token names, if it names one."""
        if endpoint is None:
            log.warning("no bearer token counts: sasl.oauthbearer.jwks.endpoint.url is not set")
            return NO_KEYS
        provider = self._providers.get(endpoint)
        if provider is None:
            if len(self._providers) >= ENDPOINTS_MAX:  # of settings that are no more
                self._providers.clear()
            provider = self._providers[endpoint] = _ProviderKeys(endpoint, self._clock, self._load)
        return await provider.keys(key_id)


class _ProviderKeys:
    def __init__(self, endpoint: KeyEndpoint, clock: Clock, load: Load) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._load = load
        self._keys: JwkSet | None = None
        self._loading: asyncio.Task[None] | None = None
        self._failures = 0
        self._due_ms = 0
        self._reload_ms = 0
        self._stale_ms = 0

    async def keys(self, key_id: str | None) -> JwkSet:
        now_ms = self._clock.monotonic_ms()
        if self._keys is not None and now_ms >= self._stale_ms:
            log.error(
                "the keys of %s count no more: they could not be loaded again for too long",
                self._endpoint.url,
            )
            self._keys = None
        if now_ms >= self._due_ms or (
            self._lacks(key_id) and self._loading is None and now_ms >= self._reload_ms
        ):
            self._begin(now_ms)
        if self._loading is not None and (self._keys is None or self._lacks(key_id)):
            # A client that goes away must not end the load that others wait for.
            await asyncio.shield(self._loading)
        return self._keys or NO_KEYS

    def _lacks(self, key_id: str | None) -> bool:
        return key_id is not None and self._keys is not None and not self._keys.has(key_id)

    def _begin(self, now_ms: int) -> None:
        if self._loading is None:
            self._reload_ms = now_ms + self._endpoint.reload_ms_min
            self._loading = asyncio.get_running_loop().create_task(self._reload())

    async def _reload(self) -> None:
        endpoint = self._endpoint
        try:
            data = await asyncio.to_thread(partial(self._load, endpoint.url, endpoint.connection))
            self._keys = parse_jwks(data)
        except (ProviderFailed, ValueError) as problem:
            pause_ms = min(endpoint.retry_ms << min(self._failures, 30), endpoint.retry_ms_max)
            self._failures += 1
            self._due_ms = self._clock.monotonic_ms() + max(pause_ms, 1)
            log.error("the keys at %s cannot be loaded: %s", endpoint.url, problem)
        else:
            self._failures = 0
            self._due_ms = self._clock.monotonic_ms() + endpoint.refresh_ms
            self._stale_ms = self._due_ms + endpoint.stale_ms_max
        finally:
            self._loading = None
