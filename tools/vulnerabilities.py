"""Asks the OSV database for known vulnerabilities of the pinned requirements: `python tools/vulnerabilities.py`, part of
`make deep`.  Without a network it says that nothing was checked, and succeeds."""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILES = ("requirements.txt", "requirements-dev.txt")
URL = "https://api.osv.dev/v1/querybatch"
SECONDS_MAX = 60
QUERIES_MAX = 500
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)


def pinned(text: str) -> Iterator[tuple[str, str]]:
    """(name, version) of each requirement."""
    for match in _PINNED.finditer(text):
        yield re.sub(r"[-_.]+", "-", match[1]).lower(), match[2]


def query(packages: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "queries": [
            {"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in packages
        ]
    }


def found(packages: list[tuple[str, str]], answer: Any) -> list[str]:
    """A line for each package with vulnerabilities; ValueError if the answer is not one to the question."""
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list) or len(results) != len(packages):
        raise ValueError("the answer does not fit the question")
    return [
        f"{name} {version}: {', '.join(sorted(vulnerability['id'] for vulnerability in result['vulns']))}"
        for (name, version), result in zip(packages, results, strict=True)
        if result and result.get("vulns")
    ]


def ask(packages: list[tuple[str, str]]) -> Any:
    request = urllib.request.Request(
        URL, json.dumps(query(packages)).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
        return json.load(answer)


def main() -> int:
    packages = sorted({one for name in FILES for one in pinned((ROOT / name).read_text())})
    lines: list[str] = []
    try:
        for start in range(0, len(packages), QUERIES_MAX):
            part = packages[start : start + QUERIES_MAX]
            lines += found(part, ask(part))
    except (urllib.error.URLError, OSError, ValueError) as problem:
        print(f"not checked for known vulnerabilities: {URL} does not answer ({problem})", file=sys.stderr)
        return 0
    for line in lines:
        print(f"vulnerable: {line}")
    print(f"{len(packages)} requirements checked, {len(lines)} with known vulnerabilities")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
