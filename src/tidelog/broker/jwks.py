"""The keys that bearer tokens are checked with, from `sasl.oauthbearer.jwks.endpoint.url`: a file or an HTTP address.

They are loaded when the first token comes, again after `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and sooner when
loading has failed.  The last good ones serve while the provider is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, url2pathname, urlopen

from tidelog.access.oauth import JwkSet, parse_jwks
from tidelog.clock import Clock
from tidelog.config import BrokerConfig

log = logging.getLogger("tidelog.login")

BYTES_MAX = 1 << 20
TIMEOUT_S = 10.0
RETRY_MS = 1_000


class KeySource:
    def __init__(self, config: Callable[[], BrokerConfig], clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._keys = JwkSet(())
        self._address: str | None = None
        self._due_ms = 0
        self._loading = asyncio.Lock()

    async def current(self) -> JwkSet:
        config = self._config()
        address = config.sasl_oauthbearer_jwks_endpoint_url
        if address is None:
            log.warning("no bearer token counts: sasl.oauthbearer.jwks.endpoint.url is not set")
            return JwkSet(())
        async with self._loading:
            now_ms = self._clock.monotonic_ms()
            if address != self._address:
                self._address, self._keys, self._due_ms = address, JwkSet(()), 0
            if now_ms >= self._due_ms:
                self._due_ms = now_ms + RETRY_MS
                try:
                    self._keys = parse_jwks(await asyncio.to_thread(_load, address))
                except (OSError, ValueError) as problem:
                    log.error("the keys at %s cannot be loaded: %s", address, problem)
                else:
                    self._due_ms = now_ms + config.sasl_oauthbearer_jwks_endpoint_refresh_ms
        return self._keys


def _load(address: str) -> bytes:
    parts = urlsplit(address)
    if parts.scheme == "file":
        data = Path(url2pathname(parts.path)).read_bytes()
    elif parts.scheme in ("http", "https"):
        with urlopen(Request(address, headers={"accept": "application/json"}), timeout=TIMEOUT_S) as answer:
            data = answer.read(BYTES_MAX + 1)
    else:
        raise ValueError("the address must begin with file:, http: or https:")
    if len(data) > BYTES_MAX:
        raise ValueError(f"more than {BYTES_MAX} bytes")
    return data
