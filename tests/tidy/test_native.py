"""The layers hold in native code, too: what .pyx and .pxd files import, and where they call up by the name of a method."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tidy.test_layers import SOURCE, row

NATIVE = sorted([*SOURCE.rglob("*.pyx"), *SOURCE.rglob("*.pxd")])
# Upward calls, as `(<object>thing).name`: objects of Python classes that native code knows only by the name of a method.
# This list may only become shorter.
UPWARD = {
    ("_speed/log/append.pyx", "_add_to_index"),
    ("_speed/log/append.pyx", "_append_failed"),
    ("_speed/log/append.pyx", "_begin_group_append"),
    ("_speed/log/append.pyx", "_reserve_index"),
    ("_speed/log/append.pyx", "_started"),
    ("_speed/log/append.pyx", "append_failed"),
    ("_speed/log/append.pyx", "begin_epoch"),
    ("_speed/log/append.pyx", "file"),
    ("_speed/log/append.pyx", "met"),
    ("_speed/log/append.pyx", "refusal"),
    ("_speed/log/append.pyx", "roll"),
    ("_speed/log/append.pyx", "wrote"),
    ("_speed/wire/delayed_produce.pyx", "wrote"),
    ("_speed/wire/unchanged_partitions.pyx", "in_sync"),
}
NATIVE_LINES_MAX = 530
_IMPORT = re.compile(r"^\s*(?:from|c?import)\s+(tidelog(?:\.\w+)*)", re.MULTILINE)
_UPWARD = re.compile(r"\(\s*<\s*object\s*>\s*(?:[^()]|\([^()]*\))*\)\s*\.\s*(\w+)")


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_native_modules_import_what_is_below_them(path: Path) -> None:
    here = row("_speed")
    assert here is not None
    for name in _IMPORT.findall(path.read_text()):
        package = name.split(".")[1]
        there = row(package)
        assert package == "_speed" or (there is not None and there < here), (
            f"{path.name} must not import {name}"
        )


def test_native_files_fit_their_reader() -> None:
    long = {
        path.relative_to(SOURCE).as_posix(): count
        for path in NATIVE
        if (count := path.read_text().count("\n")) > NATIVE_LINES_MAX
    }
    assert not long, "two nouns in one file?"


def test_native_modules_call_nothing_above_them_by_name() -> None:
    calls = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in NATIVE
        for name in _UPWARD.findall(path.read_text())
    }
    assert not calls - UPWARD, "pass a value down, or return one: native code does not call up"
    assert not UPWARD - calls, "these are gone: take them off the list"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("(<object>log)._gather(segment)", ["_gather"]),
        ("x = (<object> self.partition).wrote(1)", ["wrote"]),
        ("(<object>logs[0].of(1)).name", ["name"]),
        ("(<SegmentTail>segment).size", []),
    ],
)
def test_an_upward_call_is_seen(code: str, names: list[str]) -> None:
    assert _UPWARD.findall(code) == names
