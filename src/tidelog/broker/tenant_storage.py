"""The stored bytes of tenants: measures the logs of this broker, reports to the other brokers, and finds the tenants that
have reached `stored_bytes_max`.

Each broker adds the last reports of the others to its own measurement, so all brokers decide alike within the time of two
measurements.  A full tenant may write again once it stores clearly less than its limit: otherwise the broker would refuse
and accept it by turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from tidelog import errors
from tidelog.broker.gate import Gate
from tidelog.config import BrokerConfig
from tidelog.config.listener_security import ListenerSecurity
from tidelog.metadata.controller import Controller
from tidelog.metadata.image.image import Image
from tidelog.metadata.tenants import SEPARATOR, STORED_BYTES_MAX
from tidelog.storage.dirs.log_dir import LogDirectory
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.types import NodeId, TopicPartition

log = logging.getLogger("tidelog.tenants")

MEASURE_S = 2.0
LOGS_IN_TURN = 50
ENOUGH_ROOM = 0.95
"""A tenant that was full may write again below this share of its limit."""
TOLD_SHARE = 0.01
TOLD_BYTES = 64 << 10
"""A change that is smaller, and a smaller share of what was told, is told later."""


def full_tenants(
    stored_bytes: Mapping[str, int], limits: Mapping[str, float], full_before: Iterable[str]
) -> frozenset[str]:
    """The tenants that may not write now."""
    before = frozenset(full_before)
    return frozenset(
        tenant
        for tenant, limit in limits.items()
        if stored_bytes.get(tenant, 0) >= limit * (ENOUGH_ROOM if tenant in before else 1)
    )


def worth_telling(reported: Mapping[str, int], now: Mapping[str, int]) -> bool:
    if reported.keys() != now.keys():
        return True
    return any(abs(now[name] - reported[name]) > max(TOLD_BYTES, TOLD_SHARE * reported[name]) for name in now)


def doors_without_login(config: BrokerConfig) -> list[str]:
    """The listeners (and the HTTP port) without a login: their clients belong to no tenant, and see the whole cluster."""
    doors = [
        f"listener {listener.name}"
        for listener in config.listeners
        if not _authenticates(config.security[listener.name])
    ]
    return doors if config.http_logs_in or not config.tidelog_http_listen[1] else [*doors, "the HTTP port"]


def _authenticates(security: ListenerSecurity) -> bool:
    return security.has_login or (security.encrypts and security.tls.client_auth == "required")


class TenantStorage:
    def __init__(self, node: NodeId, dirs: LogDirs, controller: Controller, gate: Gate) -> None:
        self._node = node
        self._dirs = dirs
        self._controller = controller
        self._gate = gate
        self._here: dict[str, int] = {}
        self._full: frozenset[str] = frozenset()
        self._closed_sizes: dict[object, int] = {}
        self._warned = False

    def stored_here(self, tenant: str) -> int:
        """Bytes in the logs of this broker, as last measured."""
        return self._here.get(tenant, 0)

    def stored_bytes(self) -> dict[str, int]:
        """Bytes of all replicas of each tenant, as far as brokers have told."""
        sums = dict(self._here)
        for node, usage in self._controller.image.tenant_usage.items():
            if node != self._node:
                for tenant, size in usage.items():
                    sums[tenant] = sums.get(tenant, 0) + size
        return sums

    async def run(self) -> None:
        """For ever."""
        while True:
            try:
                await self.measure()
            except errors.TidelogError as problem:
                log.warning(
                    "The stored bytes of tenants could not be reported to the other brokers: %s", problem
                )
            await asyncio.sleep(MEASURE_S)

    async def measure(self) -> None:
        limits = _limits(self._controller.image)
        self._warn_of_open_doors(bool(limits))
        self._here = await self._measured(limits.keys()) if limits else {}
        bounded = {tenant: limit for tenant, limit in limits.items() if limit is not None}
        full = full_tenants(self.stored_bytes(), bounded, self._full)
        for tenant in sorted(full - self._full):
            log.warning(
                "Tenant %s has reached stored_bytes_max: produce requests to its topics are refused", tenant
            )
        for tenant in sorted(self._full - full):
            log.info("Tenant %s is below stored_bytes_max again: its topics accept records", tenant)
        self._full = full
        self._gate.tenants_are_full(full)
        reported = self._controller.image.tenant_usage.get(self._node, {})
        if worth_telling(reported, self._here):
            await self._controller.access.report_usage(self._node, self._here)

    def _warn_of_open_doors(self, has_tenants: bool) -> None:
        """Once, when the first tenant is there."""
        doors = doors_without_login(self._controller.config()) if has_tenants and not self._warned else []
        self._warned = has_tenants
        if doors:
            log.warning(
                "There are tenants, and %s %s no login: clients of it belong to no tenant and see all tenants.  Let "
                "listeners ask for a login, set tidelog.http.authentication=required, or keep clients away from it.",
                " and ".join(doors),
                "has" if len(doors) == 1 else "have",
            )

    async def _measured(self, tenants: Iterable[str]) -> dict[str, int]:
        tenant_names = frozenset(tenants)
        sums: dict[str, int] = {}
        closed: dict[object, int] = {}
        measured = 0
        for where in self._dirs.online():
            for name in list(where.names):
                tenant, separator, _ = name.topic.partition(SEPARATOR)
                if not separator or tenant not in tenant_names or name not in where.names:
                    continue
                open_log = where.logs.get(name)
                key = (where.path, name)
                if open_log is not None:
                    size = open_log.size
                else:
                    # Nothing is written to a log that is not open: the disk is asked once.
                    size = closed[key] = self._closed_sizes.get(key) or _size_of(where, name)
                sums[tenant] = sums.get(tenant, 0) + size
                measured += 1
                if measured % LOGS_IN_TURN == 0:
                    await asyncio.sleep(0)
        self._closed_sizes = closed
        return sums


def _size_of(where: LogDirectory, name: TopicPartition) -> int:
    try:
        return where.size_of(name)
    except errors.KafkaStorageError:
        return 0


def _limits(image: Image) -> dict[str, float | None]:
    """The storage limit of every tenant; None: no limit."""
    return {
        entity.tenant: stored.values.get(STORED_BYTES_MAX)
        for entity, stored in image.quotas.items()
        if entity.tenant is not None
    }
