"""Metrics of remote storage: copies, deletions, reads, the cache, and what each partition has in the store."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.gateways.http.services import GatewayServices
from tidelog.gateways.metrics.page import Page


def remote_storage(around: GatewayServices, page: Page) -> Iterator[None]:
    sources = around.figures.remote
    if sources is None:
        return
    copied, reader = sources.counters, sources.tiers.reader
    page.put("mq_remote_copied_segments_total", copied.copies)
    page.put("mq_remote_copied_bytes_total", copied.copied_bytes)
    page.put("mq_remote_copy_errors_total", copied.copy_errors)
    page.put("mq_remote_deleted_segments_total", copied.deletes)
    page.put("mq_remote_delete_errors_total", copied.delete_errors)
    page.put("mq_remote_read_requests_total", reader.counters.requests)
    page.put("mq_remote_read_bytes_total", reader.counters.bytes)
    page.put("mq_remote_read_errors_total", reader.counters.errors)
    page.put("mq_remote_reads_waiting", reader.waiting)
    page.put("mq_remote_cache_bytes", reader.cache.size)
    page.put("mq_remote_cache_hits_total", reader.cache.hits)
    for number, cold in enumerate(sources.tiers.logs):
        if cold.manifest is not None:
            page.put("mq_remote_partition_size_bytes", cold.size, *cold.name)
        if number % 50 == 49:
            yield
    yield
