"""The package as these tests see it: its modules with their syntax trees, what they import, and its classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.tidy.test_layers import SOURCE, sources, tree_of


class Module(NamedTuple):
    path: Path
    tree: ast.Module


class Class(NamedTuple):
    module: str
    node: ast.ClassDef

    @property
    def where(self) -> str:
        return f"{modules()[self.module].path.relative_to(SOURCE)}:{self.node.lineno}"


@cache
def modules() -> dict[str, Module]:
    """By their absolute names; native modules by their stubs."""
    found = {}
    for path in [*sources(), *sorted((SOURCE / "_speed").rglob("*.pyi"))]:
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(path, tree_of(path))
    return found


def imports(name: str) -> set[str]:
    """The modules of the package that a module imports, late imports included; what only types need is left out."""
    known, found = modules(), set()
    if known[name].path.suffix == ".pyi":
        return set()  # for types only: what native modules import, test_native.py reads in their code
    waiting: list[ast.AST] = [known[name].tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and _is_for_types(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
        # Imports are statements, and no expression has one.
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
    return {one for one in found if one in known and one != name}


def _is_for_types(test: ast.expr) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "TYPE_CHECKING" for part in ast.walk(test))


def cycles() -> list[frozenset[str]]:
    """The largest sets of modules each of which imports every other, directly or through others."""
    imported = {name: imports(name) for name in modules()}
    reached = {name: _reached(name, imported) for name in imported}
    found = {
        frozenset({name} | {one for one in reached[name] if name in reached[one]})
        for name in imported
        if name in reached[name]
    }
    return sorted(found, key=sorted)


def _reached(name: str, imported: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = list(imported[name])
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            waiting += imported[one]
    return reached


def classes() -> Iterator[Class]:
    for name, module in modules().items():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                yield Class(name, node)


def methods(one: Class) -> set[str]:
    """Names of the methods of a class, with those that it inherits from classes of the package."""
    names = {node.name for node in one.node.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for base in one.node.bases:
        parent = _class(one.module, base.value if isinstance(base, ast.Subscript) else base)
        if parent is not None:
            names |= methods(parent)
    return names


def _class(module: str, expression: ast.expr) -> Class | None:
    if not isinstance(expression, ast.Name):
        return None
    home, name = _scope(module).get(expression.id, (module, expression.id))
    if home not in modules():
        return None
    for node in modules()[home].tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return Class(home, node)
    return None


@cache
def _scope(module: str) -> dict[str, tuple[str, str]]:
    """What a name means that was imported from another module."""
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(modules()[module].tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
