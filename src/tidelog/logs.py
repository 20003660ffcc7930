"""What log lines carry besides their words."""

from __future__ import annotations

from contextvars import ContextVar

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The request that is worked on, as the client knows it."""
