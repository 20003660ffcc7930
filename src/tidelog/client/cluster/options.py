"""Options that every client takes for its connections, with Kafka's names and defaults.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tidelog.client import checks
from tidelog.client.checks import INT32_MAX, INT64_MAX
from tidelog.client.security.security import Security


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    client_id: str = "tidelog"
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    security: Security | None = None
    enable_metrics_push: bool = True
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000

    def __post_init__(self) -> None:
        if self.client_id is not None:
            checks.text("client_id", self.client_id)
        if self.security is not None and not isinstance(self.security, Security):
            raise TypeError(f"security must be a Security(...), not {self.security!r}")
        checks.truth("enable_metrics_push", self.enable_metrics_push)
        for option in fields(self):
            if option.name not in ("client_id", "security", "enable_metrics_push"):
                # It is on the wire, as the time that the broker may take.
                most = INT32_MAX if option.name == "request_timeout_ms" else INT64_MAX
                checks.whole(option.name, getattr(self, option.name), 1, most)
