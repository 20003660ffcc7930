"""What the parts of the blocking admin client have in common: the asyncio client, and a way to run its coroutines."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from tidelog.client.admin import admin

T = TypeVar("T")


class AdminPart:
    _core: admin.Admin

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        raise AssertionError("Admin overrides this")
