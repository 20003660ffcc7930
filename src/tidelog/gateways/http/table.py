"""The one table of what the HTTP port serves.

A gateway is a module with `routes(around) -> list[BaseRoute]`, imported at the first request for one of its paths.  Of
several gateways with a claim on a path the first one in this table that has a route for it answers."""

from __future__ import annotations

from typing import NamedTuple


class Gateway(NamedTuple):
    module: str
    prefixes: tuple[str, ...]
    """Whole first segments of paths; / claims every path."""
    exactly: tuple[str, ...] = ()
    """Whole paths."""

    def claims(self, path: str) -> bool:
        return path in self.exactly or any(
            prefix == "/" or path == prefix or path.startswith(prefix + "/") for prefix in self.prefixes
        )


GATEWAYS: tuple[Gateway, ...] = (
    Gateway("tidelog.gateways.http.health", ("/health",)),
    Gateway("tidelog.gateways.metrics.routes", ("/metrics",)),
    Gateway(
        "tidelog.gateways.registry.routes",
        ("/subjects", "/schemas", "/config", "/compatibility", "/mode", "/contexts"),
    ),
    Gateway("tidelog.gateways.rest.routes", ("/v3", "/topics", "/consumers"), exactly=("/openapi.json",)),
    Gateway("tidelog.gateways.amqp.management.routes", ("/api",)),
    Gateway("tidelog.gateways.console.app", ("/console",), exactly=("/",)),
)
