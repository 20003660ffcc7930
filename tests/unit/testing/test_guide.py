"""What docs/guide/testing.md shows does what it says."""

from __future__ import annotations

import asyncio
import re
import textwrap
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidelog.testing
from tidelog.testing import run

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "testing.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


async def my_server(host: Any, disk: Any, clock: Any) -> None:
    disk.make_folder("/data")
    disk.sync_folder("/")
    for number in range(1, 100):
        disk.open(f"/data/{number}", create=True).sync()
        await asyncio.sleep(1)


def names() -> dict[str, Any]:
    public = {name: getattr(tidelog.testing, name) for name in tidelog.testing.__all__}
    return {**public, "my_server": my_server, "Random": Random, "asyncio": asyncio, "seed": 3}


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_examples_run(number: int) -> None:
    code, namespace = BLOCKS[number], names()
    if "scenario" not in code:
        code = "async def scenario(random: Random) -> None:\n" + textwrap.indent(code, "    ")
    exec(compile(code, f"example {number}", "exec"), namespace)
    for seed in range(5):
        for name in [name for name in namespace if name.startswith("test_")]:
            namespace[name](seed)
        if "scenario" in namespace:
            run(namespace["scenario"], seed)


def test_the_table_names_everything_that_is_public() -> None:
    text = GUIDE.read_text()
    assert [name for name in tidelog.testing.__all__ if f"`{name}" not in text] == ["rerun_command"]
