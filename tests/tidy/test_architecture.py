"""docs/internals/architecture.md is about the code that is there."""

from __future__ import annotations

import re

from tests.tidy.test_layers import LAYERS, ROOT, SOURCE

PAGE = ROOT / "docs" / "internals" / "architecture.md"
TEXT = PAGE.read_text()
PATHS = ("Produce", "Fetch", "Rebalance", "Micro-batch")
_FILE = re.compile(r"`([\w/]+\.pyx?)`")


def picture() -> list[set[str]]:
    """The packages of each row, from the top."""
    drawn = TEXT.split("## Layers", 1)[1].split("```")[1]
    return [set(line.partition("│")[0].split()) for line in drawn.strip().splitlines()]


def test_the_picture_of_the_layers_is_the_table_of_the_tests() -> None:
    packages = {
        path.stem for path in SOURCE.iterdir() if not path.name.startswith("__") and path.name != "py.typed"
    }
    expected = [row & packages for row in reversed(LAYERS)]
    assert picture() == [row for row in expected if row]
    assert set().union(*picture()) == packages


def test_every_file_that_the_page_names_exists() -> None:
    names = _FILE.findall(TEXT)
    assert len(names) > 60
    assert not [name for name in names if not (SOURCE / name).is_file()]
    links = re.findall(r"\]\(([\w-]+\.md)\)", TEXT)
    assert not [link for link in links if not (PAGE.parent / link).is_file()]


def test_every_path_has_its_steps() -> None:
    for name in PATHS:
        steps = TEXT.split(f"**{name}** (", 1)[1].split("\n\n**")[0].split("\n## ")[0]
        assert len(_FILE.findall(steps)) >= 6, name
