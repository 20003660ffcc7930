"""What clients pushed about themselves (KIP-714), and what became of their pushes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tidelog import errors
from tidelog.broker.telemetry.export_queue import QUEUE_FULL, REFUSED
from tidelog.gateways.http.services import GatewayServices
from tidelog.gateways.metrics.page import Page


def clients(around: GatewayServices, page: Page) -> Iterator[None]:
    metrics = around.services.client_metrics
    page.put("mq_client_pushes_total", metrics.pushes)
    page.put("mq_client_pushed_bytes_total", metrics.pushed_bytes)
    for code, count in sorted(metrics.problems.items()):
        page.put("mq_client_telemetry_refused_total", count, errors.name_of(code))
    if (exporter := around.services.otlp_exporter) is not None:
        queue = exporter.queue
        page.put("mq_client_exports_total", queue.exported)
        page.put("mq_client_export_bytes_total", queue.exported_bytes)
        page.put("mq_client_export_retries_total", queue.retries)
        for reason in (QUEUE_FULL, REFUSED):
            page.put("mq_client_export_dropped_total", queue.dropped[reason], reason)
        page.put("mq_client_export_queued_bytes", queue.queued_bytes)
    heard = metrics.clients
    software = Counter(
        (client.identity.client_software_name, client.identity.client_software_version) for client in heard
    )
    for (name, version), count in sorted(software.items()):
        page.put("mq_client_instances", count, name, version)
    page.put("mq_client_metric_left_out_series", sum(client.left_out for client in heard))
    for client in reversed(heard):  # what is left out for want of room is of clients that have been silent
        identity = client.identity
        for (metric, attributes), value in list(client.series.items()):
            shown = ",".join(f"{key}={text}" for key, text in attributes)
            page.put(
                "mq_client_metric", value, identity.client_id, identity.client_instance_id, metric, shown
            )
        yield
