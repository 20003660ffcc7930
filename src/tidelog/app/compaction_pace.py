"""The settings of compaction that can change while a broker runs, handed to its cleaners."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.config import BrokerConfig
from tidelog.storage.compaction.cleaner import Cleaner
from tidelog.storage.compaction.runner_pool import RunnerPool


def pace_compaction(runners: RunnerPool | None, cleaners: Sequence[Cleaner], config: BrokerConfig) -> None:
    """Compactions that run at the same time share the memory and the pace."""
    if runners is not None:
        runners.resize(config.log_cleaner_threads)
    share = max(min(config.log_cleaner_threads, len(cleaners)), 1)
    for cleaner in cleaners:
        cleaner.memory_bytes = config.log_cleaner_dedupe_buffer_size // share
        cleaner.backoff_ms = config.log_cleaner_backoff_ms
        cleaner.io_bytes_per_second = config.log_cleaner_io_max_bytes_per_second / share
