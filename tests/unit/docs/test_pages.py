"""The pages as a whole: links lead somewhere, commands are ones that Tidelog takes, and the site needs no network."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml  # type: ignore[import-untyped]

from tests.unit.cli.commands import leaves

ROOT = Path(__file__).resolve().parents[3]
OUTSIDE = sorted(ROOT.glob("*.md"))  # the site has the pages of docs, and checks these itself
# The reference is generated, and its examples are parsed where they are written.
PAGES = [
    *OUTSIDE,
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "reference"),
]
LEAVES = dict(leaves())
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
UNQUOTED = r"""(?=(?:[^'"]|'[^']*'|"[^"]*")*$)"""
SEPARATOR = re.compile(rf"(?:&&|\||; ){UNQUOTED}")
REDIRECTION = re.compile(rf"\s[<>]+\s?{UNQUOTED}")
SHELLS = ("", "sh", "bash", "shell", "console")


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", OUTSIDE, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", page.read_text())):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        path = page.parent / file if file else page
        assert path.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(path.read_text()), f"{page.name}: {target}"


def command_lines(text: str) -> Iterator[str]:
    """From `tidelog` to the end of each command in the blocks of a page."""
    for language, block in BLOCK.findall(text):
        if language not in SHELLS:
            continue
        for line in block.replace("\\\n", " ").splitlines():
            for part in SEPARATOR.split(re.sub(r"\s#\s.*", "", line)):
                words = part.strip().removeprefix("$ ").strip()
                if re.match(r"(\w+=\S+ )*(\.venv/bin/)?tidelog (?! )", words) and "top  " not in words:
                    words = (
                        words.rstrip("&")
                        .replace("--id N ", "--id 1 ")
                        .replace("$id", "1")
                        .replace(" ... ", " ")
                    )
                    yield re.sub(r"^.*?tidelog\s+", "", REDIRECTION.split(words)[0])


def parse(line: str) -> None:
    words = shlex.split(line)
    for size in (3, 2, 1):
        command = LEAVES.get(tuple(words[:size]))
        if command is not None:
            command.make_context(" ".join(words[:size]), words[size:])
            return
    if words[0] in ("--help", "--version", "dev") or words[-1] == "--help" or "_COMPLETE" in line:
        return
    raise click.UsageError(f"there is no command {words[0]}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_are_ones_that_tidelog_takes(
    page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").touch()
    for line in command_lines(page.read_text()):
        try:
            parse(line)
        except click.exceptions.Exit:  # of --help
            continue
        except click.ClickException as problem:
            raise AssertionError(f"tidelog {line}: {problem.format_message()}") from None


def test_the_commands_of_pages_are_found() -> None:
    lines = [line for page in PAGES for line in command_lines(page.read_text())]
    assert len(lines) > 150
    with pytest.raises(click.ClickException):
        parse("topics create x --partition 3")


def test_every_alert_has_a_runbook() -> None:
    rules = yaml.safe_load((ROOT / "deploy/prometheus/tidelog.rules.yml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    pages = (ROOT / "docs/guide/runbooks.md").read_text()
    assert alerts == set(re.findall(r"^\| `(\w+)` \|", pages, re.MULTILINE))


def test_the_site_is_built_its_links_lead_somewhere_and_it_loads_nothing_from_elsewhere(
    tmp_path: Path,
) -> None:
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(list((ROOT / "docs").rglob("*.md")))
    for page in pages:
        loaded = re.findall(r'<(?:script|img|link|iframe)\b[^>]*?(?:src|href)="([^"]*)"', page.read_text())
        remote = [address for address in loaded if re.match(r"(https?:)?//", address)]
        assert not remote, f"{page.name} loads {remote}"
    assert (tmp_path / "site" / "search" / "search_index.json").exists()
