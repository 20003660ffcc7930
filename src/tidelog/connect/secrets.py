"""References to secrets in settings, as Kafka's config providers write them: `${env:NAME}`, `${file:PATH:KEY}` (a
properties file), `${dir:PATH:FILE}`.  Resolved where a task runs, just before: secrets are in no topic, log or answer."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tidelog.config.properties import parse_properties
from tidelog.errors import InvalidConfig

_REFERENCE = re.compile(r"\$\{(env|file|dir):([^}]+)\}")
BYTES_MAX = 1 << 20


def resolve(given: Mapping[str, str]) -> dict[str, str]:
    """The settings with the values of their references; `InvalidConfig` names a reference that leads nowhere."""
    return {
        name: _REFERENCE.sub(lambda match, name=name: _look_up(name, match), text)  # type: ignore[misc]
        for name, text in given.items()
    }


def _look_up(name: str, match: re.Match[str]) -> str:
    kind, rest = match[1], match[2]
    if kind == "env":
        value = os.environ.get(rest)
        if value is None:
            raise InvalidConfig(f"{name} refers to the variable {rest}, which this worker does not have")
        return value
    path, _, key = rest.rpartition(":")
    if not path or not key:
        raise InvalidConfig(f"{name} must be of the form ${{{kind}:PATH:KEY}}")
    try:
        if kind == "dir":
            return _read(Path(path) / Path(key).name).rstrip("\n")
        values = parse_properties(_read(Path(path)))
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise InvalidConfig(f"{name} refers to {path}, which cannot be read: {reason}") from None
    if key not in values:
        raise InvalidConfig(f"{name} refers to {key!r} in {path}, which does not have it")
    return values[key]


def _read(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(BYTES_MAX)
