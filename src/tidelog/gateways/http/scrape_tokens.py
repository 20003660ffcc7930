"""Tokens for scrapers of metrics, in the file `tidelog.http.metrics.token.file`: one in each line, so that a new token can
be there before the old one goes.  The file is read again when it has changed."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger("tidelog.login")

METRICS = "/metrics"
SCRAPER = "Scraper:metrics"
"""A principal that no user can be: those begin with User:."""
LENGTH_MIN = 20
TOKENS_MAX = 16
FILE_BYTES_MAX = 65_536
LOOK_EVERY_MS = 1_000


class ScrapeTokens:
    def __init__(self, path: Callable[[], str | None], now_ms: Callable[[], int]) -> None:
        self._path = path
        self._now_ms = now_ms
        self._looked_ms: int | None = None
        self._state: tuple[object, ...] = ()
        self._digests: tuple[bytes, ...] = ()

    def accepts(self, token: str) -> bool:
        path = self._path()
        if path is None:
            return False
        now_ms = self._now_ms()
        if self._looked_ms is None or now_ms - self._looked_ms >= LOOK_EVERY_MS:
            self._looked_ms = now_ms
            self._look(Path(path))
        digest = _digest(token)
        return any(hmac.compare_digest(digest, accepted) for accepted in self._digests)

    def _look(self, path: Path) -> None:
        try:
            facts = path.stat()
            state = (path, facts.st_mtime_ns, facts.st_size, facts.st_ino)
            if state == self._state:
                return
            self._state = state
            with path.open(encoding="utf-8") as file:
                lines = file.read(FILE_BYTES_MAX).split()
        except (OSError, UnicodeDecodeError) as problem:
            reason = getattr(problem, "strerror", None) or "it is not UTF-8 text"
            if self._digests or self._state != (path,):
                log.error("no token of tidelog.http.metrics.token.file counts: %s: %s", path, reason)
            self._state, self._digests = (path,), ()
            return
        long_enough = [line for line in lines if len(line) >= LENGTH_MIN][:TOKENS_MAX]
        if len(long_enough) < len(lines):
            log.error(
                "%s: %d tokens do not count: a token has at least %d characters, and the file at most %d tokens",
                *(path, len(lines) - len(long_enough), LENGTH_MIN, TOKENS_MAX),
            )
        self._digests = tuple(map(_digest, long_enough))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
