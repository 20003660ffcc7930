"""Aggregates: objects whose state follows from their events, and whose methods decide which events happen.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from tidelog.events.errors import EventError
from tidelog.events.types import check_declared

F = TypeVar("F", bound=Callable[..., None])

NEW = -1
"""The version of an aggregate to which nothing has happened yet."""

_APPLIES = "_tidelog_applies"


def applies(*events: type) -> Callable[[F], F]:
    """Marks the method that changes the state for these events; it decides nothing and has no side effects."""

    def mark(method: F) -> F:
        setattr(method, _APPLIES, events)
        return method

    return mark


def handlers_of(owner: type) -> dict[type, str]:
    """Event -> name of the method that is marked for it; that of a subclass counts."""
    handlers: dict[type, str] = {}
    for base in reversed(owner.__mro__):
        for name, member in vars(base).items():
            for kind in getattr(member, _APPLIES, ()):
                handlers[kind] = name
    return handlers


class Aggregate:
    """Base of aggregates.  State is set in `begin` and changed only by methods marked with `applies`."""

    _handlers: ClassVar[dict[type, str]] = {}

    def __init__(self, id: str) -> None:
        self.id = id
        self.version = NEW
        self._pending: list[Any] = []
        self.begin()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._handlers = handlers_of(cls)

    def begin(self) -> None:
        """Sets the state before the first event."""

    @property
    def exists(self) -> bool:
        """Whether anything has happened to it."""
        return self.version != NEW or bool(self._pending)

    @property
    def pending(self) -> Iterator[Any]:
        """Events that are decided and not saved."""
        return iter(tuple(self._pending))

    def record(self, *events: Any) -> None:
        """Decides that something happens: the state changes at once, and `EventStore.save` stores it."""
        for happened in events:
            check_declared(happened)
            self._apply(happened)
            self._pending.append(happened)

    def replay(self, events: Iterable[Any], version: int) -> None:
        """Events that are stored; the aggregate has this version afterwards."""
        for happened in events:
            self._apply(happened)
        self.version = version

    def saved(self, version: int) -> None:
        self._pending.clear()
        self.version = version

    def _apply(self, happened: Any) -> None:
        name = self._handlers.get(type(happened))
        if name is None:
            raise EventError(
                f"{type(self).__name__} has no method for {type(happened).__name__}: mark one with "
                f"@applies({type(happened).__name__})"
            )
        getattr(self, name)(happened)
