"""Metrics of the process and its event loop."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from importlib.metadata import version

from tidelog.gateways.http.services import GatewayServices
from tidelog.gateways.metrics.page import Page

_VERSION = version("tidelog")
_PAGE_BYTES = resource.getpagesize()
_TICKS = os.sysconf("SC_CLK_TCK")


def open_files() -> int:
    """Takes milliseconds when there are many open files: call it on a thread."""
    return len(os.listdir("/proc/self/fd"))


def process(around: GatewayServices, page: Page, files: int) -> Iterator[None]:
    delay = around.figures.load_meter.delay_ms
    page.put_histogram("mq_event_loop_delay_ms", delay.bounds, delay.read(), delay.sum)
    page.put("mq_build_info", 1, _VERSION, around.node_id, around.cluster_id)
    for status, count in sorted(around.statuses.items()):
        page.put("mq_http_requests_total", count, status)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    page.put("process_cpu_seconds_total", usage.ru_utime + usage.ru_stime)
    page.put("process_max_fds", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    yield
    with open("/proc/self/statm", "rb") as file:
        page.put("process_resident_memory_bytes", int(file.read().split()[1]) * _PAGE_BYTES)
    with open("/proc/self/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    page.put("process_start_time_seconds", round(booted + ticks / _TICKS, 2))
    page.put("process_open_fds", files)
    yield
