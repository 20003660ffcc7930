"""Regular expressions that members subscribe with: which topics they stand for.

The syntax is RE2's, as in Kafka, and so is the engine: it matches in time linear in the length of a name and bounds the
memory of an expression, so no expression that a client sends can stall the broker.  One member's expression is usually
that of all, and groups share them: results are kept, and looked up anew at most once a second, however often topics
come and go.  Pure; the library loads at first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from tidelog import errors

Names = Mapping[UUID, str]

REFRESH_MS = 1_000
KEPT_MAX = 1_000


class ExpressionTopics(NamedTuple):
    """`names`: the topics there were when it was looked up."""

    topics: frozenset[str]
    names: Names
    at_ms: int


class Expressions:
    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, ExpressionTopics]] = {}

    def check(self, regex: str) -> None:
        """InvalidRegularExpression says what is wrong with it."""
        if regex not in self._known:
            compiled(regex)

    def find(self, regex: str, names: Names, now_ms: int) -> ExpressionTopics:
        """The topics whose whole name matches; as of a moment ago at worst, which `ExpressionTopics.names` tells."""
        known = self._known.pop(regex, None)
        if known is None:
            pattern = compiled(regex)
        else:
            pattern, found = known
            if found.names is names or 0 <= now_ms - found.at_ms < REFRESH_MS:
                self._known[regex] = known  # the last that is dropped
                return found
        match = pattern.fullmatch
        found = ExpressionTopics(frozenset(name for name in names.values() if match(name)), names, now_ms)
        if len(self._known) >= KEPT_MAX:
            del self._known[next(iter(self._known))]
        self._known[regex] = (pattern, found)
        return found


def compiled(regex: str) -> Any:
    """InvalidRegularExpression says what is wrong with it."""
    import re2  # a native library, and hardly anybody subscribes this way

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(regex, options)
    except re2.error as problem:
        (reason,) = problem.args
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise errors.InvalidRegularExpression(f"{regex!r} is no regular expression: {shown}") from None
