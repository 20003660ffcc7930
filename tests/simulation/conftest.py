"""Simulated brokers complain a lot, with reason; when one seed is looked at, it is worth reading."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from tidelog.testing.scenario import SEED_VARIABLE


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("tidelog")
    before = logger.level
    logger.setLevel(logging.NOTSET if SEED_VARIABLE in os.environ else logging.CRITICAL + 1)
    yield
    logger.setLevel(before)
