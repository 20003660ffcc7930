"""Parses Spark's options, which are texts under case-insensitive names, into values.  Pure.

No option is ignored: an unknown name is an error that suggests the most similar known name.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from tidelog.errors import TidelogError

# Spark's own options, which Spark passes along with those of the source or sink.
OF_SPARK = {"path", "checkpointlocation", "queryname", "outputmode", "__partition_columns"}


class PipelineError(TidelogError):
    """An error of a pipeline, its source or its sink, with a message for the user."""


class OptionText:
    """The options of one source or sink.  `aliases`: the names of Spark's Kafka connector."""

    def __init__(
        self, given: Mapping[str, str], option_names: Iterable[str], aliases: Mapping[str, str], subject: str
    ) -> None:
        names = {name.lower(): name for name in option_names}
        also = {alias.lower(): name for alias, name in aliases.items()}
        self._values: dict[str, str] = {}
        for raw, value in given.items():
            low = raw.lower()
            name = names.get(low) or also.get(low)
            if name is None:
                if low not in OF_SPARK:
                    raise PipelineError(_unknown(raw, [*names.values(), *aliases], subject))
            elif name in self._values and self._values[name] != value:
                raise PipelineError(
                    f"option {name!r} is given twice, as {self._values[name]!r} and {value!r}"
                )
            else:
                self._values[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str | None = None) -> str | None:
        value = self._values.get(name, default)
        return value.strip() if value is not None else None

    def needed(self, name: str, example: str) -> str:
        value = self.text(name)
        if not value:
            raise PipelineError(f"option {name!r} is missing: .option({name!r}, {example!r})")
        return value

    def number(self, name: str, default: int | None = None, least: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if number < least:
            raise PipelineError(f"option {name!r} cannot be {value!r}: it is a number of at least {least}")
        return number

    def count(self, name: str, default: int, least: int = 1) -> int:
        number = self.number(name, default, least)
        assert number is not None
        return number

    def flag(self, name: str, default: bool) -> bool:
        value = (self.text(name) or str(default)).lower()
        if value not in ("true", "false"):
            raise PipelineError(f"option {name!r} cannot be {value!r}: use true or false")
        return value == "true"

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        value = (self.text(name) or default).lower()
        if value not in choices:
            raise PipelineError(f"option {name!r} cannot be {value!r}: use {', '.join(choices)}")
        return value

    def json(self, name: str, example: str) -> dict[str, Any]:
        text = self.needed(name, example)
        try:
            value = json.loads(text)
        except ValueError as problem:
            raise PipelineError(f"option {name!r} is not JSON ({problem}): write {example}") from None
        if not isinstance(value, dict):
            raise PipelineError(f"option {name!r} is not a JSON object: write {example}")
        return value


def time_ms(text: str) -> int | None:
    """Parses a time in ISO 8601 (without a zone: UTC), or milliseconds after an @; None for anything else."""
    if text.startswith("@") and text[1:].isdigit():
        return int(text[1:])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _unknown(name: str, option_names: list[str], subject: str) -> str:
    lowered = {option.lower(): option for option in option_names}
    near = difflib.get_close_matches(name.lower(), lowered, n=1)
    hint = (
        f": did you mean {lowered[near[0]]!r}?" if near else f": known are {', '.join(sorted(option_names))}"
    )
    return f"the tidelog {subject} has no option {name!r}{hint}"
