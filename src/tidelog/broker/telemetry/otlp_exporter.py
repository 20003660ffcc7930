"""Forwards the metrics that clients push to an OTLP receiver (`tidelog.telemetry.otlp.endpoint`), in Protobuf over HTTP.

Clients never wait for the receiver: what cannot be sent waits in a bounded queue and is sent again, as OTLP says."""

from __future__ import annotations

import asyncio
import gzip
import logging
import random
import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from tidelog.broker.telemetry.export_queue import (
    RETRIED_STATUSES,
    ExportQueue,
    MetricsExport,
    retry_after_s,
    with_attributes,
)
from tidelog.config import BrokerConfig
from tidelog.config.otlp import parse_headers
from tidelog.net.http_request import HttpAnswer, NoAnswer, NotSent, send

log = logging.getLogger("tidelog.telemetry")

ANSWER_BYTES_MAX = 1 << 16
STOP_S_MAX = 2.0
SHOWN_MAX = 200
PORTS = {"http": 80, "https": 443}


class OtlpExporter:
    def __init__(self, config: Callable[[], BrokerConfig], chance: random.Random) -> None:
        """Reads the certificates of `tidelog.telemetry.otlp.ca`: raises OSError if that fails."""
        self.queue = ExportQueue()
        self._config = config
        self._random = chance
        self._came = asyncio.Event()
        self._in_turn = asyncio.Lock()
        self._failing = False
        endpoint = urlsplit(config().tidelog_telemetry_otlp_endpoint or "")
        host, port = endpoint.hostname or "", endpoint.port or PORTS[endpoint.scheme]
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._path = (endpoint.path or "/") + (f"?{endpoint.query}" if endpoint.query else "")
        self._tls = _tls(config().tidelog_telemetry_otlp_ca) if endpoint.scheme == "https" else None

    def put(self, metrics: bytes | memoryview, attributes: Mapping[str, str]) -> None:
        """Metrics of one push, decompressed and known to be sound; `attributes`: of the client that pushed them."""
        bytes_max = self._config().tidelog_telemetry_otlp_queue_bytes_max
        self.queue.put(with_attributes(metrics, attributes), bytes_max)
        self._came.set()

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._came.wait()
            self._came.clear()
            while len(self.queue):
                await asyncio.sleep(await self._export())

    async def stop(self) -> None:
        """Sends what waits, if that takes no longer than a moment."""
        try:
            async with asyncio.timeout(STOP_S_MAX):
                while not await self._export() and len(self.queue):
                    pass
        except TimeoutError:
            pass
        if len(self.queue):
            log.warning("%d bytes of client metrics were not forwarded", self.queue.queued_bytes)

    async def _export(self) -> float:
        """Sends once; returns the seconds to wait before the next time."""
        async with self._in_turn:
            return await self._export_in_turn() if len(self.queue) else 0

    async def _export_in_turn(self) -> float:
        export = self.queue.take()
        try:
            answer = await self._send(export)
        except BaseException as problem:
            wait_s = self._failed(export, str(problem) or "no answer in time", None)
            if isinstance(problem, NotSent | NoAnswer | TimeoutError):
                return wait_s
            raise
        if 200 <= answer.status < 300:
            self.queue.accepted(export)
            if self._failing:
                self._failing = False
                log.info("client metrics are forwarded again")
            return 0
        reason = f"status {answer.status}: {answer.body[:SHOWN_MAX]!r}"
        if answer.status in RETRIED_STATUSES:
            return self._failed(export, reason, retry_after_s(answer.headers))
        self.queue.refused(export)
        self._tell("does not take client metrics, which are dropped", reason)
        return 0

    async def _send(self, export: MetricsExport) -> HttpAnswer:
        config = self._config()
        body = await asyncio.to_thread(gzip.compress, export.body, 6)
        headers = {
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
            **parse_headers(config.tidelog_telemetry_otlp_headers or ""),
        }
        async with asyncio.timeout(config.tidelog_telemetry_otlp_timeout_ms / 1000):
            return await send(self._address, "POST", self._path, headers, body, ANSWER_BYTES_MAX, self._tls)

    def _failed(self, export: MetricsExport, reason: str, after_s: float | None) -> float:
        self._tell("cannot be reached: client metrics wait", reason)
        bytes_max = self._config().tidelog_telemetry_otlp_queue_bytes_max
        return self.queue.failed(export, bytes_max, self._random.random(), after_s)

    def _tell(self, what: str, reason: str) -> None:
        """Once, until metrics are forwarded again."""
        if not self._failing:
            self._failing = True
            log.warning("the OTLP receiver at %s %s (%s)", self._address, what, reason)


def new_exporter(config: Callable[[], BrokerConfig], chance: random.Random) -> OtlpExporter | None:
    """None: the broker has no receiver to forward to."""
    return OtlpExporter(config, chance) if config().tidelog_telemetry_otlp_endpoint else None


def _tls(authorities: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authorities)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
