"""Regular expressions in subscriptions: resolves them to topics.

The syntax and the engine are RE2's, as in Kafka: matching takes time linear in the length of a name, and the memory of
an expression is bounded, so no expression of a client can stall the broker.  Members of a group usually share one
expression, so results are cached, and computed again at most once a second, however often topics are created and
deleted.  Pure; the library loads at first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from tidelog import errors

Names = Mapping[UUID, str]

REFRESH_MS = 1_000
KEPT_MAX = 1_000


class ExpressionTopics(NamedTuple):
    """The topics that an expression matched; `names` holds all topics of that moment."""

    topics: frozenset[str]
    names: Names
    at_ms: int


class Expressions:
    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, ExpressionTopics]] = {}

    def check(self, regex: str) -> None:
        """Raises InvalidRegularExpression if the expression is not valid."""
        if regex not in self._known:
            compiled(regex)

    def find(self, regex: str, names: Names, now_ms: int) -> ExpressionTopics:
        """The topics whose whole name matches; at most REFRESH_MS old, see `ExpressionTopics.names`."""
        cached = self._known.pop(regex, None)
        if cached is None:
            pattern = compiled(regex)
        else:
            pattern, result = cached
            if result.names is names or 0 <= now_ms - result.at_ms < REFRESH_MS:
                self._known[regex] = cached  # most recently used, so dropped last
                return result
        match = pattern.fullmatch
        result = ExpressionTopics(frozenset(name for name in names.values() if match(name)), names, now_ms)
        if len(self._known) >= KEPT_MAX:
            del self._known[next(iter(self._known))]
        self._known[regex] = (pattern, result)
        return result


def compiled(regex: str) -> Any:
    """Raises InvalidRegularExpression if the expression is not valid."""
    import re2  # a native library that few brokers need

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(regex, options)
    except re2.error as problem:
        (reason,) = problem.args
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise errors.InvalidRegularExpression(
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {shown}."
        ) from None
