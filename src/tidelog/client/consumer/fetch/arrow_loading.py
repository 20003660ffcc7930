"""Loads pyarrow for `poll_arrow`.  That takes a second or more: on the loop's thread, heartbeats and everything else
would wait for it, so it is done in another one."""

from __future__ import annotations

import sys


def is_loaded() -> bool:
    return "tidelog.client.consumer.fetch.arrow" in sys.modules


def load() -> None:
    """Says what to install when it is not there."""
    from tidelog.client.consumer.fetch import arrow

    arrow.empty()
