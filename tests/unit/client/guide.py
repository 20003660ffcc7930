"""Runs the examples of the guides: on a broker of their own, with its address in place of the usual one."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidelog.testing import InnerBroker

GUIDES = Path(__file__).parents[3] / "docs" / "guide"


class Enough(Exception):
    """An example that goes on for ever has shown what it has to show."""


def blocks(name: str) -> list[tuple[str, str]]:
    """Every Python example, with the headings above it."""
    found, first, second = [], "", ""
    text = (GUIDES / name).read_text()
    for heading, level_two, code in re.findall(
        r"^(#{2,3}) (.*?)$|```python\n(.*?)```", text, re.DOTALL | re.MULTILINE
    ):
        if heading == "##":
            first, second = level_two, ""
        elif heading:
            second = level_two
        else:
            found.append((f"{first}: {second}" if second else first, code))
    return found


class Printed(list[str]):
    """In place of `print`; `most` lines are enough."""

    def __init__(self, most: int = 1_000) -> None:
        super().__init__()
        self._most = most

    def __call__(self, *what: object) -> None:
        self.append(" ".join(map(str, what)))
        if len(self) >= self._most:
            raise Enough


def run_example(code: str, broker: InnerBroker, names: dict[str, Any]) -> None:
    """Also with `await` outside of functions; an example that never ends ends with `Enough`."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compiled = compile(code.replace("127.0.0.1:9092", broker.bootstrap_servers), "example", "exec", flags)
    try:
        if compiled.co_flags & inspect.CO_COROUTINE:
            result: Callable[[], Any] = lambda: eval(compiled, names)  # noqa: E731
            asyncio.run(_within_a_minute(result))
        else:
            exec(compiled, names)
    except Enough:
        pass


async def _within_a_minute(work: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        await work()
