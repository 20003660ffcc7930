"""A test that awaits is an `async def`: pytest runs it on the loop that it needs (`run_async` in tests/conftest.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.test_layers import ROOT

# Tests that replace a coroutine function of the package with their own, and are no coroutines themselves.
REPLACING = {
    "tests/simulation/cluster/test_replica_fetchers.py",
}


def nested_functions(tree: ast.AST) -> Iterator[tuple[str, ast.AsyncFunctionDef]]:
    """The coroutine functions within synchronous tests, and every other function called `scenario` within a function."""
    for outer in ast.walk(tree):
        if not isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for inner in ast.walk(outer):
            if not isinstance(inner, ast.AsyncFunctionDef) or inner is outer:
                continue
            plain_test = isinstance(outer, ast.FunctionDef) and outer.name.startswith("test_")
            if plain_test or inner.name == "scenario":
                yield outer.name, inner


def test_no_test_wraps_a_coroutine_function() -> None:
    nested = [
        f"{path.relative_to(ROOT)}:{inner.lineno}: {inner.name}, in {outer}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.relative_to(ROOT).as_posix() not in REPLACING and " async def" in path.read_text()
        for outer, inner in nested_functions(ast.parse(path.read_text()))
    ]
    assert not nested, "make the test an `async def`, and mark it `simulated` if it runs on virtual time"
