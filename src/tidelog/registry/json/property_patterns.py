"""Regular expressions of `patternProperties`.  They come from clients, so that no engine may take them that backtracks
without a bound: Python's `re` would hold the whole broker."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

BACKTRACKS_MAX = 10_000


def finds(pattern: str, name: str) -> bool:
    """Whether the pattern matches somewhere in the name; False for one that is not valid."""
    return _search(pattern)(name)


@lru_cache(maxsize=1024)
def _search(pattern: str) -> Callable[[str], bool]:
    """RE2 takes linear time; what it lacks (looking around, references back) is left to the validator's engine."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return _backtracking_search(pattern)
    return lambda name: compiled.search(name) is not None


def _backtracking_search(pattern: str) -> Callable[[str], bool]:
    import jsonschema_rs

    bounds = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS_MAX)
    try:
        without_match = jsonschema_rs.validator_for(
            {"patternProperties": {pattern: False}}, pattern_options=bounds
        )
    except ValueError:
        return lambda name: False
    return lambda name: not without_match.is_valid({name: None})
